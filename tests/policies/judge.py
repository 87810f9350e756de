"""What the policies and the webhooks say of one request, and whether that agrees."""

import itertools
from collections.abc import Sequence
from typing import Any

from app.base.value import Value
from app.config.schema import Configuration
from app.webhooks.policies import PATHS, SUFFIX, admission_policies
from scripts.apiserver.admission.policies import findings_of
from tests.cluster.offline import OfflineCluster
from tests.reviews import LEVELS, Caller, cluster, load, operator_cluster

Object = dict[str, Any]

TOPOLOGY: Object = {
    "enabled": True,
    "levels": [{"domain": level.domain, "key": level.key} for level in LEVELS],
}
CONFIGURATION = Configuration.model_validate({"clusterTopology": TOPOLOGY})
MANAGED = {"metadata": {"name": "grove-topology"}, "spec": {"levels": TOPOLOGY["levels"]}}
TODAY = "grove-fcc3b3bb"
SIGNS = {
    "/validate/podcliqueset": (
        "topology support is not enabled in the operator",
        "ClusterTopologyBinding not found",
        "cannot be changed after creation",
        "packDomain is allowed only in PodCliqueSets that already have it",
        "mnnvl-",
    ),
    "/validate/clustertopology": ("would not take it over", "Grove would remove the constraints"),
    "/validate/podgroup": ("cycle detected in subgroups",),
}
"""A text in each finding of a webhook that no policy covers (`UNCOVERED`), and in no others."""


def other_binding() -> Object:
    """A second ClusterTopologyBinding, with fewer levels."""
    binding: Object = load(f"{TODAY}/clustertopologybinding.create-by-user")["request"]["object"]
    levels = binding["spec"]["levels"][1:3]
    metadata = {"name": "other", "uid": "00000000-0000-0000-0000-000000000002"}
    return {**binding, "metadata": metadata, "spec": {"levels": levels}}


class Dialect(Value):
    """A cluster of one release of Grove, and its topologies as parameters."""

    facts: OfflineCluster
    parameters: dict[str, list[Object | None]]


def design() -> Dialect:
    return Dialect(cluster(), {"ClusterTopology": [MANAGED]})


def bindings() -> Dialect:
    stored = load(f"{TODAY}/clustertopologybinding.create-by-user")["request"]["object"]
    facts = operator_cluster(TODAY, enabled=True, more=[other_binding()])
    return Dialect(facts, {"ClusterTopologyBinding": [stored, other_binding()]})


class Judge:
    """Asks both, in the cluster of `dialect`.

    `objects` are other policies and bindings than those with parameters.
    """

    def __init__(self, dialect: Dialect, objects: Sequence[Object] = ()) -> None:
        self._parameters = dialect.parameters
        self._caller = Caller(dialect.facts, CONFIGURATION)
        objects = objects or admission_policies(CONFIGURATION)
        self._policies = list(zip(objects[::2], objects[1::2], strict=True))
        policies = admission_policies(CONFIGURATION)[::2]
        self._paths = {
            plural: PATHS[policy["metadata"]["name"].removesuffix(SUFFIX)]
            for policy in policies
            for rule in policy["spec"]["matchConstraints"]["resourceRules"]
            for plural in rule["resources"]
        }
        self.short = {
            validation["message"]
            for policy in policies
            for validation in policy["spec"]["validations"]
        }

    def path(self, request: Object) -> str:
        """The path of the webhook for `request`."""
        return self._paths[request["resource"]["resource"]]

    def policies(self, request: Object) -> list[str]:
        """What the policies say against `request`: the first finding of each, as an API server."""
        texts: list[str] = []
        for policy, binding in self._policies:
            if _matches(policy, request):
                parameters = self._parameters_of(policy)
                findings = findings_of(policy, binding, request, parameters, lambda access: False)
                texts += [finding.message for finding in itertools.islice(findings, 1)]
        return texts

    async def webhook(self, request: Object) -> list[str]:
        """What the webhook says against `request`."""
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        response = await self._caller.ask(self.path(request), {**review, "request": request})
        if response["allowed"]:
            return []
        _, _, verdict = self._caller.seen.verdicts[-1]
        return [str(cause) for cause in verdict.causes] or [verdict.message]

    def _parameters_of(self, policy: Object) -> Sequence[Object | None]:
        kind = policy["spec"].get("paramKind")
        return self._parameters.get(kind["kind"], []) if kind else [None]


def _matches(policy: Object, request: Object) -> bool:
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    return (
        request["operation"] in rule["operations"]
        and request["resource"]["resource"] in rule["resources"]
        and not request.get("subResource")
    )


def disagreement(path: str, of_policies: Sequence[str], of_webhook: Sequence[str]) -> str:
    """Return how policies and webhook disagree, "" if they agree.

    They agree if both refuse or both allow, or if the webhook says only what no policy covers.
    """
    if of_policies and not of_webhook:
        return f"only a policy refuses: {of_policies}"
    if of_policies:
        return ""
    signs = SIGNS.get(path, ())
    covered = [text for text in of_webhook if not any(sign in text for sign in signs)]
    if covered:
        return f"only the webhook refuses: {covered}"
    return ""

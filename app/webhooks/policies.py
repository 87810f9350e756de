"""Build the admission policies that API servers evaluate themselves, for `kubectl apply`.

The policies are YAML files in `manifests/policies`, which kustomize reads too; the wheel has them
in `app/policies`. They are complete for the default configuration. This module fills in the values
of another configuration, such as names and users, and whether a policy rejects or warns.

A policy of a dialect that is not in force has no effect: its parameters are missing, or nobody
writes its kinds. So the policies of all dialects are installed. Sources:
https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/,
https://kubernetes.io/docs/reference/access-authn-authz/mutating-admission-policy/
"""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import yaml

from app.base.value import Value
from app.config.schema import Configuration
from app.facts.grove.podcliqueset import MOST_PARTS
from app.facts.kinds import CLUSTER_TOPOLOGY_BINDING
from app.objects.shape import Object
from app.webhooks.configurations import EXEMPT_NAMESPACE, NAME
from app.webhooks.registry import guarded_kinds, warning_paths

SUFFIX = f".{NAME}.grove.io"
STATIC_SUFFIX = f".{NAME}.static.k8s.io"
"""The suffix that API servers require for names in static manifests."""

COMPONENT_LABEL = "app.kubernetes.io/component"
RULES = "policies"
QUEUES = "queue-guard"

Mode = Literal["refuse", "warn"]

DENY = ["Deny"]
WARN = ["Warn", "Audit"]

_FOLDER = Path(__file__).parents[1] / "policies"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

GUARD = "topology-guard"
PATHS = {
    GUARD: "/validate/clustertopology",
    "clustertopology-levels": "/validate/clustertopology",
    "clustertopologybinding-levels": "/validate/clustertopology",
    "podcliqueset-packdomains": "/validate/podcliqueset",
    "podcliqueset-packs": "/validate/podcliqueset",
    "podgroup-subgroups": "/validate/podgroup",
}
"""For each policy, the path of the webhook that has the same rules."""

_WITH_LEVELS = ("podcliqueset-packdomains", "podcliqueset-packs")


class Uncovered(Value):
    """A task of a webhook that no policy can do."""

    path: str
    """The path of the webhook."""
    what: str
    """The objects or changes that only the webhook handles."""
    why: str
    """The reason why no policy handles them."""


_TOO_DEAR = "a policy that compares all pairs would exceed the cost limit of the API server"

UNCOVERED = (
    Uncovered(
        "/validate/podcliqueset",
        f"PodCliqueSets with more than {MOST_PARTS} cliques and scaling groups",
        "the limit protects the server of grove-admission, and a policy that compared more than 400"
        " cliques and scaling groups would exceed the cost limit of the API server",
    ),
    Uncovered(
        "/validate/podcliqueset",
        "packDomains while topology support is disabled, or while the ClusterTopology is missing",
        "the policy then has no parameter, and it cannot know which release of Grove runs",
    ),
    Uncovered(
        "/validate/clustertopology",
        "ClusterTopologyBindings with more than 100 levels or references",
        _TOO_DEAR,
    ),
    Uncovered(
        "/validate/clustertopology",
        "ClusterTopologyBindings with the name of a KAI Topology that Grove would not take over",
        "a policy cannot read the KAI Topology",
    ),
    Uncovered(
        "/validate/clustertopology",
        "removal of levels and ClusterTopologyBindings that PodCliqueSets use",
        "a policy cannot read the PodCliqueSets",
    ),
    Uncovered(
        "/validate/podcliqueset",
        "a topologyName without a ClusterTopologyBinding",
        "a policy is evaluated for each existing binding and cannot report a missing one",
    ),
    Uncovered(
        "/validate/podcliqueset",
        "changes of stored topology constraints",
        "Grove's own webhook rejects changes of stored topology constraints",
    ),
    Uncovered(
        "/validate/podcliqueset",
        "packDomain in new PodCliqueSets, if there are ClusterTopologyBindings",
        "Grove's CRD rejects packDomain in new PodCliqueSets",
    ),
    Uncovered(
        "/validate/podcliqueset",
        "MNNVL annotations",
        "the rules depend on other PodCliqueSets and on the APIs that the cluster serves",
    ),
    Uncovered(
        "/validate/podgroup",
        "cycles of SubGroups",
        "CEL has no loop to follow the parents",
    ),
    Uncovered("/validate/podgroup", "PodGroups with more than 300 SubGroups", _TOO_DEAR),
    Uncovered("/validate/podgang", "returning the resources of a PodGang", "a policy cannot write"),
    Uncovered("/mutate/podclique", "claims", "claims depend on objects that a policy cannot read"),
    Uncovered(
        "/mutate/pod-mnnvl",
        "claims of units",
        "claims of units depend on the owners of the Pod, which a policy cannot read",
    ),
    Uncovered(
        "/validate/pod-mnnvl",
        "Pods without their claim",
        "while no server of grove-admission answers, the API server rejects these Pods anyway",
    ),
    Uncovered(
        "/mutate/podgang",
        "constraints",
        "constraints depend on the PodCliqueSet, which a policy cannot read",
    ),
    Uncovered(
        "/mutate/pod-binding",
        "labels of the node",
        "a policy cannot read the node that a Binding names, because its parameters do not depend"
        " on the request",
    ),
)
"""The tasks that only webhooks can do."""


def admission_policies(configuration: Configuration, *, is_static: bool = False) -> list[Object]:
    """Return the policies about objects of Grove and KAI, each followed by its binding.

    The levels are parameters, which are objects of the cluster. Static policies, for a folder of
    the API server, cannot have parameters: they contain the levels of `configuration`. One more
    static policy protects our webhook configurations and policies from deletion.
    """
    topology = configuration.cluster_topology
    values = {
        **_authorized(configuration, Configuration()),
        text(Configuration().cluster_topology.name): text(topology.name),
    }
    objects = _read("rules")
    if is_static:
        with_levels = [obj for obj in objects if _name(obj) in _WITH_LEVELS]
        objects = [obj for obj in objects if obj not in with_levels] + _read("static")
        if topology.enabled:
            objects += with_levels

    objects = _filled(objects, values, exempt_namespaces(configuration))
    only_warning = warning_paths(configuration.enforcement)
    for obj in objects:
        name, spec = _name(obj), obj["spec"]
        if name == GUARD and CLUSTER_TOPOLOGY_BINDING.kind not in guarded_kinds(topology):
            for rule in spec.get("matchConstraints", {}).get("resourceRules", ()):
                rule["resources"].remove(CLUSTER_TOPOLOGY_BINDING.plural)

        # the managed topology is guarded in a trial period too
        warns = name != GUARD and PATHS.get(name) in only_warning
        if warns and "validationActions" in spec:
            spec["validationActions"] = WARN

        if "name" in spec.get("paramRef", {}):
            spec["paramRef"]["name"] = topology.name

    if is_static:
        _make_static(objects, configuration)
    return objects


def marking_policies(configuration: Configuration, *, is_static: bool = False) -> list[Object]:
    """Return the MutatingAdmissionPolicy that marks Pods of Workloads, and its binding.

    The result is empty if Workloads are disabled.
    """
    workloads = configuration.workloads
    if not workloads.enabled:
        return []

    values = {text(Configuration().workloads.scheduler_name): text(workloads.scheduler_name)}
    objects = _filled(_read("pod-mark"), values, exempt_namespaces(configuration))
    if is_static:
        _rename(objects)
    return objects


def queue_policies(configuration: Configuration, mode: Mode, *kai_namespaces: str) -> list[Object]:
    """Return the policies that restrict the use of queues and warn about missing queues.

    With the mode `warn`, no policy rejects a request. Accounts that only copy names of queues are
    exempt: the service accounts in `kai_namespaces` (where KAI and its queue assigners run), in our
    namespace and in kube-system, the kubelets, and `authorizedUsers`, such as Grove's operator.
    """
    default = Configuration()
    now, before = configuration.workloads, default.workloads
    copying = _groups([*exempt_namespaces(configuration), *kai_namespaces])
    values = {
        **_authorized(configuration, default),
        _groups([*exempt_namespaces(default), "kai-scheduler"]): copying,
        text(before.labels.queue): text(now.labels.queue),
        text(before.labels.project): text(now.labels.project),
        text(before.labels.node_pool): text(now.labels.node_pool),
        text(before.scheduler_name): text(now.scheduler_name),
    }
    labels = {
        before.labels.queue: now.labels.queue,
        before.labels.project: now.labels.project,
    }
    objects = _filled(_read("queues"), values, exempt_namespaces(configuration))
    for obj in objects:
        spec = obj["spec"]
        selector = spec.get("matchConstraints", {}).get("objectSelector", {})
        for demand in selector.get("matchExpressions", ()):
            demand["key"] = labels[demand["key"]]

        if mode == "warn":
            if "validationActions" in spec:
                spec["validationActions"] = WARN
            else:
                spec["failurePolicy"] = "Ignore"
    return objects


def exempt_namespaces(configuration: Configuration) -> list[str]:
    """Return the namespaces that webhooks and policies exclude."""
    return sorted({EXEMPT_NAMESPACE, configuration.certificates.namespace})


def text(value: str) -> str:
    """Return `value` as a CEL literal. In the files, double quotes mark values to fill in."""
    return json.dumps(value)


def texts(values: Sequence[str]) -> str:
    """Return `values` as a CEL list."""
    return f"[{', '.join(map(text, values))}]"


def _authorized(configuration: Configuration, default: Configuration) -> dict[str, str]:
    """Map the default `authorizedUsers` in the files to the configured ones, both as CEL lists."""
    before, now = (sorted(c.authorization.authorized_users) for c in (default, configuration))
    return {texts(before): texts(now)}


def _groups(namespaces: Sequence[str]) -> str:
    """Return a CEL list of the service account groups of `namespaces` and of the kubelets."""
    accounts = [f"system:serviceaccounts:{namespace}" for namespace in sorted(set(namespaces))]
    return texts([*accounts, "system:nodes"])


@lru_cache
def _documents(folder: str) -> tuple[Object, ...]:
    """Return the objects of a folder of policies, in the order of its kustomization.yaml."""
    (listed,) = _load(f"{folder}/kustomization.yaml")
    return tuple(obj for name in listed["resources"] for obj in _load(f"{folder}/{name}"))


def _load(path: str) -> list[Object]:
    """Return the YAML documents of the file `path` in the folder of policies."""
    return list(yaml.load_all((_FOLDER / path).read_text(), Loader=_LOADER))


def _read(folder: str) -> list[Object]:
    return copy.deepcopy(list(_documents(folder)))


def _name(obj: Object) -> str:
    """Return the name of a policy or binding without its suffix."""
    return str(obj["metadata"]["name"]).removesuffix(SUFFIX)


def _filled(
    objects: list[Object], values: Mapping[str, str], namespaces: Sequence[str]
) -> list[Object]:
    """Fill the `values` into the expressions of `objects`, and `namespaces` into their selectors.

    Change and return `objects`. The keys of `values` are the texts to replace.
    """
    for obj in objects:
        for item in _expressions(obj["spec"]):
            for key in {"expression", "messageExpression"} & item.keys():
                item[key] = _replaced(item[key], tuple(values.items()))
        if "matchConstraints" in obj["spec"]:
            selector = obj["spec"]["matchConstraints"]["namespaceSelector"]
            selector["matchExpressions"][0]["values"] = list(namespaces)
    return objects


def _replaced(expression: str, values: Sequence[tuple[str, str]]) -> str:
    """Return `expression` with the first text of each pair in `values` replaced by the second.

    A replacement is not replaced again.
    """
    if not values:
        return expression
    (before, now), *others = values
    return now.join(_replaced(part, others) for part in expression.split(before))


def _expressions(spec: Object) -> Iterator[Any]:
    """Yield the conditions, variables and validations of a policy, which contain expressions."""
    for key in ("matchConditions", "variables", "validations"):
        yield from spec.get(key, ())


def _make_static(objects: Sequence[Object], configuration: Configuration) -> None:
    """Give static policies their required names, and levels instead of parameters."""
    name = text(configuration.cluster_topology.name)
    domains = texts([level.domain for level in configuration.levels])
    (conditions,) = _load("static/conditions.yaml")
    for obj in objects:
        if _name(obj) in _WITH_LEVELS:
            spec = obj["spec"]
            spec.pop("paramKind", None)
            spec.pop("paramRef", None)
            for variable in spec.get("variables", ()):
                if variable["name"] == "levels":
                    variable["expression"] = domains
                if variable["name"] == "topology":
                    variable["expression"] = name
            if "matchConditions" in spec:
                spec["matchConditions"] += conditions[_name(obj)]
    _rename(objects)


def _rename(objects: Sequence[Object]) -> None:
    """Give policies and bindings the names that API servers require in static manifests."""
    for obj in objects:
        name = _name(obj)
        obj["metadata"]["name"] = name + STATIC_SUFFIX
        if "policyName" in obj["spec"]:
            obj["spec"]["policyName"] = name + STATIC_SUFFIX

"""What policies cost an API server: the largest objects are judged without an error.

Only a real API server counts what an expression costs. The policies fail closed here, so that an
error is seen, and only warn, so that no refusal of another policy hides it.
"""

import copy
import functools
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest
import pytest_asyncio

from app.config.schema import Configuration
from app.facts.kinds import (
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    POD_GROUP,
    QUEUE,
    QUEUE_NAMES,
)
from app.kube.api import ObjectRef
from app.objects.resource import CRD, Resource
from app.webhooks.policies import admission_policies, queue_policies
from scripts.apiserver.admission_server import ApiServer
from tests.integration.system import Users, eventually, is_gone, raw_client
from tests.integration.test_policies import former_crds, todays_crds
from tests.policies.largest import VALUE, Large, largest, levels
from tests.rendered import rendered

pytestmark = [
    pytest.mark.untraced,
    pytest.mark.parametrize("kind", ["real"], indirect=True, scope="module"),
]

Object = dict[str, Any]

NAMESPACE = "large"
TENANT = "ann"
ERRORS = ("resulted in error", "cost", "budget", "expression '", "compil")


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    topology = {"enabled": True, "name": "large-topology", "levels": levels(7)}
    return Configuration.model_validate({"clusterTopology": topology})


OTHERS = {"design": "podcliqueset-packs.", "bindings": "podcliqueset-packdomains."}
"""The policy of the other release of Grove: without its parameters, it would refuse everything."""


def _policies(configuration: Configuration, dialect: str) -> list[Object]:
    every = [
        *admission_policies(configuration),
        *queue_policies(configuration, "refuse", "kai-scheduler"),
        *_dear(),
    ]
    objects = [obj for obj in every if not obj["metadata"]["name"].startswith(OTHERS[dialect])]
    for obj in objects:
        if obj["kind"] == "ValidatingAdmissionPolicy":
            obj["spec"]["failurePolicy"] = "Fail"
        else:
            obj["spec"]["validationActions"] = ["Warn"]
    return objects


def _dear() -> list[Object]:
    """A policy of PodGroups that compares each SubGroup with each other, and its binding."""
    groups = "object.spec.subGroups"
    same = f"{groups}.filter(o, o.name == g.name).size() == 1"
    rule = {
        "apiGroups": [POD_GROUP.group],
        "apiVersions": list(POD_GROUP.versions),
        "operations": ["CREATE"],
        "resources": [POD_GROUP.plural],
    }
    spec = {
        "matchConstraints": {
            "resourceRules": [rule],
            "objectSelector": {"matchLabels": {"is": "dear"}},
        },
        "validations": [{"expression": f"{groups}.all(g, {same})"}],
    }
    version = "admissionregistration.k8s.io/v1"
    metadata = {"name": "dear.example.com"}
    return [
        {
            "apiVersion": version,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": metadata,
            "spec": spec,
        },
        {
            "apiVersion": version,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata,
            "spec": {"policyName": metadata["name"]},
        },
    ]


class Costs:
    """Writes large objects as a tenant, and returns what API servers could not evaluate."""

    def __init__(self, client: httpx.AsyncClient, clients: Users) -> None:
        self._client = client
        self._clients = clients

    async def store(self, large: Large) -> None:
        """Store the former object, before there are policies."""
        path, body = self._written(large.resource, large.old)
        answer = await self._client.post(path, json=body)
        assert answer.is_success, answer.text[:500]

    async def knows_parameters(self, large: Large) -> bool:
        """Whether policies of this kind find the kinds of their parameters.

        An API server notices a new CRD some seconds later.
        """
        return "failed to configure policy" not in (await self._create(large)).text

    async def created(self, large: Large) -> list[str]:
        return _errors(await self._create(large))

    async def _create(self, large: Large) -> httpx.Response:
        path, body = self._written(large.resource, large.obj)
        body["metadata"]["name"] = "new"
        return await self._client.post(path, json=body, params={"dryRun": "All"}, headers=_TENANT)

    async def updated(self, large: Large) -> list[str]:
        path, body = self._written(large.resource, large.obj)
        path = f"{path}/{body['metadata']['name']}"
        stored = (await self._client.get(path)).json()
        body["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
        spec = {**stored.get("spec", {}), **body.get("spec", {})}
        if spec:
            body["spec"] = spec
        answer = await self._client.put(path, json=body, params={"dryRun": "All"}, headers=_TENANT)
        return _errors(answer)

    def _written(self, resource: Resource, obj: Object) -> tuple[str, Object]:
        version = self._clients.admin.discovery.served_version(resource)
        api_version = resource.api_version(version)
        prefix = "apis" if resource.group else "api"
        scope = f"/namespaces/{NAMESPACE}" if resource.namespaced else ""
        path = f"/{prefix}/{api_version}{scope}/{resource.plural}"
        return path, {"apiVersion": api_version, "kind": resource.kind, **copy.deepcopy(obj)}


_TENANT = [
    ("Impersonate-User", TENANT),
    ("Impersonate-Group", "system:authenticated"),
    ("Impersonate-Group", "large-writers"),
]


def _errors(answer: httpx.Response) -> list[str]:
    """Return the warnings that tell of an error. Fail if the request came to no policy."""
    assert answer.is_success, answer.text[:500]
    warnings = answer.headers.get_list("warning")
    return [text for text in warnings if any(sign in text for sign in ERRORS)]


def _rights() -> list[Object]:
    rbac = "rbac.authorization.k8s.io"
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["create", "update", "get"]}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "large"},
            "rules": [everything],
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "large"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "large"},
            "subjects": [{"apiGroup": rbac, "kind": "Group", "name": "large-writers"}],
        },
    ]


def _parameters(resource: Resource) -> list[Object]:
    """The topology, a Queue that a label `project` leads to, and the names of many others."""
    topology = {"metadata": {"name": "large-topology"}, "spec": {"levels": levels(7)}}
    queue = {"metadata": {"name": VALUE}, "spec": {}}
    others = {f"{number:05}{VALUE[:45]}": "" for number in range(20_000)}
    names = {"metadata": {"name": "grove-admission"}, "spec": {"names": others}}
    return [
        {"apiVersion": kind.api_version(kind.versions[-1]), "kind": kind.kind, **obj}
        for kind, obj in ((resource, topology), (QUEUE, queue), (QUEUE_NAMES, names))
    ]


@pytest_asyncio.fixture(loop_scope="module")
async def costs(api: ApiServer, clients: Users) -> AsyncIterator[Costs]:
    async with raw_client(api, timeout=120.0) as client:
        yield Costs(client, clients)


@pytest.mark.parametrize("dialect", ["design", "bindings"])
async def test_the_largest_objects_are_judged(
    api: ApiServer, clients: Users, configuration: Configuration, costs: Costs, dialect: str
) -> None:
    await api.apply(_rights())
    await _begin(dialect, api, clients)
    objects = largest(is_design=dialect == "design")
    for number, large in enumerate(objects.values()):
        large.old["metadata"]["name"] = f"{dialect}-{number}"
        large.obj["metadata"]["name"] = f"{dialect}-{number}"
        await costs.store(large)

    policies = _policies(configuration, dialect)
    await api.apply(policies)
    await eventually(lambda: _seen(costs, objects["9000 SubGroups"]))
    for large in objects.values():
        await eventually(functools.partial(costs.knows_parameters, large), patience=60.0)

    problems: dict[str, Sequence[str]] = {}
    for name, large in objects.items():
        problems[f"{name}, created"] = await costs.created(large)
        problems[f"{name}, updated"] = await costs.updated(large)
    await _delete(clients, policies)

    assert {name: errors for name, errors in problems.items() if errors} == {}


async def _begin(dialect: str, api: ApiServer, clients: Users) -> None:
    """Install the CRDs of one release of Grove, ours, and the parameters."""
    topology = CLUSTER_TOPOLOGY
    if dialect == "design":
        await api.apply(former_crds())
    else:
        topology = CLUSTER_TOPOLOGY_BINDING
        await clients.admin.delete(ObjectRef(CRD, str(CLUSTER_TOPOLOGY)))
        await eventually(lambda: is_gone(clients.admin, CRD, str(CLUSTER_TOPOLOGY)))
        await api.apply(todays_crds())
    await api.apply([obj for obj in rendered("overlays/queue-guard") if obj["kind"] == CRD.kind])
    await clients.admin.discovery.refresh()
    await api.apply(_parameters(topology))


async def _seen(costs: Costs, large: Large) -> bool:
    """Whether an error of a policy that is too dear is seen: the test would see another too."""
    dear = copy.deepcopy(large)
    dear.obj["metadata"]["labels"]["is"] = "dear"
    return any("dear.example.com" in text for text in await costs.created(dear))


async def _delete(clients: Users, policies: Sequence[Object]) -> None:
    for obj in policies:
        plural = "validatingadmissionpolicybindings"
        if obj["kind"] == "ValidatingAdmissionPolicy":
            plural = "validatingadmissionpolicies"
        path = f"/apis/admissionregistration.k8s.io/v1/{plural}/{obj['metadata']['name']}"
        await clients.answer("admin", "DELETE", path)

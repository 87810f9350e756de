"""Two tenants of one API server, each with a queue: no way leads to the queue of the other."""

import copy
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from app.objects.resource import POD
from scripts.apiserver.admission_server import ApiServer
from tests.integration.system import Users, eventually, raw_client
from tests.policies.ways import (
    GROUP,
    QUEUE,
    Steps,
    Way,
    binding,
    groups,
    metadata,
    pod,
    projects,
    steps,
    ways,
)
from tests.rendered import rendered

pytestmark = pytest.mark.untraced

Object = dict[str, Any]

NAMESPACE = "tenants"
RBAC = "rbac.authorization.k8s.io"
TENANTS = {"ann": "a", "bob": "b"}
"""The queue that each tenant may use, and the PodGroup. All are administrators of the namespace."""

PODGROUPER = "system:serviceaccount:kai-scheduler:podgrouper"

CASES = list(ways("a"))
FIXED = tuple(
    f"{what} of a {kind}"
    for what in ("a template", "a project of the Pods")
    for kind in ("Job", "ControllerRevision")
)
"""What can't be changed at all."""


def rights() -> list[Object]:
    """The RBAC of the tenants, and the Queues."""
    objects: list[Object] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    ]
    for queue in TENANTS.values():
        metadata = {"name": queue}
        objects.append(
            {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": metadata}
        )
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    objects.append(_role("administrator-of-a-namespace", everything))
    for user, queue in TENANTS.items():
        use = {
            "apiGroups": ["scheduling.run.ai"],
            "resources": ["queues", "podgroups"],
            "resourceNames": [queue],
            "verbs": ["use"],
        }
        objects.append(_role(f"use-queue-{queue}", use))
        objects.append(_binding("ClusterRoleBinding", f"use-queue-{queue}", user))
        objects.append(_binding("RoleBinding", "administrator-of-a-namespace", user))
    objects.append(_binding("RoleBinding", "administrator-of-a-namespace", PODGROUPER))
    return objects


def _role(name: str, rule: Object) -> Object:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [rule],
    }


def _binding(kind: str, role: str, user: str) -> Object:
    metadata = {"name": f"{role}-{user.rpartition(':')[2]}"}
    if kind == "RoleBinding":
        metadata["namespace"] = NAMESPACE
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }


class Tenants:
    """Writes in the name of a tenant."""

    def __init__(self, client: httpx.AsyncClient, clients: Users) -> None:
        self._client = client
        self._clients = clients
        self._tests = 0

    async def needs(self, way: Way, kind: str) -> None:
        """Begin a test with other names, as objects may be gone some time after their deletion.

        Skip the test if our own API server doesn't have the kind of an object.
        """
        self._tests += 1
        path, _ = self._request(way)
        answer = await self._client.get(path)
        if answer.status_code == 404 and kind == "sandbox":
            pytest.skip(f"the sandbox serves no {way.resource}")

    async def create(self, user: str, way: Way, *, is_kept: bool = False) -> httpx.Response:
        path, body = self._request(way)
        params = {} if is_kept else {"dryRun": "All"}
        return await self._client.post(path, json=body, params=params, headers=_as(user))

    async def change(
        self, user: str, way: Way, subresource: str = "", *, is_kept: bool = False
    ) -> httpx.Response:
        path, body = self._request(way)
        headers = [*_as(user), ("Content-Type", "application/merge-patch+json")]
        return await self._client.patch(
            f"{path}/{body['metadata']['name']}{subresource}",
            content=json.dumps(body),
            params={} if is_kept else {"dryRun": "All"},
            headers=headers,
        )

    async def bind(self, user: str, way: Way, obj: Object) -> httpx.Response:
        """Bind a Pod with a Binding like `obj`."""
        path, body = self._request(way)
        named = {"apiVersion": "v1", "kind": "Binding", **copy.deepcopy(obj)}
        named["metadata"]["name"] = body["metadata"]["name"]
        return await self._client.post(
            f"{path}/{body['metadata']['name']}/binding",
            json=named,
            params={"dryRun": "All"},
            headers=_as(user),
        )

    async def delete(self, way: Way) -> None:
        path, body = self._request(way)
        answer = await self._client.delete(f"{path}/{body['metadata']['name']}")
        answer.raise_for_status()

    def _request(self, way: Way) -> tuple[str, Object]:
        """Return the path of a kind and the object, in the version that is served."""
        resource = way.resource
        version = self._clients.admin.discovery.served_version(resource)
        api_version = resource.api_version(version)
        prefix = "apis" if resource.group else "api"
        path = f"/{prefix}/{api_version}/namespaces/{NAMESPACE}/{resource.plural}"
        body = {"apiVersion": api_version, "kind": resource.kind, **copy.deepcopy(way.obj)}
        body["metadata"]["name"] += f"-{self._tests}"
        return path, body


def _as(user: str) -> list[tuple[str, str]]:
    groups = ["system:authenticated"]
    if user == PODGROUPER:
        groups.append("system:serviceaccounts:kai-scheduler")
    return [("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenants(api: ApiServer, clients: Users) -> AsyncIterator[Tenants]:
    await api.apply([*rights(), *rendered("overlays/queue-guard")])
    async with raw_client(api) as client:
        tenants = Tenants(client, clients)
        for last in (ways("b")["any owner of Pods"], projects("b")["a ConfigMap"]):
            await eventually(lambda way=last: tenants.create("ann", way), _is_error)  # type: ignore[misc]
        yield tenants


def _is_error(answer: httpx.Response) -> bool:
    return answer.is_error


def _refusal(answer: httpx.Response) -> tuple[int, str]:
    """Return the code of an answer, and what a policy says in it."""
    message = answer.json().get("message", "")
    return answer.status_code, message.partition("denied request: ")[2].partition(", and")[0]


def _queue_refused(answer: httpx.Response) -> tuple[int, str]:
    """Return the code of an answer, and the queue that it is about.

    If two policies refuse a request, an API server shows one of them, now this and then that.
    """
    code, message = _refusal(answer)
    return code, message.partition('queue "')[2].partition('"')[0]


@pytest.mark.parametrize("case", CASES)
async def test_a_tenant_creates_in_the_own_queue_and_in_no_other(
    tenants: Tenants, case: str, kind: str
) -> None:
    await tenants.needs(ways("a")[case], kind)
    answers = {
        (user, queue): _queue_refused(await tenants.create(user, ways(queue)[case]))
        for user in TENANTS
        for queue in TENANTS.values()
    }
    assert answers == {
        ("ann", "a"): (201, ""),
        ("ann", "b"): (403, "b"),
        ("bob", "a"): (403, "a"),
        ("bob", "b"): (201, ""),
    }


@pytest.mark.parametrize("case", [case for case in CASES if case not in FIXED])
async def test_a_tenant_keeps_the_queue_of_others_and_does_not_change_to_it(
    tenants: Tenants, case: str, kind: str
) -> None:
    await tenants.needs(ways("a")[case], kind)
    mine = ways("a")[case]
    (await tenants.create("ann", mine, is_kept=True)).raise_for_status()
    kept = await tenants.change("bob", mine)
    changed = await tenants.change("ann", ways("b")[case])
    await tenants.delete(mine)

    assert _refusal(kept) == (200, "")
    assert _queue_refused(changed) == (403, "b")


@pytest.mark.parametrize("case", steps("b", "a"))
async def test_several_writes_lead_to_no_queue_of_others(
    tenants: Tenants, case: str, kind: str
) -> None:
    way = steps("b", "a")[case]
    first = Way(way.resource, way.objects[0])
    await tenants.needs(first, kind)
    maker = PODGROUPER if way.is_copied else "ann"
    (await tenants.create(maker, first, is_kept=True)).raise_for_status()
    refusals = [
        _refusal(await tenants.change("ann", _patch(way, number), is_kept=True))
        for number in range(1, len(way.objects))
    ]
    await tenants.delete(first)
    assert [code for code, _ in refusals] == [200] * (len(refusals) - 1) + [403]


def _patch(way: Steps, number: int) -> Way:
    """Return the change of the metadata from one object to the next, as a merge patch."""
    former, current = (way.objects[at]["metadata"] for at in (number - 1, number))
    changed = {
        field: {**dict.fromkeys(former[field]), **current[field]}
        for field in ("labels", "annotations")
    }
    return Way(way.resource, {"metadata": {"name": current["name"], **changed}})


@pytest.mark.parametrize("case", projects("a"))
async def test_the_project_of_an_owner_leads_to_no_queue_of_others(
    tenants: Tenants, case: str, kind: str
) -> None:
    await tenants.needs(projects("a")[case], kind)
    answers = {
        queue: _refusal(await tenants.create("ann", projects(queue)[case]))
        for queue in (*TENANTS.values(), "website")
    }
    refused = 'label "project": KAI reads it as queue "b"'
    assert answers == {"a": (201, ""), "b": (403, refused), "website": (201, "")}


LABELLED = [
    case
    for case in CASES
    if case.startswith(("a label of", "a project of a")) and "clique" not in case
]
"""The cases whose label is in the metadata of the object itself."""


@pytest.mark.parametrize("case", LABELLED)
async def test_a_write_of_the_status_changes_to_no_queue_of_others(
    tenants: Tenants, case: str, kind: str
) -> None:
    """Of some kinds, API servers take labels from it."""
    await tenants.needs(ways("a")[case], kind)
    mine = ways("a")[case]
    other = Way(mine.resource, {"metadata": ways("b")[case].obj["metadata"]})
    (await tenants.create("ann", mine, is_kept=True)).raise_for_status()
    changed = await tenants.change("ann", other, "/status")
    await tenants.delete(mine)

    labels = mine.obj["metadata"]["labels"]
    is_kept = changed.is_success and changed.json()["metadata"]["labels"] == labels
    is_served = changed.status_code != 404
    assert is_kept or not is_served or _refusal(changed)[0] == 403, changed.text


@pytest.mark.parametrize("case", groups("a"))
async def test_a_tenant_joins_no_podgroup_of_another_namespace(
    tenants: Tenants, case: str, kind: str
) -> None:
    await tenants.needs(groups("a")[case], kind)
    answers = {
        group: _refusal(await tenants.create("ann", groups(group)[case]))
        for group in TENANTS.values()
    }
    told = 'annotation "pod-group-name": KAI may take PodGroup "b" of any namespace'
    assert answers["a"] == (201, "")
    code, message = answers["b"]
    assert (code, message.partition(", with")[0]) == (403, told)


BOUND = {
    "nothing": ({}, {}, 201),
    "the own queue": ({QUEUE: "a"}, {}, 201),
    "a queue of others": ({QUEUE: "b"}, {}, 403),
    "a project of others": ({"project": "b"}, {}, 403),
    "a PodGroup of others": ({}, {GROUP: "b"}, 403),
}


@pytest.mark.parametrize("case", BOUND)
async def test_a_binding_gives_its_pod_no_queue_of_others(
    tenants: Tenants, case: str, kind: str
) -> None:
    labels, annotations, expected = BOUND[case]
    way = Way(POD, {**pod({QUEUE: "a"}), "metadata": metadata()})
    await tenants.needs(way, kind)
    (await tenants.create("ann", way, is_kept=True)).raise_for_status()
    answer = await tenants.bind("ann", way, binding(labels, annotations))
    await tenants.delete(way)
    assert answer.status_code == expected, answer.text


@pytest.mark.parametrize("owned_by", ["Namespace", "PersistentVolumeClaim"])
async def test_kai_makes_no_podgroup_for_an_owner_that_nobody_is_asked_about(
    tenants: Tenants, owned_by: str
) -> None:
    way = ways("a")["the spec of a PodGroup"]
    owner = {"apiVersion": "v1", "kind": owned_by, "name": NAMESPACE, "uid": "u"}
    way.obj["metadata"]["ownerReferences"] = [owner]
    answer = await tenants.create(PODGROUPER, way)
    assert _refusal(answer) == (
        403,
        f"owner {owned_by} {NAMESPACE}: its labels were never checked and would choose the queue. Remove it from the owners of the Pod",
    )
    owner["kind"] = "Job"
    assert _refusal(await tenants.create(PODGROUPER, way)) == (201, "")


async def test_what_is_being_deleted_changes_to_no_queue_either(tenants: Tenants) -> None:
    mine = ways("a")["the spec of a PodGroup"]
    mine.obj["metadata"].update({"name": "going", "finalizers": ["example.com/stay"]})
    other = copy.deepcopy(mine)
    other.obj["spec"]["queue"] = "b"
    freed = copy.deepcopy(mine)
    freed.obj["metadata"]["finalizers"] = []
    await tenants.create("ann", mine, is_kept=True)
    await tenants.delete(mine)

    assert _refusal(await tenants.change("ann", other)) == (
        403,
        'queue "b": user "ann" may not use it. Ask for the verb use on queues.scheduling.run.ai/b',
    )
    assert _refusal(await tenants.change("bob", freed)) == (200, "")

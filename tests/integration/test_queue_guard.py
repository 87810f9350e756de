"""Two tenants of one API server, each with a queue: no way leads to the queue of the other."""

import copy
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
import yaml

from app.commands.beside import ApiServer
from tests.integration.system import Users, eventually
from tests.policies.ways import Way, ways
from tests.rendered import rendered

pytestmark = pytest.mark.untraced

Object = dict[str, Any]

NAMESPACE = "tenants"
RBAC = "rbac.authorization.k8s.io"
TENANTS = {"ann": "a", "bob": "b"}
"""The queue that each tenant may use. All are administrators of the namespace."""

CASES = list(ways("a"))


def rights() -> list[Object]:
    """The RBAC of the tenants."""
    objects: list[Object] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    ]
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    objects.append(_role("administrator-of-a-namespace", everything))
    for user, queue in TENANTS.items():
        use = {
            "apiGroups": ["scheduling.run.ai"],
            "resources": ["queues"],
            "resourceNames": [queue],
            "verbs": ["use"],
        }
        objects.append(_role(f"use-queue-{queue}", use))
        objects.append(_binding("ClusterRoleBinding", f"use-queue-{queue}", user))
        objects.append(_binding("RoleBinding", "administrator-of-a-namespace", user))
    return objects


def _role(name: str, rule: Object) -> Object:
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [rule],
    }


def _binding(kind: str, role: str, user: str) -> Object:
    metadata = {"name": f"{role}-{user}"}
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

    async def needs(self, way: Way, kind: str) -> None:
        """Skip the test if our own API server doesn't have the kind of an object."""
        path, _ = self._request(way)
        answer = await self._client.get(path)
        if answer.status_code == 404 and kind == "sandbox":
            pytest.skip(f"the sandbox serves no {way.resource}")

    async def create(self, user: str, way: Way, *, is_kept: bool = False) -> httpx.Response:
        path, body = self._request(way)
        params = {} if is_kept else {"dryRun": "All"}
        return await self._client.post(path, json=body, params=params, headers=_as(user))

    async def change(self, user: str, way: Way) -> httpx.Response:
        path, body = self._request(way)
        headers = {**_as(user), "Content-Type": "application/merge-patch+json"}
        return await self._client.patch(
            f"{path}/{body['metadata']['name']}",
            content=json.dumps(body),
            params={"dryRun": "All"},
            headers=headers,
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
        return path, {"apiVersion": api_version, "kind": resource.kind, **copy.deepcopy(way.obj)}


def _as(user: str) -> dict[str, str]:
    return {"Impersonate-User": user, "Impersonate-Group": "system:authenticated"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenants(api: ApiServer, clients: Users) -> AsyncIterator[Tenants]:
    await api.apply([*rights(), *rendered("overlays/queue-guard")])
    users = yaml.safe_load(api.kubeconfig.read_text())["users"]
    tokens = {user["name"]: user["user"]["token"] for user in users}
    async with httpx.AsyncClient(
        base_url=api.url,
        verify=ssl.create_default_context(cafile=api.ca_file),
        headers={"Authorization": f"Bearer {tokens['admin']}"},
        timeout=60,
    ) as client:
        tenants = Tenants(client, clients)
        last = ways("b")["any owner of Pods"]
        await eventually(lambda: tenants.create("ann", last), lambda answer: answer.is_error)
        yield tenants


def _refusal(answer: httpx.Response) -> tuple[int, str]:
    """Return the code of an answer, and what a policy says in it."""
    message = answer.json().get("message", "")
    return answer.status_code, message.partition("denied request: ")[2].partition(", and")[0]


@pytest.mark.parametrize("case", CASES)
async def test_a_tenant_creates_in_the_own_queue_and_in_no_other(
    tenants: Tenants, case: str, kind: str
) -> None:
    await tenants.needs(ways("a")[case], kind)
    answers = {
        (user, queue): _refusal(await tenants.create(user, ways(queue)[case]))
        for user in TENANTS
        for queue in TENANTS.values()
    }
    assert answers == {
        ("ann", "a"): (201, ""),
        ("ann", "b"): (403, 'queue "b": user "ann" may not use it'),
        ("bob", "a"): (403, 'queue "a": user "bob" may not use it'),
        ("bob", "b"): (201, ""),
    }


@pytest.mark.parametrize("case", [case for case in CASES if case != "a template of a Job"])
async def test_a_tenant_keeps_the_queue_of_others_and_does_not_change_to_it(
    tenants: Tenants, case: str, kind: str
) -> None:
    """The template of a Job can't be changed at all."""
    await tenants.needs(ways("a")[case], kind)
    mine = ways("a")[case]
    await tenants.create("ann", mine, is_kept=True)
    kept = await tenants.change("bob", mine)
    changed = await tenants.change("ann", ways("b")[case])
    await tenants.delete(mine)

    assert _refusal(kept) == (200, "")
    assert _refusal(changed) == (403, 'queue "b": user "ann" may not use it')


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
        'queue "b": user "ann" may not use it',
    )
    assert _refusal(await tenants.change("bob", freed)) == (200, "")

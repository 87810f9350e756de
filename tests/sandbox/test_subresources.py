"""Subresources that aren't part of their object, such as the token of a ServiceAccount."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.sandbox.api import NAMESPACE, Api, Object, opened

ACCOUNTS = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
TOKEN = f"{ACCOUNTS}/reader/token"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
REQUEST = {
    "apiVersion": "authentication.k8s.io/v1",
    "kind": "TokenRequest",
    "spec": {"expirationSeconds": 600},
}
READER: list[Object] = [
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "reader", "namespace": NAMESPACE},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "reader", "namespace": NAMESPACE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": NAMESPACE}],
    },
]


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """A ServiceAccount `reader`."""
    async with opened(tmp_path) as api:
        await api.done("POST", ACCOUNTS, {"metadata": {"name": "reader"}})
        yield api


async def as_reader(api: Api, token: str, method: str, path: str) -> int:
    answer = await api.send(method, path, user="", headers={"Authorization": f"Bearer {token}"})
    return answer.status_code


async def test_a_service_account_with_a_token_may_do_what_the_stored_roles_allow(api: Api) -> None:
    answer = await api.done("POST", TOKEN, REQUEST)
    token = answer["status"].pop("token")
    assert answer == {**REQUEST, "status": {}}
    assert await as_reader(api, token, "GET", PODS) == 403
    await api.sandbox.apply(READER)
    assert await as_reader(api, token, "GET", PODS) == 200
    assert await as_reader(api, token, "GET", ACCOUNTS) == 403


async def test_a_token_ends_with_its_service_account(api: Api) -> None:
    await api.sandbox.apply(READER)
    token = (await api.done("POST", TOKEN, REQUEST))["status"]["token"]
    await api.done("DELETE", f"{ACCOUNTS}/reader")
    assert await as_reader(api, token, "GET", PODS) == 401
    await api.done("POST", ACCOUNTS, {"metadata": {"name": "reader"}})
    assert await as_reader(api, token, "GET", PODS) == 401
    assert (await api.refused("POST", f"{ACCOUNTS}/writer/token", REQUEST))[0] == 404


async def test_discovery_names_the_kinds_of_subresources(api: Api) -> None:
    kinds = {
        item["name"]: (item.get("group"), item.get("version"), item["kind"])
        for item in (await api.done("GET", "/api/v1"))["resources"]
    }
    assert {name: kinds[name] for name in ("serviceaccounts/token", "pods/binding")} == {
        "serviceaccounts/token": ("authentication.k8s.io", "v1", "TokenRequest"),
        "pods/binding": (None, None, "Binding"),
    }

"""Subresources that aren't part of their object: the scale of a Deployment, the token of a
ServiceAccount.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.apiserver.api import NAMESPACE, Api, Object, opened

DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
SCALE = f"{DEPLOYMENTS}/one/scale"
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
    """A Deployment `one` of three replicas, and a ServiceAccount `reader`."""
    async with opened(tmp_path) as api:
        await api.done(
            "POST",
            DEPLOYMENTS,
            {"metadata": {"name": "one"}, "spec": {"replicas": 3, "paused": True}},
        )
        await api.done("POST", ACCOUNTS, {"metadata": {"name": "reader"}})
        yield api


async def test_a_scale_shows_the_replicas(api: Api) -> None:
    status = {"status": {"replicas": 2}}
    deployment = await api.done("PATCH", f"{DEPLOYMENTS}/one/status", status)
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    assert await api.done("GET", SCALE) == {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {key: deployment["metadata"][key] for key in shown},
        "spec": {"replicas": 3},
        **status,
    }


@pytest.mark.parametrize(
    ("method", "body"),
    [
        pytest.param("PATCH", {"spec": {"replicas": 0}}, id="a patch"),
        pytest.param(
            "PUT", {"metadata": {"name": "one"}, "spec": {"replicas": 0}}, id="a whole Scale"
        ),
    ],
)
async def test_a_scale_changes_the_replicas_and_nothing_else(
    api: Api, method: str, body: Object
) -> None:
    assert (await api.done(method, SCALE, body))["spec"] == {"replicas": 0}
    assert (await api.done("GET", f"{DEPLOYMENTS}/one"))["spec"] == {"replicas": 0, "paused": True}


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
    lists = [(await api.done("GET", path))["resources"] for path in ("/apis/apps/v1", "/api/v1")]
    kinds = {
        item["name"]: (item.get("group"), item.get("version"), item["kind"])
        for items in lists
        for item in items
    }
    assert {
        name: kinds[name] for name in ("deployments/scale", "serviceaccounts/token", "pods/binding")
    } == {
        "deployments/scale": ("autoscaling", "v1", "Scale"),
        "serviceaccounts/token": ("authentication.k8s.io", "v1", "TokenRequest"),
        "pods/binding": (None, None, "Binding"),
    }

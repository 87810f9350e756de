"""Impersonation in the sandbox: by whom, of whom, and with which rights."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.apiserver.api import NAMESPACE, Api, Object, opened

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
BOB = {"Impersonate-User": "bob"}


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    account: Object = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "grove-system"},
    }
    async with opened(tmp_path, rules=[account]) as api:
        yield api


async def code(api: Api, user: str = "admin", **headers: str) -> int:
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    return (await api.ask("GET", PODS, user=user, headers=sent))[0]


async def test_an_impersonated_user_has_the_rights_of_rbac_and_no_others(api: Api) -> None:
    assert await code(api) == 200
    assert await api.refused("GET", PODS, headers=BOB) == (
        403,
        "Forbidden",
        f'pods "" is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "{NAMESPACE}"',
    )
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    await api.done("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "r"}, "rules": [rule]})
    subject = {"kind": "Group", "name": "team", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
        "subjects": [subject],
    }
    await api.done("POST", f"{RBAC}/clusterrolebindings", binding)
    assert await code(api, Impersonate_User="bob") == 403
    assert await code(api, Impersonate_User="bob", Impersonate_Group="team") == 200
    assert await code(api, Impersonate_User="bob", Impersonate_Group="system:masters") == 200


async def test_who_has_no_right_to_impersonate_is_refused(api: Api) -> None:
    code, _, message = await api.refused("GET", PODS, user="operator", headers=BOB)
    assert (code, 'cannot impersonate resource "users"' in message) == (403, True)


async def test_users_of_the_kubeconfig_keep_their_rights(api: Api) -> None:
    assert await code(api, Impersonate_User="alice") == 200


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"Impersonate-Group": "team"}, id="a group without a user"),
        pytest.param({**BOB, "Impersonate-Uid": "1"}, id="a uid"),
        pytest.param({**BOB, "Impersonate-Extra-Scopes": "view"}, id="an extra field"),
    ],
)
async def test_what_is_not_known_here_is_refused(api: Api, headers: dict[str, str]) -> None:
    assert await api.refused("GET", PODS, headers=headers) == (
        400,
        "BadRequest",
        "the sandbox impersonates a user, with groups, and nothing else",
    )

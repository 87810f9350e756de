"""What is sent for the fields `as…` of a kubeconfig's user, and what is refused."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from app.facts.kinds import ALL
from app.kube.api import ClusterError, Selection
from app.kube.client import HttpClient
from app.kube.credentials import from_kubeconfig
from app.kube.impersonation import impersonation_headers
from app.objects.resource import POD
from tests.kube.credentials import PlainCredentials
from tests.kube.test_client import QUICK, serving

USER: dict[str, Any] = {
    "as": "jürgen@example.com",
    "as-groups": ["team:a", "team:b"],
}
HEADERS = (
    ("Impersonate-User", "jürgen@example.com"),
    ("Impersonate-Group", "team:a"),
    ("Impersonate-Group", "team:b"),
)


@pytest.mark.parametrize(
    ("user", "headers"),
    [
        pytest.param(USER, HEADERS, id="all fields"),
        pytest.param({"as": "bob", "token": "x"}, (("Impersonate-User", "bob"),), id="a user"),
        pytest.param({"token": "x"}, (), id="nobody else"),
        pytest.param({"as": "", "as-groups": []}, (), id="empty fields"),
    ],
)
def test_the_headers_of_a_user(user: dict[str, Any], headers: Any) -> None:
    assert impersonation_headers(user) == headers


NEEDS_AS = "as-groups needs a user name in the field as"


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ({"as-groups": ["a"]}, NEEDS_AS),
        ({"as": "bob", "as-uid": "1"}, "as-uid is not supported"),
        ({"as": "bob", "as-user-extra": {"a": ["b"]}}, "as-user-extra is not supported"),
        ({"as-user-extra": {"a": ["b"]}}, "as-user-extra is not supported"),
        ({"as": ["bob"]}, "as has ['bob'], which cannot be sent in an HTTP header"),
        ({"as": "bob\r\nX: y"}, "as has 'bob\\r\\nX: y', which cannot be sent in an HTTP header"),
        ({"as": " bob"}, "as has ' bob', which cannot be sent in an HTTP header"),
        ({"as": "bob", "as-groups": "a"}, "as-groups must be a list of strings"),
        (
            {"as": "bob", "as-groups": [1]},
            "as-groups has 1, which cannot be sent in an HTTP header",
        ),
    ],
)
def test_what_cannot_be_followed_exactly_is_refused(user: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(message)}$"):
        impersonation_headers(user)


def kubeconfig(folder: Path, user: dict[str, Any] | None, *, name: str) -> Path:
    """A context of the user `name`, who is `user`; "" if the context has none."""
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    named = {"user": name} if name else {}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [cluster],
        "users": [] if user is None else [{"name": "u", "user": {"token": "x", **user}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", **named}}],
        "current-context": "x",
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return path


async def test_credentials_of_a_kubeconfig_have_the_headers_and_read_them_again(
    tmp_path: Path,
) -> None:
    credentials = await from_kubeconfig(kubeconfig(tmp_path, USER, name="u"), None)
    before = credentials.impersonation
    kubeconfig(tmp_path, {"as": "bob"}, name="u")
    await credentials.renew()
    assert (before, credentials.impersonation) == (HEADERS, (("Impersonate-User", "bob"),))


@pytest.mark.parametrize(("user", "name"), [({}, "u"), (None, "")])
async def test_without_such_fields_nothing_is_sent(
    tmp_path: Path, user: dict[str, Any] | None, name: str
) -> None:
    credentials = await from_kubeconfig(kubeconfig(tmp_path, user, name=name), None)
    assert credentials.impersonation == ()


async def test_a_kubeconfig_that_cannot_be_followed_is_refused(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {"as-groups": ["system:masters"]}, name="u")
    with pytest.raises(ClusterError, match=f"no credentials for the cluster: .*user u: {NEEDS_AS}"):
        await from_kubeconfig(path, None)


async def test_each_request_has_the_headers() -> None:
    sent: list[tuple[str, str]] = []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        sent.extend((key, value) for key, value in request.headers.items() if "Imperson" in key)
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})

    async with serving(handler) as server:
        credentials = PlainCredentials(server.url, "token", impersonation=HEADERS)
        async with HttpClient(credentials, ALL, QUICK) as client:
            await client.list(Selection(POD))
    assert tuple(sent) == HEADERS

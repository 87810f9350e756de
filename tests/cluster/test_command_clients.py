"""The clients of commands: whose credentials they have, and what a person is told to do if these are
missing or not accepted.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from app.cluster.command_clients import how_to_renew, is_of_pod, looking_client
from app.kube.api import ClusterError, Rejected, Selection, Unavailable
from app.kube.transport import ApiRequest
from app.objects.resource import NODE

EXPIRED = ClusterError("who?", code=401)


def kubeconfig(folder: Path, **user: Any) -> Path:
    """A kubeconfig whose user has a token from a command, unless it is given."""
    path = folder / "kubeconfig"
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "tsh",
        "args": ["kube", "credentials"],
        "interactiveMode": "Never",
    }
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": "http://a.example.com"}}],
        "users": [{"name": "u", "user": user or {"exec": plugin}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "u"}}],
    }
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("problem", "in_pod", "named", "told"),
    [
        pytest.param(EXPIRED, False, True, True, id="not accepted"),
        pytest.param(Unavailable("x", reason="Credentials"), False, True, True, id="missing"),
        pytest.param(Unavailable("down", code=503), False, True, False, id="another problem"),
        pytest.param(EXPIRED, True, False, False, id="the account of a Pod"),
        pytest.param(EXPIRED, True, True, True, id="a kubeconfig in a Pod"),
        pytest.param(EXPIRED, False, False, True, id="the usual kubeconfig"),
    ],
)
def test_the_command_that_renews_credentials_is_told_if_they_are_the_problem(
    problem: Exception,
    in_pod: bool,
    named: bool,
    told: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = kubeconfig(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    if in_pod:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert (how_to_renew(problem, path if named else None, None) == "tsh login") is told


@pytest.mark.parametrize(
    ("in_pod", "file", "context", "is_used"),
    [
        (True, None, None, True),
        (True, Path("config"), None, False),
        (True, None, "a", False),
        (False, None, None, False),
    ],
)
def test_the_account_of_a_pod_is_used_if_no_option_names_another(
    in_pod: bool,
    file: Path | None,
    context: str | None,
    is_used: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    if in_pod:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert is_of_pod(file, context) is is_used


@pytest.mark.parametrize(
    ("in_pod", "context", "host"),
    [
        pytest.param(False, None, "http://a.example.com", id="the current context"),
        pytest.param(True, "a", "http://a.example.com", id="a context in a Pod"),
        pytest.param(False, "b", None, id="a context that is not there"),
        pytest.param(True, None, None, id="a Pod without an account"),
    ],
)
async def test_a_command_has_the_credentials_of(
    in_pod: bool,
    context: str | None,
    host: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path, token="t")))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    if in_pod:
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    if host is None:
        with pytest.raises(ClusterError, match="no credentials"):
            async with looking_client((NODE,), None, context):
                pass
        return
    async with looking_client((NODE,), None, context) as client:
        assert client._transport.credentials.host == host


async def test_recorded_answers_need_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/absent")
    asked = []

    async def recorded(request: ApiRequest) -> Any:
        asked.append((request.method, request.path))
        raise Rejected("not recorded", code=403)

    async with looking_client((NODE,), None, None, recorded) as client:
        with pytest.raises(ClusterError):
            await client.list(Selection(NODE))
    assert asked == [("GET", "/api/v1/nodes")]

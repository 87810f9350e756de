"""What a person is told to do about credentials that are missing or not accepted."""

import json
from pathlib import Path

import pytest

from app.cluster.command_clients import how_to_renew, is_of_pod
from app.kube.api import ClusterError, Unavailable

EXPIRED = ClusterError("who?", code=401)


def kubeconfig(folder: Path) -> Path:
    """A kubeconfig whose user has a token from a command."""
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
        "users": [{"name": "u", "user": {"exec": plugin}}],
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

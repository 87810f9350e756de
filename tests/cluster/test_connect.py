"""Which API server a server of ours asks, by the options it was started with."""

import json
from pathlib import Path

import pytest

from app.cluster.connect import server_client
from app.config.schema import Configuration
from app.kube.api import ClusterError


def kubeconfig(folder: Path) -> Path:
    """A kubeconfig with the contexts a, which is the current one, and b."""
    path = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "clusters": [
            {"name": name, "cluster": {"server": f"http://{name}.example.com"}} for name in "ab"
        ],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "u"}} for name in "ab"],
    }
    path.write_text(json.dumps(content))
    return path


async def asked(path: Path | None, context: str | None) -> str:
    async with server_client(Configuration(), path, context, ()) as client:
        return client._transport.credentials.host


@pytest.mark.parametrize(
    ("file", "context", "host"), [(True, None, "a"), (True, "b", "b"), (False, "b", "b")]
)
async def test_options_choose_the_api_server(
    file: bool, context: str | None, host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = kubeconfig(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert await asked(path if file else None, context) == f"http://{host}.example.com"


async def test_without_options_a_server_never_uses_the_current_context_of_kubectl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path)))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ClusterError, match="this process is not in a Pod"):
        await asked(None, None)

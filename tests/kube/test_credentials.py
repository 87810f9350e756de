"""Credentials of a kubeconfig and of a Pod: read, renewed, and what can't be used."""

import base64
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from app.certificates.certificate import make_ca
from app.kube.api import ClusterError, Unavailable
from app.kube.credentials import PodCredentials, from_kubeconfig, in_cluster
from app.kube.tls_context import ServerTrust


def kubeconfig(path: Path, **users: dict[str, str]) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "first",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:7/prefix/"}}],
        "users": [{"name": name, "user": user} for name, user in users.items()],
        "contexts": [{"name": name, "context": {"cluster": "c", "user": name}} for name in users],
    }
    path.write_text(yaml.safe_dump(document))
    return path


async def test_kubeconfig_contexts(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("from-file\n")
    users = {
        "first": {"token": "plain"},
        "second": {"tokenFile": str(token_file)},
        "third": {"username": "u", "password": "p"},
    }
    path = kubeconfig(tmp_path / "config", **users)
    basic = base64.b64encode(b"u:p").decode()
    headers = {None: "Bearer plain", "second": "Bearer from-file", "third": f"Basic {basic}"}
    for context, header in headers.items():
        credentials = await from_kubeconfig(path, context)
        assert (credentials.host, await credentials.authorization()) == (
            "http://127.0.0.1:7/prefix",
            header,
        )


async def test_a_token_file_is_read_again_on_renewal(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("one")
    credentials = await from_kubeconfig(
        kubeconfig(tmp_path / "config", first={"tokenFile": str(token_file)}), None
    )
    token_file.write_text("two")
    await credentials.renew()
    assert await credentials.authorization() == "Bearer two"


@pytest.mark.parametrize("content", [None, "", "{}", "[", "current-context: absent"])
async def test_a_kubeconfig_that_cannot_be_used(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ClusterError, match="no credentials"):
        await from_kubeconfig(path, None)


def service_account(
    directory: Path, monkeypatch: pytest.MonkeyPatch, host: str = "fd00::1"
) -> Path:
    """What Kubernetes gives a Pod."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    now = datetime.now(UTC)
    (directory / "token").write_text("pod-token\n")
    (directory / "ca.crt").write_bytes(make_ca("a cluster", now, now + timedelta(days=1)).cert_pem)
    return directory


async def test_in_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = await in_cluster(service_account(tmp_path, monkeypatch))
    assert (credentials.host, await credentials.authorization()) == (
        "https://[fd00::1]:443",
        "Bearer pod-token",
    )
    context = credentials.ssl_context()
    assert context is not None
    assert len(context.get_ca_certs()) == 1
    (tmp_path / "token").write_text("rotated")
    await credentials.renew()
    assert await credentials.authorization() == "Bearer rotated"


async def test_the_token_of_a_pod_is_read_again_once_a_minute(tmp_path: Path) -> None:
    times = iter([0.0, 60.0, 61.0, 61.0])
    token = tmp_path / "token"
    token.write_text("one")
    credentials = PodCredentials(
        "https://10.0.0.1:443", token, tmp_path / "ca.crt", clock=lambda: next(times)
    )
    assert await credentials.authorization() == "Bearer one"
    token.write_text("two")
    assert await credentials.authorization() == "Bearer one"
    assert await credentials.authorization() == "Bearer two"


async def test_the_token_of_a_pod_is_not_in_what_is_printed_of_its_credentials(
    tmp_path: Path,
) -> None:
    token = tmp_path / "token"
    token.write_text("pod-token")
    credentials = PodCredentials("https://10.0.0.1:443", token, tmp_path / "ca.crt")
    assert await credentials.authorization() == "Bearer pod-token"
    assert "pod-token" not in repr(ServerTrust(credentials, 1.0))


@pytest.mark.parametrize(
    ("name", "content"), [("token", ""), ("token", None), ("ca.crt", "no PEM"), ("ca.crt", None)]
)
async def test_a_service_account_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str | None
) -> None:
    directory = service_account(tmp_path, monkeypatch, "10.0.0.1")
    (directory / name).unlink()
    if content is not None:
        (directory / name).write_text(content)
    with pytest.raises(ClusterError, match=f"no credentials for the cluster: .*{name}"):
        await in_cluster(directory)


@pytest.mark.parametrize("content", ["", " \n", None], ids=["empty", "blank", "gone"])
async def test_a_token_that_is_lost_is_a_problem_of_credentials(
    content: str | None, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    if content is not None:
        token.write_text(content)
    with pytest.raises(Unavailable) as raised:
        await PodCredentials("https://10.0.0.1:443", token, tmp_path / "ca.crt").authorization()
    assert raised.value.reason == "Credentials"
    assert raised.value.message.startswith("credentials: ")


async def test_a_kubeconfig_that_is_lost_is_a_problem_of_credentials(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", first={"token": "t"})
    credentials = await from_kubeconfig(path, None)
    path.unlink()
    with pytest.raises(Unavailable) as raised:
        await credentials.renew()
    assert raised.value.reason == "Credentials"


async def test_outside_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ClusterError, match="no credentials"):
        await in_cluster(tmp_path)


@pytest.mark.parametrize(
    ("insecure", "checks_host", "mode"),
    [(False, True, ssl.CERT_REQUIRED), (True, False, ssl.CERT_NONE)],
    ids=["verified", "insecure"],
)
async def test_a_kubeconfig_may_say_that_the_server_is_not_verified(
    insecure: bool, checks_host: bool, mode: ssl.VerifyMode, tmp_path: Path
) -> None:
    path = kubeconfig(tmp_path / "config", first={"token": "t"})
    document = yaml.safe_load(path.read_text())
    cluster = {"server": "https://127.0.0.1:7", "insecure-skip-tls-verify": insecure}
    cluster |= {"tls-server-name": "api.example.com", "proxy-url": "http://proxy.example.com:3128"}
    document["clusters"][0]["cluster"] = cluster
    path.write_text(yaml.safe_dump(document))
    credentials = await from_kubeconfig(path, None)
    context = credentials.ssl_context()
    assert context is not None
    assert (context.check_hostname, context.verify_mode) == (checks_host, mode)
    assert credentials.server_hostname == "api.example.com"
    assert credentials.proxy == "http://proxy.example.com:3128"
    assert (await from_kubeconfig(kubeconfig(path, first={}), None)).ssl_context() is None


async def test_connections_share_a_context_until_credentials_are_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust = ServerTrust(await in_cluster(service_account(tmp_path, monkeypatch)), 60.0)
    first = await trust.context()
    assert await trust.context() is first
    await trust.renew()
    renewed = await trust.context()
    assert renewed is not first
    assert await trust.context() is renewed

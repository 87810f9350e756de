"""Exec plugins of kubeconfigs: how they are called, and what they print."""

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.certificates.certificate import make_ca
from app.kube.api import ClusterError
from app.kube.kubeconfig import KubeconfigCredentials

VERSION = "client.authentication.k8s.io/v1"
CLUSTER = {"server": "https://localhost:1", "tls-server-name": "api.example.com"}


def kubeconfig(folder: Path, script: str, **plugin: Any) -> Path:
    """A kubeconfig with a plugin that is a shell script in the same folder."""
    command = folder / "plugin"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    path = folder / "config"
    user = {"exec": {"apiVersion": VERSION, "command": str(command), **plugin}}
    content = {
        "current-context": "a",
        "clusters": [{"name": "c", "cluster": CLUSTER}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(yaml.safe_dump(content))
    return path


def printing(version: str = VERSION, **status: Any) -> str:
    """A script that prints these credentials."""
    answer = {"apiVersion": version, "kind": "ExecCredential", "status": status}
    return f"cat <<'END'\n{json.dumps(answer)}\nEND"


async def loaded(path: Path) -> KubeconfigCredentials:
    credentials = KubeconfigCredentials(path, None)
    await credentials.load()
    return credentials


async def test_a_plugin_gets_its_arguments_variables_and_the_request(tmp_path: Path) -> None:
    script = (
        f'echo "$1 $2 $REGION" > {tmp_path}/called; echo "$KUBERNETES_EXEC_INFO" >'
        f" {tmp_path}/request; {printing(token='t')}"
    )
    variables = [{"name": "REGION", "value": "eu 1"}]
    path = kubeconfig(tmp_path, script, args=["get", 7], env=variables, interactiveMode="Never")
    assert await (await loaded(path)).authorization() == "Bearer t"
    assert (tmp_path / "called").read_text() == "get 7 eu 1\n"
    assert json.loads((tmp_path / "request").read_text()) == {
        "apiVersion": VERSION,
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }


async def test_a_plugin_may_ask_for_the_cluster(tmp_path: Path) -> None:
    script = f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/request; {printing(token="t")}'
    path = kubeconfig(tmp_path, script, provideClusterInfo=True)
    content = yaml.safe_load(path.read_text())
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    content["clusters"][0]["cluster"] = {**CLUSTER, "extensions": [extension]}
    path.write_text(yaml.safe_dump(content))
    await loaded(path)
    request = json.loads((tmp_path / "request").read_text())
    assert request["spec"]["cluster"] == {**CLUSTER, "config": {"audience": "x"}}


async def test_a_relative_command_is_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, printing(token="t"), command="./plugin")
    assert await (await loaded(path)).authorization() == "Bearer t"


async def test_a_plugin_may_write_more_errors_than_fit_into_a_pipe(tmp_path: Path) -> None:
    script = f"head -c 300000 /dev/zero >&2; {printing(token='t')}"
    assert await (await loaded(kubeconfig(tmp_path, script))).authorization() == "Bearer t"


async def test_a_plugin_may_give_a_client_certificate(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    pair = make_ca("user", now, now + timedelta(days=1))
    certificate, key = pair.cert_pem.decode(), pair.key_pem.decode()
    script = printing(clientCertificateData=certificate, clientKeyData=key)
    credentials = await loaded(kubeconfig(tmp_path, script))
    assert await credentials.authorization() is None
    assert credentials.ssl_context() is not None


async def test_a_plugin_runs_again_once_its_token_has_expired(tmp_path: Path) -> None:
    script = (
        f"echo x >> {tmp_path}/calls; n=$(wc -l < {tmp_path}/calls);"
        ' [ $n = 1 ] && until=EARLY || until=LATE; printf \'{"apiVersion": "%s", "status":'
        f' {{"token": "%s", "expirationTimestamp": "%s"}}}}\' {VERSION} $n $until'
    )
    early, late = (
        datetime.fromtimestamp(time.time() + seconds, UTC).isoformat() for seconds in (-60, 3600)
    )
    path = kubeconfig(tmp_path, script.replace("EARLY", early).replace("LATE", late))
    credentials = await loaded(path)
    assert await credentials.authorization() == "Bearer 2"
    assert await credentials.authorization() == "Bearer 2"
    assert (tmp_path / "calls").read_text() == "x\nx\n"


@pytest.mark.parametrize(
    ("script", "plugin", "message"),
    [
        pytest.param(
            "echo no session >&2; exit 3", {}, "failed with exit code 3: no session", id="fails"
        ),
        pytest.param("echo done", {}, "the exec plugin of user u printed no JSON", id="no JSON"),
        pytest.param("echo []", {}, "printed apiVersion none, not", id="no object"),
        pytest.param(
            printing("v1beta1", token="t"), {}, "printed apiVersion v1beta1, not", id="version"
        ),
        pytest.param(printing(), {}, "neither a token nor a client certificate", id="nothing"),
        pytest.param(
            printing(clientCertificateData="c"),
            {},
            "only one of clientCertificateData and clientKeyData",
            id="no key",
        ),
        pytest.param("", {"apiVersion": None}, "user u has no apiVersion", id="no apiVersion"),
        pytest.param("", {"command": None}, "user u has no command", id="no command"),
    ],
)
async def test_what_a_plugin_does_wrong_is_said(
    script: str, plugin: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ClusterError) as raised:
        await loaded(kubeconfig(tmp_path, script, **plugin))
    assert raised.value.message.startswith("no credentials for the cluster: ")
    assert message in raised.value.message
    assert raised.value.reason == "Credentials"

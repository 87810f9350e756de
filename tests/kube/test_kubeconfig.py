"""The credentials in kubeconfigs: what is read, what is wrong with it, and how to renew them."""

import base64
import json
import os
import ssl
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.certificates.certificate import make_ca
from app.cluster.command_clients import how_to_renew
from app.kube import kubeconfig
from app.kube.api import ClusterError, Unavailable
from app.kube.contexts import current_context
from app.kube.kubeconfig import KubeconfigCredentials, renewal_of

AWS = ["eks", "get-token", "--cluster-name", "prod"]
USERS: dict[str, tuple[dict[str, Any], str]] = {
    "aws without a profile": ({"exec": {"command": "aws", "args": AWS}}, "aws sso login"),
    "aws with a profile among the arguments": (
        {"exec": {"command": "/usr/local/bin/aws", "args": ["--profile", "dev", *AWS]}},
        "aws sso login --profile dev",
    ),
    "aws with a profile in the environment": (
        {
            "exec": {
                "command": "aws",
                "args": AWS,
                "env": [{"name": "AWS_PROFILE", "value": "on call"}],
            }
        },
        "aws sso login --profile 'on call'",
    ),
    "gke": ({"exec": {"command": "gke-gcloud-auth-plugin", "args": None}}, "gcloud auth login"),
    "another plugin, without its options": (
        {
            "exec": {
                "command": "kubectl",
                "args": ["oidc-login", "get-token", "--oidc-client-secret=hush"],
            }
        },
        "kubectl oidc-login get-token",
    ),
    "an auth provider": ({"auth-provider": {"name": "gcp"}}, ""),
    "a token": ({"token": "abc"}, ""),
    "a plugin without a command": ({"exec": {"args": ["login"]}}, ""),
}


@pytest.mark.parametrize("name", USERS)
def test_the_command_that_renews(name: str, tmp_path: Path) -> None:
    user, expected = USERS[name]
    path = tmp_path / "config"
    contexts = [
        {"name": "a", "context": {"user": "u"}},
        {"name": "b", "context": {"user": "absent"}},
    ]
    path.write_text(
        yaml.safe_dump(
            {"current-context": "a", "contexts": contexts, "users": [{"name": "u", "user": user}]}
        )
    )
    assert (renewal_of(path, None), renewal_of(path, "a")) == (expected, expected)
    assert (renewal_of(path, "b"), renewal_of(path, "absent")) == ("", "")


CONTEXT = """
current-context: a
clusters: [{name: c, cluster: {server: "https://localhost:1"}}]
contexts: [{name: a, context: {cluster: c, user: u}}]
"""
PLUGIN = "{apiVersion: client.authentication.k8s.io/v1, command: no-such-plugin, installHint: %s}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the kubeconfig FILE is empty"),
        ("# only a comment", "FILE is not a kubeconfig"),
        ("- a", "FILE is not a kubeconfig"),
        ("text", "FILE is not a kubeconfig"),
        ("a:\n\tb: c", "while scanning for the next token found character '\\t'"),
        (CONTEXT, "the context names user u, which is not in the kubeconfig"),
    ],
)
async def test_what_is_wrong_with_a_kubeconfig_is_said(
    content: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(ClusterError) as raised:
        await KubeconfigCredentials(path, None).load()
    said = raised.value.message.replace(str(path), "FILE")
    assert said.startswith(f"no credentials for the cluster: {message}")
    assert "\n" not in said
    assert raised.value.reason == "Credentials"


async def test_no_login_helps_if_a_plugin_is_not_installed(tmp_path: Path) -> None:
    path = tmp_path / "config"
    user = PLUGIN % '"get it\\nat example.com"'
    path.write_text(f"{CONTEXT}users: [{{name: u, user: {{exec: {user}}}}}]\n")
    with pytest.raises(ClusterError) as raised:
        await KubeconfigCredentials(path, None).load()
    assert raised.value.message == (
        "no credentials for the cluster: no-such-plugin, the exec plugin of user u, is not"
        " installed or not in PATH: get it at example.com"
    )
    assert raised.value.reason == ""
    assert how_to_renew(raised.value, path, None) == ""


async def test_who_waits_for_a_plugin_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kubeconfig, "PLUGIN_SECONDS", 0.1)
    version = "client.authentication.k8s.io/v1"
    answer = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": "t"}}
    plugin = tmp_path / "plugin"
    plugin.write_text(
        f"#!/bin/sh\necho log in at example.com >&2\nsleep 1\necho '{json.dumps(answer)}'\n"
    )
    plugin.chmod(0o755)
    path = tmp_path / "config"
    user = json.dumps({"exec": {"apiVersion": version, "command": str(plugin)}})
    path.write_text(f"{CONTEXT}users: [{{name: u, user: {user}}}]\n")
    await KubeconfigCredentials(path, None).load()
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "the exec plugin of user u has not answered for 0.1 s. If it waits for you to log in, stop"
        " this command, log in by running kubectl get namespaces, and try again"
    ]


@pytest.mark.parametrize("is_set", [False, True], ids=["KUBECONFIG is empty", "its first file is"])
def test_empty_is_like_missing(is_set: bool, tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    config = tmp_path / ".kube" / "config"
    config.write_text(f"{CONTEXT.replace('user: u', 'user: u, namespace: mine')}")
    (tmp_path / "empty").touch()
    named = f"{tmp_path / 'empty'}{os.pathsep}{config}" if is_set else ""
    code = "from app.kube.contexts import namespace_of; print(namespace_of(None, None))"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "HOME": str(tmp_path), "KUBECONFIG": named},
    )
    assert ended.stdout == "mine\n"


def test_no_kubeconfig_names_no_command(tmp_path: Path) -> None:
    assert renewal_of(tmp_path / "absent", None) == ""


def written(folder: Path, user: dict[str, Any]) -> Path:
    path = folder / "config"
    contexts = [{"name": "a", "context": {"user": "u"}}]
    path.write_text(
        yaml.safe_dump(
            {"current-context": "a", "contexts": contexts, "users": [{"name": "u", "user": user}]}
        )
    )
    return path


def test_only_openid_connect_imports_the_library_with_all_models() -> None:
    code = "import sys, app.commands.serve, app.commands.explain, app.kube.kubeconfig; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    modules = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert "aiohttp" in modules
    assert not [name for name in modules if name.startswith("kubernetes_asyncio")]


@pytest.mark.parametrize(
    ("current", "context", "message"),
    [
        pytest.param(
            "a",
            "x",
            "the kubeconfig has no context x. Add --context NAME, one of: a, b",
            id="no such context",
        ),
        pytest.param(
            "x",
            None,
            "the kubeconfig has no context x, which is its current context. Add --context NAME, one of: a, b",
            id="the current one is not there",
        ),
        pytest.param(
            "",
            None,
            "the kubeconfig has no current context. Add --context NAME, one of: a, b",
            id="no current one",
        ),
        pytest.param("x", "b", "", id="another one is chosen"),
        pytest.param("a", None, "", id="the current one"),
    ],
)
async def test_contexts_that_are_not_there_are_named(
    current: str, context: str | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    contexts = [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in "ab"]
    document: dict[str, Any] = {
        "clusters": [{"name": "c", "cluster": {"server": "http://localhost:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": contexts,
        **({"current-context": current} if current else {}),
    }
    path.write_text(yaml.safe_dump(document))
    credentials = KubeconfigCredentials(path, context)
    if not message:
        await credentials.load()
        assert credentials.host == "http://localhost:1"
        return
    with pytest.raises(ClusterError) as raised:
        await credentials.load()
    assert raised.value.message == f"no credentials for the cluster: {message}"


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        pytest.param({"token": "t"}, "Bearer t", id="a token"),
        pytest.param({"username": "u", "password": "p"}, "Basic dTpw", id="a name and a password"),
        pytest.param({}, None, id="nothing"),
    ],
)
async def test_a_user_is_authorized_by(
    user: dict[str, Any], expected: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document(user)))
    credentials = KubeconfigCredentials(path, None)
    await credentials.load()
    assert await credentials.authorization() == expected
    assert credentials.files() == [str(path)]
    assert (credentials.host, credentials.proxy) == ("http://localhost:1", None)
    assert (credentials.server_hostname, credentials.ssl_context()) == (None, None)


async def test_a_renewed_kubeconfig_is_used_and_an_unusable_one_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document({"token": "t"})))
    credentials = KubeconfigCredentials(path, None)
    await credentials.load()
    path.write_text(yaml.safe_dump(document({"token": "new"})))
    await credentials.renew()
    assert await credentials.authorization() == "Bearer new"
    path.unlink()
    with pytest.raises(Unavailable) as raised:
        await credentials.renew()
    assert raised.value.message == f"credentials: the file {path} does not exist"
    assert raised.value.reason == "Credentials"


@pytest.mark.parametrize(
    ("currents", "host"),
    [("ab", "http://a"), ("ba", "http://b"), ("a-", "http://a"), ("-b", "http://b")],
)
async def test_of_several_files_the_first_current_context_is_used_as_in_kubectl(
    currents: str, host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / "first", tmp_path / "second"]
    for name, current, path in zip("ab", currents, files, strict=True):
        content = document({"token": name})
        content["current-context"] = current.strip("-")
        content["clusters"][0] = {"name": name, "cluster": {"server": f"http://{name}"}}
        content["contexts"][0] = {"name": name, "context": {"cluster": name, "user": "u"}}
        path.write_text(yaml.safe_dump(content))
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, files)))
    credentials = KubeconfigCredentials(None, None)
    await credentials.load()
    assert credentials.host == host
    assert current_context(None) == credentials.host[-1]


async def test_paths_are_relative_to_the_file_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    pair = make_ca("a cluster", now, now + timedelta(days=1))
    content = document({"client-certificate": "user/tls.crt", "client-key": "user/tls.key"})
    content["clusters"][0]["cluster"] = {
        "server": "https://localhost:1",
        "certificate-authority": "ca.crt",
    }
    (tmp_path / "user").mkdir()
    (tmp_path / "ca.crt").write_bytes(pair.cert_pem)
    (tmp_path / "user/tls.crt").write_bytes(pair.cert_pem)
    (tmp_path / "user/tls.key").write_bytes(pair.key_pem)
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(content))
    monkeypatch.chdir("/")
    credentials = KubeconfigCredentials(path, None)
    await credentials.load()
    names = ("config", "ca.crt", "user/tls.crt", "user/tls.key")
    assert credentials.files() == [str(tmp_path / name) for name in names]
    context = credentials.ssl_context()
    assert context is not None
    assert len(context.get_ca_certs()) == 1
    (tmp_path / "ca.crt").write_text("")
    with pytest.raises(OSError, match=r"ca.crt is empty"):
        credentials.ssl_context()


async def test_certificates_may_be_in_the_kubeconfig(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    pair = make_ca("a cluster", now, now + timedelta(days=1))
    certificate, key = (base64.b64encode(pem).decode() for pem in (pair.cert_pem, pair.key_pem))
    content = document({"client-certificate-data": certificate, "client-key-data": key})
    content["clusters"][0]["cluster"] = {
        "server": "https://localhost:1",
        "certificate-authority-data": certificate,
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(content))
    credentials = KubeconfigCredentials(path, None)
    await credentials.load()
    assert credentials.files() == [str(path)]
    assert credentials.ssl_context() is not None


async def test_a_replaced_token_file_is_a_changed_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one\n")
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document({"tokenFile": "token", "token": "old"})))
    credentials = KubeconfigCredentials(path, None)
    await credentials.load()
    assert await credentials.authorization() == "Bearer one"
    assert credentials.files() == [str(path), str(tmp_path / "token")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"clusters": []}, "names cluster c, which is not in", id="no such cluster"),
        pytest.param(
            {"contexts": [{"name": "a", "context": {}}]}, "names no cluster", id="no cluster"
        ),
        pytest.param(
            {"clusters": [{"name": "c", "cluster": {}}]}, "cluster c .* has no server", id="server"
        ),
        pytest.param(
            {"users": [{"name": "u", "user": {"auth-provider": {"name": "gcp"}}}]},
            "auth-provider gcp, which kubectl does not support since 1.26. Use an exec plugin",
            id="a removed provider",
        ),
        pytest.param(
            {"users": [{"name": "u", "user": {"tokenFile": "/absent"}}]}, "/absent", id="token file"
        ),
        pytest.param(
            {"users": [{"name": "u", "user": {"as-uid": "7"}}]}, "user u: as-uid", id="as-uid"
        ),
    ],
)
async def test_what_is_wrong_with_an_entry_is_said(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump({**document({"token": "t"}), **changes}))
    with pytest.raises(ClusterError, match=f"no credentials for the cluster: .*{message}"):
        await KubeconfigCredentials(path, None).load()


async def test_data_that_is_not_base64_is_named(tmp_path: Path) -> None:
    content = document({"client-certificate-data": "a"})
    content["clusters"][0]["cluster"]["server"] = "https://localhost:1"
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(content))
    credentials = KubeconfigCredentials(path, None)
    await credentials.load()
    with pytest.raises(ValueError, match="client-certificate-data of u is not base64"):
        credentials.ssl_context()


def document(user: dict[str, Any]) -> dict[str, Any]:
    """A kubeconfig with one context, whose server has no TLS."""
    return {
        "current-context": "a",
        "clusters": [{"name": "c", "cluster": {"server": "http://localhost:1/"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "a", "context": {"cluster": "c", "user": "u"}}],
    }


async def test_nobody_is_asked_for_the_password_of_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an empty password, an encrypted key is an error. Without one, OpenSSL asks for it."""
    given: list[Any] = []
    monkeypatch.setattr(
        ssl.SSLContext,
        "load_cert_chain",
        lambda context, file, keyfile=None, password=None: given.append(password),
    )
    pem = base64.b64encode(b"of a key").decode()
    content = document({"client-certificate-data": pem, "client-key-data": pem})
    content["clusters"][0]["cluster"]["server"] = "https://localhost:1"
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(content))
    credentials = KubeconfigCredentials(path, None)
    await credentials.load()
    credentials.ssl_context()
    assert given == [""]

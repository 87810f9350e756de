"""Which command renews the credentials of a kubeconfig."""

import base64
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from app.kube.kubeconfig import renewal_of, user_in_words

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
    "an auth provider": ({"auth-provider": {"name": "gcp"}}, "gcloud auth login"),
    "an auth provider that is not known": ({"auth-provider": {"name": "oidc"}}, ""),
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


def test_no_kubeconfig_names_no_command(tmp_path: Path) -> None:
    assert renewal_of(tmp_path / "absent", None) == ""


IN_WORDS: dict[str, tuple[dict[str, Any], str]] = {
    "an exec plugin": ({"exec": {"command": "aws"}, "token": "abc"}, "the exec plugin of user u"),
    "a token": ({"token": "abc"}, "the token of user u"),
    "nothing": ({}, "the entry of user u"),
    "no certificate": ({"client-certificate-data": "bm8="}, ""),
}


@pytest.mark.parametrize("name", IN_WORDS)
def test_what_a_user_authenticates_with(name: str, tmp_path: Path) -> None:
    user, expected = IN_WORDS[name]
    assert user_in_words(written(tmp_path, user)) == expected


@pytest.mark.parametrize("days", [-1, 1])
@pytest.mark.parametrize("inline", [True, False])
def test_when_a_certificate_ends(days: int, inline: bool, tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    end = datetime.now(UTC) + timedelta(days=days)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "u")])
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, end - timedelta(days=9), end)
    pem = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    (tmp_path / "own.pem").write_bytes(pem)
    entry = (
        {"client-certificate-data": base64.b64encode(pem).decode()}
        if inline
        else {"client-certificate": "own.pem"}
    )
    verb = "ended" if days < 0 else "ends"
    expected = f"the certificate of user u, which {verb} at {end:%Y-%m-%d %H:%M} UTC"
    assert user_in_words(written(tmp_path, entry)) == expected


def written(folder: Path, user: dict[str, Any]) -> Path:
    path = folder / "config"
    contexts = [{"name": "a", "context": {"user": "u"}}]
    path.write_text(
        yaml.safe_dump(
            {"current-context": "a", "contexts": contexts, "users": [{"name": "u", "user": user}]}
        )
    )
    return path


def test_reading_a_kubeconfig_loads_no_models_of_kubernetes_apis() -> None:
    code = "import sys, app.kube.kubeconfig; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    modules = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert "kubernetes_asyncio.config.kube_config" in modules
    assert not [name for name in modules if name.startswith("kubernetes_asyncio.client.models")]


def test_a_library_that_was_imported_before_stays_as_it_is() -> None:
    code = "import kubernetes_asyncio, app.kube.kubeconfig; kubernetes_asyncio.client.CoreV1Api"
    subprocess.run([sys.executable, "-c", code], check=True)

"""Which command renews the credentials of a kubeconfig."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.kube.kubeconfig import renewal_of

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


def test_reading_a_kubeconfig_loads_no_models_of_kubernetes_apis() -> None:
    code = "import sys, app.kube.kubeconfig; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    modules = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert "kubernetes_asyncio.config.kube_config" in modules
    assert not [name for name in modules if name.startswith("kubernetes_asyncio.client.models")]


def test_a_library_that_was_imported_before_stays_as_it_is() -> None:
    code = "import kubernetes_asyncio, app.kube.kubeconfig; kubernetes_asyncio.client.CoreV1Api"
    subprocess.run([sys.executable, "-c", code], check=True)

"""Which command renews the credentials of a kubeconfig."""

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
        {"exec": {"command": "aws", "args": AWS, "env": [{"name": "AWS_PROFILE", "value": "on call"}]}},
        "aws sso login --profile 'on call'",
    ),
    "gke": ({"exec": {"command": "gke-gcloud-auth-plugin", "args": None}}, "gcloud auth login"),
    "another plugin, without its options": (
        {"exec": {"command": "kubectl", "args": ["oidc-login", "get-token", "--oidc-client-secret=hush"]}},
        "kubectl oidc-login get-token",
    ),
    "a token": ({"token": "abc"}, ""),
    "a plugin without a command": ({"exec": {"args": ["login"]}}, ""),
}


@pytest.mark.parametrize("name", USERS)
def test_the_command_that_renews(name: str, tmp_path: Path) -> None:
    user, expected = USERS[name]
    path = tmp_path / "config"
    contexts = [{"name": "a", "context": {"user": "u"}}, {"name": "b", "context": {"user": "absent"}}]
    path.write_text(
        yaml.safe_dump({"current-context": "a", "contexts": contexts, "users": [{"name": "u", "user": user}]})
    )
    assert (renewal_of(path), renewal_of(path, "a")) == (expected, expected)
    assert (renewal_of(path, "b"), renewal_of(path, "absent")) == ("", "")


def test_no_kubeconfig_names_no_command(tmp_path: Path) -> None:
    assert renewal_of(tmp_path / "absent") == ""

"""Write the kubeconfig of a sandbox, with a context for each of its users."""

import base64
import secrets
from pathlib import Path

import yaml

from scripts.apiserver.objects.objects import ADMIN, ALICE, GROVE, OPERATOR, User

USERS: dict[str, User] = {"admin": ADMIN, "operator": OPERATOR, "user": ALICE, "grove": GROVE}
"""The users by the names of their contexts.

`operator` is our service account, and `grove` is the service account of Grove's operator.
"""


def free_users(is_limited: bool) -> set[str]:
    """Return the users who may do everything: all users, or all except a limited `operator`."""
    names = {user.name for user in USERS.values()}
    return names - {OPERATOR.name} if is_limited else names


def new_tokens() -> dict[str, str]:
    """Return a fresh bearer token for each user."""
    return {name: secrets.token_urlsafe(24) for name in USERS}


def write(path: Path, url: str, ca: bytes, tokens: dict[str, str]) -> None:
    """Write a kubeconfig with a context for each of `tokens`.

    Only the owner can read the file. `ca` is PEM.
    """
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(ca).decode()}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "sandbox", "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}} for name, token in tokens.items()],
        "contexts": [
            {"name": name, "context": {"cluster": "sandbox", "user": name}} for name in tokens
        ],
        "current-context": "admin",
    }

    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(yaml.safe_dump(content, sort_keys=False))

"""Create the headers that let the user of a kubeconfig act as another user.

The API server then grants only the other user's permissions. See
https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
"""

import re
from collections.abc import Mapping
from typing import Any

Headers = tuple[tuple[str, str], ...]

_UNSAFE = re.compile(r"[\x00-\x1f\x7f]")


def impersonation_headers(user: Mapping[str, Any]) -> Headers:
    """Return the headers for the fields `as` and `as-groups` of a user.

    Return () if the user has neither. Raise ValueError or TypeError if a value cannot be sent
    unchanged, if there are groups without a user name, or if the user has `as-uid` or
    `as-user-extra`. These two are not supported, and a request without them would have other
    permissions.
    """
    for field in ("as-uid", "as-user-extra"):
        if user.get(field):
            raise ValueError(f"{field} is not supported")

    name = _text(user.get("as") or "", "as")
    groups = user.get("as-groups") or []
    if not isinstance(groups, list):
        raise TypeError("as-groups must be a list of strings")
    if not name:
        if groups:
            raise ValueError("as-groups needs a user name in the field as")
        return ()

    headers = (("Impersonate-Group", _text(group, "as-groups")) for group in groups)
    return (("Impersonate-User", name), *headers)


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str) or _UNSAFE.search(value) or value != value.strip():
        raise ValueError(f"{field} has {value!r}, which cannot be sent in an HTTP header")
    return value

"""Impersonation: the user of a kubeconfig acts as somebody else, with the rights of that one only.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
"""

import re
from collections.abc import Mapping
from typing import Any

Headers = tuple[tuple[str, str], ...]

_UNSAFE = re.compile(r"[\x00-\x1f\x7f]")


def impersonation_headers(user: Mapping[str, Any]) -> Headers:
    """Return the headers for the fields `as` and `as-groups` of a user.

    Empty if it has neither. Raise ValueError or TypeError if they can't be followed exactly, and
    for `as-uid` and `as-user-extra`: a request without them would have other rights.
    """
    for field in ("as-uid", "as-user-extra"):
        if user.get(field):
            raise ValueError(f"{field} is not supported")

    name = _text(user.get("as") or "", "as")
    groups = user.get("as-groups") or []
    if not isinstance(groups, list):
        raise TypeError("as-groups must be a list of texts")
    if not name:
        if groups:
            raise ValueError("as-groups needs the field as")
        return ()

    headers = (("Impersonate-Group", _text(group, "as-groups")) for group in groups)
    return (("Impersonate-User", name), *headers)


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str) or _UNSAFE.search(value) or value != value.strip():
        raise ValueError(f"{field} has {value!r}, which can't be sent")
    return value

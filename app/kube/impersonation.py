"""Impersonation: the user of a kubeconfig acts as somebody else, with the rights of that one only.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

Headers = tuple[tuple[str, str], ...]

_UNSAFE = re.compile(r"[\x00-\x1f\x7f]")
_NOT_IN_NAMES = re.compile(r"[^a-z0-9!#$&'*+.^_`|~-]")


def impersonation_headers(user: Mapping[str, Any]) -> Headers:
    """Return the headers for the fields `as`, `as-uid`, `as-groups` and `as-user-extra` of a user.

    Empty if it has none of them. Raise ValueError or TypeError if they can't be followed
    exactly: a request without them would have other rights.
    """
    name = _text(user.get("as") or "", "as")
    others = (
        *_groups(user.get("as-groups") or []),
        *_uid(user.get("as-uid") or ""),
        *_extra(user.get("as-user-extra") or {}),
    )
    if others and not name:
        raise ValueError("as-uid, as-groups and as-user-extra need the field as")
    return (("Impersonate-User", name), *others) if name else ()


def _groups(groups: Any) -> Iterator[tuple[str, str]]:
    for group in _list(groups, "as-groups"):
        yield "Impersonate-Group", _text(group, "as-groups")


def _uid(uid: Any) -> Iterator[tuple[str, str]]:
    if uid:
        yield "Impersonate-Uid", _text(uid, "as-uid")


def _extra(extra: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(extra, dict):
        raise TypeError("as-user-extra must be a map of lists")
    for key, values in extra.items():
        for value in _list(values, "as-user-extra"):
            yield f"Impersonate-Extra-{_escaped(str(key))}", _text(value, "as-user-extra")


def _list(value: Any, field: str) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"{field} must have lists of texts")
    return value


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str) or _UNSAFE.search(value) or value != value.strip():
        raise ValueError(f"{field} has {value!r}, which can't be sent")
    return value


def _escaped(key: str) -> str:
    """Return the key of an extra field as the API server expects it in the name of a header."""
    return _NOT_IN_NAMES.sub(_percent, key.lower())


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode())

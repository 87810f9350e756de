"""Validate `metadata`: its fields and their types, names, labels, annotations and owner references.

The rules are those of ValidateObjectMeta:
https://github.com/kubernetes/apimachinery/blob/v0.34.0/pkg/api/validation/objectmeta.go
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from scripts.apiserver.objects import errors
from scripts.apiserver.objects.errors import cause, shown
from scripts.apiserver.objects.objects import Object, metadata
from scripts.apiserver.objects.resources import NAMESPACES, Served


class _ObjectMeta(msgspec.Struct):
    """The fields of metadata, with types for those that clients set."""

    name: str | None = None
    generateName: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resourceVersion: str | None = None
    selfLink: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    ownerReferences: list[Object] | None = None
    creationTimestamp: Any = None
    deletionTimestamp: Any = None
    deletionGracePeriodSeconds: Any = None
    generation: Any = None
    managedFields: Any = None


_PATH_SEGMENTS = {"roles", "rolebindings", "clusterroles", "clusterrolebindings"}
_PART = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_ENDS = "and must start and end with an alphanumeric character"

Rule = tuple[re.Pattern[str], str]
"""A pattern that must match the whole text, and the rule in words."""

_SEGMENT: Rule = re.compile("[^/%]+"), "may not contain '/' or '%'"
_LABEL: Rule = (
    re.compile(rf"(?=.{{1,63}}\Z){_PART}"),
    "a lowercase RFC 1123 label must consist of at most 63 lower case alphanumeric characters or"
    " '-', " + _ENDS,
)
_SUBDOMAIN: Rule = (
    re.compile(rf"(?=.{{1,253}}\Z){_PART}(\.{_PART})*"),
    "a lowercase RFC 1123 subdomain must consist of at most 253 lower case alphanumeric characters,"
    " '-' or '.', " + _ENDS,
)
_KEY: Rule = (
    re.compile(rf"((?=[^/]{{1,253}}/){_PART}(\.{_PART})*/)?{_QUALIFIED}"),
    (
        "a qualified name must consist of at most 63 alphanumeric characters, '-', '_' or '.', "
        f"{_ENDS} with an optional DNS subdomain prefix and '/'"
    ),
)
_VALUE: Rule = (
    re.compile(f"({_QUALIFIED})?"),
    "a valid label must be an empty string or consist of at most 63 alphanumeric characters, '-',"
    " '_' or '.', " + _ENDS,
)


def prune(obj: Object) -> list[str]:
    """Remove unknown fields of the metadata and return their paths.

    Raise 400 for a field of the wrong type.
    """
    meta = metadata(obj)
    try:
        msgspec.convert(meta, _ObjectMeta)
    except msgspec.ValidationError as error:
        raise errors.bad_request(f"metadata: {error}") from error

    dropped = [name for name in meta if name not in _ObjectMeta.__struct_fields__]
    for name in dropped:
        del meta[name]
    return [f"metadata.{name}" for name in dropped]


def check(served: Served, obj: Object) -> None:
    """Raise 422 with all errors in the metadata of `obj`."""
    meta = metadata(obj)
    causes = [
        *_name_causes(served, meta.get("name") or ""),
        *label_causes(meta.get("labels") or {}),
        *(
            item
            for key in meta.get("annotations") or {}
            for item in _causes(key.lower(), _KEY, "annotations")
        ),
        *_owner_causes(meta.get("ownerReferences") or []),
    ]
    if causes:
        raise errors.invalid((served.group, served.kind), meta.get("name") or "", causes)


def _causes(text: str, rule: Rule, *path: str | int) -> Iterator[Object]:
    if not rule[0].fullmatch(text):
        yield cause("Invalid", f"Invalid value: {shown(text)}: {rule[1]}", ("metadata", *path))


def _name_causes(served: Served, name: str) -> Iterator[Object]:
    if not name:
        yield cause(
            "Required", "Required value: name or generateName is required", ("metadata", "name")
        )
    elif served.plural in _PATH_SEGMENTS:
        yield from _causes(name, _SEGMENT, "name")
    else:
        yield from _causes(name, _LABEL if served.table == NAMESPACES else _SUBDOMAIN, "name")


def label_causes(labels: dict[str, str]) -> Iterator[Object]:
    """Yield the causes why labels are not valid, with the field `metadata.labels`."""
    for key, value in labels.items():
        yield from _causes(key, _KEY, "labels")
        yield from _causes(value, _VALUE, "labels")


def _owner_causes(owners: list[Any]) -> Iterator[Object]:
    for index, owner in enumerate(owners):
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                path = ("metadata", "ownerReferences", index, key)
                yield cause("Invalid", f'Invalid value: "": {key} must not be empty', path)

    if sum(owner.get("controller") is True for owner in owners) > 1:
        rule = "Only one reference can have Controller set to true"
        yield cause(
            "Invalid",
            f"Invalid value: {len(owners)} references: {rule}",
            ("metadata", "ownerReferences"),
        )

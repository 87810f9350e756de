"""Validation of `metadata`: its fields and their types, names, labels, annotations and owner references.

The rules and messages are those of ValidateObjectMeta, without examples and regular expressions:
https://github.com/kubernetes/apimachinery/blob/v0.34.0/pkg/api/validation/objectmeta.go
"""

import re
from collections.abc import Iterator
from typing import Any

import orjson

from app.sandbox.objects import errors
from app.sandbox.objects.objects import Object, metadata
from app.sandbox.objects.resources import Served

_TEXTS = ("name", "generateName", "namespace", "uid", "resourceVersion", "selfLink")
_SERVER_FIELDS = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields")
_MAPS, _LISTS = ("labels", "annotations"), {"finalizers": str, "ownerReferences": dict}
_FIELDS = frozenset((*_TEXTS, *_SERVER_FIELDS, *_MAPS, *_LISTS))
_SHAPES = {str: "strings", dict: "objects"}

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PATH_SEGMENTS = {"roles", "rolebindings", "clusterroles", "clusterrolebindings"}
_ANNOTATIONS_LIMIT = 256 * 1024

_ENDS = "and must start and end with an alphanumeric character"
_CHARACTERS = f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"
_SUBDOMAIN_RULE = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS}"
)
_LABEL_RULE = f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS}"
_KEY_RULE = f"a qualified name {_CHARACTERS} with an optional DNS subdomain prefix and '/'"
_VALUE_RULE = f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"

Finding = tuple[str, str, str]
"""Reason without its prefix `FieldValue`, message, and field."""


def prune(obj: Object) -> list[str]:
    """Removes unknown fields of the metadata and returns their paths. Raises 400 for a field of the wrong type."""
    meta = metadata(obj)
    _check_shape(meta)
    dropped = [name for name in meta if name not in _FIELDS]
    for name in dropped:
        del meta[name]
    return [f"metadata.{name}" for name in dropped]


def _check_shape(meta: Object) -> None:
    for name in _TEXTS:
        if not isinstance(meta.get(name) or "", str):
            raise errors.bad_request(f"metadata.{name} must be a string")
    for name in _MAPS:
        pairs = meta.get(name) or {}
        if not isinstance(pairs, dict) or not all(isinstance(value, str) for value in pairs.values()):
            raise errors.bad_request(f"metadata.{name} must be a map of strings")
    for name, kind in _LISTS.items():
        items = meta.get(name) or []
        if not isinstance(items, list) or not all(isinstance(item, kind) for item in items):
            raise errors.bad_request(f"metadata.{name} must be a list of {_SHAPES[kind]}")


def check(served: Served, obj: Object) -> None:
    """Raises 422 with all problems of the metadata of `obj`."""
    meta = metadata(obj)
    problems = [
        *_name_problems(served, meta.get("name") or ""),
        *label_problems(meta.get("labels") or {}),
        *_annotation_problems(meta.get("annotations") or {}),
        *_owner_problems(meta.get("ownerReferences") or []),
    ]
    if problems:
        causes = [{"reason": f"FieldValue{kind}", "message": text, "field": field} for kind, text, field in problems]
        raise errors.invalid(served.group, served.kind, meta.get("name") or "", causes)


def _invalid(value: str, rule: str, field: str) -> Finding:
    return "Invalid", f"Invalid value: {orjson.dumps(value).decode()}: {rule}", field


def _name_problems(served: Served, name: str) -> Iterator[Finding]:
    if not name:
        yield "Required", "Required value: name or generateName is required", "metadata.name"
    elif served.plural in _PATH_SEGMENTS:
        for char in ("/", "%"):
            if char in name:
                yield _invalid(name, f"may not contain '{char}'", "metadata.name")
    else:
        is_label = served.table == ("", "namespaces")
        shape, rule, limit = (_LABEL, _LABEL_RULE, 63) if is_label else (_SUBDOMAIN, _SUBDOMAIN_RULE, 253)
        if problem := _problem(name, shape, rule, limit):
            yield _invalid(name, problem, "metadata.name")


def _problem(text: str, shape: re.Pattern[str], rule: str, limit: int) -> str:
    if len(text) > limit:
        return f"must be no more than {limit} bytes"
    return "" if shape.fullmatch(text) else rule


def label_problems(labels: dict[str, str]) -> Iterator[Finding]:
    """The problems of labels, with the field `metadata.labels`."""
    for key, value in labels.items():
        if problem := _key_problem(key):
            yield _invalid(key, problem, "metadata.labels")
        if value and (problem := _problem(value, _QUALIFIED, _VALUE_RULE, 63)):
            yield _invalid(value, problem, "metadata.labels")


def _annotation_problems(annotations: dict[str, str]) -> Iterator[Finding]:
    for key in annotations:
        if problem := _key_problem(key.lower()):
            yield _invalid(key, problem, "metadata.annotations")
    if sum(len(text.encode()) for item in annotations.items() for text in item) > _ANNOTATIONS_LIMIT:
        yield "TooLong", f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes", "metadata.annotations"


def _key_problem(key: str) -> str:
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return _KEY_RULE
    if slash and (problem := _problem(prefix, _SUBDOMAIN, _SUBDOMAIN_RULE, 253)):
        return f"prefix part {problem}"
    problem = _problem(name, _QUALIFIED, _CHARACTERS, 63)
    return f"name part {problem}" if problem else ""


def _owner_problems(owners: list[Any]) -> Iterator[Finding]:
    for index, owner in enumerate(owners):
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                yield _invalid("", f"{key} must not be empty", f"metadata.ownerReferences[{index}].{key}")
    controllers = [str(owner.get("name")) for owner in owners if owner.get("controller") is True]
    if len(controllers) > 1:
        rule = "Only one reference can have Controller set to true"
        names = f'Found "true" in references for {" and ".join(controllers)}'
        yield "Invalid", f"Invalid value: {len(owners)} references: {rule}. {names}", "metadata.ownerReferences"

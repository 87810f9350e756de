"""Build field paths, and findings about fields in the wording of Kubernetes.

Source:
https://github.com/kubernetes/apimachinery/blob/release-1.35/pkg/util/validation/field/errors.go
"""

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Self

from msgspec import field

from app.base.value import Value
from app.objects.shape import JsonMap

REASON_INVALID = "FieldValueInvalid"
REASON_NOT_SUPPORTED = "FieldValueNotSupported"
REASON_DUPLICATE = "FieldValueDuplicate"
REASON_NOT_FOUND = "FieldValueNotFound"
REASON_REQUIRED = "FieldValueRequired"
REASON_FORBIDDEN = "FieldValueForbidden"
REASON_TYPE = "FieldValueTypeInvalid"
REASON_TOO_MANY = "FieldValueTooMany"

MOST_ITEMS = 10_000
"""The maximum number of items of a list that rules check.

An API server stores at most 1.5 MiB of an object, including managedFields, so no stored
PodCliqueSet has that many cliques. `rules/subgroups` allows a longer list if all items are valid
and each parent precedes its children.
"""

_MAX_QUOTED = 200
"""The maximum length of a quoted value, in characters. The rest is truncated."""

_to_json = json.JSONEncoder(ensure_ascii=False, default=str).encode
"""One encoder for all findings. `json.dumps` would create one for each of up to 20,000 findings."""


class FieldError(Value):
    """A finding about one field of an object."""

    field: str
    """The path of the field, such as `spec.levels[0].key`."""
    reason: str
    """A cause type of Kubernetes, such as `FieldValueInvalid`."""
    message: str
    """The finding without the path."""
    text: str = ""
    """The whole finding for people, or "" for `field: message`."""

    def __str__(self) -> str:
        return self.text or f"{self.field}: {self.message}"


Findings = list[FieldError]


class FieldPath(Value):
    """The path of a field. `str` returns its text, such as `spec.template.cliques[0].name`."""

    step: str | int
    """The last step: the position in a list, or the text that `str` adds to that of `parent`."""
    parent: "FieldPath | None" = None
    """The path before the last step, or None if there is only one step."""

    def child(self, name: str) -> "FieldPath":
        """Return the path of the field `name`, which may also be a path, such as `spec.levels`."""
        return FieldPath(f".{name}", self)

    def index(self, position: int) -> "FieldPath":
        """Return the path of the list item at `position`, which counts from 0."""
        return FieldPath(position, self)

    def key(self, name: str) -> "FieldPath":
        """Return the path of the map entry with the key `name`, such as a label."""
        return FieldPath(f"[{name}]", self)

    def __str__(self) -> str:
        steps: list[str] = []
        path: FieldPath | None = self
        while path is not None:
            step = path.step
            steps.append(f"[{step}]" if isinstance(step, int) else step)
            path = path.parent
        return "".join(reversed(steps)).removeprefix(".")


def quote(value: Any) -> str:
    """Return `value` as one line of JSON for people.

    Characters that can't be printed are escaped. JSON of more than _MAX_QUOTED characters is
    truncated. A value that is nested too deeply for JSON is replaced by a text that says so.
    """
    length = 0
    if isinstance(value, str):
        length = len(value) + 2
        value = value[:_MAX_QUOTED]  # before encoding, because many findings may quote a long text
    try:
        text = _to_json(value)
    except RecursionError:
        return "(nested too deeply to be shown)"
    if not text.isprintable():
        text = json.dumps(value, default=str)
    length = max(length, len(text))
    return text if length <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}... ({length} characters)"


def invalid(path: FieldPath, value: Any, detail: str) -> FieldError:
    """Return the finding that `value` is not valid, for the reason in `detail`."""
    return FieldError(str(path), REASON_INVALID, f"Invalid value: {quote(value)}: {detail}")


def not_supported(path: FieldPath, value: Any, allowed: Iterable[str]) -> FieldError:
    """Return the finding that `value` is not one of the `allowed` values."""
    supported = _all_quoted(tuple(allowed))
    return FieldError(
        str(path),
        REASON_NOT_SUPPORTED,
        f"Unsupported value: {quote(value)}: supported values: {supported}",
    )


@lru_cache(maxsize=64)
def _all_quoted(allowed: tuple[str, ...]) -> str:
    # cached, because a review may have 20,000 findings with the same list
    return ", ".join(map(quote, allowed))


def duplicate(path: FieldPath, value: Any) -> FieldError:
    """Return the finding that an earlier item already has `value`, which must be unique."""
    return FieldError(str(path), REASON_DUPLICATE, f"Duplicate value: {quote(value)}")


def required(path: FieldPath, detail: str) -> FieldError:
    """Return the finding that a value is missing. `detail` says which one."""
    return FieldError(str(path), REASON_REQUIRED, f"Required value: {detail}")


def forbidden(path: FieldPath, detail: str) -> FieldError:
    """Return the finding that a value or a change is not allowed, for the reason in `detail`."""
    return FieldError(str(path), REASON_FORBIDDEN, f"Forbidden: {detail}")


def wrong_type(path: FieldPath, value: Any, expected: str) -> FieldError:
    """Return the finding that `value` is not of the `expected` type, such as "a map"."""
    return FieldError(str(path), REASON_TYPE, f"Invalid value: {quote(value)}: must be {expected}")


def too_many(path: FieldPath, items: Sequence[Any]) -> FieldError:
    """Return the finding that a list has more than MOST_ITEMS items."""
    message = f"Too many: {len(items)}: must have at most {MOST_ITEMS} items"
    return FieldError(str(path), REASON_TOO_MANY, message)


def listed(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first `most` of `texts`, and the number of the others, as `a, b and 3 more`."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return f"{separator.join(texts[:most])}{more}"


class CheckedMap(Value):
    """A map in an object, whose fields are checked when they are read.

    A field of the wrong type, or a list of more than MOST_ITEMS, is noted as a finding and counts
    as absent. A field that is absent or null is not a finding.
    """

    content: JsonMap
    """The map itself, unchecked."""
    findings: Findings = field(default_factory=list)
    """The findings about the whole object, a list that all maps of the object share."""
    step: str | int = ""
    """The map's field name or list position, or "" for a whole object."""
    parent: Self | FieldPath | None = None
    """The enclosing map or its path, or None for a whole object."""

    @property
    def path(self) -> FieldPath:
        """The path of this map in the whole object."""
        parent = self.parent
        if parent is None:
            return FieldPath("")
        above = parent.path if isinstance(parent, CheckedMap) else parent
        return above.index(self.step) if isinstance(self.step, int) else above.child(self.step)

    def child(self, name: str) -> "CheckedMap":
        """Return the map in the field `name`, or an empty map if there is none."""
        return CheckedMap(self.map_at(name), self.findings, name, self)

    def children(self, name: str) -> "list[CheckedMap]":
        """Return the maps in the list in the field `name`. Items of other types become findings."""
        items = self.list_at(name)
        if not items:
            return []
        parent = CheckedMap({}, self.findings, name, self)
        maps = []
        for position, item in enumerate(items):
            if isinstance(item, dict):
                maps.append(CheckedMap(item, self.findings, position, parent))
            else:
                self.findings.append(wrong_type(parent.path.index(position), item, "a map"))
        return maps

    def map_at(self, name: str) -> JsonMap:
        """Return the map in the field `name` unchecked, or an empty map if there is none."""
        value = self.content.get(name)
        if isinstance(value, dict):
            return value
        if value is not None:
            self.findings.append(wrong_type(self.path.child(name), value, "a map"))
        return {}

    def list_at(self, name: str) -> list[Any]:
        """Return the list in the field `name`, or an empty list if there is none."""
        value = self.content.get(name)
        if isinstance(value, list):
            if len(value) <= MOST_ITEMS:
                return value
            self.findings.append(too_many(self.path.child(name), value))
        elif value is not None:
            self.findings.append(wrong_type(self.path.child(name), value, "a list"))
        return []

    def text_at(self, name: str) -> str:
        """Return the string in the field `name`, or an empty string if there is none."""
        value = self.content.get(name)
        if value is None or isinstance(value, str):
            return value or ""
        self.findings.append(wrong_type(self.path.child(name), value, "a string"))
        return ""

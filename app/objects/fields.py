"""Field paths and findings, worded as Kubernetes words them (apimachinery `util/validation/field`)."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

REASON_INVALID = "FieldValueInvalid"
REASON_NOT_SUPPORTED = "FieldValueNotSupported"
REASON_DUPLICATE = "FieldValueDuplicate"
REASON_NOT_FOUND = "FieldValueNotFound"
REASON_REQUIRED = "FieldValueRequired"
REASON_FORBIDDEN = "FieldValueForbidden"
REASON_TYPE = "FieldValueTypeInvalid"

_SHOWN = 200


@dataclass(frozen=True, slots=True)
class FieldError:
    """One finding about the user's object.

    `field` is a JSON path that exists in the CRD, `reason` a Kubernetes cause type, `message` the finding without
    the field. `text` is what a person reads; it is `field: message` unless a document gives the words.
    """

    field: str
    reason: str
    message: str
    text: str = ""

    def __str__(self) -> str:
        return self.text or f"{self.field}: {self.message}"


class FieldPath:
    """A path such as `spec.template.cliques[0].name`. Steps are linked, and joined only if something is wrong."""

    __slots__ = ("_parent", "_step")

    def __init__(self, step: str, parent: "FieldPath | None" = None) -> None:
        self._step = step
        self._parent = parent

    def child(self, *names: str) -> "FieldPath":
        return FieldPath("." + ".".join(names), self)

    def index(self, position: int) -> "FieldPath":
        return FieldPath(f"[{position}]", self)

    def key(self, name: str) -> "FieldPath":
        return FieldPath(f"[{name}]", self)

    def __str__(self) -> str:
        steps: list[str] = []
        path: FieldPath | None = self
        while path is not None:
            steps.append(path._step)
            path = path._parent
        return "".join(reversed(steps)).removeprefix(".")


def quote(value: Any) -> str:
    """`value` as a person can read it on one line: JSON, control characters escaped, shortened."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return "(nested too deeply to be shown)"
    if not text.isprintable():
        text = json.dumps(value, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"


def invalid(path: FieldPath, value: Any, detail: str) -> FieldError:
    return FieldError(str(path), REASON_INVALID, f"Invalid value: {quote(value)}: {detail}")


def not_supported(path: FieldPath, value: Any, allowed: Iterable[str]) -> FieldError:
    listed = ", ".join(quote(value) for value in allowed)
    return FieldError(str(path), REASON_NOT_SUPPORTED, f"Unsupported value: {quote(value)}: supported values: {listed}")


def duplicate(path: FieldPath, value: Any) -> FieldError:
    return FieldError(str(path), REASON_DUPLICATE, f"Duplicate value: {quote(value)}")


def required(path: FieldPath, detail: str) -> FieldError:
    return FieldError(str(path), REASON_REQUIRED, f"Required value: {detail}")


def forbidden(path: FieldPath, detail: str) -> FieldError:
    return FieldError(str(path), REASON_FORBIDDEN, f"Forbidden: {detail}")


def wrong_type(path: FieldPath, value: Any, expected: str) -> FieldError:
    return FieldError(str(path), REASON_TYPE, f"Invalid value: {quote(value)}: must be {expected}")


def summary(findings: Sequence[FieldError]) -> str:
    """All findings on one line, in list order: one as it is, several as `[a, b]`, as the API server prints them."""
    if len(findings) == 1:
        return str(findings[0])
    return f"[{', '.join(map(str, findings))}]"


def walk_list(holder: Any, name: str, path: FieldPath, findings: list[FieldError]) -> list[Any]:
    """The list at `holder[name]`; absent and null are empty, anything else is a finding and empty."""
    value = holder.get(name)
    if value is None:
        return []
    if isinstance(value, list):
        return value
    findings.append(wrong_type(path.child(name), value, "a list"))
    return []


def walk_map(holder: Any, name: str, path: FieldPath, findings: list[FieldError]) -> dict[str, Any]:
    """The map at `holder[name]`; absent and null are empty, anything else is a finding and empty."""
    value = holder.get(name)
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    findings.append(wrong_type(path.child(name), value, "a map"))
    return {}


def as_map(value: Any, path: FieldPath, findings: list[FieldError]) -> dict[str, Any] | None:
    """`value` if it is a map; otherwise a finding and None."""
    if isinstance(value, dict):
        return value
    findings.append(wrong_type(path, value, "a map"))
    return None

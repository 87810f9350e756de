"""Apply structural schemas of CRDs: pruning, defaults, and validation by jsonschema and CEL rules.

An update may leave an invalid value unchanged:
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-ratcheting.
The only format that is checked is date-time.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import jsonschema
from jsonschema import Draft4Validator

from scripts.apiserver.objects import cel
from scripts.apiserver.objects.errors import Path, cause, shown
from scripts.apiserver.objects.objects import Object, at, copy

_ENVELOPE = ("apiVersion", "kind", "metadata")
_FORMATS = jsonschema.FormatChecker(formats=())


@_FORMATS.checks("date-time", raises=ValueError)
def _is_date_time(value: Any) -> bool:
    return not isinstance(value, str) or bool(datetime.fromisoformat(value))


def _matches(_: Any, pattern: str, value: Any, __: Any) -> Iterator[jsonschema.ValidationError]:
    """Yield an error if a string does not match `pattern`.

    As in Go, `$` does not match before a newline at the end.
    """
    if isinstance(value, str) and not re.search(re.sub(r"(?<!\\)\$$", r"\\Z", pattern), value):
        yield jsonschema.ValidationError(f"should match '{pattern}'")


_Validator = jsonschema.validators.extend(Draft4Validator, {"pattern": _matches})  # type: ignore[no-untyped-call]


class Schema:
    """The openAPIV3Schema of a version of a CRD."""

    def __init__(self, source: Object) -> None:
        parts = {
            name: part
            for name, part in source.get("properties", {}).items()
            if name not in _ENVELOPE
        }
        self._source = {**source, "properties": parts, "x-kubernetes-embedded-resource": True}
        self._validator = _Validator(_translated(self._source), format_checker=_FORMATS)

    def prepare(self, obj: Object) -> list[str]:
        """Remove unknown fields from `obj` and add defaults, in place.

        Return the paths of the removed fields.
        """
        dropped: list[str] = []
        _settle(obj, self._source, "", dropped)
        return [path.removeprefix(".") for path in dropped]

    def validate(self, obj: Object, old: Object | None = None) -> list[Object]:
        """Return the causes (see `errors.invalid`) why `obj` cannot replace `old`."""
        causes: list[Object] = []
        for error in sorted(
            self._validator.iter_errors(obj),
            key=lambda error: [str(step) for step in error.absolute_path],
        ):
            path = tuple(error.absolute_path)
            if old is None or at(old, *path) != at(obj, *path) or not path:
                causes.append(_cause(error, path))
        return causes or list(
            cel.broken_rules(self._source, obj, cel.MISSING if old is None else old)
        )


def _translated(schema: Object) -> Object:
    """Return the JSON Schema that is equivalent to a structural schema.

    Validators ignore the keywords of Kubernetes.
    """
    out: Object = {**schema}
    if schema.get("x-kubernetes-int-or-string"):
        out = {"type": ["integer", "string"]}
    if schema.get("nullable") and "type" in out:
        out["type"] = _with_null(out["type"])

    if "properties" in out:
        out["properties"] = {name: _translated(part) for name, part in out["properties"].items()}

    for key in ("items", "additionalProperties", "not"):
        if isinstance(out.get(key), dict):
            out[key] = _translated(out[key])

    for key in ("allOf", "anyOf", "oneOf"):
        if key in out:
            out[key] = list(map(_translated, out[key]))

    return out


def _with_null(types: str | list[str]) -> list[str]:
    return [types, "null"] if isinstance(types, str) else [*types, "null"]


def _settle(value: Any, schema: Object, path: str, dropped: list[str]) -> None:
    """Add the defaults of `schema` to `value`, and remove values that it does not allow.

    These are unknown fields, whose paths are added to `dropped`, and nulls that are not allowed.
    """
    if isinstance(value, list):
        for index, item in enumerate(value):
            _settle(item, schema.get("items") or {}, f"{path}[{index}]", dropped)
    if isinstance(value, dict):
        _add_defaults(value, schema)
        _settle_fields(value, schema, path, dropped)


def _add_defaults(obj: Object, schema: Object) -> None:
    for name, part in (schema.get("properties") or {}).items():
        is_missing = name not in obj or (obj[name] is None and not part.get("nullable"))
        if "default" in part and is_missing:
            obj[name] = copy({"": part["default"]})[""]


def _settle_fields(obj: Object, schema: Object, path: str, dropped: list[str]) -> None:
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    keeps = additional is not None or schema.get("x-kubernetes-preserve-unknown-fields")
    envelope = _ENVELOPE if schema.get("x-kubernetes-embedded-resource") else ()

    for name in list(obj):
        part = properties.get(name, additional)
        if isinstance(part, dict):
            _settle(obj[name], part, f"{path}.{name}", dropped)
            if obj[name] is None and not part.get("nullable"):
                del obj[name]
        elif not keeps and name not in envelope:
            del obj[name]
            dropped.append(f"{path}.{name}")


def _cause(error: Any, path: Path) -> Object:
    reason = "TypeInvalid" if error.validator == "type" else "Invalid"
    return cause(reason, f"Invalid value: {shown(error.instance)}: {error.message}", path)

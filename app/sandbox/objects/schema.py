"""Structural schemas of CRDs: pruning, defaults, validation by jsonschema, and the rules of x-kubernetes-validations.

Errors are causes of a 422 (`errors.invalid`). As on a real server, an update may leave a value that is already invalid
as it was (validation ratcheting). Formats are checked for date-time only.
"""

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import jsonschema
from jsonschema import Draft7Validator

from app.sandbox.objects import cel
from app.sandbox.objects.objects import Object, at, copy

_ENVELOPE = ("apiVersion", "kind", "metadata")
_KEYWORDS = (
    "type",
    "enum",
    "pattern",
    "required",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "multipleOf",
    "format",
)
_NOTHING = object()
_FIELD = re.compile(r"\.(?P<name>\w+)|\['(?P<quoted>[^']+)'\]")
_FORMATS = jsonschema.FormatChecker(formats=())


@_FORMATS.checks("date-time", raises=ValueError)
def _is_date_time(value: Any) -> bool:
    return not isinstance(value, str) or bool(datetime.fromisoformat(value))


def _matches(_: Any, pattern: str, value: Any, __: Any) -> Iterator[jsonschema.ValidationError]:
    """As Go reads a pattern: `$` is the end of the text, a newline before it isn't."""
    if isinstance(value, str) and not re.search(re.sub(r"(?<!\\)\$$", r"\\Z", pattern), value):
        yield jsonschema.ValidationError("no match")


_Validator = jsonschema.validators.extend(Draft7Validator, {"pattern": _matches})  # type: ignore[no-untyped-call]


class Schema:
    """One version's openAPIV3Schema."""

    def __init__(self, source: Object) -> None:
        self.source = source
        checked = {name: part for name, part in source.get("properties", {}).items() if name != "metadata"}
        self._validator = _Validator(_translated({**source, "properties": checked}), format_checker=_FORMATS)
        self._rules = list(_rules(source, ()))
        for _, rule, _ in self._rules:
            cel.check(rule["rule"])

    def prepare(self, obj: Object) -> list[str]:
        """Prunes and defaults `obj` in place; gives the paths of the unknown fields that it dropped."""
        dropped: list[str] = []
        for name, part in self.source.get("properties", {}).items():
            if name not in _ENVELOPE and name in obj:
                _prune(obj[name], part, name, dropped)
        if not self.source.get("x-kubernetes-preserve-unknown-fields"):
            for name in [
                name for name in obj if name not in self.source.get("properties", {}) and name not in _ENVELOPE
            ]:
                del obj[name]
                dropped.append(name)
        _default(obj, self.source)
        return dropped

    def validate(self, obj: Object, old: Object | None = None) -> list[Object]:
        """All causes for which `obj` can't be stored in the place of `old`."""
        found: list[Object] = []
        for error in sorted(
            self._validator.iter_errors(obj), key=lambda error: [str(step) for step in error.absolute_path]
        ):
            path = tuple(error.absolute_path)
            if old is None or at(old, *path) != at(obj, *path) or not path:
                found.extend(_causes(error, path))
        return found or [cause for path, rule, steps in self._rules for cause in _broken(rule, steps, obj, old, path)]


def _translated(schema: Object) -> Object:
    """The JSON Schema that checks the same as a structural schema node."""
    out: Object = {key: schema[key] for key in _KEYWORDS if key in schema}
    for flag in ("Minimum", "Maximum"):
        if out.pop(f"exclusive{flag}", None) is True:
            out[f"exclusive{flag}"] = out.pop(flag.lower())
    if schema.get("x-kubernetes-int-or-string"):
        out["type"] = ["integer", "string"]
    if schema.get("nullable") and "type" in out:
        out["type"] = [out["type"], "null"] if isinstance(out["type"], str) else [*out["type"], "null"]
    if "properties" in schema:
        out["properties"] = {name: _translated(part) for name, part in schema["properties"].items()}
    for key in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(key), dict):
            out[key] = _translated(schema[key])
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema and not schema.get("x-kubernetes-int-or-string"):
            out[key] = [_translated(part) for part in schema[key]]
    return out


def _prune(value: Any, schema: Object, path: str, dropped: list[str]) -> None:
    if isinstance(value, list):
        for index, item in enumerate(value):
            _prune(item, schema.get("items") or {}, f"{path}[{index}]", dropped)
        return
    if not isinstance(value, dict) or isinstance(schema.get("additionalProperties"), bool):
        return
    known, rest = schema.get("properties") or {}, schema.get("additionalProperties")
    keeps = rest is not None or schema.get("x-kubernetes-preserve-unknown-fields")
    envelope = _ENVELOPE if schema.get("x-kubernetes-embedded-resource") else ()
    for name in list(value):
        part = known.get(name, rest)
        if part is not None:
            _prune(value[name], part, f"{path}.{name}", dropped)
        elif not keeps and name not in envelope:
            del value[name]
            dropped.append(f"{path}.{name}")


def _default(value: Any, schema: Object) -> None:
    if isinstance(value, list):
        for item in value:
            _default(item, schema.get("items") or {})
    elif isinstance(value, dict):
        known, rest = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, part in known.items():
            if "default" in part and (name not in value or (value[name] is None and not part.get("nullable"))):
                value[name] = copy({"": part["default"]})[""]
        for name, item in list(value.items()):
            part = known.get(name, rest)
            if not isinstance(part, dict):
                continue
            if item is None and not part.get("nullable"):
                del value[name]
            _default(item, part)


def field_name(path: Iterable[str | int]) -> str:
    """`spec.levels[0].domain`; `<nil>` is what the real server calls the root."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".") or "<nil>"


def _cause(reason: str, message: str, path: Iterable[str | int]) -> Object:
    return {"reason": f"FieldValue{reason}", "message": message, "field": field_name(path)}


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return '"object"' if isinstance(value, dict) else '"array"'
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (str, bool)) else str(value)


def _causes(error: Any, path: tuple[str | int, ...]) -> Iterator[Object]:
    value, limit, name = error.instance, error.validator_value, field_name(path)
    match error.validator:
        case "required":
            missing = [key for key in limit if key not in value and f"'{key}' is a required" in error.message]
            yield from (_cause("Required", "Required value", (*path, key)) for key in missing)
        case "enum":
            allowed = ", ".join(_shown(item) for item in limit)
            yield _cause("NotSupported", f"Unsupported value: {_shown(value)}: supported values: {allowed}", path)
        case "type":
            wanted = limit if isinstance(limit, str) else ",".join(limit)
            shown = f'"{_type_name(value)}"'
            message = f"Invalid value: {shown}: {name} in body must be of type {wanted}: {shown}"
            yield _cause("TypeInvalid", message, path)
        case "maxItems" | "maxLength" | "maxProperties" as kind:
            unit = {"maxItems": "items", "maxLength": "bytes", "maxProperties": "items"}[kind]
            yield _cause("TooLong" if kind == "maxLength" else "TooMany", _too_many(kind, value, limit, unit), path)
        case _:
            yield _cause("Invalid", f"Invalid value: {_shown(value)}: {name} in body {_should(error)}", path)


def _type_name(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    return names.get(type(value), "null")


def _too_many(kind: str, value: Any, limit: int, unit: str) -> str:
    if kind == "maxLength":
        return f"Too long: may not be more than {limit} {unit}"
    return f"Too many: {len(value)}: must have at most {limit} {unit}"


def _should(error: Any) -> str:
    limit = error.validator_value
    words = {
        "pattern": f"should match '{limit}'",
        "minItems": f"should have at least {limit} items",
        "minLength": f"should be at least {limit} chars long",
        "minimum": f"should be greater than or equal to {limit}",
        "maximum": f"should be less than or equal to {limit}",
        "exclusiveMinimum": f"should be greater than {limit}",
        "exclusiveMaximum": f"should be less than {limit}",
        "uniqueItems": "shouldn't contain duplicates",
        "format": f"must be of type {limit}: {_shown(error.instance)}",
    }
    return words.get(error.validator, f"is not valid: {error.message}")


Steps = tuple[str, ...]


def _rules(schema: Object, steps: Steps, correlated: bool = True) -> Iterator[tuple[bool, Object, Steps]]:
    """(whether old values can be found, the rule, the way to its values: names, "[]" for items, "{}" for values)."""
    for rule in schema.get("x-kubernetes-validations") or ():
        yield correlated, rule, steps
    for name, part in (schema.get("properties") or {}).items():
        yield from _rules(part, (*steps, name), correlated)
    if isinstance(schema.get("items"), dict):
        yield from _rules(schema["items"], (*steps, "[]"), False)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _rules(schema["additionalProperties"], (*steps, "{}"), correlated)


def _values(
    value: Any, old: Any, steps: Steps, path: tuple[str | int, ...]
) -> Iterator[tuple[Any, Any, tuple[str | int, ...]]]:
    if not steps:
        yield value, old, path
        return
    step, rest = steps[0], steps[1:]
    if step == "[]" and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _values(item, _NOTHING, rest, (*path, index))
    elif isinstance(value, dict):
        for name in value if step == "{}" else {step} & value.keys():
            before = old.get(name, _NOTHING) if isinstance(old, dict) else _NOTHING
            yield from _values(value[name], before, rest, (*path, name))


def _broken(rule: Object, steps: Steps, obj: Object, old: Object | None, correlated: bool) -> Iterator[Object]:
    transition = re.search(r"\boldSelf\b", rule["rule"]) is not None
    for value, before, path in _values(obj, _NOTHING if old is None else old, steps, ()):
        known = correlated and before is not _NOTHING
        optional = transition and bool(rule.get("optionalOldSelf"))
        if (transition and not known and not optional) or (not transition and known and before == value):
            continue
        variables = {"self": value, **({"oldSelf": before} if known else {})}
        if optional:
            variables["oldSelf"] = cel.optional(before) if known else cel.nothing()
        try:
            if cel.holds(rule["rule"], variables):
                continue
            said = _message(rule, variables)
        except cel.CelError as error:
            said = f"rule evaluation error: {error}"
        reason = rule.get("reason", "FieldValueInvalid").removeprefix("FieldValue")
        shown = "Forbidden" if reason == "Forbidden" else f"Invalid value: {_shown(value)}"
        blamed = (match["name"] or match["quoted"] for match in _FIELD.finditer(rule.get("fieldPath", "")))
        yield _cause(reason, f"{shown}: {said}", (*path, *blamed))


def _message(rule: Object, variables: dict[str, Any]) -> str:
    fixed = str(rule.get("message") or f"failed rule: {rule['rule']}")
    if "messageExpression" not in rule:
        return fixed
    try:
        return cel.text(rule["messageExpression"], variables)
    except cel.CelError:
        return fixed

"""Evaluate CEL expressions and the CEL rules of structural schemas (`x-kubernetes-validations`).

The rules are those of
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules.
`messageExpression` and `fieldPath` are not supported.

The library common-expression-language supports the language, its standard macros and optional
values. It lacks the functions that Kubernetes adds (quantity, url, ip and others), optional field
selection (`.?x`) and the authorizer. An expression that needs one of these fails with CelError.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import cel

from scripts.apiserver.objects.errors import Path, cause, shown
from scripts.apiserver.objects.objects import Object


class CelError(Exception):
    """An expression does not compile, fails on the given values, or does not return a bool."""


@lru_cache(maxsize=2000)
def compiled(expression: str) -> Any:
    return cel.compile(expression)


def value_of(expression: str, variables: Any) -> Any:
    """Return the value of the expression. Raise CelError if the evaluation fails."""
    try:
        return compiled(expression).execute(variables)
    except KeyError as error:
        raise CelError(f"{expression}: no such key: {error.args[0]}") from error
    except (ValueError, TypeError, RuntimeError, IndexError) as error:
        raise CelError(f"{expression}: {error}") from error


def holds(expression: str, variables: dict[str, Any]) -> bool:
    """Return the value of a boolean expression. Raise CelError if it has no such value."""
    value = value_of(expression, variables)
    if not isinstance(value, bool):
        raise CelError(f"{expression}: gives {type(value).__name__}, not bool")
    return value


MISSING = object()


def broken_rules(schema: Object, value: Any, old: Any, path: Path = ()) -> Iterator[Object]:
    """Return the causes why `value`, which is valid otherwise, cannot replace `old`.

    `old` is MISSING if there is no old value.
    """
    for rule in schema.get("x-kubernetes-validations") or ():
        if message := _problem(rule, value, old):
            reason = rule.get("reason", "FieldValueInvalid").removeprefix("FieldValue")
            prefix = "Forbidden" if reason == "Forbidden" else f"Invalid value: {shown(value)}"
            yield cause(reason, f"{prefix}: {message}", path)

    if isinstance(value, list):  # items are never compared with old ones
        for index, item in enumerate(value):
            yield from broken_rules(schema.get("items") or {}, item, MISSING, (*path, index))
    elif isinstance(value, dict):
        yield from _broken_in_fields(schema, value, old, path)


def _broken_in_fields(schema: Object, value: Object, old: Any, path: Path) -> Iterator[Object]:
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    for name, item in value.items():
        part = properties.get(name, additional)
        if isinstance(part, dict):
            before = old.get(name, MISSING) if isinstance(old, dict) else MISSING
            yield from broken_rules(part, item, before, (*path, name))


def _problem(rule: Object, value: Any, before: Any) -> str:
    """Return why `value` cannot replace `before`, or "".

    A transition rule is evaluated only if there is an old value or if it has `optionalOldSelf`. Any
    other rule is evaluated only if the value has changed.
    """
    expression = rule["rule"]
    exists = before is not MISSING
    variables = {"self": value, "oldSelf": before} if exists else {"self": value}
    if re.search(r"\boldSelf\b", expression) is None:
        skipped = exists and before == value
    elif rule.get("optionalOldSelf"):
        variables["oldSelf"] = cel.OptionalValue.of(before) if exists else cel.OptionalValue.none()
        skipped = False
    else:
        skipped = not exists

    try:
        if skipped or holds(expression, variables):
            return ""
    except CelError as error:
        return f"rule evaluation error: {error}"

    return str(rule.get("message") or f"failed rule: {expression}")

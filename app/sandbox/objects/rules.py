"""The CEL rules of a structural schema (`x-kubernetes-validations`):
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules.
`messageExpression` and `fieldPath` are not supported.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.sandbox.objects import cel
from app.sandbox.objects.causes import Path, cause, shown
from app.sandbox.objects.objects import Object

_MISSING = object()


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule at one place of a schema. `steps` lead to the values that it applies to: names, "[]" for all items of a
    list and "{}" for all values of a map. `correlated` is False below a list, whose items have no old values."""

    source: Object
    steps: tuple[str, ...]
    correlated: bool

    def causes(self, obj: Object, old: Object | None) -> Iterator[Object]:
        """The causes why `obj` cannot be stored in place of `old`."""
        for value, before, path in _values(obj, _MISSING if old is None else old, self.steps, ()):
            message = self._problem(value, before if self.correlated else _MISSING)
            if message:
                reason = self.source.get("reason", "FieldValueInvalid").removeprefix("FieldValue")
                prefix = "Forbidden" if reason == "Forbidden" else f"Invalid value: {shown(value)}"
                yield cause(reason, f"{prefix}: {message}", path)

    def _problem(self, value: Any, before: Any) -> str:
        """Why `value` cannot replace `before`, or "". A transition rule is evaluated only if there is an old value or
        if it has `optionalOldSelf`. Any other rule is evaluated only if the value has changed."""
        expression, exists = self.source["rule"], before is not _MISSING
        variables = {"self": value, "oldSelf": before} if exists else {"self": value}
        if re.search(r"\boldSelf\b", expression) is None:
            skipped = exists and before == value
        elif self.source.get("optionalOldSelf"):
            variables["oldSelf"] = cel.optional(before) if exists else cel.nothing()
            skipped = False
        else:
            skipped = not exists
        try:
            if skipped or cel.holds(expression, variables):
                return ""
        except cel.CelError as error:
            return f"rule evaluation error: {error}"
        return str(self.source.get("message") or f"failed rule: {expression}")


def rules_of(schema: Object) -> Iterator[Rule]:
    """All rules of a schema, from the root down. Raises CelError for a rule that does not compile."""
    for rule in _rules(schema, (), True):
        cel.check(rule.source["rule"])
        yield rule


def _rules(schema: Object, steps: tuple[str, ...], correlated: bool) -> Iterator[Rule]:
    for source in schema.get("x-kubernetes-validations") or ():
        yield Rule(source, steps, correlated)
    for name, part in (schema.get("properties") or {}).items():
        yield from _rules(part, (*steps, name), correlated)
    if isinstance(schema.get("items"), dict):
        yield from _rules(schema["items"], (*steps, "[]"), False)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _rules(schema["additionalProperties"], (*steps, "{}"), correlated)


def _values(value: Any, old: Any, steps: tuple[str, ...], path: Path) -> Iterator[tuple[Any, Any, Path]]:
    """The values at `steps`, each with the old value and the path."""
    if not steps:
        yield value, old, path
        return
    step, following = steps[0], steps[1:]
    if step == "[]" and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _values(item, _MISSING, following, (*path, index))
    elif isinstance(value, dict):
        for name in value if step == "{}" else {step} & value.keys():
            before = old.get(name, _MISSING) if isinstance(old, dict) else _MISSING
            yield from _values(value[name], before, following, (*path, name))

"""Evaluate CEL expressions over the variables of one request, with functions that Kubernetes adds.

Supported are `indexOf`, `lastIndexOf`, `join` and `sum` of lists, `split` of texts, and the checks
of an `authorizer` for resources.
"""

from collections.abc import Callable
from typing import Any

import cel

from scripts.apiserver.objects.cel import value_of

MayDo = Callable[[dict[str, str]], bool]
"""Return whether the user of a request may do what the argument describes.

Its keys are `group`, `resource`, `namespace`, `name` and `verb`.
"""


class Scope:
    """The variables that expressions may use. `may_do` answers the checks of `authorizer`."""

    def __init__(self, variables: dict[str, Any], may_do: MayDo) -> None:
        self._context = cel.Context()
        self._context.update({**variables, **_functions(may_do)})

    def add(self, name: str, value: Any) -> None:
        """Add a variable, or replace it."""
        self._context.add_variable(name, value)

    def value(self, expression: str) -> Any:
        """Return the value of `expression`. Raise CelError if the evaluation fails."""
        return value_of(expression, self._context)


def _functions(may_do: MayDo) -> dict[str, Any]:
    """Return the functions that Kubernetes adds to CEL.

    An authorizer is a map. Each step of a check adds an entry to it.
    """
    functions: dict[str, Any] = {
        "indexOf": _index_of,
        "lastIndexOf": _last_index_of,
        "join": lambda texts, separator="": separator.join(texts),
        "split": str.split,
        "sum": sum,
        "authorizer": {},
        "allowed": lambda decision: decision["allowed"] == "true",
    }
    for step in ("group", "resource", "namespace", "name"):
        functions[step] = lambda access, value, step=step: {**access, step: value}

    def check(access: dict[str, str], verb: str) -> dict[str, str]:
        is_allowed = may_do({**access, "verb": verb})
        return {"allowed": str(is_allowed).lower()}

    return {**functions, "check": check}


def _index_of(values: list[Any], value: Any) -> int:
    if value in values:
        return values.index(value)
    return -1


def _last_index_of(values: list[Any], value: Any) -> int:
    if value in values:
        return len(values) - 1 - values[::-1].index(value)
    return -1

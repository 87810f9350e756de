"""CEL, evaluated by common-expression-language.

The library has the language, its standard macros and optional values. It lacks the functions that Kubernetes adds
(quantity, url, ip and others), optional field selection (`.?x`) and the authorizer. An expression that needs one of
these fails with CelError.
"""

from functools import lru_cache
from typing import Any, Protocol

import cel


class CelError(Exception):
    """The expression does not compile, fails on these values, or does not give a bool."""


class _Program(Protocol):
    def execute(self, context: dict[str, Any]) -> Any: ...


@lru_cache(maxsize=2000)
def _compiled(expression: str) -> _Program:
    program: _Program = cel.compile(expression)
    return program


def optional(value: Any) -> Any:
    """`value` as an optional value, for a rule with `optionalOldSelf`."""
    return cel.OptionalValue.of(value)


def nothing() -> Any:
    """The optional value without a value."""
    return cel.OptionalValue.none()


def check(expression: str) -> None:
    """Raises CelError if the expression does not compile."""
    try:
        _compiled(expression)
    except (ValueError, RuntimeError) as error:
        raise CelError(f"compilation failed: {error}") from error


def holds(expression: str, variables: dict[str, Any]) -> bool:
    """The value of the expression. Raises CelError if it has none, or if the value is not a bool."""
    check(expression)
    try:
        value = _compiled(expression).execute(variables)
    except KeyError as error:
        raise CelError(f"{expression}: no such key: {error.args[0]}") from error
    except (ValueError, TypeError, RuntimeError, IndexError) as error:
        raise CelError(f"{expression}: {error}") from error
    if not isinstance(value, bool):
        raise CelError(f"{expression}: gives {type(value).__name__}, not bool")
    return value

"""CEL through common-expression-language: compiled once, asked often.

The library knows the language, its standard macros and optional values, not Kubernetes' extra functions (quantity,
url, ip, ...), optional field selection (`.?x`) or the authorizer: an expression that needs them fails, and is reported
as such.
"""

from functools import lru_cache
from typing import Any, Protocol

import cel


class CelError(Exception):
    """The expression doesn't compile, fails on these values, or gives another type than asked for."""


class _Program(Protocol):
    def execute(self, context: dict[str, Any]) -> Any: ...


@lru_cache(maxsize=2000)
def _compiled(expression: str) -> _Program:
    program: _Program = cel.compile(expression)
    return program


def optional(value: Any) -> Any:
    """An optional value, as a rule with `optionalOldSelf` gets it: `hasValue()` is true of it."""
    return cel.OptionalValue.of(value)


def nothing() -> Any:
    """The optional value of which `hasValue()` is false."""
    return cel.OptionalValue.none()


def check(expression: str) -> None:
    """Raises CelError if the expression doesn't compile."""
    try:
        _compiled(expression)
    except (ValueError, RuntimeError) as error:
        raise CelError(f"compilation failed: {error}") from error


def holds(expression: str, variables: dict[str, Any]) -> bool:
    return bool(_value(expression, variables, bool))


def text(expression: str, variables: dict[str, Any]) -> str:
    return str(_value(expression, variables, str))


def _value(expression: str, variables: dict[str, Any], wanted: type) -> Any:
    check(expression)
    try:
        result = _compiled(expression).execute(variables)
    except (ValueError, TypeError, KeyError, RuntimeError, IndexError) as error:
        raise CelError(f"{expression}: {_said(error)}") from error
    if not isinstance(result, wanted):
        raise CelError(f"{expression}: gives {type(result).__name__}, not {wanted.__name__}")
    return result


def _said(error: Exception) -> str:
    return f"no such key: {error.args[0]}" if isinstance(error, KeyError) else str(error)

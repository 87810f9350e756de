"""CEL, evaluated by common-expression-language.

The library has the language, its standard macros and optional values. It lacks the functions that Kubernetes adds
(quantity, url, ip and others), optional field selection (`.?x`) and the authorizer. An expression that needs one of
these fails with CelError.
"""

from functools import lru_cache
from typing import Any

import cel


class CelError(Exception):
    """The expression does not compile, fails on these values, or does not give a bool."""


@lru_cache(maxsize=2000)
def _compiled(expression: str) -> Any:
    return cel.compile(expression)


def optional(*values: Any) -> Any:
    """An optional value, with a value if one is given, for a rule with `optionalOldSelf`."""
    return cel.OptionalValue.of(*values) if values else cel.OptionalValue.none()


def holds(expression: str, variables: dict[str, Any]) -> bool:
    """The value of the expression. Raises CelError if it has none, or if the value is not a bool."""
    try:
        value = _compiled(expression).execute(variables)
    except KeyError as error:
        raise CelError(f"{expression}: no such key: {error.args[0]}") from error
    except (ValueError, TypeError, RuntimeError, IndexError) as error:
        raise CelError(f"{expression}: {error}") from error
    if not isinstance(value, bool):
        raise CelError(f"{expression}: gives {type(value).__name__}, not bool")
    return value

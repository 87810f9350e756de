"""The part of kubectl's JSONPath that printer columns use: names, quoted names, indexes, slices, [*], .* and filters
(`[?(@.a=="b")]`, `[?(@.n>1)]`, `[?(@.a)]`). As in client-go's util/jsonpath.
"""

import operator
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import orjson

Step = Callable[[Any], Iterable[Any]]

_TOKEN = re.compile(
    r"""\.(?P<any>\*)
    |\.(?P<name>(?:\\.|[^.\[\]\\*])+)
    |\[(?P<index>-?\d+)\]
    |\[(?P<start>-?\d*):(?P<end>-?\d*)\]
    |\[(?P<all>\*)\]
    |\['(?P<quoted>(?:\\.|[^'\\])+)'\]
    |\[\?\(\s*@(?P<key>\.[^\s=!<>)]+)\s*
      (?:(?P<operator>[=!]=|[<>]=?)\s*(?P<value>"[^"]*"|'[^']*'|-?\d+(?:\.\d+)?|true|false)\s*)?\)\]""",
    re.VERBOSE,
)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class _MismatchError(Exception):
    """A filter compares values of two types: the whole path gives nothing then."""


def find(path: str, obj: Any) -> list[Any]:
    """All values at `path`; [] also if the path can't be read, or compares values of two types."""
    try:
        return _found(path, obj)
    except _MismatchError:
        return []


def _found(path: str, obj: Any) -> list[Any]:
    values = [obj]
    for step in _parsed(path):
        values = [found for value in values for found in step(value)]
    return values


@lru_cache(maxsize=500)
def _parsed(path: str) -> tuple[Step, ...]:
    steps, rest = [], path
    while rest:
        match = _TOKEN.match(rest)
        if not match:
            return (lambda _: (),)
        steps.append(_step(match))
        rest = rest[match.end() :]
    return tuple(steps)


def _step(match: re.Match[str]) -> Step:
    if match["any"]:
        return lambda value: value.values() if isinstance(value, dict) else _items(value)
    if match["index"] is not None:
        index = int(match["index"])
        return _slice(index, index + 1 or None)
    if match["start"] is not None:
        return _slice(*(int(match[bound]) if match[bound] else None for bound in ("start", "end")))
    if match["all"]:
        return _items
    if match["key"]:
        return _filter(match["key"], match["operator"], match["value"])
    name = re.sub(r"\\(.)", r"\1", match["quoted"] or match["name"])
    return lambda value: (value[name],) if isinstance(value, dict) and name in value else ()


def _items(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else ()


def _slice(start: int | None, end: int | None) -> Step:
    return lambda value: value[start:end] if isinstance(value, list) else ()


def _filter(key: str, comparison: str | None, literal: str | None) -> Step:
    if not comparison or not literal:
        return lambda value: [item for item in _items(value) if _found(key, item)]
    compare = _COMPARE[comparison]
    wanted = literal[1:-1] if literal[0] in "\"'" else orjson.loads(literal)

    def holds(found: Any) -> bool:
        if type(found) is not type(wanted):
            raise _MismatchError
        return compare(found, wanted)

    return lambda value: [item for item in _items(value) if any(holds(found) for found in _found(key, item))]

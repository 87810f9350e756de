"""The part of kubectl's JSONPath that printer columns use: names, quoted names, indexes, [*] and [?(@.a=="b")]."""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

Step = Callable[[Any], Iterable[Any]]

_TOKEN = re.compile(
    r"""\.(?P<name>(?:\\.|[^.\[\]\\])+)
    |\[(?P<index>-?\d+)\]
    |\[(?P<all>\*)\]
    |\['(?P<quoted>[^']+)'\]
    |\[\?\(@\.(?P<key>[\w.-]+)\s*==\s*["'](?P<value>[^"']*)["']\s*\)\]""",
    re.VERBOSE,
)


def find(path: str, obj: Any) -> list[Any]:
    """All values at `path`; [] also where the path can't be read."""
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
    if match["index"] is not None:
        return _item(int(match["index"]))
    if match["all"]:
        return lambda value: value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    if match["key"]:
        return _filter(match["key"], match["value"])
    name = match["quoted"] or re.sub(r"\\(.)", r"\1", match["name"])
    return lambda value: (value[name],) if isinstance(value, dict) and name in value else ()


def _item(index: int) -> Step:
    return lambda value: value[index : index + 1 or None] if isinstance(value, list) else ()


def _filter(key: str, wanted: str) -> Step:
    def matching(value: Any) -> Iterable[Any]:
        items = value if isinstance(value, list) else ()
        return [item for item in items if [str(found) for found in find(f".{key}", item)] == [wanted]]

    return matching

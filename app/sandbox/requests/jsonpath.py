"""The JSONPath of printer columns: names, indexes, `[*]`, and filters that compare with a text, as in
`.status.conditions[?(@.type=="Ready")].status`. The whole language is described at
https://kubernetes.io/docs/reference/kubectl/jsonpath/.
"""

import re
from collections.abc import Iterable
from typing import Any

from app.sandbox.objects.objects import at

_STEP = re.compile(
    r"""\.(?P<name>(?:\\.|[^.\[\]\\])+)
    |\[(?P<index>-?\d+|\*)\]
    |\[\?\(\s*@\.(?P<key>[\w.]+)\s*==\s*(?P<quote>["'])(?P<value>.*?)(?P=quote)\s*\)\]""",
    re.VERBOSE,
)


def find(path: str, obj: Any) -> list[Any]:
    """All values at `path` in `obj`; [] if there is none, or if `path` has anything else than the steps above."""
    values, position = [obj], 0
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            return []
        values = [part for value in values for part in _parts(step, value)]
        position = step.end()
    return values


def _parts(step: re.Match[str], value: Any) -> Iterable[Any]:
    if step["name"]:
        name = re.sub(r"\\(.)", r"\1", step["name"])
        return [value[name]] if isinstance(value, dict) and name in value else []
    if not isinstance(value, list):
        return []
    if step["key"]:
        return [item for item in value if at(item, *step["key"].split(".")) == step["value"]]
    if step["index"] == "*":
        return value
    index = int(step["index"])
    return value[index : index + 1 or None]

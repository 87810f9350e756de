"""The causes of a 422: what is wrong with which field."""

import json
from collections.abc import Iterable
from typing import Any

from app.sandbox.objects.objects import Object

Path = tuple[str | int, ...]
"""Names of fields and indexes of items."""


def cause(reason: str, message: str, path: Path) -> Object:
    """A StatusCause. `reason` is without its prefix `FieldValue`."""
    return {"reason": f"FieldValue{reason}", "message": message, "field": field_name(path)}


def field_name(path: Iterable[str | int]) -> str:
    """`path` as text, such as `spec.levels[0].domain`; `<nil>` for the whole object, as in kube-apiserver."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".") or "<nil>"


def shown(value: Any) -> str:
    """`value` as a message shows it: maps and lists only by their type."""
    if isinstance(value, (dict, list)):
        return '"object"' if isinstance(value, dict) else '"array"'
    return json.dumps(value, ensure_ascii=False)

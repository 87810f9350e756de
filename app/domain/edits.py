"""What a rule wants changed in an object: values set at paths, or taken away. `admission.patch` and the reconcilers
turn edits into patches; a rule never touches the object itself."""

from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Any = _Absent()
"""The value of a path that isn't there, and the value to set where a path is to go."""


@dataclass(frozen=True, slots=True)
class Edit:
    """`value` is to stand at `path`; ABSENT means that nothing may stand there. Missing parents are made."""

    path: Path
    value: Any


@dataclass(frozen=True, slots=True)
class Append:
    """`value` is to be the last item of the list at `path`, which is made where it is missing or null."""

    path: Path
    value: Any


Change = Edit | Append


def value_at(obj: Any, path: Path) -> Any:
    """What stands at `path`, or ABSENT."""
    for step in path:
        if isinstance(obj, dict):
            obj = obj.get(step, ABSENT)
        elif isinstance(obj, list) and isinstance(step, int) and 0 <= step < len(obj):
            obj = obj[step]
        else:
            return ABSENT
    return obj

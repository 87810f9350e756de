"""Find the known names that a misspelt name probably stands for."""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import takewhile

MOST_ALIKE = 63
"""The maximum length of names that are compared, in characters. Longer ones take too long."""

MOST_COMPARED = 100
"""The maximum number of different unknown names that are compared for one object.

A comparison takes up to 0.1 ms, and an object of 1.5 MB may have 40,000 annotations.
"""

_LONG = 8
"""The length, in characters, from which a name may have two mistakes instead of one."""

_DIGITS = re.compile(r"[0-9]+")
_SEPARATORS = re.compile(r"[-_./]")


def nearest(name: str, known: tuple[str, ...]) -> str:
    """Return the known name that `name` probably misspells. Case is ignored.

    Return "" if `name` is known, is longer than MOST_ALIKE, or resembles no known name.
    """
    return "" if name in known or len(name) > MOST_ALIKE else _nearest(name, known)


@lru_cache(4096)  # almost all objects have the same few names, and a comparison takes 20 us
def _nearest(name: str, known: tuple[str, ...]) -> str:
    return next(iter(alike(name, known)), "")


def alike(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that `name` is or probably misspells, the most similar first.

    A name may have one mistake, or two from _LONG characters on: a missing, additional or wrong
    character, or two adjacent characters in the wrong order. Case is ignored. A known name is
    skipped if it differs in a number or in a whole part: `team-b` is not a typo for `team-a`.
    Return [] if `name` is longer than MOST_ALIKE.
    """
    if len(name) > MOST_ALIKE:
        return []
    lowered = name.lower()
    most = 2 if len(name) >= _LONG else 1
    others = [(other, other.lower()) for other in known if abs(len(other) - len(name)) <= most]
    left = [(other, low) for other, low in others if not _means_another(lowered, low)]
    found: list[str] = []
    for mistakes in range(most + 1):
        found += (other for other, low in left if _differ_by(lowered, low, mistakes))
        left = [(other, low) for other, low in left if other not in found]
    return found


def _means_another(name: str, other: str) -> bool:
    """Return whether two names differ in a number, or in a whole part between separators.

    Parts are compared if both names have the same number of them. A whole part differs if the two
    parts have no character in common.
    """
    if _DIGITS.findall(name) != _DIGITS.findall(other):
        return True
    parts, others = _SEPARATORS.split(name), _SEPARATORS.split(other)
    pairs = zip(parts, others, strict=False) if len(parts) == len(others) else ()
    return any(one and two and not set(one) & set(two) for one, two in pairs)


def _differ_by(name: str, other: str, mistakes: int) -> bool:
    """Return whether at most `mistakes` mistakes turn one name into the other."""
    same = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(name, other, strict=False))
    )
    name, other = name[same:], other[same:]
    if not name or not other:
        return len(name) + len(other) <= mistakes
    if not mistakes:
        return False
    swapped = name[:2] == other[1::-1] and _differ_by(name[2:], other[2:], mistakes - 1)
    return (
        swapped
        or _differ_by(name[1:], other[1:], mistakes - 1)
        or _differ_by(name[1:], other, mistakes - 1)
        or _differ_by(name, other[1:], mistakes - 1)
    )


class Comparisons:
    """The comparisons of unknown names in one object, limited to its first MOST_COMPARED names."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def nearest(self, name: str, known: tuple[str, ...]) -> str:
        """Return the same as the function `nearest` for the first MOST_COMPARED different names.

        Return "" for every other name.
        """
        if len(self._seen) >= MOST_COMPARED and name not in self._seen:
            return ""
        self._seen.add(name)
        return nearest(name, known)

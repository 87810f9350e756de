"""Find the known name for which a name is probably a typo."""

import difflib
from functools import lru_cache

_ALIKE = 0.8
"""The minimum similarity, from 0 to 1, of a misspelt name to the suggested one."""

MOST_ALIKE = 63
"""The length of the longest name that is compared, because longer ones take too long."""

MOST_COMPARED = 100
"""The maximum number of different unknown names that are compared for one object.

A comparison takes up to 0.1 ms, and an object of 1.5 MB has 40,000 annotations.
"""


def nearest(name: str, known: tuple[str, ...]) -> str:
    """Return the known name for which `name` is probably a typo. Case is ignored.

    Return "" if `name` is known, is longer than MOST_ALIKE, or resembles no known name.
    """
    return "" if name in known or len(name) > MOST_ALIKE else _nearest(name, known)


@lru_cache(4096)  # almost all objects have the same few names, and a comparison takes 20 us
def _nearest(name: str, known: tuple[str, ...]) -> str:
    lowered = {other.lower(): other for other in known}
    found = difflib.get_close_matches(name.lower(), lowered, 1, _ALIKE)
    return lowered[found[0]] if found else ""


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

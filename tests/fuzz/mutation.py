"""Changes of a JSON value that keep most of it, so that what is changed reaches the rules."""

import copy
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from random import Random
from typing import Any

ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    1.5,
    2**31,
    2**63,
    1e300,
    "",
    "a",
    "true",
    "0",
    "a\n",
    "A_b",
    "é\u2028\U0001f600",
    "-",
    "a/b",
    "~1",
    "x" * 63,
    "x" * 64,
    "x" * 254,
    [],
    {},
    [None],
    [[]],
    [{}],
    {"": {}},
    {"name": []},
)
_CHARACTERS = "aZ09-_./~: \n\x00é\u2028\U0001f600"
_DEEP = 120
MOST_PLACES = 5000
MOST_TEXT = 1000
"""Values of a document, and characters of a text, beyond which nothing is repeated any more."""


class Vocabulary:
    """The keys of some documents, and the values that each key has there."""

    def __init__(self, documents: Iterable[Any]) -> None:
        self.values: dict[str, list[Any]] = {}
        for document in documents:
            for holder, step in _places(document):
                if isinstance(step, str):
                    self.values.setdefault(step, []).append(holder[step])
        self.keys = sorted(self.values)

    def changed(self, document: Any, random: Random) -> Any:
        """A copy of `document` with a few changes."""
        changed = copy.deepcopy(document)
        for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
            places = list(islice(_places(changed), MOST_PLACES))
            if not places:
                return _odd(random)
            if len(places) == MOST_PLACES:
                break
            random.choice(self._changes)(self, *random.choice(places), random)
        return changed

    def value_for(self, key: str, random: Random) -> Any:
        values = self.values.get(key)
        return (
            copy.deepcopy(random.choice(values))
            if values and random.random() < 0.8
            else _odd(random)
        )

    def _replace(self, holder: Any, step: Any, random: Random) -> None:
        holder[step] = self.value_for(
            step if isinstance(step, str) else random.choice(self.keys), random
        )

    def _odd(self, holder: Any, step: Any, random: Random) -> None:
        holder[step] = _odd(random)

    def _remove(self, holder: Any, step: Any, random: Random) -> None:
        del holder[step]

    def _insert(self, holder: Any, step: Any, random: Random) -> None:
        value = holder[step]
        key = random.choice(self.keys)
        if isinstance(value, dict):
            value[key] = self.value_for(key, random)
        elif isinstance(value, list):
            value.insert(
                random.randint(0, len(value)), copy.deepcopy(random.choice(value)) if value else {}
            )
        elif isinstance(holder, dict):
            holder[key] = self.value_for(key, random)

    def _text(self, holder: Any, step: Any, random: Random) -> None:
        if isinstance(holder[step], str):
            holder[step] = _changed_text(holder[step], random)
        elif isinstance(step, str):
            holder[_changed_text(step, random)] = holder.pop(step)

    def _other(self, holder: Any, step: Any, random: Random) -> None:
        """A value from another place of the same object, so that names meet."""
        others = list(islice(_places(holder), MOST_PLACES))
        other, at = random.choice(others)
        holder[step] = copy.deepcopy(other[at])

    def _repeat(self, holder: Any, step: Any, random: Random) -> None:
        value = holder[step]
        holder[step] = (value if isinstance(value, list) else [value]) * random.choice(
            (2, 3, 20, 40)
        )

    def _wrap(self, holder: Any, step: Any, random: Random) -> None:
        for _ in range(random.choice((1, 1, 2, _DEEP))):
            holder[step] = (
                [holder[step]]
                if random.random() < 0.5
                else {random.choice(self.keys): holder[step]}
            )

    _changes: tuple[Callable[["Vocabulary", Any, Any, Random], None], ...] = (
        *[_replace] * 4,
        *[_odd] * 3,
        *[_remove] * 2,
        *[_insert] * 3,
        *[_text] * 4,
        _other,
        _repeat,
        _wrap,
    )


def with_value(document: Any, value: Any, random: Random) -> Any:
    """A copy of `document` with `value` at one place, or `value` if there is no place."""
    changed = copy.deepcopy(document)
    places = list(islice(_places(changed), MOST_PLACES))
    if not places:
        return value
    holder, step = random.choice(places)
    holder[step] = value
    return changed


def read(data: bytes) -> Any:
    """JSON, or None for what is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def changed_bytes(data: bytes, random: Random) -> bytes:
    """Bytes removed, repeated, overwritten or inserted."""
    begin = random.randint(0, len(data))
    end = min(len(data), begin + random.choice((0, 1, 1, 4, 64)))
    piece = data[begin:end]
    inserted = random.choice(
        (b"", piece * 2, random.randbytes(len(piece)), random.randbytes(random.randint(1, 8)))
    )
    return data[:begin] + inserted + data[end:]


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Each value of a document, as what holds it and where it is in there.

    Very deep ones are left alone.
    """
    waiting: list[tuple[Any, int]] = [(document, 0)]
    while waiting:
        value, depth = waiting.pop()
        steps = (
            list(value)
            if isinstance(value, dict)
            else range(len(value))
            if isinstance(value, list)
            else ()
        )
        for step in steps:
            yield value, step
            if depth < _DEEP:
                waiting.append((value[step], depth + 1))


def _odd(random: Random) -> Any:
    return copy.deepcopy(random.choice(ODD))


def _changed_text(text: str, random: Random) -> str:
    at = random.randint(0, len(text))
    character = random.choice(_CHARACTERS)
    return random.choice(
        (
            text[:at] + character + text[at:],
            text[:at] + character + text[at + 1 :],
            text[:at],
            text[at:],
            text.upper(),
            f"{text}-{random.randint(0, 3)}",
            text * (random.choice((2, 20)) if len(text) < MOST_TEXT else 1),
        )
    )

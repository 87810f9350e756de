"""Parse edits of the cluster as users write them: `drain rack=r7`, `add 4 like n12`."""

import re

from app.base.value import Value
from app.objects.shape import JsonMap, integer_in

MOST_ADDED = 10_000
"""The maximum number of nodes that one edit adds."""
GRAMMAR = (
    "drain NODE|LEVEL=VALUE ..., cordon NODE|LEVEL=VALUE ..., add N like NODE,"
    " label NODE ... LEVEL=VALUE|LEVEL- ...,"
    " or a YAML or JSON file"
)
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


class UnusableEdit(ValueError):
    """An edit that is invalid, or that names something that does not exist."""


class Drain(Value):
    """An edit that drains nodes: they are cordoned, and their pods leave.

    Static pods and the pods of DaemonSets stay. A target is the name of a node, or LEVEL=VALUE.
    """

    targets: tuple[str, ...]


class Cordon(Value):
    """An edit that cordons nodes, which keep their pods.

    A target is the name of a node, or LEVEL=VALUE.
    """

    targets: tuple[str, ...]


class Addition(Value):
    """An edit that adds `count` empty copies of the node `like`."""

    count: int
    like: str


class Labelling(Value):
    """An edit that sets labels of nodes, or removes labels with the value None.

    A label is given by its key, or by the name of its level.
    """

    nodes: tuple[str, ...]
    labels: tuple[tuple[str, str | None], ...]


class Applying(Value):
    """An edit that applies the documents of the file `source`.

    A document replaces the object of the same kind, namespace and name, or is added. ResourceSlices
    and Events are always added. The gangs and pods of an applied PodCliqueSet are replaced by
    planned ones.
    """

    source: str
    documents: tuple[JsonMap, ...]


Supposition = Drain | Cordon | Addition | Labelling | Applying


def is_file(text: str) -> bool:
    """Return whether an edit is the name of a YAML or JSON file, or - for standard input."""
    words = text.split()
    return len(words) == 1 and (text == "-" or text.endswith((".yaml", ".yml", ".json")))


def parse(text: str) -> Supposition:
    """Return the edit that `text` describes. Raise UnusableEdit if it is invalid."""
    match text.split():
        case ["drain", *targets] if targets:
            return Drain(tuple(targets))
        case ["cordon", *targets] if targets:
            return Cordon(tuple(targets))
        case ["add", count, "like", like]:
            return Addition(_count(text, count), like)
        case ["label", *words]:
            return _labelling(text, words)
        case _:
            raise UnusableEdit(f"{text!r} is not an edit. Valid edits: {GRAMMAR}")


def _count(text: str, count: str) -> int:
    number = integer_in(count)
    if number is None or not 1 <= number <= MOST_ADDED:
        raise UnusableEdit(f"{text!r}: the number of nodes must be from 1 to {MOST_ADDED:,}")
    return number


def _labelling(text: str, words: list[str]) -> Labelling:
    nodes = [word for word in words if "=" not in word and not word.endswith("-")]
    labels = tuple(_label(text, word) for word in words if word not in nodes)
    if not nodes or not labels:
        raise UnusableEdit(f"{text!r} must have the form: label NODE ... LEVEL=VALUE|LEVEL- ...")
    return Labelling(tuple(nodes), labels)


def _label(text: str, word: str) -> tuple[str, str | None]:
    key, equals, value = word.partition("=")
    if not equals:
        return word.removesuffix("-"), None
    if not key or not _VALUE.fullmatch(value):
        raise UnusableEdit(f"{text!r}: {word!r} is not a valid label. Example: rack=r7")
    return key, value

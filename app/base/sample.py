"""The figures of a scrape of metrics, and the parts of a server that give them."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from app.base.value import Value


class Sample(Value):
    """A figure with its labels. `name` has no prefix; the name of a counter ends with `_total`."""

    name: str
    text: str
    value: float
    labels: dict[str, str]
    is_counter: bool


def gauge(name: str, text: str, value: float, **labels: str) -> Sample:
    """Return a figure that rises and falls. `text` is its help."""
    return Sample(name, text, float(value), labels, is_counter=False)


def counter(name: str, text: str, value: float, **labels: str) -> Sample:
    """Return a figure that only rises, and starts at 0 with the process. `text` is its help."""
    return Sample(name, text, float(value), labels, is_counter=True)


Checks = Mapping[str, str | None]
"""The problem of each check by its name; None if there is none."""


class Part(Protocol):
    """A long-lived part of the server, with its checks, notes and samples."""

    def checks(self) -> Checks:
        """Return the problem of each check by its name; None if there is none."""
        return {}

    def notes(self) -> Mapping[str, str]:
        """Return information by name, which is not a problem."""
        return {}

    def samples(self) -> Iterable[Sample]: ...

"""The samples of metrics, and the interface of the server's parts that provide them."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from app.base.value import Value


class Sample(Value):
    """A sample of a metric."""

    name: str
    """The name without prefix. The name of a counter ends with `_total`."""
    text: str
    """The help text."""
    value: float
    """The value."""
    labels: dict[str, str]
    """The labels."""
    is_counter: bool
    """Whether it is a counter instead of a gauge."""


def gauge(name: str, text: str, value: float, **labels: str) -> Sample:
    """Return a sample of a gauge. `text` is its help."""
    return Sample(name, text, float(value), labels, is_counter=False)


def counter(name: str, text: str, value: float, **labels: str) -> Sample:
    """Return a sample of a counter. `text` is its help."""
    return Sample(name, text, float(value), labels, is_counter=True)


Checks = Mapping[str, str | None]
"""The problem that each check found, by the check's name; None if the check passes."""


class Part(Protocol):
    """A long-lived part of the server."""

    def checks(self) -> Checks:
        """Return its readiness checks."""
        return {}

    def notes(self) -> Mapping[str, str]:
        """Return information for `/readyz?verbose` that is not a problem, by name."""
        return {}

    def samples(self) -> Iterable[Sample]:
        """Return the samples of its metrics."""
        ...

"""Define samples of metrics, and the interface of the server's parts that provide them."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from app.base.value import Value


class Sample(Value):
    """The current value of a metric for one set of labels."""

    name: str
    """The metric's name without `grove_admission_`. The name of a counter ends with `_total`."""
    text: str
    """The help text of the metric."""
    value: float
    """The current value of the metric."""
    labels: dict[str, str]
    """The labels and their values."""
    is_counter: bool
    """Whether the metric is a counter. Otherwise, it is a gauge."""


def gauge(name: str, text: str, value: float, **labels: str) -> Sample:
    """Return a sample of a gauge. `text` is the help text of the metric."""
    return Sample(name, text, float(value), labels, is_counter=False)


def counter(name: str, text: str, value: float, **labels: str) -> Sample:
    """Return a sample of a counter. `text` is the help text of the metric."""
    return Sample(name, text, float(value), labels, is_counter=True)


Checks = Mapping[str, str | None]
"""The problem that each readiness check found, by the check's name, or None if it passes."""


class Part(Protocol):
    """A long-lived part of the server, such as its Kubernetes client."""

    def checks(self) -> Checks:
        """Return the results of the part's readiness checks."""
        return {}

    def notes(self) -> Mapping[str, str]:
        """Return facts about the part for `/readyz?verbose` that are not problems, by name."""
        return {}

    def samples(self) -> Iterable[Sample]:
        """Return the samples of the part's metrics."""
        ...

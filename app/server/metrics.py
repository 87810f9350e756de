"""Count verdicts and the steps of reconcilers, and return all metrics in the Prometheus format.

Verdicts are counted in plain integers, which a scrape converts to samples. The locks of the
Prometheus client library would take as much time as evaluating a rule.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from app.base.sample import Sample
from app.server.verdict_log import VerdictRecord

BUCKETS = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
PREFIX = "grove_admission"

_Counts = Mapping[Any, int]
"""The counts of a metric by the values of its labels."""

Samples = Callable[[], Iterable[Sample]]
"""A function that returns the samples of one part of the server, for a scrape."""


@dataclass(slots=True)
class _Series:
    """The durations of a histogram for one value of its label."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    """The number of durations in each bucket, not cumulative. The last bucket has no bound."""
    total: float = 0.0
    """The sum of the durations, in seconds."""

    def add(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds


class Metrics(Collector):
    """The counters of verdicts and of reconcilers' steps, and the samples of all added parts."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, str, int, bool, str]] = Counter()
        self._durations: defaultdict[str, _Series] = defaultdict(_Series)
        self._panics: Counter[tuple[str]] = Counter()
        self._steps: Counter[tuple[str, str]] = Counter()
        self._step_durations: defaultdict[str, _Series] = defaultdict(_Series)
        self._samples: list[Samples] = []
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def add(self, samples: Samples) -> None:
        """Include the samples of one more part in each scrape."""
        self._samples.append(samples)

    def count(self, record: VerdictRecord) -> None:
        """Add a verdict to the counters and to the histogram of durations."""
        path = record.path
        key = (path, record.operation, record.outcome, record.code, record.dry_run, record.caller)
        self._requests[key] += 1
        self._durations[path].add(record.seconds)
        if record.has_failed:
            self._panics[path,] += 1

    def reconciled(self, reconciler: str, result: str, seconds: float) -> None:
        """Count a step of a reconciler, with its result and its duration."""
        self._steps[reconciler, result] += 1
        self._step_durations[reconciler].add(seconds)

    def exposition(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        yield _counts(
            f"{PREFIX}_requests",
            "Admission requests by path, operation, verdict, code, dry run and caller.",
            ["path", "operation", "verdict", "code", "dry_run", "caller"],
            self._requests,
        )
        yield _histogram("request", "reading the request to its answer", "path", self._durations)
        text = "Requests whose handler raised an unexpected exception."
        yield _counts(f"{PREFIX}_panics", text, ["path"], self._panics)
        text = "Steps of the reconcilers by result."
        yield _counts(f"{PREFIX}_reconcile", text, ["reconciler", "result"], self._steps)
        yield _histogram(
            "reconcile",
            "the beginning to the end of a step",
            "reconciler",
            self._step_durations,
        )
        yield from self._read_samples()

    def _read_samples(self) -> Iterator[Metric]:
        families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
        for sample in (sample for read in self._samples for sample in read()):
            kind = CounterMetricFamily if sample.is_counter else GaugeMetricFamily
            name = f"{PREFIX}_{sample.name}"
            family = families.setdefault(name, kind(name, sample.text, labels=list(sample.labels)))
            family.add_metric(list(sample.labels.values()), sample.value)
        yield from families.values()


def _counts(name: str, text: str, labels: list[str], counts: _Counts) -> Metric:
    """Return a counter with a sample for each combination of label values.

    Values of boolean labels are `true` and `false`.
    """
    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in counts.items():
        words = [str(value).lower() if isinstance(value, bool) else str(value) for value in values]
        family.add_metric(words, count)
    return family


def _histogram(subject: str, span: str, label: str, durations: Mapping[str, _Series]) -> Metric:
    """Return the histogram `<subject>_duration_seconds`, with `durations` by the value of `label`.

    The help text is `Time from <span>.`
    """
    family = HistogramMetricFamily(
        f"{PREFIX}_{subject}_duration_seconds", f"Time from {span}.", labels=[label]
    )
    for value, series in durations.items():
        total = 0
        buckets = []
        for bound, count in zip((*BUCKETS, float("inf")), series.counts, strict=True):
            total += count
            buckets.append(("+Inf" if bound == float("inf") else repr(bound), float(total)))
        family.add_metric([value], buckets, series.total)
    return family

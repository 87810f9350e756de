"""What a scrape shows.

Tests `app/base/sample.py`.
"""

import json
from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families

from app.admission.review import parse
from app.admission.verdict import ALLOWED, FAILED, not_allowed, patched
from app.base.sample import Sample, counter, gauge
from app.server.metrics import Metrics
from app.server.verdict_log import record_of
from tests.reviews import load


def test_verdicts_are_counted_and_timed() -> None:
    metrics = Metrics()
    for seconds in (0.00005, 0.0001, 0.02, 99):
        metrics.count(record_of("/a", "", None, ALLOWED, seconds))
    metrics.count(record_of("/b", "", None, not_allowed("no"), 0.1))
    metrics.count(record_of("/b", "", None, FAILED, 0.1))
    text = metrics.exposition().decode()
    name = "grove_admission_request"
    assert (
        f'{name}s_total{{caller="unknown",code="200",dry_run="false",operation="",path="/a",verdict="allowed"}} 4.0'
        in text
    )
    assert (
        f'{name}s_total{{caller="unknown",code="403",dry_run="false",operation="",path="/b",verdict="refused"}} 1.0'
        in text
    )
    assert (
        f'{name}s_total{{caller="unknown",code="500",dry_run="false",operation="",path="/b",verdict="failed"}} 1.0'
        in text
    )
    assert 'grove_admission_panics_total{path="/b"} 1.0' in text
    assert f'{name}_duration_seconds_bucket{{le="0.0001",path="/a"}} 2.0' in text
    assert f'{name}_duration_seconds_bucket{{le="0.025",path="/a"}} 3.0' in text
    assert f'{name}_duration_seconds_bucket{{le="10.0",path="/a"}} 3.0' in text
    assert f'{name}_duration_seconds_bucket{{le="+Inf",path="/a"}} 4.0' in text


def test_samples_are_read_at_the_scrape() -> None:
    metrics = Metrics()
    cached = [1.0]

    def samples() -> Iterator[Sample]:
        yield gauge("cache_objects", "Objects.", cached[0], resource="nodes")
        yield counter("restarts_total", "Restarts.", 2, reason="gone")
        yield counter("restarts_total", "Restarts.", 3, reason="error")

    metrics.add(samples)
    cached[0] = 7.0
    text = metrics.exposition().decode()
    assert 'grove_admission_cache_objects{resource="nodes"} 7.0' in text
    assert "# TYPE grove_admission_restarts_total counter" in text
    assert 'grove_admission_restarts_total{reason="error"} 3.0' in text


def test_requests_are_told_apart_by_operation_and_dry_run() -> None:
    metrics = Metrics()
    for name in ("podclique.replica-scope-0-worker", "podclique.dryrun", "podclique.update-scale"):
        asked = parse(json.dumps(load(name)).encode())
        verdict = patched([{"op": "remove", "path": "/a"}])
        metrics.count(record_of("/p", "u", asked, verdict, 0.001))
    samples = {
        (labels["operation"], labels["dry_run"], labels["verdict"], labels["code"]): value
        for labels, value in read(metrics, "grove_admission_requests_total")
    }
    assert samples == {
        ("CREATE", "false", "patched", "200"): 1,
        ("CREATE", "true", "patched", "200"): 1,
        ("UPDATE", "false", "patched", "200"): 1,
    }


def test_a_histogram_adds_up() -> None:
    metrics = Metrics()
    for seconds in (0.0, 0.0001, 0.00011, 0.25, 10.0, 10.1):
        metrics.count(record_of("/p", "", None, ALLOWED, seconds))
    buckets = read(metrics, "grove_admission_request_duration_seconds_bucket")
    counts = {labels["le"]: value for labels, value in buckets}
    assert (
        counts["0.0001"],
        counts["0.00025"],
        counts["0.25"],
        counts["10.0"],
        counts["+Inf"],
    ) == (2, 3, 4, 5, 6)
    assert list(counts.values()) == sorted(counts.values())
    assert read(metrics, "grove_admission_request_duration_seconds_count") == [({"path": "/p"}, 6)]
    ((_, total),) = read(metrics, "grove_admission_request_duration_seconds_sum")
    assert round(total, 5) == 20.35021


def test_names_follow_the_conventions() -> None:
    metrics = Metrics()
    metrics.add(lambda: [gauge("certificate_expiry_seconds", "When.", 1.5)])
    metrics.count(record_of("/p", "", None, ALLOWED, 0))
    families = {
        family.name: family.type
        for family in text_string_to_metric_families(metrics.exposition().decode())
    }
    assert families == {
        "grove_admission_requests": "counter",
        "grove_admission_panics": "counter",
        "grove_admission_request_duration_seconds": "histogram",
        "grove_admission_reconcile": "counter",
        "grove_admission_reconcile_duration_seconds": "histogram",
        "grove_admission_certificate_expiry_seconds": "gauge",
    }


def test_steps_of_reconcilers_are_counted_by_result() -> None:
    metrics = Metrics()
    for result in ("done", "done", "error"):
        metrics.reconciled("podgang", result, 0.002)
    samples = {
        labels["result"]: value
        for labels, value in read(metrics, "grove_admission_reconcile_total")
    }
    assert samples == {"done": 2, "error": 1}
    assert read(metrics, "grove_admission_reconcile_duration_seconds_count") == [
        ({"reconciler": "podgang"}, 3)
    ]


def read(metrics: Metrics, name: str) -> list[tuple[dict[str, str], float]]:
    families = text_string_to_metric_families(metrics.exposition().decode())
    return [
        (sample.labels, sample.value)
        for family in families
        for sample in family.samples
        if sample.name == name
    ]

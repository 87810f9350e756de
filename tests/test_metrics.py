"""What a scrape shows."""

from collections.abc import Iterator

from app.admission.verdict import ALLOWED, failed, not_allowed
from app.metrics import Metrics


def test_verdicts_are_counted_and_timed() -> None:
    metrics = Metrics()
    for seconds in (0.00005, 0.0001, 0.02, 99):
        metrics.record("/a", None, ALLOWED, seconds)
    metrics.record("/b", None, not_allowed("no"), 0.1)
    metrics.record("/b", None, failed(), 0.1)
    text = metrics.exposition().decode()
    name = "grove_admission_request"
    assert f'{name}s_total{{code="200",dry_run="false",operation="",path="/a",verdict="allowed"}} 4.0' in text
    assert f'{name}s_total{{code="403",dry_run="false",operation="",path="/b",verdict="refused"}} 1.0' in text
    assert f'{name}s_total{{code="500",dry_run="false",operation="",path="/b",verdict="failed"}} 1.0' in text
    assert f'{name}_duration_seconds_bucket{{le="0.0001",path="/a"}} 2.0' in text
    assert f'{name}_duration_seconds_bucket{{le="0.025",path="/a"}} 3.0' in text
    assert f'{name}_duration_seconds_bucket{{le="10.0",path="/a"}} 3.0' in text
    assert f'{name}_duration_seconds_bucket{{le="+Inf",path="/a"}} 4.0' in text


def test_gauges_are_read_at_the_scrape() -> None:
    metrics, held = Metrics(), [1.0]

    def gauges() -> Iterator[tuple[str, str, dict[str, str], float]]:
        yield "cache_objects", "Objects.", {"resource": "nodes"}, held[0]
        yield "restarts_total", "Restarts.", {"reason": "gone"}, 2
        yield "restarts_total", "Restarts.", {"reason": "error"}, 3

    metrics.add_gauges(gauges)
    held[0] = 7.0
    text = metrics.exposition().decode()
    assert 'grove_admission_cache_objects{resource="nodes"} 7.0' in text
    assert "# TYPE grove_admission_restarts_total counter" in text
    assert 'grove_admission_restarts_total{reason="error"} 3.0' in text

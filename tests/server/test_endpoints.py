"""The endpoints for people and probes.

Tests `app/server/parameters.py` and `app/server/readiness.py`.
"""

import io
import json
import threading
from typing import Any

import httpx
import pytest

from app import __version__
from app.admission.exchange import Exchange
from app.admission.verdict import FAILED, not_allowed
from app.config.schema import Configuration
from app.server.endpoints import Reports, build_app
from app.server.metrics import Metrics
from app.server.verdict_log import VerdictLog
from app.webhooks.registry import routes_over, served_routes
from tests.reviews import cluster, load
from tests.server.test_access import GET


class Served:
    """The whole app, in process."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        self.cluster = cluster()
        self.checks: dict[str, str | None] = {"cache/nodes": None}
        self.metrics = Metrics()
        routes = served_routes(configuration or Configuration(), self.cluster)
        reports = Reports(self.metrics, None, lambda: self.checks)
        exchange = Exchange(routes, reports.record)
        self.metrics.add(exchange.samples)
        self.app = build_app(exchange, reports)

    async def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app), base_url="https://server"
        ) as client:
            return await client.request(method, path, **options)

    async def dry_run(self, content: Any, **params: str) -> dict[str, Any]:
        answer = await self.request("POST", "/dry-run", content=content, params=params)
        assert answer.status_code == 200, answer.text
        report: dict[str, Any] = answer.json()
        return report


async def test_health() -> None:
    served = Served()
    assert (await served.request("GET", "/healthz")).text == "ok\n"
    assert (await served.request("GET", "/readyz")).text == "ok\n"
    assert (await served.request("GET", "/readyz?verbose")).text == "[+] cache/nodes ok\nok\n"
    served.checks["cache/nodes"] = "the first list is not complete yet"
    answer = await served.request("GET", "/readyz")
    assert (answer.status_code, answer.text) == (
        503,
        "[-] cache/nodes the first list is not complete yet\nnot ready\n",
    )
    assert (await served.request("GET", "/healthz")).status_code == 200


async def test_version_docs_and_metrics() -> None:
    served = Served()
    assert (await served.request("GET", "/version")).json() == {
        "name": "grove-admission",
        "version": __version__,
    }
    assert "/dry-run" in (await served.request("GET", "/openapi.json")).json()["paths"]
    assert (await served.request("GET", "/docs")).status_code == 200
    review = json.dumps(load("podgroup.underscore"))
    headers = {"content-type": "application/json"}
    await served.request("POST", "/validate/podgroup?timeout=5s", content=review, headers=headers)
    text = (await served.request("GET", "/metrics")).text
    line = 'requests_total{caller="unknown",code="422",dry_run="false",operation="CREATE",path="/validate/podgroup",verdict="refused"} 1'
    assert line in text
    assert 'request_duration_seconds_count{path="/validate/podgroup"} 1' in text
    assert "grove_admission_in_flight_requests 0" in text


async def test_what_is_wrong_is_listed_beside_what_is_well() -> None:
    served = Served()
    served.checks = {"cache/nodes": None, "certificate": "expired", "cache/podgangs": "not filled"}
    for query in ("", "?verbose", "?verbose=true"):
        answer = await served.request("GET", f"/readyz{query}")
        assert answer.status_code == 503
        assert answer.text == (
            "[+] cache/nodes ok\n[-] certificate expired\n[-] cache/podgangs not filled\nnot ready\n"
        )


class Written(io.BytesIO):
    def close(self) -> None:
        return


async def test_every_verdict_is_counted_logged_and_no_longer_in_flight() -> None:
    stream = Written()
    metrics = Metrics()
    offline = cluster()
    log = VerdictLog(stream)
    reports = Reports(metrics, log, dict)
    exchange = Exchange(routes_over(Configuration(), offline), reports.record)
    metrics.add(exchange.samples)
    app = build_app(exchange, reports)
    bodies = [
        json.dumps(load("podgroup.underscore")).encode(),
        b"",
        b'{"request":{"uid":"u"',
        b"[" * 5000,
    ]
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="https://server"
    ) as client:
        for body in bodies:
            await client.post(
                "/validate/podgroup", content=body, headers={"content-type": "application/json"}
            )
        assert (await client.get("/validate/podgroup")).status_code == 405
    reports.close()
    written = [json.loads(line) for line in stream.getvalue().splitlines()]
    uid = load("podgroup.underscore")["request"]["uid"]
    assert [(line["uid"], line["code"]) for line in written] == [
        (uid, 422),
        ("", 400),
        ("u", 400),
        ("", 400),
    ]
    assert b"grove_admission_in_flight_requests 0.0" in metrics.exposition()


async def test_a_scrape_counts_all_verdicts_so_far() -> None:
    served = Served()
    review = json.dumps(load("podgroup.underscore")).encode()
    headers = {"content-type": "application/json"}
    for count in (1.0, 2.0):
        await served.request("POST", "/validate/podgroup", content=review, headers=headers)
        text = (await served.request("GET", "/metrics")).text
        (line,) = [line for line in text.splitlines() if line.startswith(_REQUESTS)]
        assert line.endswith(f" {count}")


_REQUESTS = "grove_admission_requests_total"


def test_a_failure_is_logged_at_once_with_the_verdicts_before_it() -> None:
    written = threading.Event()

    class Told(Written):
        def flush(self) -> None:
            written.set()

    stream = Told()
    reports = Reports(Metrics(), VerdictLog(stream), dict)

    def uids() -> list[str]:
        return [json.loads(line)["uid"] for line in stream.getvalue().splitlines()]

    reports.record("/path", "first", None, not_allowed("no"), 0)
    assert stream.getvalue() == b""
    reports.record("/path", "second", None, FAILED, 0)
    assert written.wait(5)
    assert uids() == ["first", "second"]
    reports.record("/path", "third", None, not_allowed("no"), 0)
    reports.close()
    assert uids() == ["first", "second", "third"]


def test_many_verdicts_are_reported_before_the_next_flush() -> None:
    metrics = Metrics()
    reports = Reports(metrics, None, dict)
    for _ in range(1000):
        reports.record("/path", "u", None, not_allowed("no"), 0)
    assert len(reports.records) < 256
    reports.flush()
    assert b"} 1000.0" in metrics.exposition()


@pytest.mark.parametrize(("method", "path", "code"), [("GET", "/dry-run", 405), ("GET", "/", 404)])
async def test_a_path_that_there_is_not_says_what_there_is(
    method: str, path: str, code: int
) -> None:
    answer = await Served().request(method, path)
    assert answer.status_code == code
    assert "The endpoints are POST /dry-run, GET /healthz" in answer.json()["error"]


async def test_there_is_only_get_for_probes_and_post_for_dry_runs() -> None:
    for method, path in (
        ("POST", "/healthz"),
        ("DELETE", "/readyz"),
        ("GET", "/dry-run"),
        ("POST", "/metrics"),
    ):
        assert (await Served().request(method, path)).status_code == 405
    assert (await Served().request("GET", "/nothing")).status_code == 404


@pytest.mark.parametrize("path", GET)
async def test_head_is_answered_as_get_without_the_body(path: str) -> None:
    served = Served()
    head = await served.request("HEAD", path)
    get = await served.request("GET", path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == get.headers["content-type"]
    if path != "/metrics":
        assert head.headers["content-length"] == get.headers["content-length"]


@pytest.mark.parametrize("path", ["/dry-run", "/validate/podgroup"])
async def test_head_is_refused_where_get_is_not_served(path: str) -> None:
    assert (await Served().request("HEAD", path)).status_code == 405

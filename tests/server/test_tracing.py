"""Traces: a span of each verdict at a collector, in the trace of the API server.

Tests `app/base/trace.py`.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Awaitable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from app.admission.decide import Route
from app.admission.exchange import Answer, Exchange
from app.admission.review import Request
from app.admission.verdict import ALLOWED, Later, Verdict
from app.base.trace import TRACEPARENT
from app.config.error import ConfigurationError
from app.config.read import read_configuration
from app.server.tracing import tracing
from tests.reviews import load

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{PARENT}-01".encode()
UNSAMPLED = f"00-{TRACE}-{PARENT}-00".encode()
PATH = "/validate/podgroup"
REVIEW = load("podgroup.valid")
BODY = json.dumps(REVIEW).encode()


class Collector(ThreadingHTTPServer):
    """An OTLP collector on loopback. `spans` are those that it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.spans: Queue[Span] = Queue()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        content = ExportTraceServiceRequest()
        content.ParseFromString(self.rfile.read(int(self.headers["content-length"])))
        for resource in content.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.server.spans.put(span)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    # milliseconds after which spans are sent, 5,000 if nobody says how many
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def exchange(collector: Collector, answer: Verdict | Exception | None = None) -> Exchange:
    """Return an exchange of one route, whose verdict is awaited if `answer` is None."""

    def judge(request: Request) -> Verdict | Later:
        if isinstance(answer, Exception):
            raise answer
        return answer if answer is not None else Later(later)

    async def later() -> Verdict:
        assert TRACEPARENT.get() == SAMPLED.decode()
        return ALLOWED

    operations = frozenset({"CREATE"})
    route = Route(PATH, "scheduling.run.ai", "PodGroup", "podgroups", "", operations, judge)
    trace = tracing(collector.url)
    return Exchange({PATH: route}, lambda *observed: None, trace=trace)


def ask(asked: Exchange, traceparent: bytes, body: bytes = BODY) -> Answer | Awaitable[Answer]:
    headers = {b"content-type": b"application/json", b"traceparent": traceparent}
    return asked.answer(asked.routes[PATH], b"", headers, body)


def values(span: Span) -> dict[str, str | int]:
    return {
        item.key: item.value.string_value or int(item.value.int_value) for item in span.attributes
    }


def test_a_verdict_is_a_span_in_the_trace_of_the_api_server(collector: Collector) -> None:
    ask(exchange(collector, ALLOWED), SAMPLED)
    span = collector.spans.get(timeout=120)
    assert (span.name, span.trace_id.hex(), span.parent_span_id.hex()) == (PATH, TRACE, PARENT)
    assert span.end_time_unix_nano >= span.start_time_unix_nano > 0
    assert values(span) == {
        "k8s.namespace.name": REVIEW["request"]["namespace"],
        "admission.uid": REVIEW["request"]["uid"],
        "admission.operation": "CREATE",
        "admission.verdict": "allowed",
        "admission.code": 200,
    }
    assert span.status.code == 0


def test_no_text_of_a_review_makes_a_long_attribute(collector: Collector) -> None:
    long = "x" * 1_000_000
    review = {**REVIEW, "request": {**REVIEW["request"], "uid": long, "namespace": long}}
    ask(exchange(collector, ALLOWED), SAMPLED, json.dumps(review).encode())
    span = values(collector.spans.get(timeout=120))
    assert {len(str(span[name])) for name in ("k8s.namespace.name", "admission.uid")} == {1000}


def test_a_failure_of_ours_is_an_error_of_the_span(collector: Collector) -> None:
    ask(exchange(collector, RuntimeError("a mistake")), SAMPLED)
    span = collector.spans.get(timeout=120)
    assert (values(span)["admission.code"], span.status.code) == (500, 2)


async def test_our_calls_for_a_verdict_pass_the_trace_on(collector: Collector) -> None:
    answer = ask(exchange(collector), SAMPLED)
    assert not isinstance(answer, tuple)
    assert (await answer)[0] == 200
    assert collector.spans.get(timeout=120).trace_id.hex() == TRACE


@pytest.mark.parametrize("traceparent", [b"", UNSAMPLED, b"00-nonsense-01", b"\xff\xfe"])
def test_what_the_api_server_does_not_sample_is_no_span(
    traceparent: bytes, collector: Collector
) -> None:
    asked = exchange(collector, ALLOWED)
    ask(asked, traceparent)
    ask(asked, SAMPLED)
    assert collector.spans.get(timeout=120).trace_id.hex() == TRACE
    assert collector.spans.empty()


def test_without_the_packages_the_start_says_how_to_get_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(OSError, match=r"needs the packages of grove-admission\[tracing\]"):
        tracing("http://localhost:4318")


def test_without_an_endpoint_nothing_of_opentelemetry_is_imported() -> None:
    program = "import sys, app.server.serve; print([name for name in sys.modules if 'telemetry.sdk' in name])"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ended.stdout == b"[]\n"


@pytest.mark.parametrize("url", ["collector:4318", "grpc://collector:4317", "http://"])
def test_an_endpoint_is_a_url(url: str) -> None:
    text = f"{{apiVersion: config.grove.io/v1alpha1, kind: OperatorConfiguration, tracing: {{endpoint: '{url}'}}}}"
    with pytest.raises(
        ConfigurationError, match=r"tracing\.endpoint: must be an http or https URL"
    ):
        read_configuration(text, "test")

"""Send spans of verdicts to an OpenTelemetry collector, if `tracing.endpoint` is configured.

Without an endpoint, OpenTelemetry is not imported. A span belongs to the trace of the API server's
request, and is created only if the API server samples that trace.
"""

import time
from typing import TYPE_CHECKING

from app import __version__
from app.admission.exchange import Trace
from app.admission.review import Request
from app.admission.verdict import Verdict
from app.server.verdict_log import MOST_CHARACTERS

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_EXPORT_SECONDS = 5
_MISSING = (
    "tracing.endpoint needs the packages of grove-admission[tracing]. Run: pip install"
    " 'grove-admission[tracing]'. For the image, build it with --build-arg EXTRAS=tracing"
)


def tracing(endpoint: str) -> Trace:
    """Return a function that sends the span of a verdict to the OTLP collector at `endpoint`.

    `endpoint` is the URL without `/v1/traces`. A thread sends the spans, and drops them if the
    collector does not accept them. Raise OSError if OpenTelemetry is not installed.
    """
    try:
        from opentelemetry.trace import SpanKind, Status, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        tracer = _tracer(f"{endpoint.rstrip('/')}/v1/traces")
    except ImportError as missing:
        raise OSError(_MISSING) from missing

    propagator = TraceContextTextMapPropagator()

    def trace(
        traceparent: str, path: str, request: Request, verdict: Verdict, seconds: float
    ) -> None:
        end = time.time_ns()
        span = tracer.start_span(
            path,
            context=propagator.extract({"traceparent": traceparent}),
            kind=SpanKind.SERVER,
            # these identify the request in the log; values of objects may be confidential
            attributes={
                "k8s.namespace.name": request.namespace[:MOST_CHARACTERS],
                "admission.uid": request.uid[:MOST_CHARACTERS],
                "admission.operation": request.operation,
                "admission.verdict": verdict.outcome,
                "admission.code": verdict.code,
            },
            start_time=end - int(seconds * 1e9),
        )
        if verdict.code >= 500:
            span.set_status(Status(StatusCode.ERROR, verdict.reason))
        span.end(end)

    return trace


def _tracer(url: str) -> "Tracer":
    """Return a tracer that sends spans to `url`. Raise ImportError if packages are missing."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

    resource = Resource.create({"service.name": "grove-admission", "service.version": __version__})
    provider = TracerProvider(resource=resource, sampler=ParentBased(root=ALWAYS_OFF))
    exporter = OTLPSpanExporter(endpoint=url, timeout=_EXPORT_SECONDS)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider.get_tracer("grove-admission", __version__)

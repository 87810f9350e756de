"""The trace context of the request that is judged: https://www.w3.org/TR/trace-context/."""

from contextvars import ContextVar

TRACEPARENT: ContextVar[str] = ContextVar("traceparent", default="")
"""The `traceparent` of the API server, which our own calls for this verdict pass on.

"" without tracing.
"""

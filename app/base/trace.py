"""The context of the request that is judged, for our own calls to the API server.

The trace context is defined in https://www.w3.org/TR/trace-context/.
"""

from contextvars import ContextVar

TRACEPARENT: ContextVar[str] = ContextVar("traceparent", default="")
"""The `traceparent` of the request, which our own calls pass on. It is "" without tracing."""

IS_STRANGE: ContextVar[bool] = ContextVar("is_strange", default=False)
"""Whether the caller is unknown, so that our calls for it must not delay other verdicts."""

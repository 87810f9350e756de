"""What our own calls for a verdict know of the request that is judged.

Its trace context is that of https://www.w3.org/TR/trace-context/.
"""

from contextvars import ContextVar

TRACEPARENT: ContextVar[str] = ContextVar("traceparent", default="")
"""The `traceparent` of the API server, which our own calls for this verdict pass on.

"" without tracing.
"""

IS_STRANGE: ContextVar[bool] = ContextVar("is_strange", default=False)
"""Whether anybody may have sent it, so that its calls must not delay those for other verdicts."""

"""Hold facts about the current request for our calls to the API server.

The trace context is defined in https://www.w3.org/TR/trace-context/.
"""

from contextvars import ContextVar

TRACEPARENT: ContextVar[str] = ContextVar("traceparent", default="")
"""The `traceparent` header of the request, or "" if there is none or spans are not recorded.

API calls for the request have the same header.
"""

IS_STRANGE: ContextVar[bool] = ContextVar("is_strange", default=False)
"""Whether the request's sender is unknown. Our calls for it must not delay other calls."""

"""What the API server says when it says no: HTTP answers and Status objects as ClusterErrors."""

from collections.abc import Mapping
from typing import Any

import orjson

from app.kube.api import ClusterError, Conflict, Forbidden, Gone, NotFound, NotServed, Object, Unavailable


def error_from(code: int, headers: Mapping[str, str], body: bytes) -> ClusterError:
    """The error for an HTTP answer of 300 or more. A body that is no Status (a proxy's, or the API server's own
    `404 page not found`) gives its text as message."""
    status = _status_in(body)
    if status is None:
        text = body[:500].decode("utf-8", "replace").strip()
        kind = NotServed if code == 404 else _kind_of_error(code)
        return kind(text or f"HTTP {code}", code=code, retry_after=_seconds(headers.get("Retry-After")))
    return error_from_status(status, code, _seconds(headers.get("Retry-After")))


def error_from_status(status: Object, code: int = 0, wait: float | None = None) -> ClusterError:
    """The error for a Status object, of an answer or of an ERROR line in a watch."""
    code = code or int(status.get("code") or 500)
    details = status.get("details") or {}
    message = str(status.get("message") or f"HTTP {code}")
    if code == 401:
        message = f"the API server doesn't accept these credentials: {message}"
    wished = _seconds(details.get("retryAfterSeconds"))
    kind = _kind_of_error(code)
    if code == 404 and not details.get("name"):
        kind = NotServed
    return kind(
        message, code=code, reason=str(status.get("reason") or ""), retry_after=wait if wished is None else wished
    )


def _kind_of_error(code: int) -> type[ClusterError]:
    exact: dict[int, type[ClusterError]] = {404: NotFound, 409: Conflict, 410: Gone, 408: Unavailable, 429: Unavailable}
    return exact.get(code, Unavailable if code >= 500 else Forbidden)


def _status_in(body: bytes) -> Object | None:
    try:
        decoded = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return decoded if isinstance(decoded, dict) and decoded.get("kind") == "Status" else None


def _seconds(given: Any) -> float | None:
    """Seconds from a header or a Status; None for nothing, zero and HTTP dates."""
    try:
        return float(given) or None
    except (TypeError, ValueError):
        return None

"""HTTP error responses and Status objects as ClusterErrors."""

from collections.abc import Mapping
from typing import Any

import orjson

from app.kube.api import ClusterError, Conflict, Forbidden, Gone, NotFound, NotServed, Object, Unavailable


def error_from(code: int, headers: Mapping[str, str], body: bytes) -> ClusterError:
    """The error for an HTTP response with a status of 300 or more. If the body is not a Status, such as that of a
    proxy, its text is the message."""
    status = _status_in(body)
    if status is None:
        text = body[:500].decode("utf-8", "replace").strip()
        kind = NotServed if code == 404 else _kind_of_error(code)
        return kind(text or f"HTTP {code}", code=code, retry_after=_seconds(headers.get("Retry-After")))
    return error_from_status(status, code, _seconds(headers.get("Retry-After")))


def error_from_status(status: Object, code: int = 0, wait: float | None = None) -> ClusterError:
    """The error for a Status in a response, or in an ERROR event of a watch."""
    code = code or int(status.get("code") or 500)
    details = status.get("details") or {}
    message = str(status.get("message") or f"HTTP {code}")
    if code == 401:
        message = f"the API server doesn't accept these credentials: {message}"
    retry_after = _seconds(details.get("retryAfterSeconds"))
    kind = _kind_of_error(code)
    if code == 404 and not details.get("name"):
        kind = NotServed
    return kind(
        message,
        code=code,
        reason=str(status.get("reason") or ""),
        retry_after=wait if retry_after is None else retry_after,
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


def _seconds(value: Any) -> float | None:
    """Seconds in a header or a Status, or None for zero, for a date, and for anything else."""
    try:
        return float(value) or None
    except (TypeError, ValueError):
        return None

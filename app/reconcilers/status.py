"""Parts of writes of a status that the reconcilers share."""

from datetime import UTC, datetime

from app.kube.api import Object


def utc_now() -> datetime:
    return datetime.now(UTC)


def timestamp(time: datetime) -> str:
    """Returns `time` as RFC 3339 in UTC, as metav1.Time is written."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def status_patch(stored: Object, status: Object) -> Object:
    """Returns a merge patch that writes `status`. Conflict if the object is no longer the version `stored`."""
    return {"metadata": {"resourceVersion": stored["metadata"]["resourceVersion"]}, "status": status}

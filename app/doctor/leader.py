"""Whether a replica leads: only the leader reconciles."""

from datetime import datetime, timedelta

from app.config.schema import LeaderElection
from app.doctor.report import Checks, ok, problem
from app.kube.api import Client, ObjectRef, find
from app.objects.resource import LEASE
from app.objects.shape import int_of, map_at, text_at

_SLACK = timedelta(seconds=60)
"""How far the clock here may differ from those of the replicas."""

_LONGEST = 86_400
"""Seconds for which a Lease can hold."""

_LOGS = (
    "See why no replica leads: kubectl -n {namespace} logs deployment/grove-admission. Its rules"
    ' must allow create, get and patch of leases, with resourceNames: ["{name}"].'
)


async def check_leader(
    client: Client,
    settings: LeaderElection,
    now: datetime,
) -> Checks:
    """Return a check of the Lease.

    `now` is in UTC. Raise ClusterError if the Lease cannot be read.
    """
    if not settings.enabled:
        return [ok("leader election is off: the only replica reconciles")]

    title = f"Lease {settings.namespace}/{settings.name}"
    remedy = _LOGS.format(namespace=settings.namespace, name=settings.name)
    lease = await find(client, ObjectRef(LEASE, settings.name, settings.namespace))
    if lease is None:
        message = f"{title} does not exist: no replica has led, and nothing is reconciled"
        return [problem(message, remedy)]

    spec = map_at(lease, "spec")
    holder = text_at(spec, "holderIdentity")
    renewed = text_at(spec, "renewTime")
    if not holder:
        return [problem(f"{title} is held by nobody: nothing is reconciled", remedy)]

    seconds = max(0, min(int_of(spec.get("leaseDurationSeconds")), _LONGEST))
    if _age(renewed, now) > timedelta(seconds=seconds) + _SLACK:
        message = (
            f"{title} was last renewed at {renewed or 'no time'} by {holder}: nothing has been"
            " reconciled since"
        )
        return [problem(message, remedy)]

    return [ok(f"{holder} leads")]


def _age(time: str, now: datetime) -> timedelta:
    """Return how long ago a time of an API server was; the longest there is if it is none."""
    try:
        return now - datetime.fromisoformat(time)
    except (ValueError, TypeError, OverflowError):  # TypeError: it has no time zone
        return timedelta.max

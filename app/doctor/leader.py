"""Whether a replica leads: only the leader reconciles."""

from datetime import datetime, timedelta

from app.config.schema import LeaderElection
from app.doctor.report import Check
from app.kube.api import Client, find
from app.objects.resource import LEASE

SUBJECT = "leader"
_SLACK = timedelta(seconds=60)
"""How far the clock here may differ from those of the replicas."""

_LOGS = (
    "See why no replica leads: kubectl -n {namespace} logs deployment/grove-admission. Its rules"
    ' must allow create, get and patch of leases, with resourceNames: ["{name}"].'
)


async def check_leader(client: Client, settings: LeaderElection, now: datetime) -> list[Check]:
    """A check of the Lease. `now` is in UTC. Raises ClusterError if the Lease cannot be read."""
    if not settings.enabled:
        return [Check(SUBJECT, "ok", "leader election is off: the only replica reconciles")]
    title = f"Lease {settings.namespace}/{settings.name}"
    remedy = _LOGS.format(namespace=settings.namespace, name=settings.name)
    lease = await find(client, LEASE, settings.name, settings.namespace)
    if lease is None:
        message = f"{title} does not exist: no replica has led, and nothing is reconciled"
        return [Check(SUBJECT, "problem", message, remedy)]
    spec = lease.get("spec") or {}
    holder = spec.get("holderIdentity")
    renewed = spec.get("renewTime")
    if not holder:
        return [
            Check(SUBJECT, "problem", f"{title} is held by nobody: nothing is reconciled", remedy)
        ]
    end = timedelta(seconds=spec.get("leaseDurationSeconds") or 0) + _SLACK
    if not renewed or datetime.fromisoformat(renewed) + end < now:
        message = (
            f"{title} was last renewed at {renewed} by {holder}: nothing has been reconciled since"
        )
        return [Check(SUBJECT, "problem", message, remedy)]
    return [Check(SUBJECT, "ok", f"{holder} leads")]

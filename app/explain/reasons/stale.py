"""Gangs that KAI evicts as a whole, because they are below their minimum for a while.

Source: `pkg/scheduler/actions/stalegangeviction` of KAI at d5bc503a. KAI notes in the PodGroup
since when it is so, also where it evicts nothing. Its grace period is an argument of the scheduler,
which users can't read; from 0.17 on, a PodGroup may have its own.
"""

from app.explain.gangs.gang import Gang
from app.explain.reasons.reason import Evidence, Reasons, about
from app.explain.reasons.said import is_of_kai
from app.explain.reasons.words import ago, clock, counted, with_age
from app.facts.kai.podgroup import STALE_SINCE

_UNKNOWN = 60.0, ", if its grace period is the default of 60 seconds"
"""KAI's grace period in seconds, if it is given no other, and what to say of it."""
_LATE = 30.0
"""Seconds after which KAI has evicted what it wants to evict."""
_EVICTED = "doesn't meet the minimum required number of pods"
_OFF = (
    "if KAI should leave it alone, have default-staleness-grace-period of its scheduler set to -1s"
)


def gang_stale(gang: Gang) -> Reasons:
    """KAI will evict what runs of a gang."""
    group = gang.pod_group
    if not group or group.stale is None:
        return

    pods = gang.index.pods_of_group.get(group.key, ())
    running = sum(1 for pod in pods if pod.node and pod.is_alive)
    lasts = gang.facts.now - group.stale
    grace, doubt = (group.grace, "") if group.grace is not None else _UNKNOWN
    if running and grace >= 0 and lasts <= grace + _LATE:
        at = clock(group.stale + grace)
        evicts = f"KAI evicts its {counted(running, 'running pod')} at {at}{doubt}"
        text = f"{group.name} has been below its minimum for {ago(lasts)}: {evicts}"
        evidence = Evidence(group.ref, f"metadata.annotations[{STALE_SINCE}]", clock(group.stale))
        remedy = f"see what the others wait for; {_OFF}"
        yield about(evidence, "GangStale", text, remedy, "you", severity="warning")


def gang_evicted(gang: Gang) -> Reasons:
    """KAI has evicted what ran of a gang."""
    group = gang.pod_group
    events = gang.index.events.get(group.uid, ()) if group else ()
    said = next((event for event in events if _EVICTED in event.message and is_of_kai(event)), None)
    if group and said:
        text = f"KAI evicted what ran of {group.name}, which was below its minimum"
        text = with_age(text, said.time, gang.facts.now)
        evidence = Evidence(group.ref, f"event {said.reason}", said.message)
        remedy = f"see why pods of it ended; {_OFF}"
        yield about(evidence, "GangEvicted", text, remedy, "you", severity="warning")

"""Gangs that KAI evicts for others, or because they are below their minimum for a while.

Source: `pkg/scheduler/actions/stalegangeviction` of KAI at d5bc503a. KAI notes in the PodGroup
since when it is so, also where it evicts nothing. Its grace period is an argument of the scheduler,
which users can't read; from 0.17 on, a PodGroup may have its own.
"""

from itertools import chain

from app.explain.gangs.gang import Gang
from app.explain.reasons.reason import Evidence, Reasons, about, ago, clock, counted, with_age
from app.explain.reasons.said import is_of_kai
from app.facts.kai.podgroup import STALE_SINCE

LOST = "lost its place: "
"""What our leader writes between the name of the gang and KAI's words."""
US = "grove-admission"
"""What writes our events."""
_UNKNOWN = 60.0, ", if its grace period is the default of 60 seconds"
"""KAI's grace period in seconds, if it is given no other, and what to say of it."""
_LATE = 30.0
"""Seconds after which KAI has evicted what it wants to evict."""
_BELOW = "doesn't meet the minimum required number of pods"
_FOR_OTHERS = "was preempted"
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
    text = f"KAI evicted what ran of {gang.ref.name}, which was below its minimum"
    return _evicted(gang, _BELOW, "GangEvicted", text, f"see why pods of it ended; {_OFF}")


def placement_lost(gang: Gang) -> Reasons:
    """KAI has evicted pods of a gang for another one, or to move them."""
    text = "It lost its place: {}"
    return _evicted(gang, _FOR_OTHERS, "PlacementLost", text, "see what keeps it from another")


def _evicted(gang: Gang, words: str, id: str, text: str, remedy: str) -> Reasons:
    """Tell KAI's last event about an eviction that has these words, else our leader's.

    KAI's are gone after an hour, and with its PodGroup.
    """
    begin = f"{'/'.join(gang.ref.key)} {LOST}"
    of = gang.pod_group or gang
    uids = [known.uid for known in (gang.pod_group, gang.pcs) if known]
    for said in chain.from_iterable(gang.index.events.get(uid, ()) for uid in uids):
        is_ours = said.source == US and said.message.startswith(begin)
        if words in said.message and (is_ours or is_of_kai(said)):
            words_of_kai = said.message.removeprefix(begin).splitlines()[0].rstrip(".")
            told = with_age(text.format(words_of_kai), said.time, gang.facts.now)
            evidence = Evidence(of.ref, f"event {said.reason}", said.message)
            yield about(evidence, id, told, remedy, "you", severity="warning")
            return

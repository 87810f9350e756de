"""What KAI says about gangs that wait, and what it means that it says nothing."""

from collections.abc import Sequence

from app.explain.gangs.gang import Gang
from app.explain.reasons.reason import ago, listed, with_age
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.pod import Pod
from app.facts.labels import KAI_SCHEDULER

_KAI_COMPONENTS = {"kai-scheduler", "binder", "pod-grouper", "podgrouper"}
"""What writes events for KAI. An event that doesn't say who wrote it may be anybody's."""
_SOON = 60.0
"""Seconds after which KAI has said something, if it runs."""


def silence(gangs: Sequence[Gang], asked: float | None) -> str:
    """Return what it means that KAI has said nothing of what waits, since it was asked for."""
    waiting = [gang for gang in gangs if gang.waits]
    schedulers = {pod.scheduler for gang in waiting for pod in gang.waiting}
    if schedulers and KAI_SCHEDULER not in schedulers:
        return f"the pods are placed by {listed(sorted(schedulers))}, not by KAI"

    age = _age(waiting, asked)
    serves = _serves_pools(waiting)
    if age < _SOON:
        if_served = f", if its scheduler {serves}" if serves else ""
        return f"KAI has said nothing: it should decide within seconds{if_served}"

    and_serves = f" and {serves}" if serves else ""
    return f"KAI has said nothing for {ago(age)}: see whether its scheduler runs{and_serves}"


def _serves_pools(waiting: Sequence[Gang]) -> str:
    pools = sorted({gang.pool for gang in waiting if gang.pool})
    return f"serves node pool {listed(pools)}" if pools else ""


def _age(waiting: Sequence[Gang], asked: float | None) -> float:
    """Return for how many seconds pods have waited, 0 if that is not known.

    Others of a gang may run since long ago.
    """
    now = waiting[0].facts.now if waiting else 0.0
    times = [pod.created for gang in waiting for pod in gang.waiting]
    since = min((time for time in times if time is not None), default=asked)
    return now - since if since is not None and now else 0.0


def said_of(gangs: Sequence[Gang]) -> tuple[str, ...]:
    """KAI's words about gangs that wait, unchanged, with their age if it is known."""
    words: dict[str, None] = {}
    for gang in gangs:
        if gang.waits:
            for said, time in _words_about(gang):
                # on one line: KAI begins new ones within its words
                words[with_age(" ".join(said.split()), time, gang.facts.now)] = None
    return tuple(words)


def words_of_kai(gang: Gang) -> str:
    """Return KAI's first words about a gang, "" if it has said nothing."""
    return next((said for said, _ in _words_about(gang)), "")


def _words_about(gang: Gang) -> list[tuple[str, float | None]]:
    """Words and their time: of the PodGroup, else of pods of KAI, else of events about them."""
    group = gang.pod_group
    if group and group.said:
        return [(said.message or said.reason, said.time) for said in group.said]

    pods = [pod for pod in gang.waiting if pod.scheduler == KAI_SCHEDULER]
    of_pods: list[tuple[str, float | None]]
    of_pods = [(pod.unscheduled, None) for pod in pods if pod.unscheduled]
    return of_pods or _events_about(gang, pods)


def _events_about(gang: Gang, pods: Sequence[Pod]) -> list[tuple[str, float | None]]:
    uids = [pod.uid for pod in pods]
    if gang.pod_group:
        uids.insert(0, gang.pod_group.uid)

    latest = (next(filter(is_of_kai, gang.index.events.get(uid, ())), None) for uid in uids)
    return [(event.message, event.time) for event in latest if event]


def is_of_kai(event: Event) -> bool:
    """Return whether KAI wrote an event."""
    return event.source in _KAI_COMPONENTS

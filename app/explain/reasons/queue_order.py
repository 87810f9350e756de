"""Report that gangs ahead in KAI's order take the room of a gang or fill its queue."""

from collections.abc import Iterator, Sequence

from app.explain.gangs.gang import Gang
from app.explain.placing.demand import where
from app.explain.queue_order.cycle import Turn, line_of
from app.explain.reasons.messages import is_of_kai, one_line
from app.explain.reasons.reason import Evidence, Reasons, about, listed, with_age
from app.explain.state.queues import chain

ALONE = "The gang would fit by itself, but not after the gangs ahead of it"


def after_others(gang: Gang) -> Reasons:
    """Report that the gang would fit by itself, but not after gangs that KAI places before it."""
    turn = line_of(gang.index).get(gang.ref)
    if not turn or turn.used or not gang.placements.now.fits:
        return
    before = list(_in_the_way(gang, turn))
    if not before:
        return

    names = listed((other.gang.name for other in before), 2)
    text = f"{ALONE}: {names} {_takes(gang, turn, before)}"
    evidence = Evidence(gang.ref, "the next cycle of KAI", f"{turn.number} of {turn.count}")
    doomed = next(filter(None, (_refused_binding(gang, other) for other in before)), None)
    if doomed:
        name, words = doomed
        text = f"{text}. KAI cannot bind {name}: {words}"
        remedy = (
            f"Correct or delete {name}, or ask its owner to do so: until then, KAI may choose this"
            f" place for {name} in every cycle"
        )
        yield about(evidence, "AfterOthers", text, remedy, "you")
        return
    have = "has" if len(before) == 1 else "have"
    remedy = f"Wait until {names} {have} started and room is free again"
    if turn.full:
        remedy = (
            f"Wait until pods of queue {turn.full} have ended, or ask for a higher limit or quota"
            " of this queue"
        )
    yield about(evidence, "AfterOthers", text, remedy, "wait")


def _refused_binding(gang: Gang, other: Turn) -> tuple[str, str] | None:
    """Return (name of the gang of `other`, KAI's message that binding one of its pods failed).

    Only pending pods count. Return None if there is no such message.
    """
    index = gang.index
    pods = index.pods_of_group.get(other.gang.key, ())
    owned = [pod for pod in pods if not pod.node]
    for pod in owned:
        for event in index.events_about(pod.namespace, pod.uid):
            if event.reason in ("BindingError", "FailedBinding") and is_of_kai(event):
                return other.gang.name, with_age(
                    one_line(event.message), event.time, gang.facts.now
                )
    return None


def _takes(gang: Gang, turn: Turn, before: Sequence[Turn]) -> str:
    s = "s" if len(before) == 1 else ""
    if turn.full:
        return f"leave{s} too little of the limit or quota of queue {turn.full}"
    used = frozenset[int]().union(*(other.used for other in before))
    return f"take{s} {listed(where(gang.placements.domains, gang.demand, used))}"


def place_words(number: int, count: int, queue: str) -> str:
    """Return a text such as `position 3 of 5 in queue team-a`."""
    return f"position {number} of {count} in queue {queue}"


def _in_the_way(gang: Gang, turn: Turn) -> Iterator[Turn]:
    """Yield the turns of the gangs ahead that take the room of this gang.

    If a limit or quota of a queue keeps this gang out, they are the gangs in this queue or below
    it. Otherwise, they are the gangs that get nodes which are open to this gang.
    """
    index = gang.index
    full = index.queues.get(turn.full)
    fits = gang.placements.fit().values()
    for other in line_of(index).values():
        if other.pool != turn.pool or not other.used or other.order >= turn.after:
            continue
        filling = full in chain(index, other.queue) if full else False
        if filling or (not full and any(fit[at] for fit in fits for at in other.used)):
            yield other

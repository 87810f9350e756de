"""The places of gangs in KAI's line, and what becomes of each in the next cycle."""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Literal

from app.base.value import Value
from app.explain.answers.branch import AS_JSON
from app.explain.gangs.gang import Gang
from app.explain.placing.demand import where
from app.explain.placing.placements import EMPTY
from app.explain.queue_order.cycle import Turn, line_of
from app.explain.reasons.queue_order import place_words
from app.explain.reasons.reason import Reason, listed
from app.explain.reasons.table import NOT_HOLDING
from app.facts.identity import Ref
from app.facts.kai.shard import Shard

Next = Literal["next", "after", "held", "waits", "never"]
"""What becomes of a gang.

It is placed in the next cycle; or would be, but not after others; or has a place and is `held` by
another reason; or `waits` for room or for its queue; or has no place even if all others ended.
"""

NEXT: dict[Next, str] = {
    "next": "placed next",
    "after": "placed after others",
    "held": "has room, but something else blocks it",
    "waits": "does not fit right now",
    "never": "would not fit in an empty cluster",
}

_OF_OTHERS = {
    "GateBaseGang",
    "GateForeign",
    "GateNotInGang",
    "GateOpens",
    "GangIncomplete",
    "LowerPriority",
    "QueueLimit",
    "QueueQuota",
    "PreemptionDelay",
}
"""Reasons that the line looks at itself: if it places a gang, they hold for other pods."""


class InLine(Value, rename={**AS_JSON, "may_differ": "mayDiffer"}):
    """A gang in KAI's line.

    It is the `number`th of `count` in its queue, and the `order`th of all. `where` are the domains
    that it gets next. If it is not the `first` of those that get no place, what becomes free may go
    to others before it. `may_differ` are the settings of its SchedulingShard that may change all
    this.
    """

    ref: Ref
    queue: str
    number: int
    count: int
    order: int
    next: Next
    where: tuple[str, ...] = ()
    first: bool = True
    may_differ: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """`position 2 of 5 in queue team-a, placed next in r3`."""
        place = place_words(self.number, self.count, self.queue)
        where = f" in {listed(self.where)}" if self.where else ""
        if self.next == "waits" and not self.first:
            elsewhere = "" if self.number > 1 else " in other queues"
            where = f"; other gangs{elsewhere} are ahead of it"
        return f"{place}, {NEXT[self.next]}{where}{_unless(self.may_differ)}"


def _unless(settings: Sequence[str]) -> str:
    return f", unless {listed(settings)} changes that" if settings else ""


def in_line(gangs: Iterable[Gang], reasons: Sequence[Reason]) -> tuple[InLine, ...]:
    """Return the places of those gangs that are in the line, in its order."""
    found = []
    for gang in gangs:
        line = line_of(gang.index)
        turn = line.get(gang.ref)
        if turn:
            becomes = _next(gang, turn, reasons)
            used = turn.used if becomes == "next" else frozenset[int]()
            got = where(gang.placements.domains, gang.demand, used)
            place = (turn.queue, turn.number, turn.count, turn.order)
            of_pool = (other for other in line.values() if other.pool == turn.pool)
            first = next(other for other in of_pool if other is turn or not other.used)
            differs = tuple(settings_of(gang.facts.shards, turn.pool))
            found.append(InLine(gang.ref, *place, becomes, got, first is turn, differs))
    return tuple(sorted(found, key=attrgetter("order")))


def settings_of(shards: Iterable[Shard], pool: str) -> Iterator[str]:
    """Yield a text for each SchedulingShard of a pool with settings of its own that matter here."""
    for shard in shards:
        if shard.pool == pool and shard.sets:
            yield f"SchedulingShard {shard.name} with {listed(shard.sets)}"


def _next(gang: Gang, turn: Turn, reasons: Sequence[Reason]) -> Next:
    if turn.used:
        holding = {r.id for r in reasons if r.severity == "problem"} - NOT_HOLDING - _OF_OTHERS
        return "held" if holding else "next"
    if any(reason.id == "AfterOthers" and gang.ref in reason.objects for reason in reasons):
        return "after"
    return "waits" if gang.placements.under(EMPTY).fits else "never"

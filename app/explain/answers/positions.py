"""Find the positions of gangs in KAI's order, and predict the result of the next cycle."""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Literal

from app.base.value import Value
from app.explain.answers.branch import AS_JSON
from app.explain.gangs.gang import Gang
from app.explain.placing.demand import where
from app.explain.placing.placements import EMPTY
from app.explain.queue_order.cycle import Turn, line_of
from app.explain.reasons.claims import uses_claims
from app.explain.reasons.queue_order import place_words
from app.explain.reasons.reason import Reason, listed
from app.explain.reasons.table import keeps_from_starting
from app.facts.identity import Ref
from app.facts.kai.shard import Shard

Next = Literal["next", "after", "held", "waits", "never"]
"""The prediction for a gang.

- `next`: KAI places it in its next cycle;
- `after`: it would fit by itself, but not after the gangs ahead of it;
- `held`: it has room, but another reason blocks it;
- `waits`: KAI can't place it now, because it does not fit or its queue has no room for it;
- `never`: it would not fit even if all other pods ended and all nodes were open to it.
"""

NEXT: dict[Next, str] = {
    "next": "KAI should place it next",
    "after": "gangs ahead of it take its room",
    "held": "it has room, but something else blocks it",
    "waits": "KAI can't place it right now",
    "never": "it would not fit in an empty cluster",
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
"""The ids of the reasons that the prediction already takes into account."""


class InLine(Value, rename={**AS_JSON, "may_differ": "mayDiffer"}):
    """The position of a gang among the gangs that KAI considers in its next cycle."""

    ref: Ref
    queue: str
    number: int
    """Its position in its queue, from 1."""
    count: int
    """The number of these gangs in its queue."""
    order: int
    """Its position among all these gangs of its node pool, from 1."""
    next: Next
    where: tuple[str, ...] = ()
    """The domains, or nodes outside domains, in which KAI should place it next."""
    first: bool = True
    """Do all gangs of its node pool that are ahead of it get a place in the next cycle?"""
    may_differ: tuple[str, ...] = ()
    """The settings of its SchedulingShard, or rules of its pods, that may change the prediction."""

    @property
    def words(self) -> str:
        """A text such as `position 2 of 5 in queue team-a; KAI should place it next in r3`."""
        return self._words(NEXT[self.next])

    @property
    def words_while_silent(self) -> str:
        """`words`, but without a promise: while KAI is silent, it may never place the gang."""
        return self._words("by KAI's order, it is next" if self.next == "next" else NEXT[self.next])

    def _words(self, prediction: str) -> str:
        place = place_words(self.number, self.count, self.queue)
        where = f" in {listed(self.where)}" if self.where else ""
        if self.next == "waits" and not self.first:
            elsewhere = "" if self.number > 1 else " in other queues"
            where = f", and other gangs{elsewhere} are ahead of it"
        return f"{place}; {prediction}{where}{self.unless}"

    @property
    def unless(self) -> str:
        """The exception, such as `, unless SchedulingShard gold changes that`, or ""."""
        if self.next == "never" or not self.may_differ:
            return ""
        return f", unless {listed(self.may_differ)} changes that"


def in_line(gangs: Iterable[Gang], reasons: Sequence[Reason]) -> tuple[InLine, ...]:
    """Return the positions of the gangs that KAI's next cycle considers, in KAI's order."""
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
            unchecked = gang.demand.unchecked
            if unchecked and becomes == "next":
                differs += (f"a rule of its pods that is not checked ({listed(unchecked)})",)
            unread = _unread(gang)
            if unread and becomes == "next":
                differs += (f"a {unread} of its pods that was not read",)
            found.append(InLine(gang.ref, *place, becomes, got, first is turn, differs))
    return tuple(sorted(found, key=attrgetter("order")))


def _unread(gang: Gang) -> str:
    """Return the kind of the claims of the gang's pods if not all were read, otherwise ""."""
    unread = gang.facts.unread
    if uses_claims(gang) and not unread.isdisjoint(("claims", "claim_templates")):
        return "ResourceClaim"
    has_volumes = any(pod.volumes for pod in gang.waiting)
    return "PersistentVolumeClaim" if has_volumes and "volume_claims" in unread else ""


def settings_of(shards: Iterable[Shard], pool: str) -> Iterator[str]:
    """Yield a text for each SchedulingShard of a pool that may change the order of its gangs."""
    for shard in shards:
        if shard.pool == pool and shard.sets:
            yield f"SchedulingShard {shard.name} with {listed(shard.sets)}"


def _next(gang: Gang, turn: Turn, reasons: Sequence[Reason]) -> Next:
    if turn.used:
        others = (reason for reason in reasons if reason.id not in _OF_OTHERS)
        return "held" if any(keeps_from_starting(each, gang) for each in others) else "next"
    if any(reason.id == "AfterOthers" and gang.ref in reason.objects for reason in reasons):
        return "after"
    return "waits" if gang.placements.under(EMPTY).fits else "never"

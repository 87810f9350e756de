"""What edits would do to gangs: which must move, which break, which that wait now would start.

Gangs get their places one after the other: first those that must move, by priority and age, then
those that wait, in the order of KAI's line. A gang counts as placed if there is a placement of it
beside all before it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from app.base.value import Value
from app.explain.answers.topology import survey
from app.explain.answers.whatif.edited_snapshot import Supposed, set_ref, suppose, without_nodes
from app.explain.answers.whatif.edits import Supposition
from app.explain.answers.whatif.gangs_to_place import (
    Look,
    Seeker,
    gangs_of,
    is_alone,
    seekers_of,
    waiting_of,
)
from app.explain.gangs.gang import Gang
from app.explain.gangs.planned import PLACEMENT
from app.explain.placing.arrangement import Arrangement, Wish
from app.explain.placing.demand import Demand, Vector, where
from app.explain.reasons.reason import Reason
from app.explain.reasons.table import NOT_HOLDING, examine
from app.explain.state.amounts import is_device, resources_of
from app.explain.state.domains import Domains
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.identity import Key, Ref

How = Literal["fits", "restarts", "shrinks", "breaks", "starts", "held", "waits"]
"""What becomes of a gang.

It must move, and its pods `fit` again beside the rest; or all of it `restarts` elsewhere; or it
stays above its minimum with fewer pods and `shrinks`; or it `breaks`. Or it waits now, and
`starts`; or has a place and is `held` for another reason; or still `waits`.
"""

Tick = Callable[[], None]
"""Is called at each step. An error that it raises ends the question."""

_PLACED = ("fits", "restarts", "starts", "held")

OF_PLACE = {*PLACEMENT, "BoundToDomain"}
"""Reasons for which pods find no place, whether or not they have been made."""


class Fate(Value, rename="camel"):
    """What becomes of a gang.

    `pods` of it need a place; `where` are the domains that they would get, or the nodes if there
    are no levels. `had_place` if there is a placement as it is now too. Unless `certain`, a
    placement that was not found is not ruled out. `reasons` hold after the edits.
    """

    gang: Ref
    workload: Ref
    how: How
    pods: int
    where: tuple[str, ...] = ()
    had_place: bool = False
    certain: bool = True
    reasons: tuple[Reason, ...] = ()


class Worse(Value):
    """A workload that need not move, and the reasons that it would have and has not now."""

    workload: Ref
    reasons: tuple[Reason, ...]


class Effects(Value):
    """`topology` are reasons about labels that would be new.

    `others` is how many pods must leave that belong to no gang and ask for no device: no place is
    looked for. `cut` is how many pods without a gang must leave, and wait, beyond the first of them
    that were looked at. `made` are the sets that would be made anew.
    """

    lines: tuple[str, ...]
    moves: tuple[Fate, ...]
    waits: tuple[Fate, ...]
    worse: tuple[Worse, ...]
    topology: tuple[Reason, ...]
    others: int
    made: frozenset[Ref]
    cut: tuple[int, int]

    @property
    def exit_code(self) -> int:
        """0: nothing breaks, and what would be made has a place; 1 otherwise, or if not known."""
        lost = any(fate.how in ("breaks", "shrinks") for fate in self.moves)
        unmade = any(fate.workload in self.made and fate.how != "starts" for fate in self.waits)
        return 1 if lost or unmade or self.worse or self.cut[0] else 0


def effects(
    index: Index,
    edits: Iterable[Supposition],
    topology: str = "",
    tick: Tick = lambda: None,
) -> Effects:
    """Return what edits would do. In the end, the index has the facts after them.

    There is only one index, because it takes as much memory as the facts. Raise UnusableEdit.
    """
    before = index.facts
    known = {reason.text for reason in survey(index, topology).reasons}

    supposed = suppose(index, edits, topology)
    made = frozenset(map(set_ref, supposed.made))
    problems: dict[Ref, list[Reason]] = {}
    moving, waiting = seekers_of(index, supposed, _note_in(problems, tick))
    told = {seeker.workload for seeker in moving.seekers} | made
    seeking = told | {seeker.workload for seeker in waiting.seekers}
    for ref in told:
        problems.pop(ref, None)
    had_place, worse = _compared(index, before, seeking, problems, tick)
    all_seekers = [*moving.seekers, *waiting.seekers]
    moves, waits = _fates(
        _Arranging(index, all_seekers, tick), had_place, moving.seekers, waiting.seekers
    )

    new = (reason for reason in survey(index, topology).reasons if reason.text not in known)
    others = _others(index, supposed, moves) - moving.cut
    cut = moving.cut, waiting.cut

    return Effects(supposed.lines, moves, waits, worse, tuple(new), others, made, cut)


def _note_in(problems: dict[Ref, list[Reason]], tick: Tick) -> Look:
    """Return a function that puts the problems of each workload into `problems`."""

    def look(workload: Ref, gangs: Iterable[Gang]) -> None:
        tick()
        # few have any: only for these, those that they had before are looked for
        if found := examine(gangs, quoting=False).problems:
            problems[workload] = found

    return look


def _fates(
    arranging: "_Arranging",
    had_place: set[Ref],
    moving: Sequence[Seeker],
    waiting: Sequence[Seeker],
) -> tuple[tuple[Fate, ...], tuple[Fate, ...]]:
    """Return what becomes of the gangs that must move, and of those that wait."""
    moves = tuple(arranging.move(seeker) for seeker in moving)
    starts = [arranging.start(seeker, seeker.gang.ref in had_place) for seeker in waiting]
    waits = (fate for fate in starts if fate)
    # only now: a later gang may have sent an earlier one to another place
    return tuple(map(arranging.located, moves)), tuple(map(arranging.located, waits))


def _compared(
    index: Index,
    before: Snapshot,
    seeking: Iterable[Ref],
    problems: Mapping[Ref, list[Reason]],
    tick: Tick,
) -> tuple[set[Ref], tuple[Worse, ...]]:
    """Compare with what was before.

    Return which gangs of `seeking` waited and had a place, one beside the other, and which of the
    `problems` of workloads are new. No edit ends a wait, so that no other gangs waited.
    """
    after = index.facts
    index.follow(before)
    waiting = waiting_of(index, seeking)
    arranging = _Arranging(index, waiting, tick)
    had_place = {seeker.gang.ref for seeker in waiting if arranging.has_place(seeker)}

    worse = []
    for ref, found in problems.items():
        tick()
        known = {reason.id for reason in examine(gangs_of(index, ref), quoting=False).problems}
        new = tuple(reason for reason in found if reason.id not in known)
        if new:
            worse.append(Worse(ref, new))
    index.follow(after)
    return had_place, tuple(worse)


def _others(index: Index, supposed: Supposed, moves: Sequence[Fate]) -> int:
    """Return how many pods without a gang must leave for which no place was looked for."""
    looked_for = {(fate.gang.namespace, fate.gang.name) for fate in moves}
    pods = (index.pods[key] for key in supposed.moved - looked_for if key in index.pods)
    return sum(1 for pod in pods if is_alone(index, pod))


class _Arranging:
    """An arrangement of gangs in the facts of one index, one after the other."""

    def __init__(self, index: Index, seekers: Sequence[Seeker], tick: Tick) -> None:
        self._index = index
        self._tick = tick
        members = [member for seeker in seekers for member in seeker.gang.members]
        shapes = {shape for member in members for shape in (member.shape, *member.shapes)}
        devices = (name for node in index.nodes for name in node.allocatable if is_device(name))
        self._names = resources_of(shapes, devices)
        self._placed: dict[Ref, tuple[int, Domains, Demand]] = {}
        self._arrangement = Arrangement(self._names, index.free(self._names), index.shares)

    def has_place(self, seeker: Seeker) -> bool:
        """Give a gang that waits its place; false if there is none."""
        demand = seeker.gang.demand
        return bool(demand.count) and self._add(seeker.gang, demand)

    def start(self, seeker: Seeker, had_place: bool) -> Fate | None:
        """Tell what becomes of a gang that waits; None if it has nothing to place."""
        gang = seeker.gang
        demand = gang.demand
        if not demand.count:
            return None

        placed = self._add(gang, demand)
        reasons = _holding(seeker)
        how: How = "waits"
        if placed:
            how = "held" if reasons else "starts"
        fate = self._fate(seeker, how, demand)
        return replace(fate, reasons=reasons, had_place=had_place)

    def move(self, seeker: Seeker) -> Fate:
        """Tell what becomes of a gang that must move."""
        gang = seeker.gang
        again = gang.whole.demand_for(lambda pod: pod.key in seeker.lost)
        if self._add(gang, again):
            return self._fate(seeker, "fits", again)
        certain = self._arrangement.is_certain

        if gang.placed:
            elsewhere = self._elsewhere(seeker)
            if elsewhere:
                return elsewhere
            certain = certain and self._arrangement.is_certain

        missing = _missing(seeker)
        least = gang.whole.demand_for(lambda pod: pod.key in missing)
        if gang.whole.is_satisfied or self._add(gang, least):
            return replace(self._fate(seeker, "shrinks", again), certain=certain)
        fate = self._fate(seeker, "breaks", again)
        return replace(fate, certain=certain and fate.certain, reasons=_holding(seeker))

    def _elsewhere(self, seeker: Seeker) -> Fate | None:
        """Tell where all of a gang goes, if those of its pods that could stay leave too."""
        staying = {pod.key for pod in seeker.gang.placed}
        index = self._index
        facts = index.facts
        free = index.free(self._names)
        # for a moment: an index anew would take ten times as long
        index.follow(without_nodes(facts, staying))
        gangs = gangs_of(index, seeker.workload)
        gang = next(gang for gang in gangs if gang.ref == seeker.gang.ref)
        leaving = seeker.lost | staying
        demand = gang.whole.demand_for(lambda pod: pod.key in leaving)
        freed = _freed(free, index.free(self._names))
        has_place = self._add(gang, demand, freed)
        index.follow(facts)
        return self._fate(seeker, "restarts", demand) if has_place else None

    def _add(self, gang: Gang, demand: Demand, freed: tuple[tuple[int, Vector], ...] = ()) -> bool:
        self._tick()
        placements = gang.placements_of(demand)
        return self._arrangement.add(Wish(demand, placements.domains, placements.fit(), freed))

    def _fate(self, seeker: Seeker, how: How, demand: Demand) -> Fate:
        certain = self._arrangement.is_certain
        if how in _PLACED:
            domains = seeker.gang.placements_of(demand).domains
            number = len(self._arrangement.used) - 1
            self._placed[seeker.gang.ref] = number, domains, demand
        return Fate(seeker.gang.ref, seeker.workload, how, demand.count, certain=certain)

    def located(self, fate: Fate) -> Fate:
        """Return the fate with the place that the gang has in the end."""
        if fate.gang not in self._placed:
            return fate
        number, domains, demand = self._placed[fate.gang]
        used = self._arrangement.used[number]
        return replace(fate, where=where(domains, demand, used))


def _missing(seeker: Seeker) -> set[Key]:
    """Pods that a gang has lost and needs for its minimum."""
    missing: set[Key] = set()
    for member in seeker.gang.members:
        lost = [pod.key for pod in member.pods if pod.key in seeker.lost]
        missing.update(lost[: max(0, member.minimum - len(member.placed))])
    return missing


def _holding(seeker: Seeker) -> tuple[Reason, ...]:
    """Return the problems that keep a gang from starting, whether or not it has a place."""
    gang = seeker.gang
    is_planned = gang.pod_gang is None and gang.pcs is not None
    problems = examine([gang], quoting=False).problems
    if is_planned or seeker.lost:
        of_place = (reason for reason in problems if reason.id in OF_PLACE)
        # that nodes are closed may be what was asked about
        return tuple(sorted(of_place, key=lambda reason: reason.id == "NodesUnfit"))
    return tuple(reason for reason in problems if reason.id not in NOT_HOLDING)


def _freed(before: Sequence[Vector], after: Sequence[Vector]) -> tuple[tuple[int, Vector], ...]:
    """Return what each node has more, for those that have more."""
    pairs = enumerate(zip(before, after, strict=True))
    return tuple(
        (position, tuple([new - old for old, new in zip(had, has, strict=True)]))
        for position, (had, has) in pairs
        if had is not has and had != has
    )

"""Compute the effects of edits on gangs: which must move, which break, and which would start.

Gangs are placed one after the other: first the gangs that must move, by priority and age, then
pending gangs, in KAI's order. A gang counts as placed if it fits together with all gangs before it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from app.base.value import Value
from app.explain.answers.topology import survey
from app.explain.answers.whatif.edited_snapshot import (
    EditedSnapshot,
    apply_edits,
    set_ref,
    without_nodes,
)
from app.explain.answers.whatif.edits import Addition, Supposition
from app.explain.answers.whatif.gangs_to_place import (
    GangToPlace,
    Look,
    gangs_of,
    gangs_to_place,
    is_alone,
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
"""The effect on a gang.

A gang that must move either `fits` again with the rest, `restarts` elsewhere as a whole, `shrinks`
to fewer pods but keeps its minimum, or `breaks`. A pending gang either `starts`, is `held` (it
fits, but something else blocks it), or still `waits`.
"""

Tick = Callable[[], None]
"""A function that is called at each step. Raising an error in it stops the computation."""

_PLACED = ("fits", "restarts", "starts", "held")

OF_PLACE = {*PLACEMENT, "BoundToDomain"}
"""The ids of reasons about placement, which can apply before the pods exist."""


class Fate(Value, rename="camel"):
    """The effect of the edits on one gang."""

    gang: Ref
    workload: Ref
    how: How
    pods: int
    """The number of pods that need a place."""
    where: tuple[str, ...] = ()
    """The domains, or nodes outside domains, in which they would be placed."""
    had_place: bool = False
    """Is the gang pending, and would it have fit before the edits too?"""
    certain: bool = True
    """Is the result certain? If not, a placement may exist that was not found."""
    reasons: tuple[Reason, ...] = ()
    """The reasons that keep the gang from starting after the edits."""


_LACKS_ROOM = {
    "AfterOthers": 1,
    "LevelLabelMissing": 2,
    "NoDomainFits": 2,
    "NodesUnfit": 2,
    "OtherResource": 2,
}
"""The reasons that say why a gang has no place now, each with a rank.

A gang that already had one of these reasons before is not worse off if a reason of the same or a
lower rank replaces it. After a rack is drained, for example, NodesUnfit can replace NoDomainFits.
"""


class Worse(Value):
    """A workload that need not move, with the reasons that apply only after the edits."""

    workload: Ref
    reasons: tuple[Reason, ...]


class Effects(Value):
    """The effects of edits on gangs, workloads and the topology."""

    lines: tuple[str, ...]
    """One line for each edit, which says what it changed."""
    moves: tuple[Fate, ...]
    """The effects on gangs that must move."""
    waits: tuple[Fate, ...]
    """The effects on pending gangs."""
    worse: tuple[Worse, ...]
    topology: tuple[Reason, ...]
    """The problems of the topology that exist only after the edits."""
    others: int
    """The number of pods that must leave, and that belong to no gang and request no device.

    They are not examined.
    """
    made: frozenset[Ref]
    """The applied PodCliqueSets, whose gangs would be created or recreated."""
    cut: tuple[int, int]
    """The numbers of pods without a gang that were not examined because they are too many.

    The numbers are (pods that must leave, pending pods).
    """

    @property
    def exit_code(self) -> int:
        """The exit code, 1 or 0.

        It is 1 if a gang breaks or shrinks, if a workload is worse, if a gang of an applied
        PodCliqueSet does not start, or if some pods that must leave were not examined because they
        are too many.
        """
        lost = any(fate.how in ("breaks", "shrinks") for fate in self.moves)
        unmade = any(fate.workload in self.made and fate.how != "starts" for fate in self.waits)
        return 1 if lost or unmade or self.worse or self.cut[0] else 0


def effects(
    index: Index,
    edits: Iterable[Supposition],
    topology: str = "",
    tick: Tick = lambda: None,
) -> Effects:
    """Return the effects of edits. Afterwards, the index has the facts after the edits.

    There is only one index, because it takes as much memory as the facts. Raise UnusableEdit if an
    edit is invalid.
    """
    edits = list(edits)
    before = index.facts
    known = {reason.text for reason in survey(index, topology).reasons}

    edited = apply_edits(index, edits, topology)
    made = frozenset(map(set_ref, edited.made))
    problems: dict[Ref, list[Reason]] = {}
    moving, waiting = gangs_to_place(index, edited, _note_in(problems, tick))
    told = {candidate.workload for candidate in moving.candidates} | made
    seeking = told | {candidate.workload for candidate in waiting.candidates}
    for ref in told:
        problems.pop(ref, None)
    only_adds = all(isinstance(edit, Addition) for edit in edits)
    had_place, worse = _compared(index, before, seeking, problems, tick, only_adds=only_adds)
    candidates = [*moving.candidates, *waiting.candidates]
    moves, waits = _fates(
        _Arranging(index, candidates, tick), had_place, moving.candidates, waiting.candidates
    )

    new = (reason for reason in survey(index, topology).reasons if reason.text not in known)
    others = _others(index, edited, moves) - moving.cut
    cut = moving.cut, waiting.cut

    return Effects(edited.lines, moves, waits, worse, tuple(new), others, made, cut)


def _note_in(problems: dict[Ref, list[Reason]], tick: Tick) -> Look:
    """Return a function that stores the problems of each workload in `problems`."""

    def look(workload: Ref, gangs: Iterable[Gang]) -> None:
        tick()
        # few workloads have problems, so only these are compared with the state before the edits
        if found := examine(gangs, quoting=False).problems:
            problems[workload] = found

    return look


def _fates(
    arranging: "_Arranging",
    had_place: set[Ref],
    moving: Sequence[GangToPlace],
    waiting: Sequence[GangToPlace],
) -> tuple[tuple[Fate, ...], tuple[Fate, ...]]:
    """Return the effects on the gangs that must move, and on pending ones."""
    moves = tuple(arranging.move(candidate) for candidate in moving)
    starts = [arranging.start(candidate, candidate.gang.ref in had_place) for candidate in waiting]
    waits = (fate for fate in starts if fate)
    # located last, because placing a later gang may have moved an earlier one
    return tuple(map(arranging.located, moves)), tuple(map(arranging.located, waits))


def _compared(
    index: Index,
    before: Snapshot,
    seeking: Iterable[Ref],
    problems: Mapping[Ref, list[Reason]],
    tick: Tick,
    *,
    only_adds: bool,
) -> tuple[set[Ref], tuple[Worse, ...]]:
    """Return the pending gangs that would have fit together before, and the worse workloads.

    `seeking` are the workloads of the pending gangs. These workloads have all gangs that were
    pending before, because no edit gives a pending pod a node. `problems` has the problems of the
    other workloads after the edits. With `only_adds`, edits only add nodes, so a gang that was
    pending before is not worse, even if it has other problems.
    """
    after = index.facts
    index.follow(before)
    waiting = waiting_of(index, seeking)
    arranging = _Arranging(index, waiting, tick)
    had_place = {candidate.gang.ref for candidate in waiting if arranging.has_place(candidate)}

    worse = []
    for ref, found in problems.items():
        tick()
        known = {reason.id for reason in examine(gangs_of(index, ref), quoting=False).problems}
        if only_adds and known - NOT_HOLDING:
            continue
        lacked = max((_LACKS_ROOM.get(id, 0) for id in known), default=0)
        new = tuple(
            reason
            for reason in found
            if reason.id not in known and _LACKS_ROOM.get(reason.id, lacked + 1) > lacked
        )
        if new:
            worse.append(Worse(ref, new))
    index.follow(after)
    return had_place, tuple(worse)


def _others(index: Index, edited: EditedSnapshot, moves: Sequence[Fate]) -> int:
    """Return how many pods without a gang must leave and were not examined."""
    looked_for = {(fate.gang.namespace, fate.gang.name) for fate in moves}
    pods = (index.pods[key] for key in edited.moved - looked_for if key in index.pods)
    return sum(1 for pod in pods if is_alone(index, pod))


class _Arranging:
    """An arrangement of the gangs of one index, which are placed one after the other."""

    def __init__(self, index: Index, candidates: Sequence[GangToPlace], tick: Tick) -> None:
        self._index = index
        self._tick = tick
        members = [member for candidate in candidates for member in candidate.gang.members]
        shapes = {shape for member in members for shape in (member.shape, *member.shapes)}
        devices = (name for node in index.nodes for name in node.allocatable if is_device(name))
        self._names = resources_of(shapes, devices, index.offered)
        self._placed: dict[Ref, tuple[int, Domains, Demand]] = {}
        self._arrangement = Arrangement(self._names, index.free(self._names), index.shares)

    def has_place(self, candidate: GangToPlace) -> bool:
        """Place a pending gang. Return False if it does not fit, or has no pods to place."""
        demand = candidate.gang.demand
        return bool(demand.count) and self._add(candidate.gang, demand)

    def start(self, candidate: GangToPlace, had_place: bool) -> Fate | None:
        """Place a pending gang. Return the effect on it, or None if it has no pods to place."""
        gang = candidate.gang
        demand = gang.demand
        if not demand.count:
            return None

        placed = self._add(gang, demand)
        reasons = _holding(candidate)
        how: How = "waits"
        if placed:
            how = "held" if reasons else "starts"
        fate = self._fate(candidate, how, demand)
        return replace(fate, reasons=reasons, had_place=had_place)

    def move(self, candidate: GangToPlace) -> Fate:
        """Place a gang that must move, and return the effect on it."""
        gang = candidate.gang
        again = gang.whole.demand_for(lambda pod: pod.key in candidate.lost)
        if self._add(gang, again):
            return self._fate(candidate, "fits", again)
        certain = self._arrangement.is_certain

        if gang.placed:
            elsewhere = self._elsewhere(candidate)
            if elsewhere:
                return elsewhere
            certain = certain and self._arrangement.is_certain

        missing = _missing(candidate)
        least = gang.whole.demand_for(lambda pod: pod.key in missing)
        if gang.whole.is_satisfied or self._add(gang, least):
            return replace(self._fate(candidate, "shrinks", again), certain=certain)
        fate = self._fate(candidate, "breaks", again)
        return replace(fate, certain=certain and fate.certain, reasons=_holding(candidate))

    def _elsewhere(self, candidate: GangToPlace) -> Fate | None:
        """Place a whole gang elsewhere, including the pods that could stay.

        Return the effect on the gang, or None if it has no place.
        """
        staying = {pod.key for pod in candidate.gang.placed}
        index = self._index
        facts = index.facts
        free = index.free(self._names)
        # the index follows and comes back, because a new index would take ten times as long
        index.follow(without_nodes(facts, staying))
        gangs = gangs_of(index, candidate.workload)
        gang = next(gang for gang in gangs if gang.ref == candidate.gang.ref)
        leaving = candidate.lost | staying
        demand = gang.whole.demand_for(lambda pod: pod.key in leaving)
        freed = _freed(free, index.free(self._names))
        has_place = self._add(gang, demand, freed)
        index.follow(facts)
        return self._fate(candidate, "restarts", demand) if has_place else None

    def _add(self, gang: Gang, demand: Demand, freed: tuple[tuple[int, Vector], ...] = ()) -> bool:
        self._tick()
        placements = gang.placements_of(demand)
        return self._arrangement.add(Wish(demand, placements.domains, placements.fit(), freed))

    def _fate(self, candidate: GangToPlace, how: How, demand: Demand) -> Fate:
        certain = self._arrangement.is_certain
        if how in _PLACED:
            domains = candidate.gang.placements_of(demand).domains
            number = len(self._arrangement.used) - 1
            self._placed[candidate.gang.ref] = number, domains, demand
        return Fate(candidate.gang.ref, candidate.workload, how, demand.count, certain=certain)

    def located(self, fate: Fate) -> Fate:
        """Return the effect with the place that the gang finally has."""
        if fate.gang not in self._placed:
            return fate
        number, domains, demand = self._placed[fate.gang]
        used = self._arrangement.used[number]
        return replace(fate, where=where(domains, demand, used))


def _missing(candidate: GangToPlace) -> set[Key]:
    """Return the pods that a gang has lost and needs for its minimum."""
    missing: set[Key] = set()
    for member in candidate.gang.members:
        lost = [pod.key for pod in member.pods if pod.key in candidate.lost]
        missing.update(lost[: max(0, member.minimum - len(member.placed))])
    return missing


def _holding(candidate: GangToPlace) -> tuple[Reason, ...]:
    """Return the problems that keep a gang from starting, whether or not it fits.

    For a gang that must move or does not exist yet, return only problems in OF_PLACE.
    """
    gang = candidate.gang
    is_planned = gang.pod_gang is None and gang.pcs is not None
    problems = examine([gang], quoting=False).problems
    if is_planned or candidate.lost:
        of_place = (reason for reason in problems if reason.id in OF_PLACE)
        # this reason comes last, because the edits themselves may close nodes
        return tuple(sorted(of_place, key=lambda reason: reason.id == "NodesUnfit"))
    return tuple(reason for reason in problems if reason.id not in NOT_HOLDING)


def _freed(before: Sequence[Vector], after: Sequence[Vector]) -> tuple[tuple[int, Vector], ...]:
    """Return the amounts that have become free: (position of the node, amounts)."""
    pairs = enumerate(zip(before, after, strict=True))
    return tuple(
        (position, tuple([new - old for old, new in zip(had, has, strict=True)]))
        for position, (had, has) in pairs
        if had is not has and had != has
    )

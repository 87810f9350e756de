"""Tries every placement of demands on nodes, until there is one or none is left.

A part with a required level goes into one domain of it; where pods of it run already, into one of
theirs. Preferred levels decide only which domains are tried first. Parts with a constraint get only
nodes with the labels of all levels, as in KAI.
"""

import itertools
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from app.explain.known.domains import Domain
from app.explain.placing.demand import Demand
from app.explain.placing.ground import Ground, Vector, capacity_of
from app.facts.kubernetes.pod import Shape
from app.value import Value

MOST_PODS = 100
"""More pods are not tried in every placement: each is a step of a recursion."""

_MOST_TAKERS = 300
"""Of more nodes that have room, the fullest are tried."""

_ONE_SEARCH = 2_000_000
"""Nodes that one search looks at, about half a second."""


class Exhausted(Exception):
    """The search was ended before all placements were tried."""


class SearchResult(Value):
    """`found` has the nodes of each demand and what is then free; None if there is no placement.

    If `exhausted`, not all were tried. `budget` is how many nodes may still be looked at.
    """

    found: tuple[list[frozenset[int]], list[Vector]] | None
    exhausted: bool
    budget: int


class _PartTask(Value):
    """A demand that gets a domain inside of `scope`. `number` is that of the whole demand."""

    number: int
    demand: Demand
    scope: Domain


class _PodsTask(Value):
    """Pods of one shape that go to some nodes."""

    number: int
    shape: Shape
    count: int
    nodes: Sequence[int]


class _Takers(Value):
    """Nodes that take pods: (room, position) of each, and the room from each on."""

    rooms: Sequence[tuple[int, int]]
    from_here: Sequence[int]


_Tasks = tuple[_PartTask | _PodsTask, "_Tasks"] | None


def every_placement(
    grounds: Sequence[Ground], demands: Sequence[Demand], budget: int
) -> SearchResult:
    """Look for a placement of all demands at once, each on its ground.

    All grounds have the same free amounts.
    """
    search = _Search(grounds, min(budget, _ONE_SEARCH))
    tasks: _Tasks = None
    for number, demand in reversed(list(enumerate(demands))):
        tasks = (_PartTask(number, demand, grounds[number].domains.everywhere), tasks)

    exhausted = False
    try:
        search.solve(tasks)
    except Exhausted:
        exhausted = True

    exhausted = search.found is None and (exhausted or search.is_cut)
    return SearchResult(search.found, exhausted, budget - search.looked)


class _Search:
    def __init__(self, grounds: Sequence[Ground], most: int) -> None:
        self.found: tuple[list[frozenset[int]], list[Vector]] | None = None
        self.looked = 0
        self.is_cut = False
        self._most = most
        self._grounds = grounds
        self._free = list(grounds[0].free)
        self._used: list[tuple[int, int]] = []

    def solve(self, tasks: _Tasks) -> bool:
        """Place everything. What is found stays in `found`; the nodes are as before."""
        if tasks is None:
            numbers = range(len(self._grounds))
            used = [frozenset(at for of, at in self._used if of == number) for number in numbers]
            self.found = used, list(self._free)
            return True

        task, rest = tasks
        if isinstance(task, _PodsTask):
            return self._fill(task, rest)
        for domain in self._candidates(task):
            if self.solve(self._inside(task, domain, rest)):
                return True
        return False

    def _look(self, count: int) -> None:
        self.looked += count
        if self.looked > self._most:
            raise Exhausted

    def _candidates(self, task: _PartTask) -> Iterator[Domain]:
        """Yield the domains that a part may go to, those of its preferred level first."""
        demand = task.demand
        if not (demand.key or demand.preferred):
            yield task.scope
            return

        domains = self._grounds[task.number].domains
        levels = demand.depths(domains)
        if levels:
            for depth in dict.fromkeys((levels.preferred, levels.required)):
                yield from self._open_at(task, depth, levels.required)

    def _open_at(
        self,
        task: _PartTask,
        depth: int,
        required: int,
    ) -> Iterator[Domain]:
        return (domain for domain in self._at(task, depth) if self._has_own(task, required, domain))

    def _at(self, task: _PartTask, depth: int) -> Iterator[Domain]:
        """Yield the domains of a level inside of the scope, the scope itself if it is narrower."""
        domains = self._grounds[task.number].domains
        path = task.scope.path
        if not depth and not path:
            yield domains.inside
        elif depth <= len(path):
            yield task.scope
        else:
            yield from domains.within(depth, path)

    def _has_own(
        self,
        task: _PartTask,
        required: int,
        domain: Domain,
    ) -> bool:
        """Return whether pods of the part run in the domain already, if any run."""
        if not (task.demand.occupied and required):
            return True
        domains = self._grounds[task.number].domains
        return domain.path[:required] in task.demand.joined(domains, required)

    def _inside(
        self,
        task: _PartTask,
        domain: Domain,
        rest: _Tasks,
    ) -> _Tasks:
        """Return the tasks in place of a part that has its domain.

        Parts come first, the heaviest before.
        """
        demand = task.demand
        asks = self._grounds[task.number].asks
        tasks = rest
        for shape, count in sorted(demand.loose, key=lambda pods: asks[pods[0]]):
            tasks = (_PodsTask(task.number, shape, count, domain.nodes), tasks)
        for part in sorted(demand.bound, key=lambda part: part.count):
            tasks = (_PartTask(task.number, part, domain), tasks)
        return tasks

    def _fill(self, task: _PodsTask, rest: _Tasks) -> bool:
        """Place the pods on nodes that have room, the fullest first."""
        ground = self._grounds[task.number]
        asks = ground.asks[task.shape]
        fit = ground.fit[task.shape]
        self._look(len(task.nodes))
        rooms = ((capacity_of(self._free[at], asks), at) for at in task.nodes if fit[at])
        takers = sorted((room, self._free[at], at) for room, at in rooms if room)
        if sum(room for room, _, _ in takers) < task.count:
            return False

        self.is_cut |= len(takers) > _MOST_TAKERS
        first = [(room, at) for room, _, at in takers[:_MOST_TAKERS]]
        behind = list(itertools.accumulate(room for room, _ in reversed(first)))[::-1]
        return self._spread(task, _Takers(first, behind), 0, rest)

    def _spread(
        self,
        task: _PodsTask,
        takers: _Takers,
        start: int,
        rest: _Tasks,
    ) -> bool:
        """Put the pods on nodes from `start` on, in every way."""
        if not task.count:
            return self.solve(rest)

        for index in range(start, len(takers.rooms)):
            if takers.from_here[index] < task.count:
                return False
            room, position = takers.rooms[index]
            for taken in range(min(room, task.count), 0, -1):
                self._look(1)
                before = self._take(task, position, taken)
                left = replace(task, count=task.count - taken)
                is_placed = self._spread(left, takers, index + 1, rest)
                self._give_back(position, before)
                if is_placed:
                    return True
        return False

    def _take(
        self,
        task: _PodsTask,
        position: int,
        taken: int,
    ) -> Vector:
        before = self._free[position]
        asks = self._grounds[task.number].asks[task.shape]
        pairs = zip(before, asks, strict=True)
        self._free[position] = tuple([have - taken * ask for have, ask in pairs])
        self._used.append((task.number, position))
        return before

    def _give_back(self, position: int, before: Vector) -> None:
        self._free[position] = before
        self._used.pop()

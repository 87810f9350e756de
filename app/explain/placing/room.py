"""Count how many pods of a demand fit into each domain.

Every pod is put on a node, because sums of free amounts would count room that no single node has.
So the counted pods really fit. If pods differ in size, larger pods come first, each on the fullest
node that still takes it. For rare mixes of sizes, more pods would fit than are counted.
"""

from collections.abc import Sequence

from app.base.value import Value
from app.explain.placing.demand import Board, Demand, Run, fullest_first
from app.explain.state.domains import Domain
from app.facts.kubernetes.pod import Shape


class DomainRoom(Value):
    """The room of a domain for a demand."""

    domain: Domain
    pods: int
    """The number of pods of the demand that fit into the domain."""


class RoomCounter(Board):
    """A board on which demands are placed on trial, to count the room of domains."""

    def rooms(self, demand: Demand) -> tuple[DomainRoom, ...]:
        """Return the room for a demand in every domain that it may use, most room first."""
        domains = self._domains.by(demand.levels)
        scope = domains.inside if demand.constrained else domains.everywhere
        candidates = self._candidates(demand, scope)
        rooms = [DomainRoom(domain, self._try(demand, domain)) for domain in candidates]
        return tuple(sorted(rooms, key=lambda room: (-room.pods, room.domain.path)))

    def _candidates(self, demand: Demand, scope: Domain) -> Sequence[Domain]:
        """Return the domains of its required level that a demand may use inside `scope`.

        If some of its pods are already placed, only their domains are returned. Return `scope`
        itself if no existing level is required, or if `scope` is not a domain of the demand's tree.
        """
        domains = self._domains.by(demand.levels)
        depth = domains.depth(demand.key)
        if depth is None or not domains.has(scope):
            return [scope]

        inside = domains.within(depth, scope.path[:depth])
        return [domain for domain in inside if demand.may_join(domain.path, depth, domains)]

    def _place(self, demand: Demand, domain: Domain) -> int:
        """Place as much of a demand as fits into a domain, and return the number of placed pods."""
        placed = 0
        tried = dict[object, int]()
        for part in sorted(demand.bound, key=_weight, reverse=True):
            placed += self._place_part(part, domain, tried)
        for shape, count in sorted(demand.loose, key=_weight_of_pods, reverse=True):
            placed += self._fill(shape, count, domain.nodes, mixed=len(demand.loose) > 1)
        return placed

    def _place_part(self, part: Demand, domain: Domain, tried: dict[object, int]) -> int:
        """Place a part in the first domain with room for it, or else where the most pods fit.

        Return the number of placed pods.

        Equal parts are placed one after the other. Each starts at the domain of the previous part,
        because the domains before it have no room for such a part. `tried` has the position of this
        domain by the profile of the part. Once no domain has room for all of a part, no pods of
        further equal parts are placed.
        """
        candidates = self._candidates(part, domain)
        start = tried.get(part.profile, 0)
        room: dict[int, int] = {}
        for position in range(start, len(candidates)):
            room[position] = self._try(part, candidates[position])
            if room[position] == part.count:
                tried[part.profile] = position
                return self._place(part, candidates[position])

        tried[part.profile] = len(candidates)
        if not room:
            return 0
        for position in range(start):
            room[position] = self._try(part, candidates[position])
        best = max(sorted(room), key=lambda position: room[position])
        return self._place(part, candidates[best])

    def _try(self, part: Demand, domain: Domain) -> int:
        """Return how many pods of a part fit into a domain. A trial placement is undone."""
        if not part.bound and len(part.loose) == 1:
            shape, count = part.loose[0]
            able = self._takers(self._ground, shape, domain.nodes)
            return min(count, sum([capacity for capacity, _ in able]))

        mark = self.mark
        placed = self._place(part, domain)
        self.undo(mark)
        return placed

    def _fill(self, shape: Shape, count: int, nodes: Sequence[int], *, mixed: bool) -> int:
        """Place up to `count` pods of one shape, and return the number of placed pods.

        If the demand has pods of other shapes too (`mixed`), the fullest nodes are used first.
        """
        able = self._takers(self._ground, shape, nodes)
        if mixed:
            able = fullest_first(able, self._free)
        ground = self._ground
        return count - self._put(able, ground.takes[shape], count, ground.part_of(shape))


def _weight(demand: Demand) -> tuple[int, ...]:
    heaviest = max((_weight_of_pods(pair) for pair in demand.shapes), default=(0,))
    return (*heaviest, demand.count)


def _weight_of_pods(pair: Run) -> tuple[int, ...]:
    """Return a key that sorts pods by how hard they are to place: devices, then memory and CPU."""
    requests = dict(pair[0].requests)
    devices = max((amount for name, amount in requests.items() if "/" in name), default=0)
    return (devices, requests.get("memory", 0), requests.get("cpu", 0))

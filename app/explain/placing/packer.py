"""Places a gang as the KAI scheduler does, to know what it will do and what it would do if.

KAI goes through the parts of a gang in a fixed order and puts each into the first domain that takes
it. It never goes back to a part that has its place, and before it tries a domain it asks for room
for as many pods as the part has, each as large as the largest. See `pkg/scheduler/plugins/topology`
and `pkg/scheduler/actions/common/allocate.go` of
https://github.com/kai-scheduler/KAI-Scheduler at d5bc503a.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter, itemgetter

from app.base.value import Value
from app.explain.known.amounts import PREFIX
from app.explain.known.domains import Domain, Domains, Path, shared_depth
from app.explain.placing.demand import Demand, Ground, Run, Vector
from app.explain.placing.trial import Scores, Tree, Trial

_OF_ANY_AMOUNT = {"cpu", "memory"}
"""Resources that don't make pods different kinds of pods."""
_STEPS = 10
"""KAI ranks preferred domains in so many steps."""


class Rules(Value):
    """What of KAI's procedure is in force; without one of them, to see whether it is the cause.

    `sizes`: room is needed for as many pods as there are, each as large as the largest.
    `shared`: a required level is never met if all nodes share a narrower domain.
    """

    sizes: bool = True
    shared: bool = True


AS_KAI = Rules()


class Packer(Trial):
    """A placing of demands on nodes, as KAI does it.

    KAI counts the room on nodes that can't take the pods too, and only then finds that out.
    """

    def __init__(self, ground: Ground, rules: Rules) -> None:
        super().__init__(ground)
        self.rules = rules

    def places(self, demand: Demand) -> bool:
        """Return whether KAI places all of a demand. What it places stays."""
        return not demand.count or self._place(demand, self._domains.everywhere, None)

    def has_room(self, demand: Demand) -> bool:
        """Return whether KAI would place all of a demand. Nothing stays placed."""
        mark = self.mark
        placed = self.places(demand) and not self.waits
        self.undo(mark)
        return placed

    def _place(self, demand: Demand, scope: Domain, scores: Scores) -> bool:
        """Place a part inside of a domain. `scores` are those of a part around it."""
        # without pods, there is nothing to find room for
        if not demand.shapes or not (demand.key or demand.preferred):
            return self._place_inside(demand, scope, scores)

        mark = self.mark
        for domain in self._candidates(demand, scope):
            own = self._scores(demand, domain, scope) if demand.preferred else scores
            if self._place_inside(demand, domain, own):
                return True
            self.undo(mark)
        return False

    def _place_inside(self, demand: Demand, domain: Domain, scores: Scores) -> bool:
        for shape, count in _merged(demand.pods):
            if not self.fill(shape, count, domain.nodes, scores):
                return False
        return all(self._place(part, domain, scores) for part in _joined(demand.parts))

    def _candidates(self, demand: Demand, scope: Domain) -> Iterator[Domain]:
        """Yield the domains that KAI tries, in its order; none if it refuses the constraint."""
        tree = self.tree(demand)
        domains = tree.domains
        levels = demand.depths(domains)
        if not levels:
            return

        deepest = levels.preferred if demand.preferred else len(domains.keys)
        common = _common(domains, scope, deepest)
        fits = self._room_for(demand)
        if not fits(common):
            return

        for depth in levels.tried:
            if depth < len(common):
                # A defect of KAI: it finds no room above the domain that all nodes share.
                if not self.rules.shared and demand.may_join(common, levels.required, domains):
                    yield domains.part(common, scope)
                continue
            for path in _descend(tree, self._ground.asked(demand), common, depth, fits):
                if demand.may_join(path, levels.required, domains):
                    yield domains.part(path, scope)

    def _room_for(self, demand: Demand) -> Callable[[Path], bool]:
        """Return whether KAI finds enough room in a domain, as a function of the domain.

        KAI looks at that before it tries to place the pods there. If some pods have a resource that
        others don't, it compares sums; else it counts room for pods that ask for the most of each.
        """
        tree = self.tree(demand)
        if not self.rules.sizes or not alike(demand, self._ground.names):
            tightness = tree.tightness(self._ground.asked(demand))
            return lambda path: tightness(path) <= 1

        vectors = (self._ground.asks[shape] for shape, _ in demand.shapes)
        largest = tuple(map(max, zip(*vectors, strict=True)))
        named = zip(largest, self._ground.names, strict=True)
        if not any(ask for ask, name in named if name != "pods"):
            return lambda path: bool(tree.domains.called(path).nodes)
        gpu = self._ground.gpu
        if gpu >= 0 and 0 < largest[gpu] < 1000:
            return lambda path: tree.room_of_part(largest, path) >= demand.count
        tally = tree.tally(largest)
        return lambda path: tally.of(path)[0] >= demand.count

    def _scores(self, demand: Demand, domain: Domain, scope: Domain) -> Scores:
        """KAI's rank of each node of a domain by its preferred domain, the emptiest first."""
        tree = self.tree(demand)
        depth = tree.domains.depth(demand.preferred) or 0
        if len(domain.path) >= depth:
            return None

        common = _common(tree.domains, scope, depth)
        asked = self._ground.asked(demand)
        ordered = list(_descend(tree, asked, common, depth, lambda path: True))
        return {
            position: _STEPS * (rank + 1) // len(ordered)
            for rank, path in enumerate(ordered)
            for position in tree.domains.called(path).nodes
        }


def _common(domains: Domains, scope: Domain, deepest: int) -> Path:
    """Return the narrowest domain that has all nodes of `scope`, which may be of another tree.

    It is not narrower than `deepest`.
    """
    path = scope.path
    if domains.joined or not domains.has(scope):
        # by the labels of nodes: a domain that KAI joins may be in several broader ones
        paths = list(filter(None, map(domains.paths.__getitem__, scope.nodes)))
        path = domains.known(paths[0][: shared_depth(paths)]) if paths else ()
    while len(path) < deepest:
        children = domains.children(path)
        if len(children) != 1:
            break
        path = children[0].path
    return domains.known(path[:deepest])


def _descend(
    tree: Tree, asked: Vector, path: Path, depth: int, fits: Callable[[Path], bool]
) -> Iterator[Path]:
    """Yield the domains of a level with enough room, the fullest first at each level."""
    if len(path) == depth:
        if fits(path):
            yield path
        return
    for child in tree.order(asked, path):
        # A joined domain has more room than one of the domains that it is in.
        if tree.domains.joined or fits(child):
            yield from _descend(tree, asked, child, depth, fits)


def alike(demand: Demand, names: Sequence[str]) -> bool:
    """Return whether all pods of a demand ask for the same resources, if not for the same amounts.

    GPUs by claims don't count, as KAI sees them.
    """
    for name in names:
        if name in _OF_ANY_AMOUNT or name.startswith(PREFIX):
            continue
        having = {bool(dict(shape.requests).get(name, 0)) for shape, _ in demand.shapes}
        if len(having) > 1:
            return False
    return True


def _merged(pods: Sequence[Run]) -> list[Run]:
    """Runs of pods of one shape, in their order."""
    groups = itertools.groupby(pods, key=itemgetter(0))
    return [(shape, sum(count for _, count in runs)) for shape, runs in groups]


def _joined(parts: Sequence[Demand]) -> Iterator[Demand]:
    """Parts in their order; neighbours without any constraint as one, which is quicker."""
    for is_constrained, run in itertools.groupby(parts, key=attrgetter("constrained")):
        if is_constrained:
            yield from run
        else:
            pods = itertools.chain.from_iterable(part.in_order for part in run)
            yield Demand("", "", tuple(pods))

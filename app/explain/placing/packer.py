"""Place gangs as the KAI scheduler does, now or under an assumption.

KAI goes through the parts of a gang in a fixed order, puts each into the first domain that takes
it, and never moves a part that is already placed. Before KAI tries a domain, the domain must have
room for all pods of the part as if each were as large as the largest, or for the sum of their
requests if only some of them request a resource. See `pkg/scheduler/plugins/topology` and
`pkg/scheduler/actions/common/allocate.go` of https://github.com/kai-scheduler/KAI-Scheduler at
d5bc503a.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter, itemgetter

from app.base.value import Value
from app.explain.placing.demand import Demand, Ground, Run, Vector
from app.explain.placing.trial_placement import Scores, Tree, Trial
from app.explain.state.amounts import PREFIX
from app.explain.state.domains import Domain, Domains, Path, shared_depth

_OF_ANY_AMOUNT = {"cpu", "memory"}
"""Resources that `alike` ignores, because all pods request some amount of them."""
_HIGHEST_SCORE = 10
"""The highest score that KAI gives nodes for their domain at the preferred level."""


class Rules(Value):
    """Rules of KAI that can be switched off, to find out whether one prevents a placement."""

    sizes: bool = True
    """Must a domain have room for all pods as if each were as large as the largest?"""
    shared: bool = True
    """Does a required level fail if all nodes share a narrower domain?"""


AS_KAI = Rules()


class Packer(Trial):
    """A trial placement that puts demands on nodes as KAI does.

    When KAI counts the room of a domain, it also counts nodes that cannot take the pods.
    """

    def __init__(self, ground: Ground, rules: Rules) -> None:
        super().__init__(ground)
        self.rules = rules

    def places(self, demand: Demand) -> bool:
        """Place a demand as KAI does. Return whether all of it has a place.

        The placement is kept, even if only some parts have a place.
        """
        return not demand.count or self._place(demand, self._domains.everywhere, None)

    def has_room(self, demand: Demand) -> bool:
        """Return whether KAI would place all of a demand without waiting for pods to terminate.

        The placement is undone.
        """
        mark = self.mark
        placed = self.places(demand) and not self.waits
        self.undo(mark)
        return placed

    def _place(self, demand: Demand, scope: Domain, scores: Scores) -> bool:
        """Place a part inside the domain `scope`. Return whether all of it has a place.

        `scores` are the scores of the enclosing part.
        """
        # Without pods, KAI does not look for room.
        if not demand.shapes or not (demand.key or demand.preferred):
            return self._place_inside(demand, scope, scores)

        mark = self.mark
        depth = self.tree(demand).domains.depth(demand.preferred) or 0
        of_domains: Scores = None
        for domain in self._candidates(demand, scope):
            own = None if demand.preferred else scores
            if len(domain.path) < depth:
                # equal for each domain, because a failed attempt is undone
                own = of_domains = of_domains or self._scores(demand, scope, depth)
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
        """Yield the domains that KAI tries, in its order.

        There are none if KAI rejects the constraint, or counts too little room in `scope`.
        """
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
                # A defect of KAI: it finds no room in domains above the one that all nodes share.
                if not self.rules.shared and demand.may_join(common, levels.required, domains):
                    yield domains.part(common, scope)
                continue
            for path in _descend(tree, self._ground.asked(demand), common, depth, fits):
                if demand.may_join(path, levels.required, domains):
                    yield domains.part(path, scope)

    def _room_for(self, demand: Demand) -> Callable[[Path], bool]:
        """Return a function that says whether KAI counts enough room in a domain.

        KAI counts before it tries to place pods in the domain. If some pods request a resource that
        others do not, KAI compares sums. Otherwise, KAI counts room for pods with the largest
        request for each resource.
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

    def _scores(self, demand: Demand, scope: Domain, depth: int) -> Scores:
        """Return the score, from 0 to 10, that KAI gives each node for its domain at `depth`.

        `depth` is the depth of the preferred level. The domains are scored in KAI's order, which
        has the fullest domain first at each level, so the last domain has the highest score.
        """
        tree = self.tree(demand)
        common = _common(tree.domains, scope, depth)
        asked = self._ground.asked(demand)
        ordered = list(_descend(tree, asked, common, depth, lambda path: True))
        return {
            position: _HIGHEST_SCORE * (rank + 1) // len(ordered)
            for rank, path in enumerate(ordered)
            for position in tree.domains.called(path).nodes
        }


def _common(domains: Domains, scope: Domain, deepest: int) -> Path:
    """Return the narrowest domain, down to the level `deepest`, that has all nodes of `scope`.

    `scope` may be a domain of another tree.
    """
    path = scope.path
    if domains.joined or not domains.has(scope):
        # Compare the labels of nodes, because a joined domain may be in several broader domains.
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
    """Yield the domains at a depth inside `path` for which `fits` returns True.

    At each level, the fullest domain comes first.
    """
    if len(path) == depth:
        if fits(path):
            yield path
        return
    for child in tree.order(asked, path):
        # A joined domain may have more room than one of the broader domains around it.
        if tree.domains.joined or fits(child):
            yield from _descend(tree, asked, child, depth, fits)


def alike(demand: Demand, names: Sequence[str]) -> bool:
    """Return whether all pods of a demand request the same resources, in any amounts.

    CPU and memory do not count, because all pods request some. GPUs of claims do not count, because
    KAI ignores them here.
    """
    for name in names:
        if name in _OF_ANY_AMOUNT or name.startswith(PREFIX):
            continue
        having = {bool(dict(shape.requests).get(name, 0)) for shape, _ in demand.shapes}
        if len(having) > 1:
            return False
    return True


def _merged(pods: Sequence[Run]) -> list[Run]:
    """Return runs of pods in the same order, with neighbours of the same shape merged."""
    groups = itertools.groupby(pods, key=itemgetter(0))
    return [(shape, sum(count for _, count in runs)) for shape, runs in groups]


def _joined(parts: Sequence[Demand]) -> Iterator[Demand]:
    """Yield the parts in their order, and merge neighbouring parts without constraints into one.

    This gives the same placement in fewer steps.
    """
    for is_constrained, run in itertools.groupby(parts, key=attrgetter("constrained")):
        if is_constrained:
            yield from run
        else:
            pods = itertools.chain.from_iterable(part.in_order for part in run)
            yield Demand("", "", tuple(pods))

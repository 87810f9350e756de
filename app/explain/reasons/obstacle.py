"""What keeps a gang from fitting, and what would help. Each answer is tried in the model."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from msgspec.structs import replace

from app.base.value import Value
from app.explain.gangs.gang import Gang
from app.explain.placing.demand import Demand
from app.explain.placing.fitness import is_selected, unfit_because
from app.explain.placing.packer import Rules
from app.explain.placing.placements import ANY_POOL, EMPTY, OPENED, Assumption, Placements
from app.explain.placing.room import DomainRoom
from app.explain.queue_order.cycle import line_of
from app.explain.reasons.reason import counted, listed
from app.explain.state.amounts import is_device, resources_of
from app.explain.state.domains import Path
from app.facts.kubernetes.gpu_sharing import MEMORY_LABEL
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod, Shape
from app.facts.kubernetes.selectors import Requirement
from app.facts.labels import NODE_POOL

PLACE = (("pods", 1000),)
MOST_PARTS = 20
"""Single domains are not tried for gangs with more parts."""
MOST_TRIED = 4
"""How many domains are tried, most promising first."""


class Obstacle(Value, dict=True):
    """A gang that does not fit now. Its properties say what would have to change."""

    gang: Gang
    placements: Placements
    """The placements of the gang, which equal gangs may share."""

    @property
    def demand(self) -> Demand:
        """The pending pods of the gang."""
        return self.gang.demand

    @property
    def short(self) -> Demand:
        """The innermost part that does not fit."""
        return self.gang.short or self.demand

    @property
    def shapes(self) -> list[Shape]:
        """The shapes of the pods of this part."""
        return [shape for shape, _ in self.short.shapes]

    @cached_property
    def short_if_empty(self) -> Demand:
        """The innermost part that would not fit in an empty cluster, else the whole."""
        return self.placements.under(EMPTY).short_of(self.demand) or self.demand

    @cached_property
    def is_for_ever(self) -> bool:
        """Would it not fit even if no other pods ran and all nodes were open?"""
        return not self.placements.under(EMPTY).fits

    @property
    def is_bound(self) -> bool:
        """Do pods of it run in a domain that the rest must join?"""
        return bool(self.short.occupied and self.short.key)

    @cached_property
    def is_bound_for_ever(self) -> bool:
        """Would it fit if it were not bound to the domain of its running pods?

        These may also be on nodes that are in no domain of the level.
        """
        if self.is_bound and not self.placements.now.best:
            return True
        return bool(self.short.occupied) and self.gang.anew.under(EMPTY).fits

    @cached_property
    def is_held_by_others(self) -> bool:
        """Would it fit on the open nodes if no other pods ran?"""
        emptied = Assumption(free="empty")
        return self.placements.under(emptied).fits

    @cached_property
    def is_closed(self) -> bool:
        """Would it fit if nodes were opened, and possibly only then?"""
        return not self.is_for_ever and (
            self.placements.under(OPENED).fits or not self.is_held_by_others
        )

    @cached_property
    def is_of_sizes(self) -> bool:
        """Would it fit if KAI summed the requests instead of multiplying the largest one?"""
        return self._without(Rules(sizes=False))

    @cached_property
    def is_of_shared_domain(self) -> bool:
        """Would it fit without KAI's defect about nodes that share a narrower domain?"""
        return self.is_for_ever and self._without(Rules(shared=False))

    @cached_property
    def beside_size(self) -> str:
        """What else is needed besides smaller pods: `, and ...`; "" if nothing."""
        small = self.gang.placements_of(without_size(self.demand))
        if small.now.fits:
            return ""
        unshared = Assumption(rules=Rules(shared=False))
        if not small.under(EMPTY).fits and small.under(unshared).fits:
            narrowest = self.gang.topology.levels[-1]
            return f", and add {narrowest.domain} as preferred level to each required one"
        return ", and open the nodes there that are closed" if small.under(OPENED).fits else ""

    @cached_property
    def is_of_pool(self) -> bool:
        """Would it never fit in its node pool, but fit outside it?"""
        if not (self.gang.pool or self.gang.index.has_pools):
            return False
        if not self.nodes:
            return True
        if not self.is_for_ever:
            return False
        return self.placements.under(replace(EMPTY, pool=ANY_POOL)).fits

    def other_pools(self) -> list[str]:
        """Return the other node pools in which it fits now; "" stands for nodes without a pool."""
        if not (self.gang.pool or self.gang.index.has_pools):
            return []
        pools = sorted({node.labels.get(NODE_POOL, "") for node in self.gang.index.nodes})
        supposed = ((pool, Assumption(pool=pool)) for pool in pools if pool != self.gang.pool)
        return [pool for pool, other in supposed if self.placements.under(other).fits]

    @cached_property
    def missing_resource(self) -> str | None:
        """The resource that is missing although the requested devices are free."""
        names = resources_of(self.shapes)
        if self.is_for_ever or not any(map(is_device, names)):
            return None
        if not self.placements.under(Assumption(devices=True)).fits:
            return None
        plain = [name for name in names if not is_device(name)]
        alone = (name for name in plain if self.placements.under(Assumption(without=name)).fits)
        return next(alone, next(iter(plain), None))

    @cached_property
    def lacks_gpu_memory(self) -> bool:
        """Do pods request GPU memory while no selected node has a label with its memory?"""
        asking = [shape for shape in self.shapes if shape.part and shape.part.memory]
        return bool(asking) and not any(
            MEMORY_LABEL in node.labels
            for shape in asking
            for node in self.nodes
            if is_selected(shape, node)
        )

    @property
    def chosen(self) -> frozenset[str]:
        """The nodes that KAI has chosen and where it waits for terminating pods."""
        now = self.placements.now
        return now.nodes if now.waits_for_ending else frozenset()

    @cached_property
    def unmatched(self) -> Shape | None:
        """The first shape whose selector matches no node."""
        for shape in self.shapes:
            if selects(shape) and not any(is_selected(shape, node) for node in self.nodes):
                return shape
        return None

    @cached_property
    def nodes(self) -> list[Node]:
        """The nodes in its node pool."""
        domains = self.placements.domains
        return domains.nodes_at(domains.everywhere.nodes)

    def _without(self, rules: Rules) -> bool:
        assumption = EMPTY if self.is_for_ever else Assumption()
        return self.placements.under(replace(assumption, rules=rules)).fits

    def as_if(self, demand: Demand) -> bool:
        """Return whether another demand would fit now instead of this one."""
        return self.gang.placements_of(demand).now.fits

    def as_if_empty(self, demand: Demand) -> bool:
        """Return whether another demand would fit instead of this one if no other pods ran."""
        placements = self.gang.placements_of(demand)
        return placements.under(Assumption(free="empty")).fits

    def domain_that_helps(self) -> DomainRoom | None:
        """Return the domain with most room in which other pods hold all of the missing room."""
        like = [part for part in self.demand.flat() if part.profile == self.short.profile]
        if len(like) > 1 or len(self.short.bound) > MOST_PARTS:
            return None  # one domain is not enough for all parts, or trying takes too long

        large = self._large_enough()
        promising = (room for room in self.placements.now.rooms if room.domain.path in large)
        for room in itertools.islice(promising, MOST_TRIED):
            emptied = frozenset(self.usable(room))
            if self.placements.under(Assumption(emptied=emptied)).fits:
                return room
        return None

    def _large_enough(self) -> set[Path]:
        """Return the paths of the domains that would have room if they were empty."""
        rooms = self.gang.placements_of(self.short).rooms(Assumption(free="empty"))
        return {room.domain.path for room in rooms if room.pods >= self.short.count}

    def holding(self, positions: Iterable[int]) -> Iterator[Pod]:
        """Yield pods on nodes that use the requested devices; all pods if none are requested."""
        devices = set(filter(is_device, resources_of(self.shapes)))
        nodes = self.placements.domains.nodes
        for position in positions:
            name = nodes[position].name
            for pod in self.gang.index.pods_on.get(name, ()):
                if not devices or devices & dict(pod.shape.requests).keys():
                    yield pod

    @cached_property
    def open(self) -> list[int]:
        """Positions of the nodes that are open to the pending pods."""
        fit = self.placements.fit()
        nodes = zip(*(fit[shape] for shape in self.shapes), strict=True)
        return [position for position, takes in enumerate(nodes) if any(takes)]

    def usable(self, room: DomainRoom) -> list[int]:
        """Return the positions of a domain's nodes that are open to the pending pods."""
        inside = set(room.domain.nodes)
        return [position for position in self.open if position in inside]


def obstacle_of(gang: Gang) -> Obstacle | None:
    """Return what keeps a gang from fitting, None if nothing does or if that is not known."""
    told = (part.told for part in gang.whole.parts())
    are_known = (
        {each.required, each.preferred} <= {*gang.domains.by(each.levels).keys, ""} for each in told
    )
    if gang.placements.now.fits or not all(are_known):
        return None
    # in KAI's order it fits, although it would not fit right now by itself
    turn = line_of(gang.index).get(gang.ref)
    if turn and turn.used:
        return None
    # gangs share placements, but each has its own obstacles
    key = ("obstacle", id(gang.placements), gang.ref)
    return gang.index.remembered(key, lambda: Obstacle(gang, gang.placements))


def without_size(demand: Demand) -> Demand:
    """Return the demand with pods that request nothing."""

    def change(part: Demand) -> Demand:
        pods = tuple((replace(shape, requests=PLACE), count) for shape, count in part.pods)
        return replace(part, pods=pods)

    return demand.changed(change)


def selects(shape: Shape) -> bool:
    """Return whether pods select nodes."""
    return bool(shape.selector or shape.affinity)


def selector_words(shape: Shape) -> str:
    """`pool=h100 and zone in (a, b)`; "" if the pods select nothing."""
    terms = [listed(map(_requirement_words, term), 8) for term in shape.affinity]
    own = listed(map(_requirement_words, shape.selector), 8)
    return listed(filter(None, (own, " or ".join(terms))), 8)


def _requirement_words(requirement: Requirement) -> str:
    values = ", ".join(requirement.values)
    match requirement.operator:
        case "In" if len(requirement.values) == 1:
            return f"{requirement.key}={values}"
        case "Exists":
            return f"{requirement.key} present"
        case "DoesNotExist":
            return f"{requirement.key} absent"
        case "NotIn":
            return f"{requirement.key} not in ({values})"
        case "Gt" | "Lt":
            return f"{requirement.key} {requirement.operator} {values}"
        case _:
            return f"{requirement.key} in ({values})"


def selection_words(obstacle: Obstacle, demand: Demand) -> str:
    """Return how many nodes match selectors: ` (3 of 16 nodes match pool=h100)`, or ""."""
    matches = []
    for shape, _ in demand.shapes:
        if selects(shape):
            matching = sum(is_selected(shape, node) for node in obstacle.nodes)
            number = counted(obstacle.nodes, "node")
            matches.append(f"{matching} of {number} match {selector_words(shape)}")
    return f" ({listed(dict.fromkeys(matches))})" if matches else ""


def closed_because(shapes: Sequence[Shape], node: Node) -> str:
    """Return why a node that pods select takes none of them, "" if it takes one."""
    reasons = [unfit_because(shape, node) for shape in shapes if is_selected(shape, node)]
    return next(filter(None, reasons), "")

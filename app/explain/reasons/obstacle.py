"""Find the obstacles that keep a gang from fitting, by trying placements under assumptions."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import Enum
from functools import cached_property

from msgspec.structs import replace

from app.base.value import Value
from app.explain.gangs.gang import Gang
from app.explain.placing.demand import Demand
from app.explain.placing.fitness import is_selected, unfit_causes
from app.explain.placing.packer import Rules
from app.explain.placing.placements import (
    ANY_POOL,
    AS_IT_IS,
    EMPTIED,
    EMPTY,
    OPENED,
    Assumption,
    Placements,
)
from app.explain.placing.room import DomainRoom
from app.explain.queue_order.cycle import line_of
from app.explain.reasons.reason import counted, listed
from app.explain.state.amounts import gpu_resource_of, is_device, resources_of
from app.explain.state.index import Index
from app.facts.kubernetes.gpu_sharing import MEMORY_LABEL
from app.facts.kubernetes.gpus import GPU
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod, Shape
from app.facts.kubernetes.selectors import Requirement, Term


class Barrier(Enum):
    """Something that may keep a gang from fitting now. A gang may have several barriers."""

    NO_NODE_MATCHES = "no node matches the selector of some of its pods"
    GPU_MEMORY_UNKNOWN = "its pods request GPU memory, and no selected node has the label for it"
    OTHER_POOL = "it never fits in its node pool but would on all nodes, or the pool has no nodes"
    SHARED_DOMAIN = "it would fit without a defect of KAI: all nodes share a narrower domain"
    SIZES = "it would fit if KAI did not count all its pods like the largest"
    TOO_LARGE = "no domain is large enough, even without other pods and with all nodes open"
    REST = "its minimum runs, and its other pods would not fit even without other workloads"
    BOUND = "some of its pods run in a domain that its other pods must join"
    CLOSED_NODES = "it would fit if closed nodes were opened, or cannot fit unless they are"
    OTHER_RESOURCE = "the requested devices are free, but another resource is not"
    ENDING = "KAI should choose nodes for it and wait for terminating pods there"
    OTHER_PODS = "pods of other workloads hold the room"


class Obstacle(Value, dict=True):
    """The barriers of one gang that does not fit now, and the parts that have no place."""

    gang: Gang
    placements: Placements
    """The placements of the gang, which equal gangs may share."""
    barriers: frozenset[Barrier]
    short: Demand
    """The innermost part that does not fit now."""
    lacking: Demand
    """The innermost part that would not fit in an empty cluster, or else `short`."""
    unmatched: Shape | None
    """The first shape of `short` whose selector matches no node in the pool, or None."""
    missing: str
    """The resource that is missing although the requested devices are free, or ""."""

    @property
    def demand(self) -> Demand:
        """The pods of the gang that KAI places next."""
        return self.gang.demand

    @property
    def shapes(self) -> list[Shape]:
        """The shapes of the pods of `short`."""
        return [shape for shape, _ in self.short.shapes]

    @cached_property
    def nodes(self) -> list[Node]:
        """The nodes in the gang's node pool."""
        return nodes_in_pool(self.placements)

    @cached_property
    def open(self) -> list[int]:
        """The positions of the nodes that are open to a pod of `short`."""
        fit = self.placements.fit()
        nodes = zip(*(fit[shape] for shape in self.shapes), strict=True)
        return [position for position, takes in enumerate(nodes) if any(takes)]

    def usable(self, room: DomainRoom) -> list[int]:
        """Return the positions of a domain's nodes that are open to a pod of `short`."""
        inside = set(room.domain.nodes)
        return [position for position in self.open if position in inside]

    def holding(self, positions: Iterable[int]) -> Iterator[Pod]:
        """Yield the pods on the nodes at `positions` that use devices which `short` also requests.

        If `short` requests no devices, yield all pods on these nodes. KAI's reservation pods are
        skipped, because they end with the pods that share the GPU.
        """
        index = self.gang.index
        devices = set(filter(is_device, resources_of(self.shapes)))
        nodes = self.placements.domains.nodes
        for position in positions:
            for pod in index.pods_on.get(nodes[position].name, ()):
                uses = {index.claimed.get(name, name) for name, _ in pod.shape.requests}
                uses |= {GPU} if pod.shape.part else set()
                uses |= _allocated_to(index, pod)
                if not pod.reserves and (not devices or devices & uses):
                    yield pod


def _allocated_to(index: Index, pod: Pod) -> set[str]:
    """Return the resources, such as gpu.nvidia.com/gpu, of the devices in a pod's claims."""
    claims = (index.claims.get((pod.namespace, claim.claim)) for claim in pod.claims)
    return {gpu_resource_of(device.driver) for claim in claims if claim for device in claim.devices}


def obstacle_of(gang: Gang) -> Obstacle | None:
    """Return the obstacle of a gang, or None if it fits now or in KAI's next cycle.

    Return None also if the gang names a level that does not exist.
    """
    told = (part.told for part in gang.whole.parts())
    are_known = (
        {each.required, each.preferred} <= {*gang.domains.by(each.levels).keys, ""} for each in told
    )
    if gang.placements.now.fits or not all(are_known):
        return None
    # KAI may place it in its next cycle although it would not fit right now by itself.
    turn = line_of(gang.index).get(gang.ref)
    if turn and turn.used:
        return None
    # Equal gangs share placements, but each has its own obstacle.
    key = (id(gang.placements), gang.ref)
    return gang.index.one_of_few("obstacle", key, lambda: _decide(gang))


def _decide(gang: Gang) -> Obstacle:
    """Return the obstacle of a gang that does not fit now."""
    placements = gang.placements
    empty = placements.under(EMPTY)
    short = gang.short or gang.demand
    shapes = [shape for shape, _ in short.shapes]
    nodes = nodes_in_pool(placements)

    barriers = set()
    unmatched = _unmatched(shapes, nodes)
    if unmatched:
        barriers.add(Barrier.NO_NODE_MATCHES)
    if _lacks_gpu_memory(shapes, nodes):
        barriers.add(Barrier.GPU_MEMORY_UNKNOWN)
    if _needs_other_pool(gang, nodes):
        barriers.add(Barrier.OTHER_POOL)
    supposed = AS_IT_IS if empty.fits else EMPTY
    if not empty.fits and placements.under(replace(supposed, rules=Rules(shared=False))).fits:
        barriers.add(Barrier.SHARED_DOMAIN)
    elif placements.under(replace(supposed, rules=Rules(sizes=False))).fits:
        barriers.add(Barrier.SIZES)

    missing = ""
    lacking = short
    if empty.fits:
        missing = _missing_resource(placements, shapes)
        barriers.update(_current_barriers(gang, short, missing))
    else:
        lacking = empty.short_of(gang.demand) or gang.demand
        barriers.update(_permanent_barriers(gang, short, frozenset(barriers)))

    return Obstacle(
        gang=gang,
        placements=placements,
        barriers=frozenset(barriers),
        short=short,
        lacking=lacking,
        unmatched=unmatched,
        missing=missing,
    )


def _permanent_barriers(gang: Gang, short: Demand, known: Collection[Barrier]) -> Iterator[Barrier]:
    """Yield more barriers of a gang that would not fit even in an empty cluster with open nodes.

    `known` are the barriers that were found before.
    """
    is_bound = _is_bound_for_ever(gang, short)
    prefers_broader = any(gang.topology.prefers_broader(part.told) for part in gang.whole.parts())
    # A minimum of 0 is satisfied although nothing runs.
    minimum_runs = gang.whole.is_satisfied and bool(gang.placed)
    if not (known or is_bound or prefers_broader or minimum_runs):
        yield Barrier.TOO_LARGE
    if minimum_runs and not is_bound and Barrier.NO_NODE_MATCHES not in known:
        yield Barrier.REST
    if is_bound and short.key and Barrier.OTHER_POOL not in known:
        yield Barrier.BOUND


def _current_barriers(gang: Gang, short: Demand, missing: str) -> Iterator[Barrier]:
    """Yield the barriers of a gang that would fit without other pods and with all nodes open."""
    placements = gang.placements
    may_be_chosen = gang.is_of_kai and not any(pod.gates for pod in gang.waiting)
    fits_without_others = placements.under(EMPTIED).fits
    if placements.under(OPENED).fits or not fits_without_others:
        yield Barrier.CLOSED_NODES
    if missing:
        yield Barrier.OTHER_RESOURCE
    if short.occupied and short.key:
        yield Barrier.BOUND
    elif placements.now.waits_for_ending and may_be_chosen:
        yield Barrier.ENDING
    elif fits_without_others and not missing:
        yield Barrier.OTHER_PODS


def nodes_in_pool(placements: Placements) -> list[Node]:
    """Return the nodes in the node pool of a gang with these placements."""
    domains = placements.domains
    return domains.nodes_at(domains.everywhere.nodes)


def _unmatched(shapes: Sequence[Shape], nodes: Sequence[Node]) -> Shape | None:
    """Return the first shape whose selector matches no node, or None."""
    for shape in shapes:
        if shape.selects and not any(is_selected(shape, node) for node in nodes):
            return shape
    return None


def _lacks_gpu_memory(shapes: Sequence[Shape], nodes: Sequence[Node]) -> bool:
    """Return whether pods request GPU memory, and no selected node has the GPU memory label."""
    asking = [shape for shape in shapes if shape.part and shape.part.memory]
    return bool(asking) and not any(
        MEMORY_LABEL in node.labels
        for shape in asking
        for node in nodes
        if is_selected(shape, node)
    )


def _needs_other_pool(gang: Gang, nodes: Sequence[Node]) -> bool:
    """Return whether a gang would never fit in its node pool, but would if it could use all nodes.

    Return True also if the node pool has no nodes.
    """
    if not has_pool(gang):
        return False
    if not nodes:
        return True
    placements = gang.placements
    outside = replace(EMPTY, pool=ANY_POOL)
    return not placements.under(EMPTY).fits and placements.under(outside).fits


def _is_bound_for_ever(gang: Gang, short: Demand) -> bool:
    """Return whether running pods keep the rest of a gang from ever fitting.

    Either they run outside every domain of the level, or the gang would fit in an empty cluster if
    it started from scratch.
    """
    if short.occupied and short.key and not gang.placements.now.best:
        return True
    # Running pods bind the other pods only if a level is required.
    is_bound = any(part.occupied and part.key for part in gang.demand.every())
    return is_bound and gang.from_scratch.under(EMPTY).fits


def _missing_resource(placements: Placements, shapes: Sequence[Shape]) -> str:
    """Return the resource that is missing although the requested devices are free, or "".

    If no single resource is the cause, return the first one that is not a device.
    """
    names = resources_of(shapes)
    if not any(map(is_device, names)) or not placements.under(Assumption(devices=True)).fits:
        return ""
    plain = [name for name in names if not is_device(name)]
    alone = (name for name in plain if placements.under(Assumption(without=name)).fits)
    return next(alone, next(iter(plain), ""))


def opening(where: str = "") -> str:
    """Return the remedy for closed nodes. `where` is the domain of these nodes, such as ` in a`."""
    return (
        f"ask the platform team to uncordon, untaint or repair the nodes{where} that take no pods"
    )


def selector_words(shape: Shape) -> str:
    """Return a text such as `pool=h100 and zone in (a, b)`, or "" without selectors."""
    own = listed(map(_requirement_words, shape.selector), 8)
    volumes = (f"{terms_words(places)} (volume)" for places in dict.fromkeys(shape.volumes))
    return listed(filter(None, (own, terms_words(shape.affinity), *volumes)), 8)


def terms_words(terms: Sequence[Term]) -> str:
    """Return a text such as `zone=a or zone=b` for alternative terms."""
    shown = (listed(map(_requirement_words, term), 8) for term in terms[:_MOST_TERMS])
    return " or ".join(words or "an empty term" for words in shown)


_MOST_TERMS = 4
"""The maximum number of terms that are shown."""


def _shown(values: Sequence[str]) -> str:
    rest = len(values) - 20
    return ", ".join([*values[:20], *([f"{rest} more"] if rest > 0 else [])])


def _requirement_words(requirement: Requirement) -> str:
    values = requirement.values[0] if len(requirement.values) == 1 else _shown(requirement.values)
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
    """Return a text such as ` (3 of 16 nodes match pool=h100)`, or "" if no pod selects nodes."""
    matches = []
    for shape, _ in demand.shapes:
        if shape.selects:
            matching = sum(is_selected(shape, node) for node in obstacle.nodes)
            number = counted(obstacle.nodes, "node")
            matches.append(f"{matching} of {number} match {selector_words(shape)}")
    return f" ({listed(dict.fromkeys(matches))})" if matches else ""


def has_pool(gang: Gang) -> bool:
    """Return whether the gang may use only the nodes of one pool, or only nodes without a pool."""
    return gang.pool != ANY_POOL and bool(gang.pool or gang.index.has_pools)


def of_pool(gang: Gang) -> str:
    """Return which nodes the gang may use, such as ` of node pool gold`, or "" for all nodes."""
    if not has_pool(gang):
        return ""
    return f" of node pool {gang.pool}" if gang.pool else " without a node pool"


def used_for(obstacle: Obstacle, demand: Demand) -> str:
    """Return which nodes KAI uses for a part that requires no level, or "" for all nodes."""
    return f"{of_pool(obstacle.gang)}{labelled_for(obstacle, demand)}"


def labelled_for(obstacle: Obstacle, demand: Demand) -> str:
    """Return ` with the labels of all levels` if KAI ignores other nodes of the pool, or ""."""
    domains = obstacle.placements.domains.by(demand.levels)
    ignores = demand.constrained and len(domains.inside.nodes) < len(domains.everywhere.nodes)
    return " with the labels of all levels" if ignores else ""


def closed_because(shapes: Sequence[Shape], node: Node) -> tuple[str, ...]:
    """Return why a node is closed to some pods that select it, or () if it is closed to none."""
    causes = (tuple(unfit_causes(shape, node)) for shape in shapes if is_selected(shape, node))
    return next(filter(None, causes), ())

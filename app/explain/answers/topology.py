"""The topology of a cluster.

It has levels and their coverage, what is free where, what fits where, and what is not a tree.
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from app.explain.gangs.gang import Gang, Unit
from app.explain.known.domains import Domain, Path
from app.explain.known.index import Index
from app.explain.known.levels import Topology
from app.explain.placing.demand import Demand
from app.explain.placing.placements import Placements
from app.explain.placing.room import DomainRoom
from app.explain.reasons.reason import Reason
from app.explain.reasons.table import RULES, Unknown
from app.explain.reasons.topology import (
    guessed_labels,
    level_label_missing,
    not_a_tree,
    outside_nodes,
    topology_differs,
)
from app.facts.grove.topology import ClusterTopology, Level
from app.facts.kai.topology import KaiTopology
from app.facts.kubernetes.pod import Shape
from app.facts.named import Ref

GPU = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class LevelReport:
    """The coverage of a level.

    `nodes` of `total` nodes have its label; `domains` is how many domains it makes, `findings` how
    many reasons are about it.
    """

    level: Level
    nodes: int
    total: int
    domains: int
    findings: int


@dataclass(frozen=True, slots=True)
class DomainReport:
    """One domain.

    `gpus`, `free` and `soon` are GPUs in thousandths: all, free on nodes that take pods, and held
    by pods that are terminating. `free` and `soon` are None if not all pods can be seen. `closed`
    nodes take no pods.
    """

    path: Path
    nodes: int
    closed: int
    gpus: int
    free: int | None
    soon: int | None


@dataclass(frozen=True, slots=True)
class Survey:
    """`outside` are the names of nodes that lack a level's label."""

    cluster: ClusterTopology | None
    kai: KaiTopology | None
    levels: tuple[LevelReport, ...]
    nodes: int
    outside: tuple[str, ...]
    reasons: tuple[Reason, ...]
    unknown: tuple[Unknown, ...]

    @property
    def exit_code(self) -> int:
        """0: nothing to look at; 1: something; 2: not everything could be read."""
        if self.unknown:
            return 2
        return 1 if self.reasons else 0


@dataclass(frozen=True, slots=True)
class RoomAnswer:
    """Where pods have room in one domain of `level`.

    There are `pods` pods of `gpus` GPUs (thousandths). Every domain is there, the roomiest first.
    `with_labels` has domains that would have more room if nodes outside had the labels of their
    neighbours.
    """

    level: str
    pods: int
    gpus: int
    rooms: tuple[DomainRoom, ...]
    with_labels: tuple[DomainRoom, ...]

    @property
    def enough(self) -> tuple[DomainRoom, ...]:
        """The domains that have room for all."""
        return tuple(room for room in self.rooms if room.pods >= self.pods)


def survey(index: Index, name: str = "") -> Survey:
    """Return the topology called `name`; without a name, the one that Grove has by default."""
    topology = index.topology(name)
    reasons = _reasons(index, topology)
    levels = tuple(_level(index, topology, level, reasons) for level in topology.levels)
    outside = tuple(node.name for node in outside_nodes(index, topology))
    rules = [
        rule for rule in RULES if rule.id in ("TopologyDiffers", "LevelLabelMissing", "NotATree")
    ]
    missing = {
        rule.id: tuple(need for need in rule.needs if need in index.facts.unseen) for rule in rules
    }
    unknown = tuple(Unknown(id, needs) for id, needs in missing.items() if needs)

    return Survey(
        topology.cluster, topology.kai, levels, len(index.nodes), outside, reasons, unknown
    )


def _reasons(index: Index, topology: Topology) -> tuple[Reason, ...]:
    unseen = index.facts.unseen.keys()
    kai_known = not {"topologies", "kai_topologies"} & (unseen | index.facts.absent)
    no_gang = Gang(index, Ref("Topology", "", ""), Unit(""), topology)
    reasons = [*topology_differs(no_gang)] if kai_known else []
    if "nodes" not in unseen:
        reasons += [*level_label_missing(no_gang), *not_a_tree(no_gang)]
    return tuple(reasons)


def _level(
    index: Index, topology: Topology, level: Level, reasons: Sequence[Reason]
) -> LevelReport:
    domains = index.domains(topology.keys)
    lacking = sum(
        1 for position in domains.outside if level.key not in index.nodes[position].labels
    )
    field = f"metadata.labels[{level.key}]"
    findings = sum(1 for reason in reasons if any(item.field == field for item in reason.evidence))
    depth = domains.depth(level.key) or 0
    return LevelReport(
        level, len(index.nodes) - lacking, len(index.nodes), len(domains.at(depth)), findings
    )


def domain_reports(
    index: Index, topology: Topology, depth: int, parent: Path = ()
) -> list[DomainReport]:
    """Return the domains of one level inside a broader one, by name."""
    return [_report(index, domain) for domain in index.domains(topology.keys).within(depth, parent)]


def _report(index: Index, domain: Domain) -> DomainReport:
    known = index.room_is_known
    opened = sum(map(index.open_nodes.__getitem__, domain.nodes))
    gpus = sum(map(index.gpus.__getitem__, domain.nodes))
    free = sum(map(index.free_gpus.__getitem__, domain.nodes)) if known else None
    soon = sum(map(index.soon_free_gpus.__getitem__, domain.nodes)) if known else None
    return DomainReport(
        domain.path, len(domain.nodes), len(domain.nodes) - opened, gpus, free, soon
    )


def find_room(
    index: Index, topology: Topology, level: str, pods: int, gpus: int
) -> RoomAnswer | None:
    """Return where pods fit in one domain of a level.

    There are `pods` pods of `gpus` GPUs each (thousandths). None for an unknown level.
    """
    keys = [known.key for known in topology.levels if known.domain == level]
    if not keys:
        return None

    shapes = (
        [Shape(((name, gpus), ("pods", 1000))) for name in _gpu_names(index)]
        if gpus
        else [Shape((("pods", 1000),))]
    )
    placements = [
        Placements(index, topology, Demand("", keys[0], ((shape, pods),))) for shape in shapes
    ]
    rooms = _sum([each.rooms() for each in placements], pods)
    guesses = guessed_labels(index, topology) if outside_nodes(index, topology) else {}
    more = _sum([each.with_labels(guesses).rooms() for each in placements], pods) if guesses else ()
    before = {room.domain.path: room.pods for room in rooms}
    gained = tuple(room for room in more if room.pods > before.get(room.domain.path, 0))

    return RoomAnswer(level, pods, gpus, rooms, gained)


def _gpu_names(index: Index) -> list[str]:
    """Return what GPUs are called as a resource of nodes.

    There is one name for device plugins, and another for each driver of DRA.
    """

    def look() -> list[str]:
        kinds = {id(node.allocatable): node.allocatable for node in index.nodes}
        names = {name for amounts in kinds.values() for name in amounts if name.endswith("/gpu")}
        return sorted(names) or [GPU]

    return index.remembered("names of GPUs", look, ("nodes", "slices"))


def _sum(rooms: Sequence[Sequence[DomainRoom]], most: int) -> tuple[DomainRoom, ...]:
    """Return the room of each domain by all names together, the roomiest first.

    A node has its GPUs by one name only.
    """
    domains = {room.domain.path: room.domain for by_name in rooms for room in by_name}
    pods: Counter[Path] = Counter()
    for room in itertools.chain.from_iterable(rooms):
        pods[room.domain.path] += room.pods
    summed = (DomainRoom(domain, min(most, pods[path])) for path, domain in domains.items())
    return tuple(sorted(summed, key=lambda room: (-room.pods, room.domain.path)))

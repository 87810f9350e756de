"""Describe the topology of a cluster: coverage of levels, free capacity, inconsistent labels.

This module also searches for room for pods in one domain of a level, and of a wider level if no
domain has enough. It previews the effects of an edit of the levels.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from app.base.value import Value
from app.explain.answers.branch import AS_JSON
from app.explain.gangs.gang import Gang, Unit
from app.explain.placing.demand import Demand
from app.explain.placing.placements import Placements
from app.explain.placing.room import DomainRoom
from app.explain.reasons.reason import Reason, Rule
from app.explain.reasons.table import RULES, Unknown
from app.explain.reasons.topology import level_label_missing, not_a_tree, topology_differs
from app.explain.state.domains import Domain, Path
from app.explain.state.index import Index
from app.explain.state.label_guesses import guessed_labels
from app.explain.state.levels import Topology, topology_of
from app.explain.state.snapshot import Snapshot
from app.facts.grove.podcliqueset import SetWithStatus
from app.facts.grove.topology import ClusterTopology, Level
from app.facts.identity import Ref
from app.facts.kai.topology import KaiTopology
from app.facts.kubernetes.gpus import GPU
from app.facts.kubernetes.pod import Shape
from app.facts.kubernetes.selectors import Toleration
from app.facts.labels import NODE_POOL
from app.rules.mnnvl.held_channels import HeldChannels, held_channels


class LevelReport(Value):
    """The coverage of one topology level."""

    level: Level
    nodes: int
    """The number of nodes with the level's label."""
    domains: int
    """The number of domains of the level."""
    findings: int
    """The number of findings about the level's label."""


class DomainReport(Value):
    """A topology domain, with amounts of GPUs in thousandths."""

    path: Path
    nodes: int
    closed: int
    """The number of nodes that are cordoned, tainted, under pressure, or not ready.

    The taint nvidia.com/gpu does not count.
    """
    gpus: int
    """The GPUs of all its nodes."""
    free: int | None
    """The free GPUs on nodes that are not closed, or None if not known."""
    soon: int | None
    """The GPUs that terminating pods will free, or None if not known."""


class Survey(Value):
    """A topology with the coverage of its levels, and its problems."""

    cluster: ClusterTopology | None
    kai: KaiTopology | None
    levels: tuple[LevelReport, ...]
    nodes: int
    """The number of all nodes."""
    outside: tuple[str, ...]
    """The names of nodes that lack the label of a level."""
    reasons: tuple[Reason, ...]
    unknown: tuple[Unknown, ...]
    held: HeldChannels | None = None
    """The unnecessarily held NVLink channels, or None if facts that decide this were not read."""

    @property
    def exit_code(self) -> int:
        """The exit code: 0 without reasons, 1 with reasons, 2 if some could not be checked."""
        if self.unknown:
            return 2
        return 1 if self.reasons else 0


def survey(index: Index, name: str = "") -> Survey:
    """Return the survey of the topology `name`, or of the default topology if `name` is ""."""
    topology = topology_of(index, name)
    reasons = _reasons(topology)
    levels = tuple(_level(topology, level, reasons) for level in topology.levels)
    outside = tuple(node.name for node in topology.outside)
    missing = {
        rule.id: _unknown_needs(index, rule)
        for rule in RULES
        if rule.id in ("TopologyDiffers", "LevelLabelMissing", "NotATree")
    }
    unknown = tuple(Unknown(id, needs) for id, needs in missing.items() if needs)

    return Survey(
        topology.cluster,
        topology.kai,
        levels,
        len(index.nodes),
        outside,
        reasons,
        unknown,
        _held_channels(index),
    )


def nodes_are_known(facts: Snapshot) -> bool:
    """Return whether all nodes were read, from the cluster or from files that contain nodes."""
    return "nodes" not in facts.unread


def _held_channels(index: Index) -> HeldChannels | None:
    facts = index.facts
    unknown = {"claims", "compute_domains"} & facts.unread
    if unknown or not index.room_is_known:
        return None
    gpus = {node.name: count for node, count in zip(index.nodes, index.gpus, strict=True) if count}
    return held_channels(facts.claims, facts.pods, facts.compute_domains, gpus)


def _unknown_needs(index: Index, rule: Rule) -> tuple[str, ...]:
    """Return the kinds of facts that keep a rule from being checked."""
    not_given = index.facts.skipped & {"nodes"}
    if rule.id == "TopologyDiffers":
        not_given = _not_given(index)
    return tuple(need for need in rule.needs if need in index.facts.unseen or need in not_given)


def _not_given(index: Index) -> frozenset[str]:
    """Return the kinds of topologies that are missing from the files."""
    return index.facts.skipped & {"topologies", "kai_topologies"}


def _reasons(topology: Topology) -> tuple[Reason, ...]:
    facts = topology.index.facts
    unseen = facts.unseen.keys() | _not_given(topology.index)
    kai_known = not {"topologies", "kai_topologies"} & (unseen | facts.absent)
    no_gang = Gang(Ref("Topology", "", ""), Unit(""), topology)
    reasons = [*topology_differs(no_gang)] if kai_known else []
    if nodes_are_known(facts):
        reasons += [*level_label_missing(no_gang), *not_a_tree(no_gang)]
    return tuple(reasons)


def _level(topology: Topology, level: Level, reasons: Sequence[Reason]) -> LevelReport:
    domains = topology.domains
    lacking = sum(level.key not in node.labels for node in topology.outside)
    field = f"metadata.labels[{level.key}]"
    findings = sum(1 for reason in reasons if any(item.field == field for item in reason.evidence))
    depth = domains.depth(level.key) or 0
    return LevelReport(level, len(domains.nodes) - lacking, len(domains.at(depth)), findings)


def domain_reports(topology: Topology, depth: int, parent: Path = ()) -> list[DomainReport]:
    """Return the domains of the level at a depth inside `parent`, by name."""
    index = topology.index
    domains = topology.domains.within(depth, parent)
    known = index.room_is_known
    return [_report(index, domain, known=known) for domain in domains]


def _report(index: Index, domain: Domain, *, known: bool) -> DomainReport:
    opened = sum(map(index.open_for_gpus.__getitem__, domain.nodes))
    gpus = sum(map(index.gpus.__getitem__, domain.nodes))
    free = sum(map(index.free_gpus.__getitem__, domain.nodes)) if known else None
    soon = sum(map(index.soon_free_gpus.__getitem__, domain.nodes)) if known else None
    return DomainReport(
        domain.path, len(domain.nodes), len(domain.nodes) - opened, gpus, free, soon
    )


# Room.


class RoomAnswer(Value):
    """The room for `pods` pods of `gpus` GPUs (in thousandths) in one domain of `level`."""

    level: str
    pods: int
    gpus: int
    rooms: tuple[DomainRoom, ...]
    """The room of every domain, most room first."""
    with_labels: tuple[DomainRoom, ...]
    """The domains that would have more room if unlabelled nodes had their neighbours' labels."""

    @property
    def enough(self) -> tuple[DomainRoom, ...]:
        """The domains that have room for all pods."""
        return tuple(room for room in self.rooms if room.pods >= self.pods)


class RoomSearch(Value):
    """The room at the requested level, and at the next wider level that has enough."""

    answer: RoomAnswer
    wider: RoomAnswer | None
    """The answer for the next wider level with enough room.

    None if there is no such level, or if it was not searched for: the requested level has enough
    room, or no node has as many GPUs as one pod requests.
    """
    largest: int
    """The GPUs of the node that has the most, in thousandths."""
    pools: tuple[str, ...]
    """KAI's node pools, or () if no node is in a pool. "" stands for nodes without a pool.

    The nodes of all pools are counted.
    """
    spare: int = 0
    """The number of nodes of a domain that should stay free."""
    most: int | None = None
    """How many of the pods fit if these nodes stay free, or None if that was not examined."""

    @property
    def exit_code(self) -> int:
        """The exit code: 0 if there is room at the requested level, and 1 if not."""
        return 0 if self.answer.enough else 1


def search_room(
    topology: Topology, level: str, pods: int, gpus: int, spare: int = 0
) -> RoomSearch | None:
    """Return where `pods` pods of `gpus` GPUs (thousandths) each have room in one domain.

    `spare` is how many nodes of a domain should stay free. Return None for an unknown level.
    """
    asked = next((known for known in topology.levels if known.domain == level), None)
    if not asked:
        return None

    index = topology.index
    answer = find_room(topology, asked, pods, gpus)
    largest = max(index.gpus, default=0)
    wider = _next_wider(topology, asked, answer) if gpus <= largest else None
    pools = {node.labels.get(NODE_POOL, "") for node in index.nodes} if index.has_pools else ()
    most = None
    if spare and gpus and gpus <= largest:
        most = _most_with_spare(topology, asked, answer, spare * (largest // gpus))
    return RoomSearch(answer, wider, largest, tuple(sorted(pools)), spare, most)


def _most_with_spare(topology: Topology, asked: Level, answer: RoomAnswer, kept: int) -> int:
    """Return how many of the pods fit in one domain that keeps room for `kept` more pods."""
    more = find_room(topology, asked, answer.pods + kept, answer.gpus)
    return max((room.pods - kept for room in more.rooms if room.pods > kept), default=0)


def _next_wider(topology: Topology, asked: Level, answer: RoomAnswer) -> RoomAnswer | None:
    """Return the answer for the next wider level with room for all pods.

    Return None if there is no such level, or if none is needed.
    """
    levels = () if answer.enough else topology.wider(asked.key)
    answers = (find_room(topology, level, answer.pods, answer.gpus) for level in levels)
    return next((wider for wider in answers if wider.enough), None)


def find_room(topology: Topology, level: Level, pods: int, gpus: int) -> RoomAnswer:
    """Return where `pods` pods of `gpus` GPUs each (thousandths) fit in one domain of a level."""
    demands = [Demand("", level.key, ((shape, pods),)) for shape in _shapes(topology.index, gpus)]
    placements = [Placements(topology, demand) for demand in demands]
    rooms = _sum([each.rooms() for each in placements], pods)
    gained: tuple[DomainRoom, ...] = ()
    labels = guessed_labels(topology) if topology.outside else {}
    if labels:
        more = _sum([each.with_labels(labels).rooms() for each in placements], pods)
        before = {room.domain.path: room.pods for room in rooms}
        gained = tuple(room for room in more if room.pods > before.get(room.domain.path, 0))

    return RoomAnswer(level.domain, pods, gpus, rooms, gained)


def _shapes(index: Index, gpus: int) -> list[Shape]:
    """Return one pod shape for each resource name of whole GPUs, such as nvidia.com/gpu.

    Each shape requests `gpus` thousandths of a GPU. If `gpus` is 0, return one shape without GPUs.
    """
    if not gpus:
        return [Shape((("pods", 1000),))]
    tolerated = (Toleration(GPU, "Exists", "", ""),)
    names = [name for name in index.gpu_names if name.endswith("/gpu")] or [GPU]
    return [Shape(((name, gpus), ("pods", 1000)), tolerations=tolerated) for name in names]


def _sum(rooms: Sequence[Sequence[DomainRoom]], most: int) -> tuple[DomainRoom, ...]:
    """Return the room of each domain, summed over all resource names of GPUs, most room first.

    A node has its GPUs under only one of these names.
    """
    domains = {room.domain.path: room.domain for by_name in rooms for room in by_name}
    pods: Counter[Path] = Counter()
    for room in itertools.chain.from_iterable(rooms):
        pods[room.domain.path] += room.pods
    summed = (DomainRoom(domain, min(most, pods[path])) for path, domain in domains.items())
    return tuple(sorted(summed, key=lambda room: (-room.pods, room.domain.path)))


# Preview of other levels.


class ConstraintChange(Value, rename=AS_JSON):
    """How an edit of the levels affects one constraint of a PodCliqueSet."""

    ref: Ref
    field: str
    text: str
    """The effect, in words."""
    severe: bool
    """Is the required level missing after the edit, or would updates of the set be rejected?"""


class Preview(Value):
    """The changes that an edit of the levels of a topology would cause."""

    after: ClusterTopology
    """The topology after the edit."""
    effects: tuple[ConstraintChange, ...]
    """The changes of the constraints of PodCliqueSets, sorted by namespace and name of the set."""
    reasons: tuple[Reason, ...]
    """The problems that nodes' labels would have with the new levels."""
    absent: tuple[str, ...]
    """The label keys of the edited levels that no node has. Empty if there are no nodes."""

    @property
    def is_severe(self) -> bool:
        """Is an effect `severe`, or would no node have the label of a level?"""
        return bool(self.absent) or any(effect.severe for effect in self.effects)


def preview(index: Index, after: ClusterTopology) -> Preview:
    """Return the effects of replacing the topology of the same name by `after`.

    If there is none, these are the effects of creating `after`.
    """
    before = topology_of(index, after.name).cluster
    affected = [pcs for pcs in index.facts.sets if _uses(index, pcs, before, after)]
    by_name = sorted(affected, key=lambda pcs: pcs.key)
    effects = [effect for pcs in by_name for effect in _effects(pcs, before, after)]
    kai = KaiTopology(after.kai or after.name, tuple(level.key for level in after.levels))
    topology = Topology(index, after, kai)
    no_gang = Gang(after.ref, Unit(""), topology)
    reasons = (*level_label_missing(no_gang), *not_a_tree(no_gang))
    return Preview(after, tuple(effects), reasons, topology.absent_keys)


def _uses(
    index: Index, pcs: SetWithStatus, before: ClusterTopology | None, after: ClusterTopology
) -> bool:
    """Return whether a set uses the topology `before`, or `after` if `before` is None.

    A set uses the topology that its constraints name, or else the default topology.
    """
    name = min((asked.topology for _, asked in pcs.constraints if asked.topology), default="")
    if topology_of(index, name).cluster != before:
        return False
    # A set may also name another topology that does not exist.
    return before is not None or name in ("", after.name, after.kai)


def _effects(
    pcs: SetWithStatus, before: ClusterTopology | None, after: ClusterTopology
) -> Iterator[ConstraintChange]:
    for where, asked in pcs.constraints:
        of = f" of {where}" if where else ""
        for field, domain, required in asked.constraints:
            constraint = f"{'required' if required else 'preferred'} {domain}{of}"
            text = _effect(constraint, domain, before, after)
            if text:
                is_lost = required and after.key_of(domain) is None
                yield ConstraintChange(pcs.ref, field, text, is_lost)

    yield from _broadened(pcs, before, after)


def _broadened(
    pcs: SetWithStatus, before: ClusterTopology | None, after: ClusterTopology
) -> Iterator[ConstraintChange]:
    """Yield the constraints that become broader than the constraint of their set."""
    whole = pcs.asked.required
    for where, asked in pcs.constraints:
        is_broader = _rank(after, asked.required) < _rank(after, whole)
        was_broader = before is not None and _rank(before, asked.required) < _rank(before, whole)
        if where and after.key_of(asked.required) and is_broader and not was_broader:
            becomes = (
                f"{where} requires {asked.required}, which becomes broader than the PodCliqueSet's"
                f" {whole}, so updates of the PodCliqueSet are rejected"
            )
            yield ConstraintChange(pcs.ref, asked.field, becomes, True)


def _effect(
    constraint: str, domain: str, before: ClusterTopology | None, after: ClusterTopology
) -> str:
    old = before.key_of(domain) if before else None
    new = after.key_of(domain)
    if new is None:
        return (
            f"loses {constraint}, because that level is removed"
            if old
            else f"{constraint} still names a level that does not exist"
        )

    if old is None:
        return f"gains {constraint}, because that level is added"
    if old != new:
        return f"{constraint} means {new} instead of {old}; running gangs are not moved"

    return ""


def _rank(topology: ClusterTopology, domain: str) -> int:
    domains = [level.domain for level in topology.levels]
    return domains.index(domain) if domain in domains else -1

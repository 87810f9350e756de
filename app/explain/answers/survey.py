"""The topology of a cluster: levels and their coverage, what is free where, what is not a tree.

Also what an edit of the levels would do to stored PodCliqueSets, and to the tree of nodes.
"""

from collections.abc import Iterator, Sequence

from app.base.value import Value
from app.explain.answers.branch import AS_JSON
from app.explain.gangs.gang import Gang, Unit
from app.explain.known.domains import Domain, Path
from app.explain.known.index import Index
from app.explain.known.levels import Topology, topology_of
from app.explain.reasons.reason import Reason
from app.explain.reasons.table import RULES, Unknown
from app.explain.reasons.topology import level_label_missing, not_a_tree, topology_differs
from app.facts.grove.podcliqueset import SetWithStatus
from app.facts.grove.topology import ClusterTopology, Level
from app.facts.kai.topology import KaiTopology
from app.facts.named import Ref


class LevelReport(Value):
    """The coverage of a level.

    `nodes` have its label; `domains` is how many domains it makes, `findings` how
    many reasons are about it.
    """

    level: Level
    nodes: int
    domains: int
    findings: int


class DomainReport(Value):
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


class Survey(Value):
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


def survey(index: Index, name: str = "") -> Survey:
    """Return the topology called `name`; without a name, the one that Grove has by default."""
    topology = topology_of(index, name)
    reasons = _reasons(topology)
    levels = tuple(_level(topology, level, reasons) for level in topology.levels)
    outside = tuple(node.name for node in topology.outside)
    rules = [
        rule for rule in RULES if rule.id in ("TopologyDiffers", "LevelLabelMissing", "NotATree")
    ]
    missing = {
        rule.id: tuple(need for need in rule.needs if need in index.facts.unseen) for rule in rules
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
    )


def _reasons(topology: Topology) -> tuple[Reason, ...]:
    facts = topology.index.facts
    unseen = facts.unseen.keys()
    kai_known = not {"topologies", "kai_topologies"} & (unseen | facts.absent)
    no_gang = Gang(Ref("Topology", "", ""), Unit(""), topology)
    reasons = [*topology_differs(no_gang)] if kai_known else []
    if "nodes" not in unseen:
        reasons += [*level_label_missing(no_gang), *not_a_tree(no_gang)]
    return tuple(reasons)


def _level(topology: Topology, level: Level, reasons: Sequence[Reason]) -> LevelReport:
    domains = topology.domains
    lacking = sum(level.key not in node.labels for node in topology.outside)
    field = f"metadata.labels[{level.key}]"
    findings = sum(1 for reason in reasons if any(item.field == field for item in reason.evidence))
    depth = domains.depth(level.key) or 0
    return LevelReport(
        level,
        len(domains.nodes) - lacking,
        len(domains.at(depth)),
        findings,
    )


def domain_reports(topology: Topology, depth: int, parent: Path = ()) -> list[DomainReport]:
    """Return the domains of one level inside a broader one, by name."""
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
        domain.path,
        len(domain.nodes),
        len(domain.nodes) - opened,
        gpus,
        free,
        soon,
    )


# Preview of other levels.


class ConstraintChange(Value, rename=AS_JSON):
    """What changes for one constraint of a PodCliqueSet.

    `severe` if the constraint is lost or rejected.
    """

    ref: Ref
    field: str
    text: str
    severe: bool


class Preview(Value):
    """The preview of an edit.

    `effects` are those on sets, by name; `reasons` are those that the new levels would give in the
    labels of nodes. `absent` are keys of the new levels that no node has.
    """

    after: ClusterTopology
    effects: tuple[ConstraintChange, ...]
    reasons: tuple[Reason, ...]
    absent: tuple[str, ...]

    @property
    def is_severe(self) -> bool:
        """Whether a set would lose a constraint, or all nodes a place in the topology."""
        return bool(self.absent) or any(effect.severe for effect in self.effects)


def preview(index: Index, after: ClusterTopology) -> Preview:
    """Return the effects if `after` replaced the topology of its name (or the only one)."""
    before = topology_of(index, after.name).cluster
    affected = [pcs for pcs in index.facts.sets if _uses(index, pcs, before)]
    by_name = sorted(affected, key=lambda pcs: pcs.key)
    effects = [effect for pcs in by_name for effect in _effects(pcs, before, after)]
    kai = KaiTopology(after.kai or after.name, tuple(level.key for level in after.levels))
    topology = Topology(index, after, kai)
    no_gang = Gang(after.ref, Unit(""), topology)
    reasons = (*level_label_missing(no_gang), *not_a_tree(no_gang))
    return Preview(after, tuple(effects), reasons, topology.absent_keys)


def _uses(index: Index, pcs: SetWithStatus, before: ClusterTopology | None) -> bool:
    """Return whether the set is placed by the topology that is edited."""
    names = {asked.topology for _, asked in pcs.constraints if asked.topology}
    return topology_of(index, min(names, default="")).cluster == before


def _effects(
    pcs: SetWithStatus,
    before: ClusterTopology | None,
    after: ClusterTopology,
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
    pcs: SetWithStatus,
    before: ClusterTopology | None,
    after: ClusterTopology,
) -> Iterator[ConstraintChange]:
    """Yield the constraints that become broader than that of their set."""
    whole = pcs.asked.required
    for where, asked in pcs.constraints:
        is_broader = _rank(after, asked.required) < _rank(after, whole)
        was_broader = before is not None and _rank(before, asked.required) < _rank(before, whole)
        if where and after.key_of(asked.required) and is_broader and not was_broader:
            becomes = (
                f"{where} requires {asked.required}, which becomes broader than the set's {whole}"
            )
            yield ConstraintChange(pcs.ref, asked.field, f"{becomes}: rejected at changes", True)


def _effect(
    constraint: str,
    domain: str,
    before: ClusterTopology | None,
    after: ClusterTopology,
) -> str:
    old = before.key_of(domain) if before else None
    new = after.key_of(domain)
    if new is None:
        return (
            f"loses {constraint}: it is no level any more"
            if old
            else f"{constraint} stays without a level"
        )

    if old is None:
        return f"gains {constraint}: it becomes a level"
    if old != new:
        return f"{constraint} means {new} in place of {old}: running gangs stay where they are"

    return ""


def _rank(topology: ClusterTopology, domain: str) -> int:
    domains = [level.domain for level in topology.levels]
    return domains.index(domain) if domain in domains else -1

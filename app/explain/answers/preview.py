"""What an edit of the levels would do: to stored PodCliqueSets, and to the tree of nodes."""

from collections.abc import Iterator

from app.base.value import Value
from app.explain.answers.branch import AS_JSON
from app.explain.gangs.gang import Gang, Unit
from app.explain.known.index import Index
from app.explain.known.levels import Topology, topology_of
from app.explain.reasons.reason import Reason
from app.explain.reasons.topology import level_label_missing, not_a_tree
from app.facts.grove.podcliqueset import SetWithStatus
from app.facts.grove.topology import ClusterTopology
from app.facts.kai.topology import KaiTopology
from app.facts.named import Ref


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


def _uses(
    index: Index,
    pcs: SetWithStatus,
    before: ClusterTopology | None,
) -> bool:
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

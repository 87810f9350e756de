"""Warn about constraints that KAI ignores, or never satisfies even in an empty cluster.

The warnings depend only on the constraints and on the levels of the KAI Topology. Decisions of the
real scheduler are in `tests/testdata/kai-decisions`: `d3-*` for preferred levels,
`d5-subgroup-broader` for required ones, `d10-no-topology-host` for a constraint without a topology.
Source: https://github.com/kai-scheduler/KAI-Scheduler/tree/d5bc503a/pkg/scheduler/plugins/topology
"""

from collections.abc import Callable, Iterator, Mapping

from app.base.value import Value
from app.facts.kai.topology import KaiTopology
from app.objects.fields import FieldPath

TopologyOf = Callable[[str], KaiTopology | None]
"""A function that returns a KAI Topology by its name, or None if it is not known."""

WHOLE = ""
"""The name of the part that is the whole gang."""


class PartLevels(Value):
    """The constraint of one part of a gang.

    A part is the whole gang, a group, a PodGroup or a SubGroup.
    """

    topology: str
    """The name of the KAI Topology, or ""."""
    required: str
    """The required level, or ""."""
    required_at: FieldPath
    """The path of the required level."""
    preferred: str
    """The preferred level, or ""."""
    preferred_at: FieldPath
    """The path of the preferred level."""
    parent: str
    """The name of the enclosing part, which is WHOLE for the outermost parts."""


class Required(Value):
    """A required level and its topology, both "" if no level is required."""

    topology: str = ""
    """The name of the KAI Topology, or ""."""
    level: str = ""
    """The required level, or ""."""


NOTHING = Required()
"""The value if no level is required."""


def placing_warnings(parts: Mapping[str, PartLevels], topology_of: TopologyOf) -> list[str]:
    """Return warnings about the constraints of `parts`, which are given by name.

    The parents must not form a cycle, but the whole gang may be its own parent. A part whose
    topology `topology_of` does not know is skipped.
    """
    names = {part.topology for part in parts.values() if part.topology}
    topologies = {name: topology_of(name) for name in names}
    narrowest = _narrowest_required(parts, topologies)

    warnings: list[str] = []
    for name, part in parts.items():
        kai = topologies.get(part.topology)
        if not part.topology:
            warnings += _ignored(part)
        elif kai is not None:
            above = narrowest.get(part.parent, NOTHING)
            is_same = name != WHOLE and above.topology == part.topology
            warnings += _never_placed(part, kai, above.level if is_same else "")
    return warnings


def is_broader_level(level: str, other: str, kai: KaiTopology) -> bool:
    """Return whether both are levels of `kai`, and `level` is broader than `other`."""
    first = kai.position(level)
    second = kai.position(other)
    return first is not None and second is not None and first < second


def _ignored(part: PartLevels) -> Iterator[str]:
    for at, level in ((part.required_at, part.required), (part.preferred_at, part.preferred)):
        if level:
            yield f'{at} "{level}" is ignored by KAI, because no topology is named for it'


def _never_placed(part: PartLevels, kai: KaiTopology, above: str) -> Iterator[str]:
    for at, level in ((part.required_at, part.required), (part.preferred_at, part.preferred)):
        if level and kai.position(level) is None:
            yield (
                f'{at} "{level}" is not a level of KAI Topology "{kai.name}", so KAI never places'
                f" these pods; its levels: {', '.join(kai.keys)}"
            )

    if is_broader_level(part.preferred, part.required, kai):
        yield (
            f'{part.preferred_at} "{part.preferred}" is broader than the required level'
            f' "{part.required}": KAI never places these pods. Remove the preferred level,'
            " or use a narrower one"
        )
    if not part.preferred and is_broader_level(part.required, above, kai):
        yield (
            f'{part.required_at} "{part.required}" is broader than "{above}", which the enclosing'
            f' group requires: KAI never places these pods. Require "{above}" or a narrower level'
        )


def _narrowest_required(
    parts: Mapping[str, PartLevels], topologies: Mapping[str, KaiTopology | None]
) -> dict[str, Required]:
    """Return the narrowest level that each part or one of its enclosing parts requires, by part.

    Each part is visited once, whatever the order of `parts`.
    """
    narrowest: dict[str, Required] = {}
    for start in parts:
        trail: list[str] = []
        name = start
        while name in parts and name not in narrowest and name not in trail[-1:]:
            trail.append(name)
            name = parts[name].parent

        for name in reversed(trail):
            part = parts[name]
            inherited = narrowest.get(part.parent, NOTHING)
            kai = topologies.get(part.topology)
            is_kept = (
                kai is None
                or not part.required
                or (
                    inherited.topology == part.topology
                    and is_broader_level(part.required, inherited.level, kai)
                )
            )
            narrowest[name] = inherited if is_kept else Required(part.topology, part.required)
    return narrowest

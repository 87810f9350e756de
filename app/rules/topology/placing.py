"""Constraints that KAI never satisfies, however much room there is, and those that it ignores.

Both depend only on the order of levels. Decisions of the real scheduler are in
`tests/testdata/kai-decisions`: `d3-*` for preferred levels, `d5-subgroup-broader` for required
ones, `d10-no-topology-host` for a constraint without a topology. Source:
https://github.com/kai-scheduler/KAI-Scheduler/tree/d5bc503a/pkg/scheduler/plugins/topology
"""

from collections.abc import Callable, Iterator, Mapping

from app.base.value import Value
from app.facts.kai.topology import KaiTopology
from app.objects.fields import FieldPath

TopologyOf = Callable[[str], KaiTopology | None]
"""Returns a KAI Topology by its name, or None if it is not known."""

WHOLE = ""
"""The name of the part that is the whole gang."""


class PartLevels(Value):
    """A part of a gang with its levels, each "" if it is not set, and their paths.

    `topology` is the name of the KAI Topology, or "". `parent` is the name of the part around it.
    """

    topology: str
    required: str
    required_at: FieldPath
    preferred: str
    preferred_at: FieldPath
    parent: str


class Required(Value):
    """A level that is required, and its topology; both "" if none is."""

    topology: str = ""
    level: str = ""


NOTHING = Required()


def placing_warnings(parts: Mapping[str, PartLevels], topology_of: TopologyOf) -> list[str]:
    """Return the warnings about `parts`, which are given by name and have no cycles."""
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
    """Return whether `level` is broader than `other`, if both are levels of `kai`."""
    first = kai.position(level)
    second = kai.position(other)
    return first is not None and second is not None and first < second


def _ignored(part: PartLevels) -> Iterator[str]:
    for at, level in ((part.required_at, part.required), (part.preferred_at, part.preferred)):
        if level:
            yield f'{at} "{level}" is ignored by KAI: no topology is named beside it'


def _never_placed(part: PartLevels, kai: KaiTopology, above: str) -> Iterator[str]:
    for at, level in ((part.required_at, part.required), (part.preferred_at, part.preferred)):
        if level and kai.position(level) is None:
            yield (
                f'{at} "{level}" is not a level of KAI Topology "{kai.name}", which has:'
                f" {', '.join(kai.keys)}; KAI never places these pods"
            )

    if is_broader_level(part.preferred, part.required, kai):
        yield (
            f'{part.preferred_at} "{part.preferred}" is broader than the required level'
            f' "{part.required}": KAI never places these pods; remove it, or name a narrower level'
        )
    if not part.preferred and is_broader_level(part.required, above, kai):
        yield (
            f'{part.required_at} "{part.required}" is broader than "{above}", which the part above'
            " requires: KAI never places these pods; require a level that is as narrow"
        )


def _narrowest_required(
    parts: Mapping[str, PartLevels], topologies: Mapping[str, KaiTopology | None]
) -> dict[str, Required]:
    """Return, by the name of a part, the narrowest level that it or a part around it requires.

    Each part is visited once, whatever the order.
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

"""Whether the topology constraints of a PodCliqueSet can be met, as its status says it.

Source: `rules/README.md`.
"""

from collections.abc import Collection, Sequence

from app.objects.conditions import Condition
from app.rules.podcliqueset import CONDITION, PodCliqueSet
from app.rules.topology.levels import DOMAINS, Topology

SHOWN = 5
"""Names in a warning; kubectl cuts long ones."""


def constraint_condition(pcs: PodCliqueSet, topology: Topology | None) -> Condition | None:
    """The condition TopologyConstraintSatisfied; None for a set without constraints, which doesn't get one. `topology`
    None: the managed ClusterTopology can't be seen at the moment."""
    if not pcs.domains:
        return None
    if topology is None:
        text = "The managed ClusterTopology does not exist yet"
        return Condition(CONDITION, "Unknown", "TopologyUnknown", text, pcs.generation)
    if not topology.enabled:
        text = "Topology support disabled in operator configuration"
        return Condition(CONDITION, "False", "TopologyDisabled", text, pcs.generation)
    known = {level.domain for level in topology.levels}
    missing = [domain for domain in DOMAINS if domain in pcs.domains - known]
    if not missing:
        text = "All topology constraints name levels of the ClusterTopology"
        return Condition(CONDITION, "True", "TopologyConstraintsValid", text, pcs.generation)
    named = ", ".join(f"'{domain}'" for domain in missing)
    text = (
        f"Topology level{'s' if len(missing) > 1 else ''} {named} not found in ClusterTopology '{topology.name}'. "
        f"Topology constraint will be ignored. Please remove packDomain or update ClusterTopology."
    )
    return Condition(CONDITION, "False", "TopologyLevelNotFound", text, pcs.generation)


def lost_levels_warning(lost: Collection[str], sets: Sequence[PodCliqueSet]) -> str | None:
    """What to tell who takes the levels `lost` from the managed ClusterTopology, while `sets` name them; None where
    nobody does."""
    if not sets:
        return None
    named = [f"{one.namespace}/{one.name}" for one in sets[:SHOWN]]
    rest = f" and {len(sets) - SHOWN} more" if len(sets) > SHOWN else ""
    levels = ", ".join(f"'{domain}'" for domain in DOMAINS if domain in lost)
    who = "1 PodCliqueSet has" if len(sets) == 1 else f"{len(sets)} PodCliqueSets have"
    return f"{who} constraints on the removed levels ({levels}), which will be ignored: {', '.join(named)}{rest}"

"""Report in a condition of a PodCliqueSet whether the levels of its constraints exist.

Source: `rules/README.md`.
"""

from collections.abc import Collection, Sequence
from functools import partial

from app.facts.grove.podcliqueset import CONSTRAINTS_SATISFIED, PodCliqueSet
from app.facts.grove.topology import DOMAINS, ClusterTopology
from app.objects.conditions import Condition
from app.objects.fields import listed

SHOWN = 5
"""The maximum number of names in a warning."""


def constraint_condition(pcs: PodCliqueSet, topology: ClusterTopology | None) -> Condition | None:
    """Return the condition TopologyConstraintSatisfied, or None for a set without packDomains.

    `topology` is None if the managed ClusterTopology is not known.
    """
    if not pcs.domains:
        return None
    condition = partial(Condition, type=CONSTRAINTS_SATISFIED, generation=pcs.generation)
    if topology is None:
        text = "The managed ClusterTopology does not exist or has no levels yet"
        return condition(status="Unknown", reason="TopologyUnknown", message=text)
    if not topology.enabled:
        text = "Topology support disabled in operator configuration"
        return condition(status="False", reason="TopologyDisabled", message=text)

    missing = [domain for domain in DOMAINS if domain in pcs.domains - topology.domains]
    if not missing:
        text = "All topology constraints name levels of the ClusterTopology"
        return condition(status="True", reason="TopologyConstraintsValid", message=text)

    names = ", ".join(f"'{domain}'" for domain in missing)
    text = (
        f"Topology level{'s' if len(missing) > 1 else ''} {names} not found in ClusterTopology"
        f" '{topology.name}'. Topology constraint will be ignored. Please remove packDomain or"
        " update ClusterTopology."
    )

    return condition(status="False", reason="TopologyLevelNotFound", message=text)


def removed_levels_warnings(removed: Collection[str], sets: Sequence[PodCliqueSet]) -> list[str]:
    """Return a warning about the removal of the levels `removed` from the ClusterTopology.

    `sets` are the PodCliqueSets with constraints on these levels. If there are none, the result is
    empty.
    """
    if not sets:
        return []
    names = listed([f"{pcs.namespace}/{pcs.name}" for pcs in sets], SHOWN)
    used = {domain for pcs in sets for domain in pcs.domains if domain in removed}
    levels = ", ".join(f"'{domain}'" for domain in DOMAINS if domain in used)
    number = "1 PodCliqueSet" if len(sets) == 1 else f"{len(sets)} PodCliqueSets"
    return [f"constraints on removed levels ({levels}) will be ignored in {number}: {names}"]

"""Implement the dialect `design`, of Grove as of January 2026, and the dialect `none`.

`design` has levels in a ClusterTopology, and `packDomain` in PodCliqueSets. This program translates
both for the scheduler.

It reads `spec.levels` of the managed ClusterTopology and `topologyConstraint.packDomain` of
PodCliqueSets. It writes the constraints of PodGangs and their annotation `grove.io/topology-name`,
the condition TopologyConstraintSatisfied of PodCliqueSets, the managed ClusterTopology and its KAI
Topology.

Source: https://github.com/ai-dynamo/grove/tree/a5b8e0dc
"""

from app.facts.grove.podcliqueset import PodCliqueSet
from app.facts.grove.topology import LevelsByName, levels_of_cluster_topology
from app.facts.kinds import CLUSTER_TOPOLOGY
from app.objects.edits import Edit
from app.objects.shape import JsonMap
from app.rules.dialects.bindings.owner import POD_CLIQUE_SET_OWNS
from app.rules.dialects.design import sets
from app.rules.dialects.design.levels import validate_cluster_topology
from app.rules.dialects.design.owner import POD_GANG_OWNS
from app.rules.dialects.design.podgangs import constraint_changes, validate_shape
from app.rules.dialects.dialect import Dialect, LevelsVerdict, OwnerRule, TopologyFacts
from app.rules.topology.coverage import coverage_problems
from app.rules.topology.levels import levels_below_host
from app.rules.topology.satisfaction import constraint_condition, removed_levels_warnings


class Unserved(Dialect):
    """The dialect `none`, in force if the cluster serves no topology API of Grove.

    PodCliqueSets are validated, and get a condition, as in `design`. The constraints of PodGangs
    are not changed, because another program may have written them. The release of Grove is unknown,
    so by default, the PodCliqueSet owns MNNVL resources, which is safe in all releases.
    """

    name = "none"
    resource = CLUSTER_TOPOLOGY
    sign = CLUSTER_TOPOLOGY
    owner: OwnerRule = POD_CLIQUE_SET_OWNS

    read_levels = staticmethod(levels_of_cluster_topology)
    validate_set = staticmethod(sets.validate_set)
    condition = staticmethod(constraint_condition)

    def in_use(self, facts: TopologyFacts) -> LevelsByName:
        topology = facts.topology()
        return {topology.name: topology.levels} if topology.enabled else {}

    def validate_levels(
        self, obj: JsonMap, old: JsonMap | None, operation: str, facts: TopologyFacts, managed: bool
    ) -> LevelsVerdict:
        if operation == "DELETE":
            removed = self._removal_warnings(obj, set(), facts) if managed else ()
            return LevelsVerdict(warnings=removed)

        findings = validate_cluster_topology(obj)
        if findings:
            return LevelsVerdict(findings=findings)

        levels = self.read_levels(obj)
        warnings = [problem.text for problem in coverage_problems(levels, facts.nodes_with)]
        below_host = levels_below_host(levels)
        if managed and below_host:
            warnings.append(below_host)
        if managed and operation == "UPDATE":
            remaining = {level.domain for level in levels}
            warnings = self._removal_warnings(old or obj, remaining, facts) + warnings

        return LevelsVerdict(warnings=warnings)

    def _removal_warnings(
        self, before: JsonMap, remaining: set[str], facts: TopologyFacts
    ) -> list[str]:
        """Return a warning if sets have constraints on levels that a write removes.

        `before` is the topology before the write, and `remaining` are the domains after it.
        """
        removed = {level.domain for level in self.read_levels(before)} - remaining
        if not removed:
            return []
        return removed_levels_warnings(removed, facts.sets_with_domains(removed))


class Design(Unserved):
    """The dialect that is in force if only `clustertopologies.grove.io` is served."""

    name = "design"
    owner = POD_GANG_OWNS
    owns_topology = True
    validate_podgang = staticmethod(validate_shape)

    def podgang_changes(
        self, gang: JsonMap, pcs: PodCliqueSet | None, facts: TopologyFacts
    ) -> list[Edit]:
        """Return the changes to the constraints of a PodGang.

        Return no changes if a constraint of the set has fields other than packDomain: a Grove that
        reads these fields writes the constraints itself. Otherwise, raise NoTopology if the managed
        topology is missing.
        """
        return (
            []
            if pcs is not None and pcs.uses_pack
            else constraint_changes(gang, pcs, facts.topology())
        )


DESIGN = Design()
UNSERVED = Unserved()

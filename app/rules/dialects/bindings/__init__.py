"""Implement the dialect `bindings`, of Grove as of August 2026.

It has levels in ClusterTopologyBindings, and `topologyName` and `pack` in PodCliqueSets. Grove
writes the constraints of PodGangs, its own conditions and the KAI Topologies.

This program reads `spec.levels` of ClusterTopologyBindings and `topologyConstraint` of
PodCliqueSets. It writes the managed ClusterTopologyBinding, and the condition LevelsCovered of all
ClusterTopologyBindings.

Source: https://github.com/ai-dynamo/grove/tree/fcc3b3bb
"""

from app.facts.grove.podcliqueset import PodCliqueSet
from app.facts.grove.topology import LevelsByName, levels_of_binding
from app.facts.identity import read_name
from app.facts.kinds import CLUSTER_TOPOLOGY_BINDING
from app.objects.shape import JsonMap
from app.rules.dialects.bindings import sets
from app.rules.dialects.bindings.levels import refusal_to_delete, validate_binding
from app.rules.dialects.bindings.owner import POD_CLIQUE_SET_OWNS
from app.rules.dialects.bindings.podgangs import drifted_constraints, gang_warnings
from app.rules.dialects.dialect import Dialect, LevelsVerdict, TopologyFacts
from app.rules.topology.coverage import coverage_problems


class Bindings(Dialect):
    """The dialect `bindings`.

    It is in force if the cluster serves `clustertopologybindings.grove.io` (with or without
    `clustertopologies.grove.io`) and does not serve `podgangmaps.grove.io`.
    """

    name = "bindings"
    resource = CLUSTER_TOPOLOGY_BINDING
    sign = CLUSTER_TOPOLOGY_BINDING
    owner = POD_CLIQUE_SET_OWNS
    reads_groups = True

    read_levels = staticmethod(levels_of_binding)
    validate_set = staticmethod(sets.validate_set)

    def in_use(self, facts: TopologyFacts) -> LevelsByName:
        return facts.bindings()

    def validate_levels(
        self, obj: JsonMap, old: JsonMap | None, operation: str, facts: TopologyFacts, managed: bool
    ) -> LevelsVerdict:
        name = read_name(obj)
        if operation == "DELETE":
            refusal, warnings = refusal_to_delete(obj, facts.users_of(name))
            return LevelsVerdict(refusal, warnings=warnings)

        users = facts.users_of(name) if operation == "UPDATE" else ()
        findings, warnings = validate_binding(obj, old, facts.kai_topology(name), users)
        if not findings:
            warnings += [
                problem.text
                for problem in coverage_problems(self.read_levels(obj), facts.nodes_with)
            ]

        return LevelsVerdict(findings=findings, warnings=warnings)

    def podgang_warnings(self, gang: JsonMap, facts: TopologyFacts) -> list[str]:
        return gang_warnings(gang, facts.kai_topology)

    def drifted(self, gang: JsonMap, pcs: PodCliqueSet, facts: TopologyFacts) -> list[str]:
        levels = facts.bindings().get(pcs.topology_name)
        return [] if levels is None else drifted_constraints(gang, pcs, levels)


BINDINGS = Bindings()

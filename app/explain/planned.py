"""A PodCliqueSet that does not exist yet, as the facts that there would be if Grove had made its objects."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.explain.facts import Facts
from app.explain.facts.common import Place, Told
from app.explain.facts.fields import reader
from app.explain.facts.grove import (
    Asked,
    CliqueTemplate,
    GangGroup,
    GangPart,
    GroupTemplate,
    PodClique,
    PodCliqueSet,
    PodGang,
)
from app.explain.facts.pods import Shape, shape
from app.explain.facts.values import at, text
from app.explain.index import Index
from app.explain.levels import Topology
from app.objects.shape import maps_of

PLACEMENT = ("LevelUnknown", "MinAboveReplicas", "NeverFits", "NoDomainFits", "OtherResource", "NodesUnfit")
"""The reasons that can hold for a set before it exists."""
MOST_REPLICAS = 20
"""Gangs are made for so many replicas of the set and of each group; more are like them."""


def planned(index: Index, document: Mapping[str, Any]) -> tuple[Facts, PodCliqueSet]:
    """The facts of `index` with the PodCliqueSet of a document, in place of the one of its name, and with the
    PodCliques and PodGangs that Grove would make. It has no pods, so all of it has to be placed."""
    pcs = reader(PodCliqueSet)(document)
    pcs = replace(pcs, namespace=pcs.namespace or "default")
    plan = _Plan(index, pcs, _shapes(document))
    facts = index.facts
    key = (pcs.namespace, pcs.name)
    return (
        replace(
            facts,
            sets=(*(s for s in facts.sets if (s.namespace, s.name) != key), pcs),
            cliques=(*(c for c in facts.cliques if (c.namespace, c.place.pcs) != key), *plan.cliques),
            gangs=(*(g for g in facts.gangs if (g.namespace, g.place.pcs) != key), *plan.gangs),
            pods=tuple(p for p in facts.pods if (p.namespace, p.place.pcs) != key),
        ),
        pcs,
    )


def _shapes(document: Mapping[str, Any]) -> dict[str, Shape]:
    """What a pod of each clique template asks of a node."""
    templates = maps_of(at(document, "spec", "template").get("cliques"))
    return {text(item, "name"): shape(at(item, "spec").get("podSpec")) for item in templates}


class _Plan:
    """PodCliques and PodGangs as Grove makes them: a base gang for each replica, with the first minAvailable replicas
    of each scaling group, and a gang of its own for each further replica of a group."""

    def __init__(self, index: Index, pcs: PodCliqueSet, shapes: Mapping[str, Shape]) -> None:
        self.cliques: list[PodClique] = []
        self.gangs: list[PodGang] = []
        self._pcs, self._shapes = pcs, shapes
        self._topology: Topology = index.topology(pcs.asked.topology)
        self._templates = {clique.name: clique for clique in pcs.cliques}
        for replica in range(min(pcs.replicas, MOST_REPLICAS)):
            self._add(replica)

    def _add(self, replica: int) -> None:
        base = f"{self._pcs.name}-{replica}"
        grouped = {name for group in self._pcs.groups for name in group.cliques}
        parts = [self._part(f"{base}-{c.name}", c, base, replica) for c in self._pcs.cliques if c.name not in grouped]
        groups: list[GangGroup] = []
        for group in self._pcs.groups:
            for number in range(min(group.replicas, MOST_REPLICAS)):
                name = f"{base}-{group.name}-{number}"
                inside = self._group_parts(name, group, base if number < group.minimum else name, replica)
                told = self._told(group.asked)
                unit = GangGroup(name, tuple(part.name for part in inside), told)
                if number < group.minimum:
                    parts += inside
                    groups.append(unit)
                else:
                    self._gang(name, tuple(inside), (unit,))
        self._gang(base, tuple(parts), tuple(groups))

    def _group_parts(self, name: str, group: GroupTemplate, gang: str, replica: int) -> list[GangPart]:
        templates = [self._templates[clique] for clique in group.cliques if clique in self._templates]
        return [self._part(f"{name}-{template.name}", template, gang, replica) for template in templates]

    def _part(self, name: str, template: CliqueTemplate, gang: str, replica: int) -> GangPart:
        place = Place(self._pcs.name, str(replica), gang=gang)
        made = PodClique(self._pcs.namespace, name, "", place, template.replicas, template.minimum)
        self.cliques.append(replace(made, shape=self._shapes.get(template.name, made.shape)))
        return GangPart(name, template.minimum, told=self._told(template.asked))

    def _gang(self, name: str, parts: tuple[GangPart, ...], groups: tuple[GangGroup, ...]) -> None:
        topology = self._topology.cluster.name if self._topology.cluster else ""
        place, told = Place(self._pcs.name), self._told(self._pcs.asked)
        self.gangs.append(PodGang(self._pcs.namespace, name, "", place, topology, told, parts, groups))

    def _told(self, asked: Asked) -> Told:
        cluster = self._topology.cluster
        if cluster is None:
            return Told()
        return Told(cluster.key_of(asked.required) or "", cluster.key_of(asked.preferred) or "")

"""Create the gangs that Grove would create for the PodCliqueSet in a document."""

from collections.abc import Iterator

from msgspec.structs import replace

from app.explain.gangs.assembly import gang_to_come
from app.explain.gangs.gang import Gang, Member, Unit
from app.explain.state.index import Index
from app.explain.state.levels import topology_of
from app.facts.constraint import UNBOUND, SchedulerConstraint
from app.facts.grove.podclique import PodClique
from app.facts.grove.podcliqueset import (
    Clique,
    ScalingGroup,
    SetWithStatus,
    UserConstraint,
    read_set_with_status,
)
from app.facts.identity import Ref
from app.facts.kubernetes.pod import Shape, read_shape
from app.objects.shape import JsonMap, map_at, maps_at, text_at

PLACEMENT = (
    "LevelUnknown",
    "MinAboveReplicas",
    "PreferredBroader",
    "SharedNarrowerDomain",
    "SizesDiffer",
    "NeverFits",
    "NoNodeMatches",
    "OutsidePool",
    "NoDomainFits",
    "OtherResource",
    "NodesUnfit",
)
"""The ids of the reasons that can apply to a set before it exists."""
MOST_REPLICAS = 20
"""The maximum number of replicas of a set, and of each scaling group, that get gangs here.

Further replicas would have equal gangs.
"""


def planned(index: Index, document: JsonMap) -> list[Gang]:
    """Return the gangs of the PodCliqueSet in a document, sorted by name.

    Only the first MOST_REPLICAS replicas get gangs. Existing pods of a set with this name are
    ignored, so everything has to be placed. A set without replicas has one gang without pods.
    """
    pcs = read_set_with_status(document)
    pcs = replace(pcs, namespace=pcs.namespace or "default")
    pods = tuple(p for p in index.facts.pods if (p.namespace, p.place.pcs) != pcs.key)
    plan = _Plan(Index(replace(index.facts, pods=pods)), pcs, document)
    replicas = [f"{pcs.name}-{number}" for number in range(min(pcs.replicas, MOST_REPLICAS))]
    gangs = [gang for replica in replicas for gang in plan.gangs(replica)]
    return sorted(gangs, key=lambda gang: gang.ref.name) or [gang_to_come(plan.index, pcs)]


class _Plan:
    """A PodCliqueSet that does not exist yet, with the shapes of its pods."""

    def __init__(self, index: Index, pcs: SetWithStatus, document: JsonMap) -> None:
        self.index = index
        self._pcs = pcs
        self._cluster = topology_of(index, pcs.asked.topology).cluster
        name = self._cluster.name if self._cluster else pcs.topology_name
        self._topology = topology_of(index, name)
        facts = index.facts
        self._has_epochs = bool(facts.gang_maps) or any(gang.role for gang in facts.gangs)
        templates = maps_at(document, "spec", "template", "cliques")
        self._shapes: dict[str, Shape] = {
            text_at(t, "name"): read_shape(map_at(t, "spec", "podSpec")) for t in templates
        }

    def gangs(self, base: str) -> Iterator[Gang]:
        """Yield the gangs of the replica `base` of the set.

        They are a base gang, with the first minAvailable replicas of each scaling group, and a
        separate gang for each further replica of a group.
        """
        grouped = {name for group in self._pcs.groups for name in group.cliques}
        members = [
            self._member(base, clique) for clique in self._pcs.cliques if clique.name not in grouped
        ]
        units: list[Unit] = []
        for group in self._pcs.groups:
            replicas = [*self._units(base, group)]
            units += replicas[: max(0, group.minimum)]
            yield from map(self._further_gang, replicas[max(0, group.minimum) :])

        yield self._gang(base, tuple(members), tuple(units))

    def _units(self, base: str, group: ScalingGroup) -> Iterator[Unit]:
        """Yield the replicas of a scaling group, at most MOST_REPLICAS."""
        cliques = {clique.name: clique for clique in self._pcs.cliques}
        names = [name for name in group.cliques if name in cliques]
        for number in range(min(group.replicas, MOST_REPLICAS)):
            unit = f"{base}-{group.name}-{number}"
            inside = tuple(self._member(unit, cliques[name]) for name in names)
            yield Unit(unit, self._told(group.asked), inside)

    def _further_gang(self, unit: Unit) -> Gang:
        """Return the gang of a further replica of a scaling group.

        In releases with epochs, the gang has the set's constraint and the replica inside it has the
        group's. In earlier releases, the gang itself has the group's constraint, or the set's if
        the group has none.
        """
        if self._has_epochs or not unit.told:
            return self._gang(unit.name, (), (unit,))
        return self._gang_of(unit)

    def _gang(self, name: str, members: tuple[Member, ...], units: tuple[Unit, ...]) -> Gang:
        return self._gang_of(Unit(name, self._told(self._pcs.asked), members, units))

    def _gang_of(self, whole: Unit) -> Gang:
        return Gang(
            Ref("PodGang", self._pcs.namespace, whole.name), whole, self._topology, pcs=self._pcs
        )

    def _member(self, owner: str, template: Clique) -> Member:
        name = f"{owner}-{template.name}"
        told = self._told(template.asked)
        own = self._shapes[template.name]
        clique = PodClique(self._pcs.namespace, name, replicas=template.replicas)
        return Member(name, template.minimum, template.replicas, own, (), told, clique)

    def _told(self, asked: UserConstraint) -> SchedulerConstraint:
        if not self._cluster:
            return UNBOUND
        return SchedulerConstraint(
            self._cluster.key_of(asked.required) or "", self._cluster.key_of(asked.preferred) or ""
        )

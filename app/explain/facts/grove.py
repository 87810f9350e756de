"""Grove's objects, in the form of the designs (packDomain) and in today's (pack, topologyName)."""

from dataclasses import dataclass, replace
from typing import Any

from app.explain.facts.common import Condition, LastError, Namespaced, Object, Ref, Told, place
from app.explain.facts.fields import each, number, read, texts_at
from app.explain.facts.pods import PodClaim, Shape, pod_claims, shape
from app.explain.facts.values import at, seconds_since_1970, text, texts
from app.facts import labels
from app.facts.place import Place
from app.objects.shape import int_of, map_of, maps_of
from app.rules.dialects.bindings.levels import KAI_SCHEDULER
from app.rules.dialects.design.levels import read_levels
from app.rules.mnnvl.missing import Unclaimed, read_unclaimed
from app.rules.podcliqueset import PodCliqueSet as StoredSet
from app.rules.podcliqueset import read_pod_clique_set
from app.rules.topology.levels import Level

TOPOLOGY_NAME = ("grove.io/topology-name", "kai.scheduler/topology")


@dataclass(frozen=True, slots=True)
class ClusterTopology:
    """A ClusterTopology or a ClusterTopologyBinding (`kind` tells which), levels broadest first.

    `kai` is the name of the KAI Topology that it stands for, which administrators made if it is
    `external`; `drift` is the message of a scheduler topology that is not in sync.
    """

    kind: str
    name: str
    uid: str = ""
    levels: tuple[Level, ...] = ()
    kai: str = ""
    external: bool = False
    drift: str = ""

    @property
    def ref(self) -> Ref:
        return Ref(self.kind, "", self.name)

    def key_of(self, domain: str) -> str | None:
        return next((level.key for level in self.levels if level.domain == domain), None)


@dataclass(frozen=True, slots=True)
class Asked:
    """A topologyConstraint of a PodCliqueSet: domains.

    `field` is where `required` is, for evidence.
    """

    required: str = ""
    preferred: str = ""
    topology: str = ""
    field: str = ""

    def __bool__(self) -> bool:
        return bool(self.required or self.preferred)

    @property
    def constraints(self) -> list[tuple[str, str, bool]]:
        """(field, domain, whether it is required) of each of the two that is set."""
        preferred = (self.field.replace("required", "preferred"), self.preferred, False)
        return [
            constraint
            for constraint in ((self.field, self.required, True), preferred)
            if constraint[1]
        ]


def _asked(constraint: Any) -> Asked:
    """`pack` before the deprecated packDomain, as Grove reads them."""
    constraint = map_of(constraint)
    pack = at(constraint, "pack")
    name = text(constraint, "topologyName")
    if pack:
        return Asked(text(pack, "required"), text(pack, "preferred"), name, "pack.required")
    return Asked(text(constraint, "packDomain"), "", name, "packDomain")


def _minimum(spec: Any) -> int:
    """minAvailable of cliques: by default all replicas."""
    return int_of(map_of(spec).get("minAvailable"), int_of(map_of(spec).get("replicas"), 1))


@dataclass(frozen=True, slots=True)
class CliqueTemplate:
    name: str = read("name")
    replicas: int = read("spec", "replicas", of=number(1))
    minimum: int = read("spec", of=_minimum)
    asked: Asked = read("topologyConstraint", of=_asked)


@dataclass(frozen=True, slots=True)
class GroupTemplate:
    name: str = read("name")
    cliques: tuple[str, ...] = read("cliqueNames", of=texts)
    replicas: int = read("replicas", of=number(1))
    minimum: int = read("minAvailable", of=number(1))
    asked: Asked = read("topologyConstraint", of=_asked)


def _stored_set(obj: Any) -> StoredSet | None:
    return read_pod_clique_set(obj) if isinstance(obj, dict) else None


@dataclass(frozen=True, slots=True)
class PodCliqueSet(Namespaced):
    """`rules` is what the rules about claims know of it."""

    kind = "PodCliqueSet"
    replicas: int = read("spec", "replicas", of=number(1))
    asked: Asked = read("spec", "template", "topologyConstraint", of=_asked)
    cliques: tuple[CliqueTemplate, ...] = read(
        "spec", "template", "cliques", of=each(CliqueTemplate)
    )
    groups: tuple[GroupTemplate, ...] = read(
        "spec", "template", "podCliqueScalingGroups", of=each(GroupTemplate)
    )
    conditions: tuple[Condition, ...] = read("status", "conditions", of=each(Condition))
    created: float | None = read("metadata", "creationTimestamp", of=seconds_since_1970)
    errors: tuple[LastError, ...] = read("status", "lastErrors", of=each(LastError))
    rules: StoredSet | None = read(of=_stored_set)

    @property
    def constraints(self) -> list[tuple[str, Asked]]:
        """Every topologyConstraint, with the part that asks for it: "" for the set itself.

        `field` is a whole path.
        """
        owners = [("", "", self.asked)]
        for position, group in enumerate(self.groups):
            owners.append(
                (f"scaling group {group.name}", f".podCliqueScalingGroups[{position}]", group.asked)
            )
        for position, clique in enumerate(self.cliques):
            owners.append((f"clique {clique.name}", f".cliques[{position}]", clique.asked))
        return [
            (owner, replace(asked, field=f"spec.template{path}.topologyConstraint.{asked.field}"))
            for owner, path, asked in owners
        ]

    @property
    def topology(self) -> str:
        """The topology that the constraints name, "" for none."""
        return next((asked.topology for _, asked in self.constraints if asked.topology), "")


def _unclaimed(obj: Any) -> Unclaimed | None:
    return read_unclaimed(obj) if isinstance(obj, dict) else None


@dataclass(frozen=True, slots=True)
class PodClique(Namespaced):
    """`shape` and `claims` are those of its pod template.

    `unclaimed` is what decides whether it should have a claim for MNNVL, None if it has one or
    can't need one.
    """

    kind = "PodClique"
    uid: str = read("metadata", "uid")
    place: Place = read("metadata", "labels", of=place)
    replicas: int = read("spec", "replicas", of=number(1))
    minimum: int = read("spec", of=_minimum)
    scheduled: int = read("status", "scheduledReplicas", of=number())
    shape: Shape = read("spec", "podSpec", of=shape)
    claims: tuple[PodClaim, ...] = read("spec", "podSpec", of=pod_claims)
    errors: tuple[LastError, ...] = read("status", "lastErrors", of=each(LastError))
    unclaimed: Unclaimed | None = read(of=_unclaimed)


def _told(constraint: Any) -> Told:
    pack = at(map_of(constraint), "packConstraint")
    return Told(text(pack, "required"), text(pack, "preferred"))


@dataclass(frozen=True, slots=True)
class GangPart:
    """An entry of a PodGang's `spec.podgroups`. `pods` are the names in podReferences."""

    name: str = read("name")
    minimum: int = read("minReplicas", of=number(1))
    pods: frozenset[str] = read(
        "podReferences", of=lambda value: frozenset(texts_at("name")(value))
    )
    told: Told = read("topologyConstraint", of=_told)


@dataclass(frozen=True, slots=True)
class GangGroup:
    """An entry of a PodGang's `spec.topologyConstraintGroupConfigs`; `parts` are names of its
    podgroups.
    """

    name: str = read("name")
    parts: tuple[str, ...] = read("podGroupNames", of=texts)
    told: Told = read("topologyConstraint", of=_told)


def _topology_name(annotations: Any) -> str:
    return next((name for key in TOPOLOGY_NAME if (name := text(map_of(annotations), key))), "")


@dataclass(frozen=True, slots=True)
class PodGang(Namespaced):
    """`topology` is the topology's name in its annotations, "" if no annotation gives one.

    `role` and `epoch` are those of a release with epochs, "" for earlier ones.
    """

    kind = "PodGang"
    uid: str = read("metadata", "uid")
    place: Place = read("metadata", "labels", of=place)
    topology: str = read("metadata", "annotations", of=_topology_name)
    told: Told = read("spec", "topologyConstraint", of=_told)
    parts: tuple[GangPart, ...] = read("spec", "podgroups", of=each(GangPart))
    groups: tuple[GangGroup, ...] = read(
        "spec", "topologyConstraintGroupConfigs", of=each(GangGroup)
    )
    created: float | None = read("metadata", "creationTimestamp", of=seconds_since_1970)
    role: str = read("metadata", "labels", labels.POD_GANG_ROLE)
    epoch: str = read("metadata", "labels", "grove.io/epoch")

    @property
    def constrained(self) -> bool:
        return any(
            (self.told, *(part.told for part in self.parts), *(group.told for group in self.groups))
        )


@dataclass(frozen=True, slots=True)
class MapEntry:
    """An entry of a PodGangMap: the epoch of a PodGang, and those of the PodGangs that it needs."""

    epoch: str = read("epoch")
    depends_on: tuple[str, ...] = read("dependsOn", of=texts)


@dataclass(frozen=True, slots=True)
class PodGangMap(Namespaced):
    """Which PodGangs a replica of a set has; of releases with epochs."""

    kind = "PodGangMap"
    entries: tuple[MapEntry, ...] = read("spec", "entries", of=each(MapEntry))

    def needed_by(self, epoch: str) -> set[str]:
        """The epochs that an epoch depends on."""
        return {
            needed for entry in self.entries if entry.epoch == epoch for needed in entry.depends_on
        }


def cluster_topology(obj: Object) -> ClusterTopology:
    """A ClusterTopology of the designs: its levels may be in any order and are sorted."""
    name = text(at(obj, "metadata"), "name")
    levels = read_levels(at(obj, "spec").get("levels"))
    return ClusterTopology(
        "ClusterTopology", name, text(at(obj, "metadata"), "uid"), levels, kai=name
    )


def cluster_topology_binding(obj: Object) -> ClusterTopology:
    """A ClusterTopologyBinding: the order of its list is the order of its levels."""
    name = text(at(obj, "metadata"), "name")
    spec = at(obj, "spec")
    levels = (
        Level(text(item, "domain"), text(item, "key")) for item in maps_of(spec.get("levels"))
    )
    drifts = [
        text(status, "message") or "not in sync"
        for status in maps_of(at(obj, "status").get("schedulerTopologyStatuses"))
        if status.get("schedulerName") == KAI_SCHEDULER and status.get("inSync") is False
    ]
    bindings = maps_of(spec.get("schedulerTopologyBindings"))
    bound = [
        text(item, "topologyReference")
        for item in bindings
        if item.get("schedulerName") == KAI_SCHEDULER
    ]

    return ClusterTopology(
        "ClusterTopologyBinding",
        name,
        text(at(obj, "metadata"), "uid"),
        levels=tuple(level for level in levels if level.domain and level.key),
        kai=next(filter(None, bound), name),
        external=any(bound),
        drift=next(iter(drifts), ""),
    )

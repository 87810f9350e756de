"""Grove's objects, in the form of the designs (packDomain) and in today's (pack, topologyName)."""

from dataclasses import dataclass

from app.explain.facts.common import NOWHERE, UNBOUND, Condition, Named, Object, Place, Told, identity, place
from app.explain.facts.pods import NO_SHAPE, PodClaim, Shape, pod_claims, shape
from app.explain.facts.values import at, seconds_since_1970, text, texts
from app.objects.shape import int_of, maps_of
from app.rules.topology.binding_levels import KAI_SCHEDULER
from app.rules.topology.levels import Level, read_levels

TOPOLOGY_NAME = ("grove.io/topology-name", "kai.scheduler/topology")


@dataclass(frozen=True, slots=True)
class ClusterTopology:
    """A ClusterTopology or a ClusterTopologyBinding (`kind` tells which), levels broadest first. `kai` is the name of
    the KAI Topology that it stands for, which administrators made if it is `external`; `drift` is the message of a
    scheduler topology that is not in sync."""

    kind: str
    name: str
    uid: str = ""
    levels: tuple[Level, ...] = ()
    kai: str = ""
    external: bool = False
    drift: str = ""

    def key_of(self, domain: str) -> str | None:
        return next((level.key for level in self.levels if level.domain == domain), None)


@dataclass(frozen=True, slots=True)
class Asked:
    """A topologyConstraint of a PodCliqueSet: domains. `field` is where `required` is, for evidence."""

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
        return [constraint for constraint in ((self.field, self.required, True), preferred) if constraint[1]]


@dataclass(frozen=True, slots=True)
class CliqueTemplate:
    name: str
    replicas: int = 1
    minimum: int = 1
    asked: Asked = Asked()


@dataclass(frozen=True, slots=True)
class GroupTemplate:
    name: str
    cliques: tuple[str, ...] = ()
    replicas: int = 1
    minimum: int = 1
    asked: Asked = Asked()


@dataclass(frozen=True, slots=True)
class PodCliqueSet(Named):
    kind = "PodCliqueSet"
    namespace: str
    name: str
    uid: str = ""
    replicas: int = 1
    asked: Asked = Asked()
    cliques: tuple[CliqueTemplate, ...] = ()
    groups: tuple[GroupTemplate, ...] = ()
    conditions: tuple[Condition, ...] = ()
    created: float | None = None

    @property
    def constraints(self) -> list[tuple[str, Asked]]:
        """Every topologyConstraint, with the part that asks for it: "" for the set itself."""
        groups = [(f"scaling group {group.name}", group.asked) for group in self.groups]
        return [("", self.asked), *groups, *((f"clique {clique.name}", clique.asked) for clique in self.cliques)]

    @property
    def topology(self) -> str:
        """The topology that the constraints name, "" for none."""
        return next((asked.topology for _, asked in self.constraints if asked.topology), "")


@dataclass(frozen=True, slots=True)
class PodClique(Named):
    """`shape` and `claims` are those of its pod template."""

    kind = "PodClique"
    namespace: str
    name: str
    uid: str = ""
    place: Place = NOWHERE
    replicas: int = 1
    minimum: int = 1
    scheduled: int = 0
    shape: Shape = NO_SHAPE
    claims: tuple[PodClaim, ...] = ()
    scheduler: str = ""
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GangPart:
    """An entry of a PodGang's `spec.podgroups`. `pods` are the names in podReferences."""

    name: str
    minimum: int = 1
    pods: frozenset[str] = frozenset()
    told: Told = UNBOUND


@dataclass(frozen=True, slots=True)
class GangGroup:
    """An entry of a PodGang's `spec.topologyConstraintGroupConfigs`; `parts` are names of its podgroups."""

    name: str
    parts: tuple[str, ...] = ()
    told: Told = UNBOUND


@dataclass(frozen=True, slots=True)
class PodGang(Named):
    """`topology` is the topology's name in its annotations, "" if no annotation gives one."""

    kind = "PodGang"
    namespace: str
    name: str
    uid: str = ""
    place: Place = NOWHERE
    topology: str = ""
    told: Told = UNBOUND
    parts: tuple[GangPart, ...] = ()
    groups: tuple[GangGroup, ...] = ()
    created: float | None = None

    @property
    def constrained(self) -> bool:
        return any((self.told, *(part.told for part in self.parts), *(group.told for group in self.groups)))


def cluster_topology(obj: Object) -> ClusterTopology:
    """A ClusterTopology of the designs: its levels may be in any order and are sorted."""
    _, name, uid = identity(at(obj, "metadata"))
    return ClusterTopology("ClusterTopology", name, uid, read_levels(at(obj, "spec").get("levels")), kai=name)


def cluster_topology_binding(obj: Object) -> ClusterTopology:
    """A ClusterTopologyBinding: the order of its list is the order of its levels."""
    _, name, uid = identity(at(obj, "metadata"))
    levels = (Level(text(item, "domain"), text(item, "key")) for item in maps_of(at(obj, "spec").get("levels")))
    drifts = [
        text(status, "message") or "not in sync"
        for status in maps_of(at(obj, "status").get("schedulerTopologyStatuses"))
        if status.get("schedulerName") == KAI_SCHEDULER and status.get("inSync") is False
    ]
    bindings = maps_of(at(obj, "spec").get("schedulerTopologyBindings"))
    bound = [text(item, "topologyReference") for item in bindings if item.get("schedulerName") == KAI_SCHEDULER]
    return ClusterTopology(
        "ClusterTopologyBinding",
        name,
        uid,
        levels=tuple(level for level in levels if level.domain and level.key),
        kai=next(filter(None, bound), name),
        external=any(bound),
        drift=next(iter(drifts), ""),
    )


def pod_clique_set(obj: Object) -> PodCliqueSet:
    metadata, spec = at(obj, "metadata"), at(obj, "spec")
    template = at(spec, "template")
    return PodCliqueSet(
        *identity(metadata),
        replicas=int_of(spec.get("replicas"), 1),
        asked=_asked(template, "spec.template"),
        cliques=tuple(
            _clique_template(item, f"spec.template.cliques[{position}]")
            for position, item in enumerate(maps_of(template.get("cliques")))
        ),
        groups=tuple(
            _group_template(item, f"spec.template.podCliqueScalingGroups[{position}]")
            for position, item in enumerate(maps_of(template.get("podCliqueScalingGroups")))
        ),
        conditions=tuple(
            Condition(*(text(item, key) for key in ("type", "status", "reason", "message")))
            for item in maps_of(at(obj, "status").get("conditions"))
        ),
        created=seconds_since_1970(metadata.get("creationTimestamp")),
    )


def pod_clique(obj: Object) -> PodClique:
    metadata, spec, status = at(obj, "metadata"), at(obj, "spec"), at(obj, "status")
    pod_spec = at(spec, "podSpec")
    replicas = int_of(spec.get("replicas"), 1)
    return PodClique(
        *identity(metadata),
        place=place(metadata),
        replicas=replicas,
        minimum=int_of(spec.get("minAvailable"), replicas),
        scheduled=int_of(status.get("scheduledReplicas")),
        shape=shape(pod_spec),
        claims=pod_claims(pod_spec),
        scheduler=text(pod_spec, "schedulerName"),
        errors=tuple(text(item, "description") for item in maps_of(status.get("lastErrors"))),
    )


def pod_gang(obj: Object) -> PodGang:
    metadata, spec = at(obj, "metadata"), at(obj, "spec")
    annotations = at(metadata, "annotations")
    return PodGang(
        *identity(metadata),
        place=place(metadata),
        topology=next((name for key in TOPOLOGY_NAME if (name := text(annotations, key))), ""),
        told=_told(spec),
        parts=tuple(
            GangPart(
                text(item, "name"),
                int_of(item.get("minReplicas"), 1),
                frozenset(text(pod, "name") for pod in maps_of(item.get("podReferences"))),
                _told(item),
            )
            for item in maps_of(spec.get("podgroups"))
        ),
        groups=tuple(
            GangGroup(text(item, "name"), texts(item.get("podGroupNames")), _told(item))
            for item in maps_of(spec.get("topologyConstraintGroupConfigs"))
        ),
        created=seconds_since_1970(metadata.get("creationTimestamp")),
    )


def _asked(holder: Object, path: str) -> Asked:
    """`pack` before the deprecated packDomain, as Grove reads them."""
    constraint = at(holder, "topologyConstraint")
    pack = at(constraint, "pack")
    name, where = text(constraint, "topologyName"), f"{path}.topologyConstraint"
    if pack:
        return Asked(text(pack, "required"), text(pack, "preferred"), name, f"{where}.pack.required")
    return Asked(text(constraint, "packDomain"), "", name, f"{where}.packDomain")


def _clique_template(item: Object, path: str) -> CliqueTemplate:
    spec = at(item, "spec")
    replicas = int_of(spec.get("replicas"), 1)
    return CliqueTemplate(text(item, "name"), replicas, int_of(spec.get("minAvailable"), replicas), _asked(item, path))


def _group_template(item: Object, path: str) -> GroupTemplate:
    return GroupTemplate(
        text(item, "name"),
        texts(item.get("cliqueNames")),
        int_of(item.get("replicas"), 1),
        int_of(item.get("minAvailable"), 1),
        _asked(item, path),
    )


def _told(holder: Object) -> Told:
    pack = at(holder, "topologyConstraint", "packConstraint")
    return Told(text(pack, "required"), text(pack, "preferred"))

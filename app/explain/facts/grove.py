"""Grove's objects, in the form of the designs and in today's."""

from dataclasses import dataclass

from app.explain.facts.common import NOWHERE, UNBOUND, Condition, Place, Told
from app.explain.facts.nodes import NO_SHAPE, PodClaim, Shape


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a topology: `domain` is its name for people, `key` the node label."""

    domain: str
    key: str


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

    def domain_of(self, key: str) -> str | None:
        return next((level.domain for level in self.levels if level.key == key), None)


@dataclass(frozen=True, slots=True)
class Asked:
    """A topologyConstraint of a PodCliqueSet: domains. `field` is where `required` is, for evidence."""

    required: str = ""
    preferred: str = ""
    topology: str = ""
    field: str = ""


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
class PodCliqueSet:
    namespace: str
    name: str
    uid: str = ""
    replicas: int = 1
    asked: Asked = Asked()
    cliques: tuple[CliqueTemplate, ...] = ()
    groups: tuple[GroupTemplate, ...] = ()
    conditions: tuple[Condition, ...] = ()
    created: float | None = None


@dataclass(frozen=True, slots=True)
class PodClique:
    """`shape` and `claims` are those of its pod template."""

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
    created: float | None = None


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
class PodGang:
    """`topology` is the topology's name in its annotations, "" if no annotation gives one."""

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

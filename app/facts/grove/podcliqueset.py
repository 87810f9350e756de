"""The parts of a stored PodCliqueSet that rules need. Source: Grove's PodCliqueSet CRD."""

from typing import Any

from msgspec.structs import replace

from app.facts.grove.annotations import NO_ANNOTATIONS, MnnvlAnnotations, group_in, read_mnnvl
from app.facts.grove.status import LastError, StatusCondition, read_conditions, read_last_errors
from app.facts.kubernetes.requests import Requests, read_requests
from app.facts.named import Namespaced
from app.facts.place import Place
from app.objects.conditions import Condition, condition_of
from app.objects.metadata import annotations_of
from app.objects.shape import JsonMap, int_of, map_at, map_of, maps_of, text_at, text_of, texts_at
from app.objects.time import seconds_since_1970
from app.value import Value

CONDITION = "TopologyConstraintSatisfied"


class Pack(Value):
    """A topologyConstraint of the dialect `bindings`.

    It has `topologyName`, `pack.required` and `pack.preferred`, each "" if it is not set.
    """

    topology_name: str
    required: str
    preferred: str


class UserConstraint(Value):
    """A topologyConstraint as its author means it, in either dialect: domains.

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


class Constrained:
    """A set, a scaling group or a clique, with its topologyConstraint.

    `pack_domain` is None if it has no packDomain, `pack` None if its constraint has no other field.
    """

    __slots__ = ()
    pack_domain: str | None
    pack: Pack | None

    @property
    def asked(self) -> UserConstraint:
        """Its constraint in both dialects: `pack` before the deprecated packDomain, as in Grove."""
        pack = self.pack
        name = pack.topology_name if pack is not None else ""
        if pack is not None and (pack.required or pack.preferred):
            return UserConstraint(pack.required, pack.preferred, name, "pack.required")
        return UserConstraint(self.pack_domain or "", "", name, "packDomain")


class Clique(Value, Constrained):
    """One entry of `spec.template.cliques`.

    `requests` is what each of its pods asks for. `minimum` is its minAvailable.
    """

    name: str
    replicas: int
    pack_domain: str | None
    pack: Pack | None = None
    requests: Requests = ()
    minimum: int = 1


class ScalingGroup(Value, Constrained):
    """One entry of `spec.template.podCliqueScalingGroups`.

    `cliques` are the names of its cliques. `minimum` is its minAvailable.
    """

    name: str
    cliques: tuple[str, ...]
    pack_domain: str | None
    pack: Pack | None = None
    mnnvl: MnnvlAnnotations = NO_ANNOTATIONS
    replicas: int = 1
    minimum: int = 1


class PodCliqueSet(Namespaced, Constrained):
    """A stored PodCliqueSet.

    `condition` is the stored condition that this program writes, or None. `mnnvl_groups` are the
    values of Grove's `grove.io/mnnvl-group` in the set, without `none`.
    """

    kind = "PodCliqueSet"
    uid: str = ""
    generation: int = 0
    deleting: bool = False
    pack_domain: str | None = None
    cliques: tuple[Clique, ...] = ()
    groups: tuple[ScalingGroup, ...] = ()
    condition: Condition | None = None
    pack: Pack | None = None
    replicas: int = 1
    mnnvl_groups: tuple[str, ...] = ()
    mnnvl: MnnvlAnnotations = NO_ANNOTATIONS

    @property
    def uses_pack(self) -> bool:
        """Whether this set has a constraint of the dialect `bindings`."""
        return bool(self._packs)

    @property
    def topology_name(self) -> str:
        """The ClusterTopologyBinding that the constraints of this set refer to, or "".

        Grove allows one name per set.
        """
        return next((pack.topology_name for pack in self._packs if pack.topology_name), "")

    @property
    def domains(self) -> frozenset[str]:
        """All packDomains of this set."""
        return frozenset(part.pack_domain for part in self._parts if part.pack_domain)

    @property
    def levels(self) -> frozenset[str]:
        """All levels that a constraint of this set requires or prefers, in either dialect."""
        return self.domains | {
            domain for pack in self._packs for domain in (pack.required, pack.preferred) if domain
        }

    @property
    def _packs(self) -> list[Pack]:
        return [part.pack for part in self._parts if part.pack is not None]

    @property
    def _parts(self) -> tuple[Constrained, ...]:
        return self, *self.groups, *self.cliques

    def group_of(self, name: str) -> ScalingGroup | None:
        return next((group for group in self.groups if group.name == name), None)

    def mnnvl_at(self, place: Place) -> MnnvlAnnotations:
        """Return what a PodClique at `place` inherits from its scaling group and this set."""
        group = self.group_of(place.group) if place.group else None
        return self.mnnvl if group is None else group.mnnvl.over(self.mnnvl)


class SetWithStatus(PodCliqueSet):
    """A PodCliqueSet with what Grove writes into its status, and its time of creation.

    A server, which would reconcile after each change of a status, does without.
    """

    conditions: tuple[StatusCondition, ...] = ()
    created: float | None = None
    errors: tuple[LastError, ...] = ()
    deleted_at: float | None = None
    finalizers: tuple[str, ...] = ()

    @property
    def constraints(self) -> list[tuple[str, UserConstraint]]:
        """Every topologyConstraint, with the part that asks for it: "" for the set itself.

        `field` is a whole path.
        """
        groups = (
            (f"scaling group {group.name}", f".podCliqueScalingGroups[{position}]", group.asked)
            for position, group in enumerate(self.groups)
        )
        cliques = (
            (f"clique {clique.name}", f".cliques[{position}]", clique.asked)
            for position, clique in enumerate(self.cliques)
        )
        owners = [("", "", self.asked), *groups, *cliques]
        return [
            (owner, replace(asked, field=f"spec.template{path}.topologyConstraint.{asked.field}"))
            for owner, path, asked in owners
        ]


def read_set_with_status(obj: JsonMap) -> SetWithStatus:
    metadata = map_at(obj, "metadata")
    status = map_at(obj, "status")
    return SetWithStatus(
        **_spec(obj),
        conditions=read_conditions(status),
        created=seconds_since_1970(metadata.get("creationTimestamp")),
        errors=read_last_errors(status),
        deleted_at=seconds_since_1970(metadata.get("deletionTimestamp")),
        finalizers=tuple(texts_at(metadata, "finalizers")),
    )


def read_pod_clique_set(obj: JsonMap) -> PodCliqueSet:
    """Read a stored PodCliqueSet. Parts that don't have the CRD's shape count as absent."""
    return PodCliqueSet(**_spec(obj))


def _spec(obj: JsonMap) -> dict[str, Any]:
    """Return the fields of a `PodCliqueSet`."""
    metadata = map_of(obj.get("metadata"))
    template = map_at(obj, "spec", "template")
    return {
        "namespace": text_at(metadata, "namespace"),
        "name": text_at(metadata, "name"),
        "uid": text_at(metadata, "uid"),
        "generation": int_of(metadata.get("generation")),
        "deleting": metadata.get("deletionTimestamp") is not None,
        "pack_domain": pack_domain(template),
        "cliques": tuple(_read_clique(item) for item in _named(template.get("cliques"))),
        "groups": tuple(map(_read_group, _named(template.get("podCliqueScalingGroups")))),
        "condition": _condition(obj),
        "pack": read_pack(template),
        "replicas": int_of(map_of(obj.get("spec")).get("replicas"), 1),
        "mnnvl_groups": _mnnvl_groups(metadata, template),
        "mnnvl": read_mnnvl(annotations_of(obj)),
    }


def _read_group(item: JsonMap) -> ScalingGroup:
    return ScalingGroup(
        item["name"],
        tuple(texts_at(item, "cliqueNames")),
        pack_domain(item),
        read_pack(item),
        read_mnnvl(map_of(item.get("annotations"))),
        int_of(item.get("replicas"), 1),
        int_of(item.get("minAvailable"), 1),
    )


def _read_clique(item: JsonMap) -> Clique:
    spec = map_of(item.get("spec"))
    replicas = int_of(spec.get("replicas"), 1)
    return Clique(
        item["name"],
        replicas,
        pack_domain(item),
        read_pack(item),
        read_requests(map_of(spec.get("podSpec"))),
        int_of(spec.get("minAvailable"), replicas),
    )


def _mnnvl_groups(metadata: JsonMap, template: JsonMap) -> tuple[str, ...]:
    holders = (
        metadata,
        *_named(template.get("podCliqueScalingGroups")),
        *_named(template.get("cliques")),
    )
    names = {group_in(map_of(holder.get("annotations"))) for holder in holders}
    return tuple(sorted(filter(None, names)))


def pack_domain(holder: JsonMap) -> str | None:
    """Return `topologyConstraint.packDomain` of `holder`, or None."""
    value = map_of(holder.get("topologyConstraint")).get("packDomain")
    return value if isinstance(value, str) and value else None


def read_pack(holder: JsonMap) -> Pack | None:
    """Return the constraint of `holder` in the dialect `bindings`, or None.

    A constraint with other fields than packDomain counts as one, so that the dialect `design`
    leaves its PodGangs alone.
    """
    constraint = map_of(holder.get("topologyConstraint"))
    if not any(value for field, value in constraint.items() if field != "packDomain"):
        return None
    pack = map_of(constraint.get("pack"))
    values = (constraint.get("topologyName"), pack.get("required"), pack.get("preferred"))
    return Pack(*map(text_of, values))


def _condition(obj: JsonMap) -> Condition | None:
    stored = condition_of(obj, CONDITION)
    if not stored:
        return None
    return Condition(
        CONDITION,
        text_at(stored, "status"),  # type: ignore[arg-type]
        text_at(stored, "reason"),
        text_at(stored, "message"),
        int_of(stored.get("observedGeneration")),
    )


def _named(value: Any) -> list[dict[str, Any]]:
    return [item for item in maps_of(value) if isinstance(item.get("name"), str)]

"""The parts of a stored PodCliqueSet that rules need. Source: Grove's PodCliqueSet CRD."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.facts.grove.annotations import NO_ANNOTATIONS, MnnvlAnnotations, read_mnnvl
from app.facts.kubernetes.requests import Requests, read_requests
from app.facts.labels import MNNVL_GROUP
from app.objects.metadata import annotations_of
from app.objects.shape import int_of, list_of, map_of, maps_of, text_of

CONDITION = "TopologyConstraintSatisfied"


@dataclass(frozen=True, slots=True)
class Pack:
    """A topologyConstraint of the dialect `bindings`: `topologyName`, `pack.required` and
    `pack.preferred`, each "" if it is not set.
    """

    topology_name: str
    required: str
    preferred: str


@dataclass(frozen=True, slots=True)
class Clique:
    """One entry of `spec.template.cliques`.

    `pack_domain` is None if it has no packDomain, `pack` None if its constraint has no other field.
    `requests` is what each of its pods asks for.
    """

    name: str
    replicas: int
    pack_domain: str | None
    pack: Pack | None = None
    requests: Requests = ()


@dataclass(frozen=True, slots=True)
class ScalingGroup:
    """One entry of `spec.template.podCliqueScalingGroups`.

    `cliques` are the names of its cliques.
    """

    name: str
    cliques: tuple[str, ...]
    pack_domain: str | None
    pack: Pack | None = None
    mnnvl: MnnvlAnnotations = NO_ANNOTATIONS
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class PodCliqueSet:
    """A stored PodCliqueSet.

    `condition` is the stored condition that this program writes, as status, reason, message and
    observedGeneration, or None. `mnnvl_groups` are the values of Grove's `grove.io/mnnvl-group` in
    the set, without `none`.
    """

    namespace: str
    name: str
    uid: str
    generation: int
    deleting: bool
    pack_domain: str | None
    cliques: tuple[Clique, ...]
    groups: tuple[ScalingGroup, ...]
    condition: tuple[str, str, str, int] | None = None
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
        domains = (
            self.pack_domain,
            *(c.pack_domain for c in self.cliques),
            *(g.pack_domain for g in self.groups),
        )
        return frozenset(domain for domain in domains if domain)

    @property
    def levels(self) -> frozenset[str]:
        """All levels that a constraint of this set requires or prefers, in either dialect."""
        return self.domains | {
            domain for pack in self._packs for domain in (pack.required, pack.preferred) if domain
        }

    @property
    def _packs(self) -> list[Pack]:
        packs = (
            self.pack,
            *(group.pack for group in self.groups),
            *(clique.pack for clique in self.cliques),
        )
        return [pack for pack in packs if pack is not None]

    def group_of(self, name: str) -> ScalingGroup | None:
        return next((group for group in self.groups if group.name == name), None)


def read_pod_clique_set(obj: Mapping[str, Any]) -> PodCliqueSet:
    """Read a stored PodCliqueSet. Parts that don't have the CRD's shape count as absent."""
    metadata = map_of(obj.get("metadata"))
    template = map_of(map_of(obj.get("spec")).get("template"))
    return PodCliqueSet(
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        generation=int_of(metadata.get("generation")),
        deleting=metadata.get("deletionTimestamp") is not None,
        pack_domain=pack_domain(template),
        cliques=tuple(_read_clique(item) for item in _named(template.get("cliques"))),
        groups=tuple(
            ScalingGroup(
                item["name"],
                tuple(name for name in list_of(item.get("cliqueNames")) if isinstance(name, str)),
                pack_domain(item),
                read_pack(item),
                read_mnnvl(map_of(item.get("annotations"))),
                int_of(item.get("replicas"), 1),
            )
            for item in _named(template.get("podCliqueScalingGroups"))
        ),
        condition=_condition(map_of(obj.get("status"))),
        pack=read_pack(template),
        replicas=int_of(map_of(obj.get("spec")).get("replicas"), 1),
        mnnvl_groups=_mnnvl_groups(metadata, template),
        mnnvl=read_mnnvl(annotations_of(obj)),
    )


def _read_clique(item: Mapping[str, Any]) -> Clique:
    spec = map_of(item.get("spec"))
    return Clique(
        item["name"],
        int_of(spec.get("replicas"), 1),
        pack_domain(item),
        read_pack(item),
        read_requests(map_of(spec.get("podSpec"))),
    )


def _mnnvl_groups(metadata: Mapping[str, Any], template: Mapping[str, Any]) -> tuple[str, ...]:
    holders = (
        metadata,
        *_named(template.get("podCliqueScalingGroups")),
        *_named(template.get("cliques")),
    )
    values = (map_of(holder.get("annotations")).get(MNNVL_GROUP) for holder in holders)
    return tuple(
        sorted({value for value in values if isinstance(value, str) and value not in ("", "none")})
    )


def pack_domain(holder: Mapping[str, Any]) -> str | None:
    """Return `topologyConstraint.packDomain` of `holder`, or None."""
    value = map_of(holder.get("topologyConstraint")).get("packDomain")
    return value if isinstance(value, str) and value else None


def read_pack(holder: Mapping[str, Any]) -> Pack | None:
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


def _condition(status: Mapping[str, Any]) -> tuple[str, str, str, int] | None:
    for item in maps_of(status.get("conditions")):
        if item.get("type") == CONDITION:
            texts = (str(item.get(name, "")) for name in ("status", "reason", "message"))
            return (*texts, int_of(item.get("observedGeneration")))  # type: ignore[return-value]
    return None


def _named(value: Any) -> list[dict[str, Any]]:
    return [item for item in maps_of(value) if isinstance(item.get("name"), str)]

"""What the rules need of a PodCliqueSet, read once and kept small. Source: Grove's PodCliqueSet CRD."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.objects.metadata import annotations_of
from app.rules.labels import MNNVL_GROUP
from app.rules.mnnvl.annotations import NO_ANNOTATIONS, MnnvlAnnotations, read_mnnvl

CONDITION = "TopologyConstraintSatisfied"


@dataclass(frozen=True, slots=True)
class Pack:
    """A topologyConstraint in the words of today's Grove: `topologyName`, `pack.required` and `pack.preferred`, each ""
    if it is not set."""

    topology_name: str
    required: str
    preferred: str


@dataclass(frozen=True, slots=True)
class Clique:
    """One entry of `spec.template.cliques`. `pack_domain` is None if it has no packDomain, `pack` None if its
    constraint has neither `topologyName` nor `pack`."""

    name: str
    replicas: int
    pack_domain: str | None
    pack: Pack | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """One entry of `spec.template.podCliqueScalingGroups`; `cliques` are clique names."""

    name: str
    cliques: tuple[str, ...]
    pack_domain: str | None
    pack: Pack | None = None
    mnnvl: MnnvlAnnotations = NO_ANNOTATIONS


@dataclass(frozen=True, slots=True)
class PodCliqueSet:
    """`condition` is our own condition as stored: (status, reason, message, observedGeneration), None without one."""

    namespace: str
    name: str
    uid: str
    generation: int
    deleting: bool
    pack_domain: str | None
    cliques: tuple[Clique, ...]
    groups: tuple[Group, ...]
    condition: tuple[str, str, str, int] | None = None
    pack: Pack | None = None
    replicas: int = 1
    mnnvl_groups: tuple[str, ...] = ()
    """The values of Grove's `grove.io/mnnvl-group` in this set, without those that opt out."""
    mnnvl: MnnvlAnnotations = NO_ANNOTATIONS

    @property
    def uses_pack(self) -> bool:
        """Whether a constraint of this set is in the words of today's Grove."""
        packs = (self.pack, *(clique.pack for clique in self.cliques), *(group.pack for group in self.groups))
        return any(pack is not None for pack in packs)

    @property
    def topology_name(self) -> str:
        """The ClusterTopologyBinding that the constraints of this set refer to, "" if no constraint names one. Grove
        allows one name in a set."""
        packs = (self.pack, *(group.pack for group in self.groups), *(clique.pack for clique in self.cliques))
        return next((pack.topology_name for pack in packs if pack is not None and pack.topology_name), "")

    @property
    def levels(self) -> frozenset[str]:
        """Every level that a constraint of this set requires or prefers, in either vocabulary."""
        packs = (self.pack, *(clique.pack for clique in self.cliques), *(group.pack for group in self.groups))
        packed = {domain for pack in packs if pack is not None for domain in (pack.required, pack.preferred) if domain}
        return self.domains | packed

    @property
    def domains(self) -> frozenset[str]:
        """Every packDomain of this set."""
        named = (self.pack_domain, *(c.pack_domain for c in self.cliques), *(g.pack_domain for g in self.groups))
        return frozenset(domain for domain in named if domain)

    def group_of(self, name: str) -> Group | None:
        return next((group for group in self.groups if group.name == name), None)

    def clique_of(self, name: str) -> Clique | None:
        return next((clique for clique in self.cliques if clique.name == name), None)


def read_pod_clique_set(obj: Mapping[str, Any]) -> PodCliqueSet:
    """Reads a stored PodCliqueSet; whatever isn't of the CRD's shape counts as absent."""
    metadata = _map(obj.get("metadata"))
    template = _map(_map(obj.get("spec")).get("template"))
    return PodCliqueSet(
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        generation=_int(metadata.get("generation")),
        deleting=metadata.get("deletionTimestamp") is not None,
        pack_domain=pack_domain(template),
        cliques=tuple(
            Clique(item["name"], _int(_map(item.get("spec")).get("replicas"), 1), pack_domain(item), read_pack(item))
            for item in _named(template.get("cliques"))
        ),
        groups=tuple(
            Group(
                item["name"],
                tuple(filter(_is_text, _list(item.get("cliqueNames")))),
                pack_domain(item),
                read_pack(item),
                read_mnnvl(_map(item.get("annotations"))),
            )
            for item in _named(template.get("podCliqueScalingGroups"))
        ),
        condition=_condition(_map(obj.get("status"))),
        pack=read_pack(template),
        replicas=_int(_map(obj.get("spec")).get("replicas"), 1),
        mnnvl_groups=_mnnvl_groups(metadata, template),
        mnnvl=read_mnnvl(annotations_of(obj)),
    )


def _mnnvl_groups(metadata: Mapping[str, Any], template: Mapping[str, Any]) -> tuple[str, ...]:
    holders = (metadata, *_named(template.get("podCliqueScalingGroups")), *_named(template.get("cliques")))
    values = (_map(holder.get("annotations")).get(MNNVL_GROUP) for holder in holders)
    return tuple(sorted({value for value in values if isinstance(value, str) and value not in ("", "none")}))


def pack_domain(holder: Mapping[str, Any]) -> str | None:
    """`topologyConstraint.packDomain` of `holder`; None if there is none."""
    value = _map(holder.get("topologyConstraint")).get("packDomain")
    return value if isinstance(value, str) and value else None


def read_pack(holder: Mapping[str, Any]) -> Pack | None:
    """The constraint of `holder` in the words of today's Grove; None if it has no such constraint."""
    constraint = _map(holder.get("topologyConstraint"))
    pack = _map(constraint.get("pack"))
    read = Pack(_text(constraint, "topologyName"), _text(pack, "required"), _text(pack, "preferred"))
    return None if read == _NO_PACK else read


_NO_PACK = Pack("", "", "")


def _condition(status: Mapping[str, Any]) -> tuple[str, str, str, int] | None:
    for item in _list(status.get("conditions")):
        if isinstance(item, dict) and item.get("type") == CONDITION:
            texts = (str(item.get(name, "")) for name in ("status", "reason", "message"))
            return (*texts, _int(item.get("observedGeneration")))  # type: ignore[return-value]
    return None


def _named(value: Any) -> list[dict[str, Any]]:
    return [item for item in _list(value) if isinstance(item, dict) and _is_text(item.get("name"))]


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _int(value: Any, default: int = 0) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _text(holder: Mapping[str, Any], name: str) -> str:
    value = holder.get(name)
    return value if isinstance(value, str) else ""


def _is_text(value: Any) -> bool:
    return isinstance(value, str)

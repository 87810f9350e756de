"""PodCliqueSets and PodCliques, in the form of the designs (packDomain) and in today's (pack,
topologyName).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.facts.grove.podcliqueset import PodCliqueSet as StoredSet
from app.facts.grove.podcliqueset import read_pod_clique_set
from app.facts.grove.status import (
    LastError,
    StatusCondition,
    read_conditions,
    read_last_errors,
)
from app.facts.kubernetes.pod import ONLY_A_POD, PodClaim, Shape, read_pod_claims, read_shape
from app.facts.named import Namespaced, interned
from app.facts.place import NOWHERE, Place, read_place
from app.objects.shape import int_of, map_at, maps_of, text_at, texts_of
from app.objects.time import seconds_since_1970
from app.rules.mnnvl.missing import Unclaimed, read_unclaimed


@dataclass(frozen=True, slots=True)
class UserConstraint:
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


NOTHING_ASKED = UserConstraint(field="packDomain")


def _asked(holder: Mapping[str, Any]) -> UserConstraint:
    """Return `pack` before the deprecated packDomain, as Grove reads them."""
    constraint = map_at(holder, "topologyConstraint")
    pack = map_at(constraint, "pack")
    name = text_at(constraint, "topologyName")
    if pack:
        levels = (text_at(pack, "required"), text_at(pack, "preferred"))
        return UserConstraint(*levels, name, "pack.required")
    return UserConstraint(text_at(constraint, "packDomain"), "", name, "packDomain")


@dataclass(frozen=True, slots=True)
class TemplateClique:
    """A clique in the template of a set. `minimum` is minAvailable."""

    name: str = ""
    replicas: int = 1
    minimum: int = 1
    asked: UserConstraint = NOTHING_ASKED


@dataclass(frozen=True, slots=True)
class TemplateGroup:
    """A scaling group in the template of a set. `minimum` is minAvailable."""

    name: str = ""
    cliques: tuple[str, ...] = ()
    replicas: int = 1
    minimum: int = 1
    asked: UserConstraint = NOTHING_ASKED


@dataclass(frozen=True, slots=True)
class PodCliqueSet(Namespaced):
    """A PodCliqueSet. `rules` is what the rules about claims know of it."""

    kind = "PodCliqueSet"
    replicas: int = 1
    asked: UserConstraint = NOTHING_ASKED
    cliques: tuple[TemplateClique, ...] = ()
    groups: tuple[TemplateGroup, ...] = ()
    conditions: tuple[StatusCondition, ...] = ()
    created: float | None = None
    errors: tuple[LastError, ...] = ()
    rules: StoredSet | None = None
    deleting: float | None = None
    finalizers: tuple[str, ...] = ()

    @property
    def constraints(self) -> list[tuple[str, UserConstraint]]:
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


def read_pod_clique_set_of_explain(obj: Mapping[str, Any]) -> PodCliqueSet:
    metadata = map_at(obj, "metadata")
    spec = map_at(obj, "spec")
    template = map_at(spec, "template")
    status = map_at(obj, "status")
    return PodCliqueSet(
        interned(metadata.get("namespace")),
        text_at(metadata, "name"),
        replicas=int_of(spec.get("replicas"), 1),
        asked=_asked(template),
        cliques=tuple(map(_clique, maps_of(template.get("cliques")))),
        groups=tuple(map(_group, maps_of(template.get("podCliqueScalingGroups")))),
        conditions=read_conditions(status),
        created=seconds_since_1970(metadata.get("creationTimestamp")),
        errors=read_last_errors(status),
        rules=read_pod_clique_set(obj),
        deleting=seconds_since_1970(metadata.get("deletionTimestamp")),
        finalizers=tuple(texts_of(metadata.get("finalizers"))),
    )


def _clique(item: Mapping[str, Any]) -> TemplateClique:
    spec = map_at(item, "spec")
    replicas = int_of(spec.get("replicas"), 1)
    return TemplateClique(text_at(item, "name"), replicas, _minimum(spec), _asked(item))


def _group(item: Mapping[str, Any]) -> TemplateGroup:
    return TemplateGroup(
        text_at(item, "name"),
        tuple(texts_of(item.get("cliqueNames"))),
        int_of(item.get("replicas"), 1),
        int_of(item.get("minAvailable"), 1),
        _asked(item),
    )


def _minimum(spec: Mapping[str, Any]) -> int:
    """Return minAvailable of cliques, by default all replicas."""
    return int_of(spec.get("minAvailable"), int_of(spec.get("replicas"), 1))


@dataclass(frozen=True, slots=True)
class PodClique(Namespaced):
    """A PodClique. `shape` and `claims` are those of its pod template.

    `unclaimed` is what decides whether it should have a claim for MNNVL, None if it has one or
    can't need one.
    """

    kind = "PodClique"
    uid: str = ""
    place: Place = NOWHERE
    replicas: int = 1
    minimum: int = 1
    scheduled: int = 0
    shape: Shape = ONLY_A_POD
    claims: tuple[PodClaim, ...] = ()
    errors: tuple[LastError, ...] = ()
    unclaimed: Unclaimed | None = None


def read_pod_clique(obj: Mapping[str, Any]) -> PodClique:
    metadata = map_at(obj, "metadata")
    spec = map_at(obj, "spec")
    pod_spec = map_at(spec, "podSpec")
    status = map_at(obj, "status")
    return PodClique(
        interned(metadata.get("namespace")),
        text_at(metadata, "name"),
        uid=text_at(metadata, "uid"),
        place=read_place(map_at(metadata, "labels")),
        replicas=int_of(spec.get("replicas"), 1),
        minimum=_minimum(spec),
        scheduled=int_of(status.get("scheduledReplicas")),
        shape=read_shape(pod_spec),
        claims=read_pod_claims(pod_spec),
        errors=read_last_errors(status),
        unclaimed=read_unclaimed(obj),
    )

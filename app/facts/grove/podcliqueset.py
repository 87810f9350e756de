"""Read stored PodCliqueSets. Source: Grove's PodCliqueSet CRD.

`template` reads the PodCliqueSet of a request, with the path of each part for findings.
"""

from functools import cached_property
from typing import Any

from msgspec.structs import asdict, replace

from app.base.value import Value
from app.facts.grove.constraint import UNCONSTRAINED, StoredConstraint, read_constraint
from app.facts.grove.status import (
    LastError,
    StatusCondition,
    read_conditions,
    read_last_errors,
)
from app.facts.identity import Namespaced, Place, Ref
from app.facts.kinds import POD_CLIQUE_SET
from app.facts.kubernetes.gpus import is_gpu
from app.facts.kubernetes.requests import Requests, read_requests
from app.facts.labels import MNNVL_DEVICE_CLASS, MNNVL_ENABLED, MNNVL_GROUP, MNNVL_SCOPE
from app.facts.rollout import Rollout, read_rollout
from app.objects.conditions import Condition, read_condition
from app.objects.fields import CheckedMap
from app.objects.owners import controller_of
from app.objects.shape import (
    JsonMap,
    int_of,
    list_of,
    map_at,
    map_of,
    maps_of,
    only,
    text_at,
    texts_at,
)
from app.objects.time import duration, seconds_since_1970

CONSTRAINTS_SATISFIED = "TopologyConstraintSatisfied"
"""The type of the condition that this program writes."""


class UserConstraint(Value):
    """A topologyConstraint as its author wrote it, in any dialect, with names of domains."""

    required: str = ""
    """The required domain, or ""."""
    preferred: str = ""
    """The preferred domain, or ""."""
    topology: str = ""
    """The ClusterTopologyBinding that the constraint names, or ""."""
    field: str = ""
    """The path of the required domain, for messages.

    It is relative to the topologyConstraint, or to the object in `SetWithStatus.constraints`.
    """

    def __bool__(self) -> bool:
        return bool(self.required or self.preferred)

    @property
    def constraints(self) -> list[tuple[str, str, bool]]:
        """The path and the name of each domain that is set, and whether it is required."""
        path = self.field.replace("packDomain", "pack.preferred").replace("required", "preferred")
        preferred = (path, self.preferred, False)
        return [
            constraint
            for constraint in ((self.field, self.required, True), preferred)
            if constraint[1]
        ]


class Constrained:
    """A set, a scaling group or a clique, with its topologyConstraint."""

    __slots__ = ()
    constraint: StoredConstraint

    @property
    def asked(self) -> UserConstraint:
        """The constraint, in one form for all dialects.

        As in Grove, `pack.required` takes precedence over the deprecated packDomain.
        """
        own = self.constraint
        is_pack = own.pack_required or (own.preferred and not own.pack_domain)
        field = "pack.required" if is_pack else "packDomain"
        return UserConstraint(own.required, own.preferred, own.topology_name, field)


# The annotations about MNNVL. An annotation of a PodClique takes precedence over its scaling
# group's, and the scaling group's over the set's.


class MnnvlAnnotations(Value):
    """The values of our MNNVL annotations, which may be invalid. A missing annotation is None."""

    enabled: Any = None
    """The value of `grove.io/mnnvl-enabled`."""
    scope: Any = None
    """The value of `grove.io/mnnvl-scope`."""
    device_class: Any = None
    """The value of `grove.io/mnnvl-device-class`."""

    @property
    def enables(self) -> bool:
        """Whether MNNVL is enabled, which needs the text "true"."""
        return bool(self.enabled == "true")

    @property
    def refuses(self) -> bool:
        """Whether MNNVL is refused: the annotation exists with a value other than "true"."""
        return self.enabled is not None and not self.enables

    @property
    def are_complete(self) -> bool:
        """Whether all annotations are set, so that inherited ones do not count."""
        return None not in (self.enabled, self.scope, self.device_class)

    def over(self, inherited: "MnnvlAnnotations") -> "MnnvlAnnotations":
        """Return these annotations, with missing ones taken from `inherited`."""
        if inherited is NO_ANNOTATIONS:
            return self
        return MnnvlAnnotations(
            inherited.enabled if self.enabled is None else self.enabled,
            inherited.scope if self.scope is None else self.scope,
            inherited.device_class if self.device_class is None else self.device_class,
        )


NO_ANNOTATIONS = MnnvlAnnotations()


def read_mnnvl(annotations: JsonMap) -> MnnvlAnnotations:
    """Return our MNNVL annotations among `annotations`, or NO_ANNOTATIONS if there are none."""
    enabled = annotations.get(MNNVL_ENABLED)
    scope = annotations.get(MNNVL_SCOPE)
    device_class = annotations.get(MNNVL_DEVICE_CLASS)
    if enabled is None and scope is None and device_class is None:
        return NO_ANNOTATIONS
    return MnnvlAnnotations(enabled, scope, device_class)


OPT_OUT = "none"
"""The value of `grove.io/mnnvl-group` with which a clique opts out of an inherited group."""


def group_in(annotations: JsonMap) -> str | None:
    """Return the MNNVL group of Grove that `annotations` name.

    Return "" for the value `none` or an empty value, or None if the annotation is missing or is not
    a text.
    """
    value = annotations.get(MNNVL_GROUP)
    if not isinstance(value, str):
        return None
    return "" if value == OPT_OUT else value


# The set and its parts.


class Clique(Value, Constrained):
    """An entry of `spec.template.cliques`."""

    name: str
    replicas: int
    """The number of pods in one replica of the set or of the scaling group."""
    constraint: StoredConstraint = UNCONSTRAINED
    """The constraint of the clique itself."""
    requests: Requests = ()
    """The requests of each pod."""
    minimum: int = 1
    """The number of pods that must be scheduled together (`minAvailable`)."""
    mnnvl: MnnvlAnnotations = NO_ANNOTATIONS
    """The clique's own annotations about MNNVL, without inherited ones."""

    @property
    def has_gpus(self) -> bool:
        """Whether the pods request GPUs or MIG devices."""
        return bool([name for name, _ in self.requests if is_gpu(name)])


class ScalingGroup(Value, Constrained):
    """An entry of `spec.template.podCliqueScalingGroups`."""

    name: str
    cliques: tuple[str, ...]
    """The names of the cliques in the group."""
    constraint: StoredConstraint = UNCONSTRAINED
    """The constraint of the group itself."""
    mnnvl: MnnvlAnnotations = NO_ANNOTATIONS
    """The group's own annotations about MNNVL."""
    replicas: int = 1
    """The number of replicas of the group in one replica of the set."""
    minimum: int = 1
    """The number of replicas of the group that must be scheduled together (`minAvailable`)."""


class PodCliqueSet(Namespaced, Constrained):
    """A stored PodCliqueSet, with the fields that rules and reconcilers need."""

    kind = "PodCliqueSet"
    uid: str = ""
    generation: int = 0
    """The value of `metadata.generation`."""
    deleting: bool = False
    """Whether the deletion of the set was requested."""
    constraint: StoredConstraint = UNCONSTRAINED
    """The constraint of the whole set."""
    cliques: tuple[Clique, ...] = ()
    """The cliques, in the order of the template."""
    groups: tuple[ScalingGroup, ...] = ()
    """The scaling groups, in the order of the template."""
    condition: Condition | None = None
    """The stored condition that this program writes, or None."""
    replicas: int = 1
    """The number of replicas of the set."""
    mnnvl_groups: tuple[str, ...] = ()
    """The values of Grove's `grove.io/mnnvl-group` in the set, without `none`."""
    mnnvl: MnnvlAnnotations = NO_ANNOTATIONS
    """The annotations about MNNVL of the set itself."""
    is_cut: bool = False
    """Whether only the metadata and replicas were read, because the set is too large."""

    @property
    def uses_pack(self) -> bool:
        """Whether a constraint of this set has a field other than packDomain.

        A misspelt packDomain counts too.
        """
        return any(part.constraint.is_later for part in self._parts)

    @property
    def names_pack(self) -> bool:
        """Whether a constraint has a topologyName, or a level in `pack`.

        The dialect `bindings` was the first with these fields. Fields that no known dialect has,
        such as a misspelt packDomain, don't count.
        """
        own = [part.constraint for part in self._parts]
        return any(each.topology_name or each.pack_required or each.preferred for each in own)

    @property
    def topology_name(self) -> str:
        """The ClusterTopologyBinding that the constraints of this set refer to, or "".

        Grove allows one name per set.
        """
        names = (part.constraint.topology_name for part in self._parts)
        return next(filter(None, names), "")

    @property
    def domains(self) -> frozenset[str]:
        """All packDomains of this set."""
        return frozenset(filter(None, (part.constraint.pack_domain for part in self._parts)))

    @property
    def levels(self) -> frozenset[str]:
        """All levels that a constraint of this set requires or prefers, in any dialect."""
        constraints = [part.constraint for part in self._parts]
        packs = ((constraint.pack_required, constraint.preferred) for constraint in constraints)
        return self.domains.union(*packs) - {""}

    @property
    def _parts(self) -> tuple[Constrained, ...]:
        return self, *self.groups, *self.cliques

    def group_of(self, name: str) -> ScalingGroup | None:
        """Return the scaling group `name`, or None."""
        return next((group for group in self.groups if group.name == name), None)

    @property
    def asks_mnnvl(self) -> bool:
        """Whether one of our annotations in the set or in one of its groups enables MNNVL."""
        return self.mnnvl.enables or any(group.mnnvl.enables for group in self.groups)

    def mnnvl_at(self, place: Place) -> MnnvlAnnotations:
        """Return the annotations that a PodClique at `place` inherits from its group and set."""
        group = self.group_of(place.group) if place.group else None
        return self.mnnvl if group is None else group.mnnvl.over(self.mnnvl)


class SetWithStatus(PodCliqueSet, dict=True):
    """A PodCliqueSet with its creation time and the status that Grove writes, for explanations.

    Reconcilers use a `PodCliqueSet` instead. With the status, they would run again after each
    change that Grove makes there.
    """

    conditions: tuple[StatusCondition, ...] = ()
    created: float | None = None
    """When it was created, in seconds since 1970, or None if that is not known."""
    errors: tuple[LastError, ...] = ()
    """The errors that Grove reports in `status.lastErrors`."""
    deleted_at: float | None = None
    """When its deletion was requested, in seconds since 1970, or None if it was not."""
    finalizers: tuple[str, ...] = ()
    updates_on_delete: bool = False
    """Whether Grove replaces pods of an old template only once somebody deletes them."""
    termination_delay: float = 0.0
    """The seconds after which Grove deletes a replica with too few pods, or 0 if not set."""
    maker: Ref | None = None
    """The controller in its owner references, such as a DynamoGraphDeployment."""
    rollout: Rollout | None = None
    """The update of its template that has not ended, or None."""

    @cached_property
    def constraints(self) -> list[tuple[str, UserConstraint]]:
        """The topologyConstraint of each part of the set, after the title of the part.

        The title is "" for the set itself, or such as `clique a`. The `field` of each constraint is
        relative to the object.
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
    """Read a stored PodCliqueSet with its status. Parts without the CRD's shape count as absent."""
    metadata = map_at(obj, "metadata")
    status = map_at(obj, "status")
    owner = controller_of(obj)
    return SetWithStatus(
        **asdict(read_pod_clique_set(obj)),
        conditions=read_conditions(status),
        created=seconds_since_1970(metadata.get("creationTimestamp")),
        errors=read_last_errors(status),
        deleted_at=seconds_since_1970(metadata.get("deletionTimestamp")),
        finalizers=tuple(texts_at(metadata, "finalizers")),
        updates_on_delete=text_at(map_at(obj, "spec", "updateStrategy"), "type") == "OnDelete",
        termination_delay=duration(map_at(obj, "spec", "template").get("terminationDelay")),
        maker=Ref(owner.kind, text_at(metadata, "namespace"), owner.name) if owner else None,
        rollout=read_rollout(POD_CLIQUE_SET.kind, map_at(obj, "spec"), status),
    )


MOST_PARTS = 128
"""The maximum number of cliques and scaling groups in a PodCliqueSet, and of cliqueNames.

Neither Grove's CRD nor Grove's webhook has a bound. The sets in Grove's documentation, examples and
scale tests have fewer than ten parts, and many replicas:
https://github.com/ai-dynamo/grove/tree/fcc3b3bb/operator/e2e/yaml
"""


class SetSize(Value):
    """The size of a PodCliqueSet, which MOST_PARTS limits."""

    parts: int
    """The number of cliques and scaling groups."""
    clique_names: int
    """The number of cliqueNames in all scaling groups."""


def size_of_set(obj: JsonMap) -> SetSize:
    """Count the parts of a PodCliqueSet without reading them."""
    template = map_at(obj, "spec", "template")
    groups = list_of(template.get("podCliqueScalingGroups"))
    parts = len(list_of(template.get("cliques"))) + len(groups)
    names = 0
    for group in groups:
        names += len(list_of(map_of(group).get("cliqueNames")))
    return SetSize(parts, names)


def read_bounded_set(obj: JsonMap) -> PodCliqueSet:
    """Read a stored PodCliqueSet, but only its metadata and replicas if it is too large.

    A set is too large if it has more than MOST_PARTS cliques and scaling groups, or more than
    MOST_PARTS cliqueNames.
    """
    size = size_of_set(obj)
    if max(size.parts, size.clique_names) <= MOST_PARTS:
        return read_pod_clique_set(obj)
    spec = only(map_at(obj, "spec"), ("replicas",))
    cut = {"metadata": obj.get("metadata"), "spec": spec}
    return replace(read_pod_clique_set(cut), is_cut=True)


def read_pod_clique_set(obj: JsonMap) -> PodCliqueSet:
    """Read a stored PodCliqueSet.

    Parts without the CRD's shape count as absent. Cliques and scaling groups without a name are
    left out.
    """
    metadata = map_at(obj, "metadata")
    spec = map_at(obj, "spec")
    template = map_at(spec, "template")
    named_cliques = _named(template.get("cliques"))
    named_groups = _named(template.get("podCliqueScalingGroups"))

    cliques = []
    for clique in named_cliques:
        clique_spec = map_at(clique, "spec")
        replicas = int_of(clique_spec.get("replicas"), 1)
        cliques.append(
            Clique(
                name=clique["name"],
                replicas=replicas,
                constraint=_constraint(clique),
                requests=read_requests(map_at(clique_spec, "podSpec")),
                minimum=int_of(clique_spec.get("minAvailable"), replicas),
                mnnvl=read_mnnvl(map_at(clique, "annotations")),
            )
        )
    groups = [
        ScalingGroup(
            name=group["name"],
            cliques=tuple(texts_at(group, "cliqueNames")),
            constraint=_constraint(group),
            mnnvl=read_mnnvl(map_at(group, "annotations")),
            replicas=int_of(group.get("replicas"), 1),
            minimum=int_of(group.get("minAvailable"), 1),
        )
        for group in named_groups
    ]
    holders = (metadata, *named_groups, *named_cliques)
    mnnvl_groups = {group_in(map_at(holder, "annotations")) for holder in holders}

    return PodCliqueSet(
        namespace=text_at(metadata, "namespace"),
        name=text_at(metadata, "name"),
        uid=text_at(metadata, "uid"),
        generation=int_of(metadata.get("generation")),
        deleting=metadata.get("deletionTimestamp") is not None,
        constraint=_constraint(template),
        cliques=tuple(cliques),
        groups=tuple(groups),
        condition=read_condition(obj, CONSTRAINTS_SATISFIED),
        replicas=int_of(spec.get("replicas"), 1),
        mnnvl_groups=tuple(sorted(filter(None, mnnvl_groups))),
        mnnvl=read_mnnvl(map_at(metadata, "annotations")),
    )


def _named(value: Any) -> list[dict[str, Any]]:
    return [item for item in maps_of(value) if isinstance(item.get("name"), str)]


def _constraint(obj: JsonMap) -> StoredConstraint:
    fields = map_at(obj, "topologyConstraint")
    if not fields:
        return UNCONSTRAINED
    is_later = any(value for field, value in fields.items() if field != "packDomain")
    return StoredConstraint(*read_constraint(CheckedMap(fields)), is_later)

"""Read the values of PodCliques and Pods that the rules about MNNVL claims need.

Rules get these values and never the object. A field that a rule needs is read here, and must also
be in `facts/grove/review_fields.py`.
"""

from sys import intern
from typing import Any

from app.base.value import Value
from app.facts.grove.podcliqueset import (
    NO_ANNOTATIONS,
    MnnvlAnnotations,
    PodCliqueSet,
    group_in,
    read_mnnvl,
)
from app.facts.identity import PLACE_LABELS, Place, read_place
from app.facts.kinds import POD_CLIQUE_SET
from app.facts.kubernetes.gpus import has_gpus
from app.facts.unit_owners import NamedOwner, read_owner
from app.objects.fields import CheckedMap, FieldPath, Findings, wrong_type
from app.objects.owners import OwnerRef, controller_of
from app.objects.resource import Resource
from app.objects.shape import JsonMap, int_of, map_of, maps_of, text_at

_LABELS = FieldPath("metadata.labels")

CLAIM = "mnnvl"
"""The name of our claim in the spec of pods."""

GROVE_CLAIM = "mnnvl-claim"
"""The name of the claim that Grove injects for a group."""

SCOPES = ("replica", "clique", "scalingGroupReplica")
"""The scopes of the units of PodCliques, the default first."""

Entry = JsonMap
"""An item of `resourceClaims` of a pod spec."""


class UnitMember(Value):
    """A PodClique or a Pod, with the facts that determine its NVLink unit."""

    namespace: str
    name: str
    place: Place
    """The PodCliqueSet or unit that the labels of the object name."""
    owner_uid: str = ""
    """The uid of the owner of the unit's resources, such as the PodCliqueSet, or ""."""
    deleting: bool = False
    """Whether the deletion of the object was requested."""
    annotations: MnnvlAnnotations = NO_ANNOTATIONS
    """The object's own annotations, without inherited ones."""
    foreign_group: str = ""
    """The MNNVL group of Grove, or "" for none.

    It is the value of the annotation `grove.io/mnnvl-group`, or else the ResourceClaimTemplate of
    the claim that Grove has injected for a group.
    """
    named: NamedOwner | None = None
    """The owner that a Pod names in its labels or its spec, or None for a PodClique."""
    owner: Resource = POD_CLIQUE_SET
    """The resource of the owner. For a Pod, it is correct once the owner has been read."""
    controller: OwnerRef | None = None
    """The controller of a Pod, such as a StatefulSet between it and the owner, or None."""

    @property
    def owner_name(self) -> str:
        """The name of the owner of the unit's resources, or "" if the object names none."""
        return self.place.pcs if self.named is None else self.named.name

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that the unit can have, the default first."""
        if self.named is None:
            return SCOPES
        return tuple(scope.name for scope in self.named.kind.scopes)

    def is_of(self, pcs: PodCliqueSet) -> bool:
        """Return whether this PodClique belongs to `pcs`, and neither is being deleted.

        If `owner_uid` is known, it must be the uid of `pcs`, because a previous set may have had
        the same name.
        """
        is_current = self.place.pcs == pcs.name and self.owner_uid in ("", pcs.uid)
        return is_current and not (self.deleting or pcs.deleting)


class GpuContainer(Value):
    """A container or init container that requests a GPU."""

    pointer: str
    """The JSON pointer of the container."""
    claims: list[Any] | None
    """The list in `resources.claims`, or None if there is no such field."""


class Carrier(UnitMember, kw_only=True):
    """A PodClique or a Pod, with all values that the rules about claims need."""

    pointer: str
    """The JSON pointer of the pod spec."""
    replicas: int
    """The number of pods, 1 for a Pod."""
    claims: list[Any] | None
    """The list `resourceClaims` of the pod spec, or None if there is no such field."""
    claim: Entry | None
    """The first claim that has the name of our claim (CLAIM), or None."""
    containers: list[GpuContainer]
    """The containers and init containers that request GPUs."""
    findings: Findings
    """Findings about parts that do not match the CRD."""

    @property
    def pod_spec(self) -> FieldPath:
        """The path of the pod spec."""
        return FieldPath(self.pointer.removeprefix("/").replace("/", "."))


class Unclaimed(UnitMember):
    """A stored PodClique that requests GPUs, lacks our claim, and has not opted out of MNNVL."""


def unclaimed(carrier: Carrier) -> Unclaimed | None:
    """Return the PodClique `carrier` if it lacks our claim and may need it, otherwise None.

    A PodClique cannot need the claim if it has no GPUs, if its own annotation opts out, or if
    another claim has the same name.
    """
    if carrier.claim is not None or carrier.annotations.refuses or not carrier.containers:
        return None
    return Unclaimed(
        namespace=carrier.namespace,
        name=carrier.name,
        place=carrier.place,
        owner_uid=carrier.owner_uid,
        deleting=carrier.deleting,
        annotations=carrier.annotations,
        foreign_group=carrier.foreign_group,
    )


def read_carrier(obj: JsonMap, namespace: str, named: NamedOwner | None = None) -> Carrier:
    """Read a PodClique, or the Pod of the owner `named`.

    Equal namespaces and uids share one string, because there may be very many PodCliques.
    """
    spec = CheckedMap(obj).child("spec")
    pod_spec = spec.child("podSpec") if named is None else spec
    pointer = "/spec/podSpec" if named is None else "/spec"
    containers: list[GpuContainer] = []
    for field in ("initContainers", "containers"):
        for container in pod_spec.children(field):
            resources = container.child("resources")
            if not resources.content:
                continue
            resources.list_at("claims")  # only notes a wrong type: rules get the unchecked value
            limits = resources.map_at("limits")
            requests = resources.map_at("requests")
            if has_gpus(limits) or has_gpus(requests):
                at = f"{pointer}/{field}/{container.step}"
                containers.append(GpuContainer(at, resources.content.get("claims")))

    pod_spec.list_at("resourceClaims")  # as above
    claims = pod_spec.content.get("resourceClaims")
    claim = claim_named(claims, CLAIM)
    replicas = 1 if named is not None else int_of(spec.content.get("replicas"), 1)

    metadata = map_of(obj.get("metadata"))
    name = text_at(metadata, "name")
    labels = map_of(metadata.get("labels"))
    of_labels = [
        wrong_type(_LABELS.key(key), value, "a string")
        for key, value in labels.items()
        if not isinstance(value, str) and value is not None and key in PLACE_LABELS
    ]
    place = read_place(labels)
    # it stays "" if the set owns the object only through a scaling group
    set_uid = ""
    for reference in maps_of(metadata.get("ownerReferences")):
        if reference.get("kind") == POD_CLIQUE_SET.kind and reference.get("name") == place.pcs:
            set_uid = str(reference.get("uid") or "")
            break

    annotations = map_of(metadata.get("annotations"))
    own = read_mnnvl(annotations)
    group = group_in(annotations)
    if group is None:  # the annotation may be inherited: then Grove has injected the group's claim
        injected = claim_named(claims, GROVE_CLAIM) or {}
        group = str(injected.get("resourceClaimTemplateName") or "")

    return Carrier(
        namespace=intern(namespace),
        name=name,
        place=place,
        owner_uid=intern(set_uid),
        deleting=metadata.get("deletionTimestamp") is not None,
        annotations=own,
        foreign_group=group,
        named=named,
        controller=None if named is None else controller_of(obj),
        pointer=pointer,
        replicas=replicas,
        claims=claims,
        claim=claim,
        containers=containers,
        findings=[*of_labels, *spec.findings],
    )


def read_carrier_of_pod(obj: JsonMap, namespace: str) -> Carrier:
    """Read a Pod as `read_carrier` reads a PodClique.

    The Pod may have no name yet, if the API server generates a name from `generateName`.
    """
    return read_carrier(obj, namespace, read_owner(obj))


def claim_named(claims: Any, name: str) -> Entry | None:
    """Return the first of the `claims` of a pod or container that has this name, or None."""
    for claim in maps_of(claims):
        if claim.get("name") == name:
            return claim
    return None

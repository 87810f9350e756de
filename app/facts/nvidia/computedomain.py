"""Read ComputeDomains, the NVLink cliques of their nodes, and stored MNNVL resources."""

from collections.abc import Iterable
from typing import Any

from app.base.value import Value
from app.facts.identity import NOWHERE, Key, Namespaced, Place, interned, read_key, read_place
from app.facts.kinds import COMPUTE_DOMAIN, POD_GANG
from app.facts.kubernetes.claim import awaited_classes
from app.facts.labels import MANAGED_BY, MANAGER, MNNVL_MANAGED
from app.objects.owners import OwnerRef, owners_of
from app.objects.resource import Resource
from app.objects.shape import (
    JsonMap,
    int_of,
    integer_in,
    labels_of,
    map_at,
    maps_at,
    maps_of,
    text_at,
    texts_at,
)


class DomainNode(Value):
    """A node in the status of a ComputeDomain, or in a ComputeDomainClique."""

    name: str
    ready: bool | None
    """Whether the daemon on the node is ready. Releases before 25.8 don't say it (None)."""


class ComputeDomain(Namespaced):
    """A ComputeDomain of NVIDIA's DRA driver: nodes whose pods share NVLink."""

    kind = "ComputeDomain"
    uid: str = ""
    number: int = 0
    """The number of nodes that the ComputeDomain requests."""
    template: str = ""
    """The name of the ResourceClaimTemplate for the channels, or ""."""
    ready: bool = False
    """Whether `status.status` is Ready."""
    nodes: tuple[DomainNode, ...] = ()
    """The nodes on which daemons of the ComputeDomain run."""
    place: Place = NOWHERE
    """The PodCliqueSet or unit that the labels of the ComputeDomain name."""
    held_by: tuple[str, ...] = ()
    """The finalizers while the ComputeDomain is being deleted, otherwise empty."""


def read_compute_domain(obj: JsonMap) -> ComputeDomain:
    """Read a ComputeDomain."""
    metadata = map_at(obj, "metadata")
    spec = map_at(obj, "spec")
    status = map_at(obj, "status")
    finalizers = texts_at(metadata, "finalizers") if metadata.get("deletionTimestamp") else ()
    return ComputeDomain(
        *read_key(obj),
        uid=text_at(metadata, "uid"),
        number=_number(metadata, spec),
        template=text_at(map_at(spec, "channel", "resourceClaimTemplate"), "name"),
        ready=status.get("status") == "Ready",
        nodes=_nodes(status.get("nodes")),
        place=read_place(map_at(metadata, "labels")),
        held_by=tuple(finalizers),
    )


def _number(metadata: JsonMap, spec: JsonMap) -> int:
    """Return the number of nodes that a ComputeDomain requests.

    v1beta2 has no such field, so its conversion keeps the number in an annotation:
    https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu/blob/3fe94879/api/nvidia.com/resource/v1beta2.
    """
    kept = text_at(map_at(metadata, "annotations"), "resource.nvidia.com/computedomain-num-nodes")
    return int_of(spec.get("numNodes", max(0, integer_in(kept) or 0)))


class DomainClique(Namespaced):
    """A ComputeDomainClique, which lists the daemons of one ComputeDomain in one NVLink clique."""

    nodes: tuple[DomainNode, ...] = ()
    """The nodes of these daemons."""


def read_domain_clique(obj: JsonMap) -> DomainClique:
    """Read a ComputeDomainClique."""
    return DomainClique(*read_key(obj), _nodes(obj.get("daemons")))


def _nodes(items: Any) -> tuple[DomainNode, ...]:
    """Return the nodes of a ComputeDomain or of a ComputeDomainClique.

    The name of a node is in the field `name` of a ComputeDomain, and in `nodeName` of a
    ComputeDomainClique.
    """
    return tuple(
        DomainNode(
            text_at(item, "name") or text_at(item, "nodeName"),
            item["status"] == "Ready" if "status" in item else None,
        )
        for item in maps_of(items)
    )


# MNNVL resources.


DOMAIN_SUFFIX = "-cd"
"""The suffix of the names of our ComputeDomains, after the base name."""

CLAIM_SUFFIX = "-mnnvl-claim"
"""The suffix of the names of our ResourceClaims, after the base name."""

TEMPLATE_SUFFIX = "-mnnvl-template"
"""The suffix of the names of ResourceClaimTemplates for our ComputeDomains, after the base name."""


def base_of(kind: str, name: str) -> str:
    """Return the name of a ComputeDomain or ResourceClaim without our suffix.

    Return "" if the name does not end with that suffix.
    """
    suffix = DOMAIN_SUFFIX if kind == COMPUTE_DOMAIN.kind else CLAIM_SUFFIX
    return name.removesuffix(suffix) if name.endswith(suffix) else ""


class MnnvlResource(Value):
    """A stored ComputeDomain or ResourceClaim, with the fields that rules and the audit need."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    managed: bool
    """Whether the object has our label `grove.io/mnnvl-managed: "true"`."""
    deleting: bool
    """Whether the deletion of the object was requested."""
    place: Place
    """The PodCliqueSet, replica or unit that the labels of the object name.

    `podgang` is "" unless an earlier version created the resource. That version wrote the name of a
    PodGang, which Grove may have replaced since.
    """
    owners: tuple[OwnerRef, ...]
    created: str = ""
    """The creation time of the object (RFC 3339), or ""."""
    awaited: tuple[str, ...] = ()
    """The DeviceClasses that a ResourceClaim requests, empty once it is allocated."""

    @property
    def key(self) -> Key:
        """The namespace and the name."""
        return self.namespace, self.name

    @property
    def base_name(self) -> str:
        """The name without the suffix, or "" if the object is not named like our resources."""
        return base_of(self.kind, self.name)

    @property
    def is_generated(self) -> bool:
        """Whether Kubernetes created this claim for one Pod, with the labels of a template."""
        return any(owner.kind == "Pod" for owner in self.owners)

    @property
    def is_ours(self) -> bool:
        """Whether the object has our label, is not being deleted, and is not owned by a Pod."""
        return self.managed and not self.deleting and not self.is_generated

    @property
    def is_named_after_its_replica(self) -> bool:
        """Whether the name fits the replica or unit in the labels.

        Objects of other owners may have our labels.
        """
        place = self.place
        if place.unit:
            return self.base_name == place.unit
        start = f"{place.pcs}-{place.replica}"
        base = self.base_name
        return bool(place.pcs and place.replica) and (base == start or base.startswith(f"{start}-"))

    @property
    def owning_gangs(self) -> tuple[OwnerRef, ...]:
        """The owner references to PodGangs."""
        return tuple(owner for owner in self.owners if owner.kind == POD_GANG.kind)


def read_mnnvl_resource(obj: JsonMap) -> MnnvlResource:
    """Read a stored ComputeDomain or ResourceClaim.

    The result shares equal texts with other results, because there may be very many.
    """
    metadata = obj["metadata"]
    labels = labels_of(obj)
    return MnnvlResource(
        kind=interned(obj.get("kind")),
        namespace=interned(metadata.get("namespace")),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        managed=labels.get(MNNVL_MANAGED) == "true",
        deleting=metadata.get("deletionTimestamp") is not None,
        place=read_place(labels),
        owners=owners_of(obj),
        created=interned(metadata.get("creationTimestamp")),
        awaited=awaited_classes(obj),
    )


def is_made_by_us(obj: JsonMap) -> bool:
    """Return whether we created a stored ComputeDomain or ResourceClaim.

    Such an object has both of our labels, a name that fits the replica or unit in its labels, and
    no Pod as its owner. Claims that Kubernetes creates from a template have the template's labels,
    but Pods own them.
    """
    resource = read_mnnvl_resource(obj)
    return (
        resource.managed
        and labels_of(obj).get(MANAGED_BY) == MANAGER
        and resource.is_named_after_its_replica
        and not resource.is_generated
    )


def is_reserved(obj: JsonMap) -> bool:
    """Return whether a pod reserves the stored ResourceClaim `obj`."""
    return bool(map_at(obj, "status").get("reservedFor"))


def claim_names(resources: Iterable[Resource], base_name: str) -> set[str]:
    """Return the names of claims and claim templates by which pods use our MNNVL resources.

    `resources` are the kinds that exist with this base name. ComputeDomains have a template.
    """
    names = {f"{base_name}{CLAIM_SUFFIX}"}
    if COMPUTE_DOMAIN in resources:
        names.add(f"{base_name}{TEMPLATE_SUFFIX}")
    return names


def claims_used_by(pod: JsonMap) -> set[str]:
    """Return the names of the claims and claim templates in the spec of `pod`.

    Return an empty set if the pod has finished.
    """
    if map_at(pod, "status").get("phase") in ("Succeeded", "Failed"):
        return set()
    claims = maps_at(pod, "spec", "resourceClaims")
    fields = ("resourceClaimName", "resourceClaimTemplateName")
    return {text_at(claim, field) for claim in claims for field in fields} - {""}

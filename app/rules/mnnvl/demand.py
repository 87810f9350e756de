"""The resources that stored PodCliques need.

With them, missing ones can be restored and unneeded ones deleted.

A stored PodClique needs the resources that its claim names, even if its annotations have changed,
because its pods can't start without them.
"""

from collections.abc import Collection, Iterable, Sequence
from sys import intern

from app.facts.grove.annotations import read_mnnvl
from app.facts.grove.podcliqueset import PodCliqueSet
from app.facts.kinds import COMPUTE_DOMAIN
from app.facts.labels import MANAGED_BY, MANAGER, MNNVL_MANAGED
from app.facts.nvidia.mnnvl import CLAIM_SUFFIX, TEMPLATE_SUFFIX, base_of
from app.facts.place import read_place
from app.objects.metadata import annotations_of, labels_of
from app.objects.resource import Resource
from app.objects.shape import JsonMap, map_at, map_of, maps_at
from app.rules.mnnvl.plan import (
    DEFAULT_DEVICE_CLASS,
    ClaimMode,
    CliqueMember,
    Plan,
    Scope,
    device_class_of,
    is_device_class,
    read_entry,
)
from app.rules.mnnvl.wanted import claim_entry, read_member


class ClaimedClique(CliqueMember):
    """A stored PodClique that has a claim of ours.

    `device_class` is that of its own annotation, or "".
    """

    scope: Scope
    mode: ClaimMode
    device_class: str
    deleting: bool

    @property
    def base_name(self) -> str:
        """The text with which the names of its resources begin."""
        return self.base_of(self.scope)


def read_demand(obj: JsonMap) -> ClaimedClique | None:
    """Read a stored PodClique.

    Returns None if it has no claim of ours.
    """
    metadata = map_of(obj.get("metadata"))
    entry = claim_entry(obj)
    if entry is None:
        return None

    member = read_member(obj, str(metadata.get("namespace") or ""))
    claim = read_entry(member, entry)
    if claim is None:
        return None

    own = read_mnnvl(annotations_of(obj)).device_class

    return ClaimedClique(
        member.namespace,
        member.name,
        member.place,
        member.set_uid,
        *claim,
        intern(own) if own and is_device_class(own) else "",
        metadata.get("deletionTimestamp") is not None,
    )


def demands_in(cliques: Iterable[object]) -> list[ClaimedClique]:
    """Return those of `cliques` that have a claim of ours."""
    return [clique for clique in cliques if isinstance(clique, ClaimedClique)]


def lasting_demands(
    demands: Iterable[ClaimedClique], pcs: PodCliqueSet | None
) -> list[ClaimedClique]:
    """Return those of `demands` whose missing resources should be restored.

    They are of PodCliques that are not being deleted and belong to the current PodCliqueSet `pcs`,
    sorted by name.
    """
    if pcs is None or pcs.deleting:
        return []
    lasting = (
        demand for demand in demands if not demand.deleting and demand.set_uid in ("", pcs.uid)
    )
    return sorted(lasting, key=lambda demand: demand.name)


def plan_for(demands: Sequence[ClaimedClique], pcs: PodCliqueSet) -> Plan:
    """Return the plan of the resources that `demands` share, which all have the same base name.

    `pcs` owns them.
    """
    demand = next((demand for demand in demands if demand.device_class), demands[0])
    inherited = pcs.mnnvl_at(demand.place)
    named = demand.device_class or device_class_of(inherited)
    device_class = named if is_device_class(named) else DEFAULT_DEVICE_CLASS
    member = CliqueMember(demand.namespace, demand.name, demand.place, pcs.uid)
    return Plan(member, demand.scope, device_class)


def is_made_by_us(obj: JsonMap) -> bool:
    """Return whether we made a stored ComputeDomain or ResourceClaim.

    It then has both of our labels and those of a replica, its name begins with that of the
    replica, and no Pod owns it. Kubernetes makes claims that Pods own, with the labels of their
    template.
    """
    metadata = map_at(obj, "metadata")
    labels = labels_of(obj)
    place = read_place(labels)
    if (
        labels.get(MNNVL_MANAGED) != "true"
        or labels.get(MANAGED_BY) != MANAGER
        or not (place.pcs and place.replica)
    ):
        return False

    base = base_of(str(obj.get("kind") or ""), str(metadata.get("name") or ""))
    start = f"{place.pcs}-{place.replica}"
    of_pod = any(owner.get("kind") == "Pod" for owner in maps_at(metadata, "ownerReferences"))

    return (base == start or base.startswith(f"{start}-")) and not of_pod


def is_reserved(obj: JsonMap) -> bool:
    """Return whether a pod reserves the stored ResourceClaim `obj`."""
    return bool(map_at(obj, "status").get("reservedFor"))


def claim_names(resources: Iterable[Resource], base_name: str) -> set[str]:
    """Return the names by which pods use `resources`.

    They are names of claims and of templates of claims. The resources have this base name.
    """
    names = {f"{base_name}{CLAIM_SUFFIX}"}
    if COMPUTE_DOMAIN in resources:
        names.add(f"{base_name}{TEMPLATE_SUFFIX}")
    return names


def uses(pod: JsonMap, names: Collection[str]) -> bool:
    """Return whether `pod` has not finished and names a claim or template of claims in `names`."""
    if map_at(pod, "status").get("phase") in ("Succeeded", "Failed"):
        return False
    return any(
        claim.get("resourceClaimName") in names or claim.get("resourceClaimTemplateName") in names
        for claim in maps_at(pod, "spec", "resourceClaims")
    )

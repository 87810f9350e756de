"""The resources that stored PodCliques need.

With them, missing ones can be restored and unneeded ones deleted.

A stored PodClique needs the resources that its claim names, even if its annotations have changed,
because its pods can't start without them.
"""

from collections.abc import Collection, Iterable, Sequence

from app.facts.grove.podcliqueset import PodCliqueSet
from app.facts.kinds import COMPUTE_DOMAIN
from app.facts.labels import MANAGED_BY, MANAGER
from app.facts.nvidia.mnnvl import CLAIM_SUFFIX, TEMPLATE_SUFFIX, read_mnnvl_resource
from app.objects.metadata import labels_of
from app.objects.resource import Resource
from app.objects.shape import JsonMap, map_at, maps_at
from app.rules.mnnvl.plan import CliqueMember, Plan, usable_device_class
from app.rules.mnnvl.wanted import ClaimedClique


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
    device_class = usable_device_class(demand.device_class or inherited.device_class)
    member = CliqueMember(demand.namespace, demand.name, demand.place, pcs.uid)
    return Plan(member, demand.scope, device_class)


def is_made_by_us(obj: JsonMap) -> bool:
    """Return whether we made a stored ComputeDomain or ResourceClaim.

    It then has both of our labels and those of a replica, its name begins with that of the
    replica, and no Pod owns it. Kubernetes makes claims that Pods own, with the labels of their
    template.
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

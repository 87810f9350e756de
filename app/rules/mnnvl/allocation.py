"""Which claims can be allocated in a cluster: their form, their DeviceClass, and for how many pods.

NVIDIA's driver has two DeviceClasses for ComputeDomains. It allocates a claim on several nodes only
if the claim is made from the template of the ComputeDomain:
https://github.com/NVIDIA/k8s-dra-driver-gpu/tree/22407113/deployments/helm
"""

from collections.abc import Collection
from typing import Literal

from app.facts.grove.podcliqueset import PodCliqueSet, ScalingGroup
from app.facts.labels import MNNVL_SCOPE
from app.rules.mnnvl.claim import Injection
from app.rules.mnnvl.plan import ClaimMode, Scope

ConfiguredMode = Literal["auto", "shared", "template"]

MAX_RESERVED = 256
"""The most pods that can reserve a ResourceClaim.

Source: `status.reservedFor` in resource.k8s.io.
"""

DRIVER_CLASSES = frozenset(
    {"compute-domain-default-channel.nvidia.com", "compute-domain-daemon.nvidia.com"}
)


def claim_mode(
    configured: ConfiguredMode, device_class: str, classes: Collection[str]
) -> ClaimMode:
    """Return the form of the claim of a new PodClique.

    `device_class` is the DeviceClass that it names, and `classes` are the names of those that
    exist.
    """
    if configured != "auto":
        return configured
    return (
        "template"
        if device_class not in classes and not DRIVER_CLASSES.isdisjoint(classes)
        else "shared"
    )


def unallocatable(awaited: Collection[str], classes: Collection[str]) -> str:
    """Return the first DeviceClass in `awaited` that is not in `classes`.

    "" if the claim can be allocated. If `classes` is empty, the driver is not installed yet, and
    the result is "" too.
    """
    return next((name for name in awaited if classes and name not in classes), "")


def allocation_warning(
    mode: ClaimMode, claim: str, device_class: str, classes: Collection[str]
) -> str | None:
    """Return a warning if a shared claim cannot be allocated.

    This is so if its DeviceClass does not exist and others do.
    """
    if mode != "shared" or not unallocatable([device_class], classes):
        return None
    return (
        f'ResourceClaim "{claim}" cannot be allocated: DeviceClass "{device_class}" does not exist.'
        " Create it, name another one in grove.io/mnnvl-device-class, or use claimMode: template"
    )


def reservation_warning(injection: Injection, pcs: PodCliqueSet | None, group: str) -> str | None:
    """Return a warning if more pods would share one claim than can reserve it.

    If `pcs` is None, only the pods of this PodClique are counted. `group` is the name of its
    scaling group, or "".
    """
    plan = injection.plan
    if plan is None or injection.mode != "shared":
        return None

    pods = (
        max(injection.replicas, _pods_sharing(plan.scope, injection.replicas, pcs, group))
        if pcs
        else injection.replicas
    )
    if pods <= MAX_RESERVED:
        return None

    return (
        f'ResourceClaim "{plan.claim}" would be reserved by {pods} pods, but a claim can be'
        f" reserved by at most {MAX_RESERVED}: the others will stay pending. Use a narrower"
        f" {MNNVL_SCOPE}, or claimMode: template"
    )


def _pods_sharing(scope: Scope, replicas: int, pcs: PodCliqueSet, own_group: str) -> int:
    """Return the number of pods that share a claim of `scope`.

    With scope `replica`, these are the cliques in no scaling group, those of `own_group`, and those
    of groups that inherit that scope.
    """
    if scope == "clique":
        return replicas

    replicas_of = {clique.name: clique.replicas for clique in pcs.cliques}
    pods_of = {
        group.name: sum(replicas_of.get(name, 0) for name in group.cliques) for group in pcs.groups
    }
    if scope == "scalingGroupReplica":
        return pods_of.get(own_group, 0)

    grouped = {name for group in pcs.groups for name in group.cliques}
    alone = sum(replicas_of[name] for name in replicas_of.keys() - grouped)
    sharing = (
        group
        for group in pcs.groups
        if group.name == own_group or _inherits_replica_scope(group, pcs)
    )

    return alone + sum(pods_of[group.name] * group.replicas for group in sharing)


def _inherits_replica_scope(group: ScalingGroup, pcs: PodCliqueSet) -> bool:
    annotations = group.mnnvl.over(pcs.mnnvl)
    return annotations.enables and (annotations.scope or "replica") == "replica"

"""Which form of claim can be allocated in this cluster.

NVIDIA's driver has two DeviceClasses of ComputeDomains, and serves a claim across nodes only if it is made from the
template of the ComputeDomain:
https://github.com/NVIDIA/k8s-dra-driver-gpu/tree/22407113/deployments/helm
"""

from collections.abc import Collection, Mapping
from typing import Any, Literal

from app.rules.mnnvl.plan import ClaimMode

ConfiguredMode = Literal["auto", "shared", "template"]

DRIVER_CLASSES = frozenset({"compute-domain-default-channel.nvidia.com", "compute-domain-daemon.nvidia.com"})


def claim_mode(configured: ConfiguredMode, device_class: str, classes: Collection[str]) -> ClaimMode:
    """The form of claim of a new PodClique that names `device_class`, if the DeviceClasses `classes` exist."""
    if configured != "auto":
        return configured
    return "template" if device_class not in classes and not DRIVER_CLASSES.isdisjoint(classes) else "shared"


def awaited_classes(claim: Mapping[str, Any]) -> tuple[str, ...]:
    """The DeviceClasses that a stored ResourceClaim asks for; () if it is allocated, and for other objects."""
    spec, status = claim.get("spec"), claim.get("status")
    if isinstance(status, dict) and status.get("allocation"):
        return ()
    devices = spec.get("devices") if isinstance(spec, dict) else None
    requests = devices.get("requests") if isinstance(devices, dict) else None
    names = (
        (request.get("exactly") or request).get("deviceClassName")
        for request in (requests if isinstance(requests, list) else ())
        if isinstance(request, dict)
    )
    return tuple(name for name in names if isinstance(name, str))


def unallocatable(awaited: Collection[str], classes: Collection[str]) -> str:
    """The first DeviceClass of `awaited` that doesn't exist although `classes` do; "" if the claim can be allocated, or
    if there is no DeviceClass at all: then the driver is not installed yet."""
    return next((name for name in awaited if classes and name not in classes), "")


def allocation_warning(mode: ClaimMode, claim: str, device_class: str, classes: Collection[str]) -> str | None:
    """A warning if a shared claim cannot be allocated, because its DeviceClass does not exist and others do."""
    if mode != "shared" or not unallocatable([device_class], classes):
        return None
    return (
        f'ResourceClaim "{claim}" cannot be allocated: DeviceClass "{device_class}" does not exist. Create it, name '
        f"another one in grove.io/mnnvl-device-class, or use claimMode: template"
    )

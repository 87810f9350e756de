"""Which form of claim can be allocated in this cluster.

NVIDIA's driver has two DeviceClasses of ComputeDomains, and serves a claim across nodes only if it is made from the
template of the ComputeDomain:
https://github.com/NVIDIA/k8s-dra-driver-gpu/tree/22407113/deployments/helm
"""

from collections.abc import Collection
from typing import Literal

from app.rules.mnnvl.plan import ClaimMode

ConfiguredMode = Literal["auto", "shared", "template"]

DRIVER_CLASSES = frozenset({"compute-domain-default-channel.nvidia.com", "compute-domain-daemon.nvidia.com"})


def claim_mode(configured: ConfiguredMode, device_class: str, classes: Collection[str]) -> ClaimMode:
    """The form of claim of a new PodClique that names `device_class`, if the DeviceClasses `classes` exist."""
    if configured != "auto":
        return configured
    return "template" if device_class not in classes and not DRIVER_CLASSES.isdisjoint(classes) else "shared"


def allocation_warning(mode: ClaimMode, claim: str, device_class: str, classes: Collection[str]) -> str | None:
    """A warning if a shared claim cannot be allocated, because its DeviceClass does not exist and others do. If there
    is no DeviceClass at all, the driver is not installed yet."""
    if mode != "shared" or not classes or device_class in classes:
        return None
    return (
        f'ResourceClaim "{claim}" cannot be allocated: DeviceClass "{device_class}" does not exist. Create it, name '
        f"another one in grove.io/mnnvl-device-class, or use claimMode: template"
    )

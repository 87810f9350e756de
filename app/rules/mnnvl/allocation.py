"""The form of claim that can be allocated in a cluster.

NVIDIA's driver has two DeviceClasses for ComputeDomains. It allocates a claim on several nodes only
if the claim is made from the template of the ComputeDomain:
https://github.com/NVIDIA/k8s-dra-driver-gpu/tree/22407113/deployments/helm
"""

from collections.abc import Collection
from typing import Literal

from app.rules.mnnvl.plan import ClaimMode

ConfiguredMode = Literal["auto", "shared", "template"]

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
    """Return the first DeviceClass in `awaited` that is not in `classes`, or "" if the claim can
    be allocated. If `classes` is empty, the driver is not installed yet, and the result is "".
    """
    return next((name for name in awaited if classes and name not in classes), "")


def allocation_warning(
    mode: ClaimMode, claim: str, device_class: str, classes: Collection[str]
) -> str | None:
    """Return a warning if a shared claim cannot be allocated, because its DeviceClass does not
    exist and others do.
    """
    if mode != "shared" or not unallocatable([device_class], classes):
        return None
    return (
        f'ResourceClaim "{claim}" cannot be allocated: DeviceClass "{device_class}" does not exist.'
        " Create it, name another one in grove.io/mnnvl-device-class, or use claimMode: template"
    )

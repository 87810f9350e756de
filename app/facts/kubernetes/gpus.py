"""Count the GPUs that pods and containers request."""

from decimal import Decimal, InvalidOperation
from math import ceil
from typing import Any

from app.base.value import Value
from app.facts.quantity import is_quantity, thousandths
from app.objects.shape import JsonMap, map_of, maps_of

GPU = "nvidia.com/gpu"

MAX_AMOUNT = Decimal(2**63 - 1)
"""The largest amount in Kubernetes. Converting a larger one, such as 1e99999999, can take hours."""


class Gpus(Value):
    """The GPUs that a pod or a container requests."""

    every: int
    """The number of GPUs including MIG devices."""
    whole: int
    """The number of GPUs named nvidia.com/gpu."""


_NO_GPUS = Gpus(0, 0)


def gpus_of_pod(pod_spec: JsonMap) -> Gpus:
    """Return the GPUs that a pod with this `pod_spec` requests.

    They are the sum over all containers, or the GPUs of the largest init container if that has
    more.
    """
    every = 0
    whole = 0
    for container in maps_of(pod_spec.get("containers")):
        gpus = _gpus_of(container)
        every += gpus.every
        whole += gpus.whole

    for container in maps_of(pod_spec.get("initContainers")):
        gpus = _gpus_of(container)
        every = max(every, gpus.every)
        whole = max(whole, gpus.whole)

    return Gpus(every, whole)


def _gpus_of(container: JsonMap) -> Gpus:
    """Return the GPUs in the limits or in the requests of a container, whichever is larger."""
    resources = container.get("resources")
    if not resources or not isinstance(resources, dict):
        return _NO_GPUS

    every = 0
    whole = 0
    for field in ("limits", "requests"):
        total = 0
        for name, quantity in map_of(resources.get(field)).items():
            if is_gpu(name):
                count = gpu_count(quantity)
                total += count
                if name == GPU:
                    whole = max(whole, count)
        every = max(every, total)
    return Gpus(every, whole)


def is_gpu(resource: str) -> bool:
    """Return whether the resource is nvidia.com/gpu or a MIG device."""
    return resource == GPU or resource.startswith("nvidia.com/mig-")


def has_gpus(quantities: JsonMap) -> bool:
    """Return whether `quantities`, the limits or the requests of a container, contain a GPU."""
    return sum([gpu_count(quantities[name]) for name in quantities if is_gpu(name)]) > 0


def gpu_count(quantity: Any) -> int:
    """Return the number of GPUs in a limit or request, rounded up, from 0 to MAX_AMOUNT.

    An invalid quantity, such as "many", counts as one GPU.
    """
    text = str(quantity).strip()
    if text.isdecimal() and len(text) < 19:  # much faster, and true for almost all quantities
        return int(text)
    try:
        return ceil(min(max(Decimal(text), Decimal(0)), MAX_AMOUNT))
    except InvalidOperation:
        return max(0, -(-thousandths(text) // 1000)) if is_quantity(text) else 1

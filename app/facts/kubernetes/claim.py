"""Read ResourceClaims, their templates, ResourceSlices and DeviceClasses."""

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from sys import intern
from typing import TypeVar

from app.base.value import Value, shared
from app.facts.identity import (
    NOWHERE,
    ClusterScoped,
    Namespaced,
    Place,
    read_key,
    read_name,
    read_place,
)
from app.facts.kubernetes.selectors import Term, node_selector_terms
from app.facts.labels import KAI_QUEUE
from app.objects.shape import JsonMap, int_of, map_at, maps_at, text_at
from app.objects.time import seconds_since_1970

MOST_DEVICES = 32
"""The maximum number of devices of a claim.

Source: https://pkg.go.dev/k8s.io/api/resource/v1#pkg-constants, AllocationResultsMaxSize.
"""

_DRIVER = re.compile(r"""device\.driver\s*==\s*["']([^"']+)["']""")
_TYPE = re.compile(r"""\.type\s*==\s*["']([^"']+)["']""")


class Consumer(Value):
    """A pod in a claim's `status.reservedFor`."""

    name: str
    uid: str = ""


class Device(Value):
    """A device that is allocated to a claim."""

    driver: str
    pool: str
    """The name of the pool of devices."""
    device: str
    """The name of the device in the pool."""


class ResourceClaim(Namespaced):
    """A ResourceClaim: a request for devices, and the devices that are allocated to it."""

    kind = "ResourceClaim"
    classes: tuple[str, ...] = ()
    """The DeviceClass of each requested device, at most MOST_DEVICES for each request."""
    allocated: bool = False
    devices: tuple[Device, ...] = ()
    """The allocated devices, except devices for `adminAccess`, which are not reserved."""
    nodes: tuple[Term, ...] = ()
    """The terms of the allocation's nodeSelector, one of which a node must meet, or () for any."""
    consumers: tuple[Consumer, ...] = ()
    """The pods that reserve the claim."""
    place: Place = NOWHERE
    """The PodCliqueSet or unit that the labels of the claim name."""
    deleting: float | None = None
    """When deletion of the claim was requested, in seconds since 1970, or None if it was not."""
    queue: str = ""
    """The KAI queue that a label of the claim names, or ""."""
    selectors: tuple[str, ...] = ()
    """The CEL expressions with which the requests select devices, each on one line and short."""
    domain: str = ""
    """The uid of the ComputeDomain that the configuration for NVIDIA's driver names, or ""."""


def read_resource_claim(obj: JsonMap) -> ResourceClaim:
    """Read a ResourceClaim. A field that is missing or has the wrong type counts as not set."""
    metadata = map_at(obj, "metadata")
    spec = map_at(obj, "spec")
    status = map_at(obj, "status")
    allocation = map_at(status, "allocation")
    return ResourceClaim(
        *read_key(obj),
        classes=tuple(_classes(spec)),
        allocated=bool(allocation),
        devices=_devices(allocation),
        nodes=node_selector_terms(allocation.get("nodeSelector")),
        consumers=_consumers(status),
        place=read_place(map_at(metadata, "labels")),
        deleting=seconds_since_1970(metadata.get("deletionTimestamp")),
        queue=text_at(map_at(metadata, "labels"), KAI_QUEUE),
        selectors=_selectors(spec),
        domain=_domain(spec),
    )


def read_rest_of_claim(obj: JsonMap) -> ResourceClaim | None:
    """Read only the first MOST_DEVICES devices of a ResourceClaim. Return None if it has none.

    Only this is kept of a claim that is too large: without it, its devices would count as free.
    """
    devices = _devices(map_at(obj, "status", "allocation"))
    if not devices:
        return None
    return ResourceClaim(*read_key(obj), allocated=True, devices=devices[:MOST_DEVICES])


def _domain(spec: JsonMap) -> str:
    """Return the uid of the ComputeDomain that a claim is for, or "" if it names none."""
    configurations = maps_at(spec, "devices", "config")
    named = (text_at(map_at(item, "opaque", "parameters"), "domainID") for item in configurations)
    return next(filter(None, named), "")


def _requests(spec: JsonMap) -> list[JsonMap]:
    """Return the fields of each request in a claim's spec.

    They are in the map `exactly`, or in the request itself, as in v1beta1.
    """
    items = maps_at(spec, "devices", "requests")
    return [map_at(item, "exactly") or item for item in items]


def _classes(spec: JsonMap) -> Iterator[str]:
    """Yield the DeviceClass of each requested device.

    A request for all devices counts as one. Alternatives (`firstAvailable`) are omitted, because
    their classes need not exist.
    """
    for request in _requests(spec):
        name = text_at(request, "deviceClassName")
        if name:
            yield from [name] * min(int_of(request.get("count"), 1), MOST_DEVICES)


_MOST_SELECTORS = 4
_MOST_EXPRESSION = 200


def _selectors(spec: JsonMap) -> tuple[str, ...]:
    """Return `ResourceClaim.selectors`. Tenants choose their number and length."""
    texts = (
        " ".join(text_at(map_at(selector, "cel"), "expression").split())
        for request in _requests(spec)
        for selector in maps_at(request, "selectors")
    )
    short = (
        text if len(text) <= _MOST_EXPRESSION else f"{text[:_MOST_EXPRESSION]} ..."
        for text in texts
        if text
    )
    return tuple(dict.fromkeys(short))[:_MOST_SELECTORS]


def _devices(allocation: JsonMap) -> tuple[Device, ...]:
    """Return the allocated devices, without `adminAccess`, which reserves no device."""
    return tuple(
        Device(text_at(item, "driver"), text_at(item, "pool"), text_at(item, "device"))
        for item in maps_at(allocation, "devices", "results")
        if item.get("adminAccess") is not True
    )


def _consumers(status: JsonMap) -> tuple[Consumer, ...]:
    return tuple(
        Consumer(text_at(item, "name"), text_at(item, "uid"))
        for item in maps_at(status, "reservedFor")
        if item.get("resource", "pods") == "pods"
    )


def awaited_classes(obj: JsonMap) -> tuple[str, ...]:
    """Return the DeviceClasses that a stored ResourceClaim requests.

    The result is empty if the claim is allocated, and for objects of other kinds. Equal results are
    one object, because most claims request the same classes.
    """
    if map_at(obj, "status").get("allocation"):
        return ()
    names = (text_at(request, "deviceClassName") for request in _requests(map_at(obj, "spec")))
    classes: tuple[str, ...] = shared(tuple(filter(None, names)))
    return classes


class ClaimTemplate(Namespaced):
    """A ResourceClaimTemplate, from which Kubernetes creates a claim for each pod."""

    classes: tuple[str, ...] = ()
    """The DeviceClass of each device that a claim from this template requests."""
    selectors: tuple[str, ...] = ()
    """The CEL expressions with which its claims select devices, as in `ResourceClaim`."""


def read_claim_template(obj: JsonMap) -> ClaimTemplate:
    """Read a ResourceClaimTemplate."""
    spec = map_at(obj, "spec", "spec")
    return ClaimTemplate(*read_key(obj), tuple(_classes(spec)), _selectors(spec))


class DeviceClass(ClusterScoped):
    """A DeviceClass. A claim requests devices of a class by the name of the class."""

    gpus: str = ""
    """The driver whose GPUs the class selects, or "" for other devices and parts of GPUs."""
    driver: str = ""
    """The driver whose devices the class selects, or "" if no selector compares the driver."""
    extended: str = ""
    """The resource, such as nvidia.com/gpu, by which pods request these devices too, or ""."""


def read_device_class(obj: JsonMap) -> DeviceClass:
    """Read a DeviceClass.

    Its CEL selectors are not evaluated. They are only searched for the driver and the device type
    that they compare.
    """
    selectors = maps_at(obj, "spec", "selectors")
    expressions = " ".join(text_at(map_at(item, "cel"), "expression") for item in selectors)
    driver = _DRIVER.search(expressions)
    of_type = _TYPE.search(expressions)
    is_gpu = driver is not None and _is_gpu(driver[1], of_type[1] if of_type else "")
    name = driver[1] if driver is not None else ""
    extended = text_at(map_at(obj, "spec"), "extendedResourceName")
    return DeviceClass(read_name(obj), name if is_gpu else "", name, extended)


def _is_gpu(driver: str, of_type: str) -> bool:
    """Return whether devices of a driver and a type are whole GPUs.

    The drivers of vendors have names like gpu.nvidia.com. Parts of GPUs have another type.
    """
    return driver.startswith("gpu.") and of_type in ("", "gpu")


class ResourceSlice(Value):
    """A ResourceSlice: a part of the devices of one pool."""

    driver: str
    """The name of the driver, such as gpu.nvidia.com."""
    pool: str
    """The name of the pool of devices."""
    generation: int
    """The generation of the pool. Only the ResourceSlices of the newest generation count."""
    node: str
    """The node that has all devices of the slice, or ""."""
    gpus: tuple[str, ...]
    """The names of the GPUs in the slice."""
    tainted: tuple[tuple[str, str], ...] = ()
    """The taints that keep claims away, as pairs (device, taint), as in `key=value:NoSchedule`."""


def read_resource_slice(obj: JsonMap) -> ResourceSlice:
    """Read a ResourceSlice.

    Of its devices, only the names of GPUs and the taints that keep claims away are kept.
    """
    spec = map_at(obj, "spec")
    pool = map_at(spec, "pool")
    return ResourceSlice(
        text_at(spec, "driver"),
        text_at(pool, "name"),
        int_of(pool.get("generation")),
        text_at(spec, "nodeName"),
        tuple(_gpus(spec)),
        tuple(_tainted(spec)),
    )


def _tainted(spec: JsonMap) -> Iterator[tuple[str, str]]:
    for item in maps_at(spec, "devices"):
        for taint in maps_at(map_at(item, "basic") or item, "taints"):
            effect = text_at(taint, "effect")
            if effect in ("NoSchedule", "NoExecute"):
                value = f"={text_at(taint, 'value')}" if taint.get("value") else ""
                yield text_at(item, "name"), f"{text_at(taint, 'key')}{value}:{effect}"


NVIDIA_GPUS = "gpu.nvidia.com"
"""The name of NVIDIA's driver for GPUs."""


class SliceGpus(Value):
    """The number of GPUs in one ResourceSlice of NVIDIA's DRA driver, for one node."""

    node: str
    """The name of the node."""
    pool: str
    """The name of the pool of devices."""
    generation: int
    """The generation of the pool. Only the ResourceSlices of the newest generation count."""
    count: int
    """The number of GPUs in the ResourceSlice."""


def read_slice_gpus(obj: JsonMap) -> SliceGpus | None:
    """Count the GPUs of a ResourceSlice.

    Return None unless it is a slice of NVIDIA's driver on a single node.
    """
    part = read_resource_slice(obj)
    if part.driver != NVIDIA_GPUS or not part.node:
        return None
    return SliceGpus(intern(part.node), intern(part.pool), part.generation, len(part.gpus))


S = TypeVar("S", ResourceSlice, SliceGpus)


def newest_of_pools(slices: Sequence[S], pool_of: Callable[[S], Hashable]) -> list[S]:
    """Return the slices of the newest generation of each pool."""
    latest: dict[Hashable, int] = {}
    for part in slices:
        pool = pool_of(part)
        latest[pool] = max(part.generation, latest.get(pool, part.generation))
    return [part for part in slices if part.generation == latest[pool_of(part)]]


def gpus_in(slices: Sequence[SliceGpus]) -> int:
    """Return the number of GPUs in the slices of one node, without outdated slices."""
    return sum(part.count for part in newest_of_pools(slices, lambda part: part.pool))


def _gpus(spec: JsonMap) -> Iterator[str]:
    driver = text_at(spec, "driver")
    for item in maps_at(spec, "devices"):
        device = map_at(item, "basic") or item
        of_type = text_at(map_at(device, "attributes", "type"), "string")
        if _is_gpu(driver, of_type):
            yield text_at(item, "name")

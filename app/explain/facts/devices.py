"""Claims, device classes, ComputeDomains and events."""

import re
from dataclasses import dataclass
from typing import Any

from app.explain.facts.common import NOWHERE, Named, Object, Place, Ref, identity, place
from app.explain.facts.selectors import Term, node_selector_terms
from app.explain.facts.values import at, seconds_since_1970, text, texts
from app.objects.shape import int_of, maps_of

MOST_DEVICES = 32
"""A claim can't have more: https://pkg.go.dev/k8s.io/api/resource/v1#pkg-constants, AllocationResultsMaxSize."""

_DRIVER = re.compile(r"""device\.driver\s*==\s*["']([^"']+)["']""")
_TYPE = re.compile(r"""\.type\s*==\s*["']([^"']+)["']""")


@dataclass(frozen=True, slots=True)
class Consumer:
    """An entry of a claim's `status.reservedFor`."""

    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True)
class ResourceClaim(Named):
    """`classes` has the DeviceClass of each device that it asks for. `devices` are those that it is allocated, and
    `nodes` the terms of the allocation's nodeSelector."""

    kind = "ResourceClaim"
    namespace: str
    name: str
    uid: str = ""
    classes: tuple[str, ...] = ()
    allocated: bool = False
    devices: tuple[Device, ...] = ()
    nodes: tuple[Term, ...] = ()
    consumers: tuple[Consumer, ...] = ()
    place: Place = NOWHERE


@dataclass(frozen=True, slots=True)
class ClaimTemplate:
    namespace: str
    name: str
    classes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """`gpus` is the driver whose GPUs it selects, "" if it selects other devices, or parts of GPUs."""

    name: str
    gpus: str = ""


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """Devices of one pool. `node` is "" unless all are on one node; `gpus` are the names of those that are GPUs."""

    name: str
    driver: str
    pool: str
    generation: int = 0
    node: str = ""
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DomainNode:
    """A node as a ComputeDomain's status, or a ComputeDomainClique, gives it."""

    name: str
    ready: bool


@dataclass(frozen=True, slots=True)
class ComputeDomain(Named):
    kind = "ComputeDomain"
    namespace: str
    name: str
    uid: str = ""
    number: int = 0
    template: str = ""
    ready: bool = False
    nodes: tuple[DomainNode, ...] = ()
    place: Place = NOWHERE
    held_by: tuple[str, ...] = ()
    """The finalizers, if it is being deleted."""


@dataclass(frozen=True, slots=True)
class DomainClique:
    """A ComputeDomainClique: the daemons of one NVLink clique."""

    namespace: str
    name: str
    nodes: tuple[DomainNode, ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """`uid` is that of the object that it is about."""

    uid: str
    about: Ref
    reason: str
    message: str
    time: float | None = None


def resource_claim(obj: Object) -> ResourceClaim:
    metadata, status = at(obj, "metadata"), at(obj, "status")
    allocation = at(status, "allocation")
    results = maps_of(at(allocation, "devices").get("results"))
    return ResourceClaim(
        *identity(metadata),
        classes=_classes(at(obj, "spec")),
        allocated=bool(allocation),
        devices=tuple(
            Device(text(item, "driver"), text(item, "pool"), text(item, "device"))
            for item in results
            if item.get("adminAccess") is not True  # such a claim leaves the device to others
        ),
        nodes=node_selector_terms(at(allocation, "nodeSelector")),
        consumers=tuple(
            Consumer(text(item, "name"), text(item, "uid"))
            for item in maps_of(status.get("reservedFor"))
            if item.get("resource", "pods") == "pods"
        ),
        place=place(metadata),
    )


def claim_template(obj: Object) -> ClaimTemplate:
    return ClaimTemplate(*identity(at(obj, "metadata"))[:2], _classes(at(obj, "spec", "spec")))


def _classes(spec: Object) -> tuple[str, ...]:
    """The DeviceClass of each device; v1beta1 has it on the request itself. Of a request for all devices, one is
    counted. One of several alternatives (`firstAvailable`) need not exist, so those are left out."""
    requests = [at(item, "exactly") or item for item in maps_of(at(spec, "devices").get("requests"))]
    counts = [(text(item, "deviceClassName"), int_of(item.get("count"), 1)) for item in requests]
    return tuple(name for name, count in counts if name for _ in range(min(count, MOST_DEVICES)))


def device_class(obj: Object) -> DeviceClass:
    """Selectors are CEL. They are read for the driver and the type of device that they compare, and not evaluated."""
    selectors = maps_of(at(obj, "spec").get("selectors"))
    expressions = " ".join(text(at(item, "cel"), "expression") for item in selectors)
    driver, of_type = _DRIVER.search(expressions), _TYPE.search(expressions)
    is_gpu = driver is not None and _is_gpu(driver[1], of_type[1] if of_type else "")
    return DeviceClass(text(at(obj, "metadata"), "name"), driver[1] if driver and is_gpu else "")


def resource_slice(obj: Object) -> ResourceSlice:
    spec = at(obj, "spec")
    driver, pool = text(spec, "driver"), at(spec, "pool")
    devices = [(text(item, "name"), at(item, "basic") or item) for item in maps_of(spec.get("devices"))]
    gpus = (name for name, device in devices if _is_gpu(driver, text(at(device, "attributes", "type"), "string")))
    name, generation = text(at(obj, "metadata"), "name"), int_of(pool.get("generation"))
    return ResourceSlice(name, driver, text(pool, "name"), generation, text(spec, "nodeName"), tuple(gpus))


def _is_gpu(driver: str, of_type: str) -> bool:
    """By the names that vendors give their drivers, such as gpu.nvidia.com; a part of a GPU has another type."""
    return driver.startswith("gpu.") and of_type in ("", "gpu")


def compute_domain(obj: Object) -> ComputeDomain:
    metadata, spec, status = at(obj, "metadata"), at(obj, "spec"), at(obj, "status")
    return ComputeDomain(
        *identity(metadata),
        number=int_of(spec.get("numNodes")),
        template=text(at(spec, "channel", "resourceClaimTemplate"), "name"),
        ready=status.get("status") == "Ready",
        nodes=_nodes(status.get("nodes"), "name"),
        place=place(metadata),
        held_by=texts(metadata.get("finalizers")) if metadata.get("deletionTimestamp") else (),
    )


def domain_clique(obj: Object) -> DomainClique:
    return DomainClique(*identity(at(obj, "metadata"))[:2], _nodes(obj.get("daemons"), "nodeName"))


def _nodes(value: Any, name: str) -> tuple[DomainNode, ...]:
    return tuple(DomainNode(text(item, name), item.get("status") == "Ready") for item in maps_of(value))


def event(obj: Object) -> Event:
    """Of events.k8s.io or of the core group."""
    about = at(obj, "regarding") or at(obj, "involvedObject")
    times = (obj.get("deprecatedLastTimestamp"), obj.get("lastTimestamp"), obj.get("eventTime"))
    return Event(
        uid=text(about, "uid"),
        about=Ref(text(about, "kind"), text(about, "namespace"), text(about, "name")),
        reason=text(obj, "reason"),
        message=text(obj, "note") or text(obj, "message"),
        time=next((seconds for value in times if (seconds := seconds_since_1970(value)) is not None), None),
    )

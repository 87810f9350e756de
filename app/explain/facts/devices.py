"""Claims, device classes, ComputeDomains and events."""

import re
from dataclasses import dataclass
from typing import Any

from app.explain.facts.common import Named, Namespaced, Object, Ref, place
from app.explain.facts.fields import each, read
from app.explain.facts.selectors import Term, node_selector_terms
from app.explain.facts.values import at, seconds_since_1970, text, texts
from app.facts.place import Place
from app.objects.shape import int_of, map_of, maps_of

MOST_DEVICES = 32
"""A claim can't have more: https://pkg.go.dev/k8s.io/api/resource/v1#pkg-constants,
AllocationResultsMaxSize.
"""

_DRIVER = re.compile(r"""device\.driver\s*==\s*["']([^"']+)["']""")
_TYPE = re.compile(r"""\.type\s*==\s*["']([^"']+)["']""")


@dataclass(frozen=True, slots=True)
class Consumer:
    """An entry of a claim's `status.reservedFor`."""

    name: str = read("name")
    uid: str = read("uid")


@dataclass(frozen=True, slots=True)
class Device:
    driver: str = read("driver")
    pool: str = read("pool")
    device: str = read("device")


_each_consumer = each(Consumer)
_each_device = each(Device)


def _classes(spec: Any) -> tuple[str, ...]:
    """The DeviceClass of each device; v1beta1 has it on the request itself.

    Of a request for all devices, one is counted. One of several alternatives (`firstAvailable`)
    need not exist, so those are left out.
    """
    requests = [
        at(item, "exactly") or item for item in maps_of(at(map_of(spec), "devices").get("requests"))
    ]
    counts = [(text(item, "deviceClassName"), int_of(item.get("count"), 1)) for item in requests]
    return tuple(name for name, count in counts if name for _ in range(min(count, MOST_DEVICES)))


def _devices(results: Any) -> tuple[Device, ...]:
    """Without those of which the claim only has `adminAccess`: it leaves them to others."""
    return _each_device([item for item in maps_of(results) if item.get("adminAccess") is not True])


def _consumers(reserved_for: Any) -> tuple[Consumer, ...]:
    return _each_consumer(
        [item for item in maps_of(reserved_for) if item.get("resource", "pods") == "pods"]
    )


@dataclass(frozen=True, slots=True)
class ResourceClaim(Namespaced):
    """`classes` has the DeviceClass of each device that it asks for.

    `devices` are those that it is allocated, and `nodes` the terms of the allocation's
    nodeSelector.
    """

    kind = "ResourceClaim"
    classes: tuple[str, ...] = read("spec", of=_classes)
    allocated: bool = read("status", "allocation", of=lambda allocation: bool(map_of(allocation)))
    devices: tuple[Device, ...] = read("status", "allocation", "devices", "results", of=_devices)
    nodes: tuple[Term, ...] = read("status", "allocation", "nodeSelector", of=node_selector_terms)
    consumers: tuple[Consumer, ...] = read("status", "reservedFor", of=_consumers)
    place: Place = read("metadata", "labels", of=place)
    deleting: float | None = read("metadata", "deletionTimestamp", of=seconds_since_1970)


@dataclass(frozen=True, slots=True)
class ClaimTemplate(Namespaced):
    classes: tuple[str, ...] = read("spec", "spec", of=_classes)


def _is_gpu(driver: str, of_type: str) -> bool:
    """By the names that vendors give their drivers, such as gpu.nvidia.com; a part of a GPU has
    another type.
    """
    return driver.startswith("gpu.") and of_type in ("", "gpu")


def _driver_of_gpus(selectors: Any) -> str:
    """Selectors are CEL.

    They are read for the driver and the type of device that they compare, and not evaluated.
    """
    expressions = " ".join(text(at(item, "cel"), "expression") for item in maps_of(selectors))
    driver = _DRIVER.search(expressions)
    of_type = _TYPE.search(expressions)
    return driver[1] if driver and _is_gpu(driver[1], of_type[1] if of_type else "") else ""


@dataclass(frozen=True, slots=True)
class DeviceClass(Named):
    """`gpus` is the driver whose GPUs it selects, "" if it selects other devices, or parts of
    GPUs.
    """

    name: str = read("metadata", "name")
    gpus: str = read("spec", "selectors", of=_driver_of_gpus)


def _gpus(spec: Any) -> tuple[str, ...]:
    devices = [
        (text(item, "name"), at(item, "basic") or item)
        for item in maps_of(map_of(spec).get("devices"))
    ]
    types = [(name, text(at(device, "attributes", "type"), "string")) for name, device in devices]
    return tuple(name for name, of_type in types if _is_gpu(text(spec, "driver"), of_type))


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """Devices of one pool.

    `node` is "" unless all are on one node; `gpus` are the names of those that are GPUs.
    """

    driver: str = read("spec", "driver")
    pool: str = read("spec", "pool", "name")
    generation: int = read("spec", "pool", "generation", of=int_of)
    node: str = read("spec", "nodeName")
    gpus: tuple[str, ...] = read("spec", of=_gpus)


@dataclass(frozen=True, slots=True)
class DomainNode:
    """A node as a ComputeDomain's status, or a ComputeDomainClique, gives it."""

    name: str
    ready: bool


def _nodes(items: Any) -> tuple[DomainNode, ...]:
    """Of a ComputeDomain with `name`, of a ComputeDomainClique with `nodeName`."""
    names = [
        (text(item, "name") or text(item, "nodeName"), item.get("status"))
        for item in maps_of(items)
    ]
    return tuple(DomainNode(name, status == "Ready") for name, status in names)


def _held_by(metadata: Any) -> tuple[str, ...]:
    return texts(metadata.get("finalizers")) if map_of(metadata).get("deletionTimestamp") else ()


@dataclass(frozen=True, slots=True)
class ComputeDomain(Namespaced):
    kind = "ComputeDomain"
    uid: str = read("metadata", "uid")
    number: int = read("spec", "numNodes", of=int_of)
    template: str = read("spec", "channel", "resourceClaimTemplate", "name")
    ready: bool = read("status", "status", of=lambda status: status == "Ready")
    nodes: tuple[DomainNode, ...] = read("status", "nodes", of=_nodes)
    place: Place = read("metadata", "labels", of=place)
    held_by: tuple[str, ...] = read("metadata", of=_held_by)
    """The finalizers, if it is being deleted."""


@dataclass(frozen=True, slots=True)
class DomainClique(Namespaced):
    """A ComputeDomainClique: the daemons of one NVLink clique."""

    nodes: tuple[DomainNode, ...] = read("daemons", of=_nodes)


@dataclass(frozen=True, slots=True)
class Event:
    """`uid` is that of the object that it is about."""

    uid: str
    about: Ref
    reason: str
    message: str
    time: float | None = None


def event(obj: Object) -> Event:
    """Of events.k8s.io or of the core group."""
    about = at(obj, "regarding") or at(obj, "involvedObject")
    times = (obj.get("deprecatedLastTimestamp"), obj.get("lastTimestamp"), obj.get("eventTime"))
    return Event(
        uid=text(about, "uid"),
        about=Ref(text(about, "kind"), text(about, "namespace"), text(about, "name")),
        reason=text(obj, "reason"),
        message=text(obj, "note") or text(obj, "message"),
        time=next(
            (seconds for value in times if (seconds := seconds_since_1970(value)) is not None), None
        ),
    )

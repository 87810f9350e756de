"""Claims, device classes, ComputeDomains and events."""

from dataclasses import dataclass
from typing import Any

from app.explain.facts.common import NOWHERE, Named, Object, Place, Ref, identity, place
from app.explain.facts.selectors import Term, node_selector_terms
from app.explain.facts.values import at, items, number, seconds_since_1970, text


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
    """`nodes` are the terms of its allocation's nodeSelector."""

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
    name: str


@dataclass(frozen=True, slots=True)
class DomainNode:
    """A node as a ComputeDomain's status, or a ComputeDomainClique, gives it."""

    name: str
    ready: bool
    clique: str = ""


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
    results = items(at(allocation, "devices").get("results"))
    return ResourceClaim(
        *identity(metadata),
        classes=_classes(at(obj, "spec")),
        allocated=bool(allocation),
        devices=tuple(Device(text(item, "driver"), text(item, "pool"), text(item, "device")) for item in results),
        nodes=node_selector_terms(at(allocation, "nodeSelector")),
        consumers=tuple(
            Consumer(text(item, "name"), text(item, "uid"))
            for item in items(status.get("reservedFor"))
            if item.get("resource", "pods") == "pods"
        ),
        place=place(metadata),
    )


def claim_template(obj: Object) -> ClaimTemplate:
    return ClaimTemplate(*identity(at(obj, "metadata"))[:2], _classes(at(obj, "spec", "spec")))


def _classes(spec: Object) -> tuple[str, ...]:
    """The DeviceClasses of all requests; v1beta1 has them on the request itself. One of several alternatives
    (`firstAvailable`) need not exist, so those are left out."""
    requests = items(at(spec, "devices").get("requests"))
    names = (text(at(item, "exactly") or item, "deviceClassName") for item in requests)
    return tuple(dict.fromkeys(filter(None, names)))


def device_class(obj: Object) -> DeviceClass:
    return DeviceClass(text(at(obj, "metadata"), "name"))


def compute_domain(obj: Object) -> ComputeDomain:
    metadata, spec, status = at(obj, "metadata"), at(obj, "spec"), at(obj, "status")
    return ComputeDomain(
        *identity(metadata),
        number=number(spec.get("numNodes")),
        template=text(at(spec, "channel", "resourceClaimTemplate"), "name"),
        ready=status.get("status") == "Ready",
        nodes=_nodes(status.get("nodes"), "name"),
        place=place(metadata),
    )


def domain_clique(obj: Object) -> DomainClique:
    return DomainClique(*identity(at(obj, "metadata"))[:2], _nodes(obj.get("daemons"), "nodeName"))


def _nodes(value: Any, name: str) -> tuple[DomainNode, ...]:
    return tuple(
        DomainNode(text(item, name), item.get("status") == "Ready", text(item, "cliqueID")) for item in items(value)
    )


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

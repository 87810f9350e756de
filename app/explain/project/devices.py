"""Claims, device classes, ComputeDomains and events as facts."""

from collections.abc import Mapping
from typing import Any

from app.explain.facts import (
    ClaimTemplate,
    ComputeDomain,
    Consumer,
    Device,
    DeviceClass,
    DomainClique,
    DomainNode,
    Event,
    Ref,
    ResourceClaim,
)
from app.explain.project.pods import place
from app.explain.project.selectors import node_selector_terms
from app.explain.values import at, items, mapping, number, seconds_since_1970, text

Object = Mapping[str, Any]


def resource_claim(obj: Object) -> ResourceClaim:
    metadata, status = mapping(obj.get("metadata")), mapping(obj.get("status"))
    allocation = mapping(status.get("allocation"))
    results = items(at(allocation, "devices").get("results"))
    return ResourceClaim(
        namespace=text(metadata, "namespace"),
        name=text(metadata, "name"),
        uid=text(metadata, "uid"),
        classes=_classes(mapping(obj.get("spec"))),
        allocated=bool(allocation),
        devices=tuple(Device(text(item, "driver"), text(item, "pool"), text(item, "device")) for item in results),
        nodes=node_selector_terms(mapping(allocation.get("nodeSelector"))),
        consumers=tuple(
            Consumer(text(item, "name"), text(item, "uid"))
            for item in items(status.get("reservedFor"))
            if item.get("resource", "pods") == "pods"
        ),
        place=place(metadata),
    )


def claim_template(obj: Object) -> ClaimTemplate:
    metadata = mapping(obj.get("metadata"))
    return ClaimTemplate(text(metadata, "namespace"), text(metadata, "name"), _classes(at(obj, "spec", "spec")))


def _classes(spec: Object) -> tuple[str, ...]:
    """The DeviceClasses of all requests; v1beta1 has them on the request itself. One of several alternatives
    (`firstAvailable`) need not exist, so those are left out."""
    requests = items(at(spec, "devices").get("requests"))
    names = (text(mapping(item.get("exactly")) or item, "deviceClassName") for item in requests)
    return tuple(dict.fromkeys(filter(None, names)))


def device_class(obj: Object) -> DeviceClass:
    return DeviceClass(text(at(obj, "metadata"), "name"))


def compute_domain(obj: Object) -> ComputeDomain:
    metadata, spec, status = (mapping(obj.get(key)) for key in ("metadata", "spec", "status"))
    return ComputeDomain(
        namespace=text(metadata, "namespace"),
        name=text(metadata, "name"),
        uid=text(metadata, "uid"),
        number=number(spec.get("numNodes")),
        template=text(at(spec, "channel", "resourceClaimTemplate"), "name"),
        ready=status.get("status") == "Ready",
        nodes=_nodes(status.get("nodes"), "name"),
        place=place(metadata),
    )


def domain_clique(obj: Object) -> DomainClique:
    metadata = mapping(obj.get("metadata"))
    return DomainClique(text(metadata, "namespace"), text(metadata, "name"), _nodes(obj.get("daemons"), "nodeName"))


def _nodes(value: Any, name: str) -> tuple[DomainNode, ...]:
    return tuple(
        DomainNode(text(item, name), item.get("status") == "Ready", text(item, "cliqueID")) for item in items(value)
    )


def event(obj: Object) -> Event:
    """Of events.k8s.io or of the core group."""
    about = mapping(obj.get("regarding")) or mapping(obj.get("involvedObject"))
    times = (obj.get("deprecatedLastTimestamp"), obj.get("lastTimestamp"), obj.get("eventTime"))
    return Event(
        uid=text(about, "uid"),
        about=Ref(text(about, "kind"), text(about, "namespace"), text(about, "name")),
        reason=text(obj, "reason"),
        message=text(obj, "note") or text(obj, "message"),
        time=next((seconds for value in times if (seconds := seconds_since_1970(value)) is not None), None),
    )

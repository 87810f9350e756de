"""Claims, device classes, ComputeDomains and events."""

from dataclasses import dataclass

from app.explain.facts.common import NOWHERE, Place, Ref, Term


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
class ResourceClaim:
    """`nodes` are the terms of its allocation's nodeSelector."""

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
class ComputeDomain:
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

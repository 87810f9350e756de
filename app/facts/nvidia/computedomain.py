"""ComputeDomains and the cliques of their nodes."""

from typing import Any

from app.base.value import Value
from app.facts.named import Namespaced, read_key
from app.facts.place import NOWHERE, Place, read_place
from app.objects.shape import JsonMap, int_of, map_at, maps_of, text_at, texts_at


class DomainNode(Value):
    """A node as a ComputeDomain's status, or a ComputeDomainClique, gives it."""

    name: str
    ready: bool


class ComputeDomain(Namespaced):
    """A ComputeDomain.

    `number` is that of the nodes that it asks for, and `template` the name of the
    ResourceClaimTemplate that is made for it. `held_by` are its finalizers, if it is being deleted.
    """

    kind = "ComputeDomain"
    uid: str = ""
    number: int = 0
    template: str = ""
    ready: bool = False
    nodes: tuple[DomainNode, ...] = ()
    place: Place = NOWHERE
    held_by: tuple[str, ...] = ()


def read_compute_domain(obj: JsonMap) -> ComputeDomain:
    metadata = map_at(obj, "metadata")
    spec = map_at(obj, "spec")
    status = map_at(obj, "status")
    finalizers = texts_at(metadata, "finalizers") if metadata.get("deletionTimestamp") else ()
    return ComputeDomain(
        *read_key(metadata),
        uid=text_at(metadata, "uid"),
        number=int_of(spec.get("numNodes")),
        template=text_at(map_at(spec, "channel", "resourceClaimTemplate"), "name"),
        ready=status.get("status") == "Ready",
        nodes=_nodes(status.get("nodes")),
        place=read_place(map_at(metadata, "labels")),
        held_by=tuple(finalizers),
    )


class DomainClique(Namespaced):
    """A ComputeDomainClique: the daemons of one NVLink clique."""

    nodes: tuple[DomainNode, ...] = ()


def read_domain_clique(obj: JsonMap) -> DomainClique:
    return DomainClique(*read_key(map_at(obj, "metadata")), _nodes(obj.get("daemons")))


def _nodes(items: Any) -> tuple[DomainNode, ...]:
    """Return the nodes of a ComputeDomain or ComputeDomainClique.

    The former has them with `name`, the latter with `nodeName`.
    """
    nodes: list[DomainNode] = []
    for item in maps_of(items):
        name = text_at(item, "name") or text_at(item, "nodeName")
        nodes.append(DomainNode(name, item.get("status") == "Ready"))

    return tuple(nodes)

"""The lists that one object needs, or one namespace, to be explained.

Each kind is listed once, never once for each workload.
"""

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Iterator

from app.facts import kinds
from app.facts.kubernetes.pod import Pod
from app.facts.labels import SET_SELECTORS
from app.facts.named import Ref
from app.facts.place import read_place
from app.facts.table import CHANNELS, ROOM
from app.kube.api import Object
from app.objects.owners import owners_of
from app.objects.resource import EVENT, NODE, POD, Resource
from app.objects.shape import map_at, maps_at, text_at
from app.stores.listed import Reading

MOST_GETS = 12
"""Without room, so many nodes are read one by one, and not more."""

MOST_OWNERS = 4
"""How far owner references are followed to find the PodCliqueSet of an object without its label."""

TOPOLOGY = (kinds.CLUSTER_TOPOLOGY, kinds.CLUSTER_TOPOLOGY_BINDING, kinds.KAI_TOPOLOGY)
_CLAIMS = (kinds.CLAIM_TEMPLATE, kinds.DEVICE_CLASS, kinds.COMPUTE_DOMAIN, kinds.DOMAIN_CLIQUE)
_WORKLOADS = (kinds.WORKLOAD, kinds.K8S_POD_GROUP)
_OF_SET = (kinds.POD_CLIQUE, kinds.POD_GANG, kinds.POD_GANG_MAP, kinds.POD_GROUP)
_OF_CLUSTER = (POD, kinds.RESOURCE_CLAIM)
"""What other namespaces have of it takes room too."""

_ONLY_FOR_ROOM = (NODE, kinds.RESOURCE_SLICE)

ASKED = {
    resource.kind: resource
    for resource in (
        kinds.POD_CLIQUE_SET,
        kinds.POD_CLIQUE_SCALING_GROUP,
        kinds.POD_CLIQUE,
        kinds.POD_GANG,
        kinds.POD_GROUP,
        kinds.WORKLOAD,
        kinds.COMPUTE_DOMAIN,
        kinds.RESOURCE_CLAIM,
        POD,
    )
}
"""What may be asked about, by its kind."""


async def read_everywhere(reading: Reading, resources: Iterable[Resource]) -> None:
    """Read these resources of the whole cluster."""
    await asyncio.gather(*map(reading.list_everywhere, resources))


async def read_namespace(reading: Reading, namespace: str, *, room: bool) -> None:
    """Read what tells which workloads of a namespace wait and why; of all namespaces for "".

    Without `room`, neither the nodes nor the pods of other namespaces are read.
    """
    resources = [each for each in reading.rows if room or each not in _ONLY_FOR_ROOM]
    await asyncio.gather(*(_of(reading, each, namespace, room=room) for each in resources))
    if not room:
        reading.skip(ROOM)


async def _of(reading: Reading, resource: Resource, namespace: str, *, room: bool) -> None:
    if namespace and room and resource in _OF_CLUSTER:
        await reading.list_everywhere(resource, namespace)
    elif namespace and resource.namespaced:
        await reading.list(resource, namespace)
    else:
        await reading.list_everywhere(resource)


async def read_around(reading: Reading, ref: Ref, *, room: bool) -> None:
    """Read what is needed to explain one object.

    Only nodes, pods and, if the object has claims, ResourceClaims are read for the whole cluster,
    and without `room` not even those.
    """
    namespace = ref.namespace
    pcs = await _set_of(reading, ref)
    await asyncio.gather(*_first_calls(reading, namespace, pcs, room=room))
    if not room:
        reading.skip(ROOM)
        await _some_nodes(reading, namespace)

    await _pod_groups(reading, namespace, pcs)
    await _claims(reading, namespace, everywhere=room)
    await _volumes(reading, namespace)
    pods: Iterable[Pod] = (pod for pod in reading.of("pods") if pod.namespace == namespace)
    if ref.kind == kinds.WORKLOAD.kind or any(pod.workload or pod.workload_group for pod in pods):
        await asyncio.gather(*(reading.list(resource, namespace) for resource in _WORKLOADS))


def _first_calls(
    reading: Reading,
    namespace: str,
    pcs: str,
    *,
    room: bool,
) -> Iterator[Awaitable[object]]:
    """Yield what is read whatever the pods turn out to be."""
    for resource in (*TOPOLOGY, kinds.QUEUE, kinds.PRIORITY_CLASS):
        yield reading.list(resource)
    for resource in _OF_SET:
        yield _of_set(reading, resource, namespace, pcs)
    if pcs:
        yield reading.get(kinds.POD_CLIQUE_SET, pcs, namespace)
    yield reading.list(EVENT, namespace)

    if room:
        yield reading.list(NODE)
        yield reading.list_everywhere(POD, namespace)
    else:
        yield _of_set(reading, POD, namespace, pcs)


async def _set_of(reading: Reading, ref: Ref) -> str:
    """Return the name of the PodCliqueSet that the object belongs to, by its labels.

    "" if there is none.
    """
    if ref.kind == kinds.POD_CLIQUE_SET.kind:
        return ref.name

    name = ref.name
    kind = ref.kind
    for _ in range(MOST_OWNERS):
        obj = await reading.get(ASKED[kind], name, ref.namespace)
        if obj is None:
            return ""
        pcs = read_place(map_at(obj, "metadata", "labels")).pcs
        above = _above(obj)
        if pcs or above is None:
            return pcs
        kind, name = above

    return ""


def _above(obj: Object) -> tuple[str, str] | None:
    """Return an owner that may have the label, or a pod that has reserved a claim.

    It is given as its kind and its name. None if there is neither.
    """
    owners = [(owner.kind, owner.name) for owner in owners_of(obj)]
    consumers = [
        ("Pod", text_at(consumer, "name")) for consumer in maps_at(obj, "status", "reservedFor")
    ]
    return next((above for above in (*owners, *consumers) if above[0] in ASKED), None)


async def _of_set(reading: Reading, resource: Resource, namespace: str, pcs: str) -> None:
    """Read the objects of a set by its label; without a set, all of the namespace."""
    if not pcs:
        await reading.list(resource, namespace)
        return
    for selector in SET_SELECTORS:
        number = await reading.list(resource, namespace, selector=selector.format(pcs))
        if number or reading.is_absent(resource):
            return


async def _some_nodes(reading: Reading, namespace: str) -> None:
    """Read the nodes that the pods are on, if they are few."""
    names = sorted(
        {pod.node for pod in reading.of("pods") if pod.namespace == namespace and pod.node}
    )
    if len(names) <= MOST_GETS:
        await asyncio.gather(*(reading.get(NODE, name) for name in names))
    reading.skip("nodes")


async def _pod_groups(reading: Reading, namespace: str, pcs: str) -> None:
    """Read the KAI PodGroups that pods of the set name and that don't have its label."""
    if not pcs:
        return
    known = {group.name for group in reading.of("pod_groups")}
    own = (pod for pod in reading.of("pods") if (pod.namespace, pod.place.pcs) == (namespace, pcs))
    missing = sorted({pod.group for pod in own if pod.group} - known)
    if len(missing) <= MOST_GETS:
        await asyncio.gather(*(reading.get(kinds.POD_GROUP, name, namespace) for name in missing))
    else:
        reading.of("pod_groups").clear()
        await reading.list(kinds.POD_GROUP, namespace)


async def _claims(reading: Reading, namespace: str, *, everywhere: bool) -> None:
    """Read claims and what they need, if pods of the namespace have any.

    Claims of other namespaces hold channels of nodes too. Without `everywhere`, pods that have
    reserved a claim are read one by one.
    """
    users = [*reading.of("pods"), *reading.of("cliques")]
    if not any(user.claims for user in users if user.namespace == namespace):
        return

    read_claims = reading.list_everywhere if everywhere else reading.list
    await asyncio.gather(
        *(
            reading.list(resource, namespace if resource.namespaced else None)
            for resource in _CLAIMS
        ),
        read_claims(kinds.RESOURCE_CLAIM, namespace),
    )
    if everywhere:
        await reading.list(kinds.RESOURCE_SLICE)
        return

    reading.skip(CHANNELS)
    used = {claim.claim for user in users for claim in user.claims}
    await _consumers(reading, namespace, used)


async def _consumers(reading: Reading, namespace: str, used: Collection[str]) -> None:
    """Read the pods that have reserved one of the claims `used`, if they are few."""
    claims = [claim for claim in reading.of("claims") if claim.name in used]
    known = {pod.name for pod in reading.of("pods")}
    names = {consumer.name for claim in claims for consumer in claim.consumers} - known
    await asyncio.gather(*(reading.get(POD, name, namespace) for name in sorted(names)[:MOST_GETS]))


async def _volumes(reading: Reading, namespace: str) -> None:
    """Read the claims of volumes, if pods that wait in the namespace have any."""
    pods = (pod for pod in reading.of("pods") if pod.namespace == namespace and not pod.node)
    if any(pod.volumes for pod in pods):
        await asyncio.gather(
            reading.list(kinds.VOLUME_CLAIM, namespace),
            reading.list(kinds.STORAGE_CLASS),
        )

"""Reads facts from a cluster: one list of each kind, never one for each workload, and only GET requests.

Objects become facts as pages arrive, so that only what is needed of them is kept. What may not be read is noted, with
the cause, and the rest is read all the same.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

from app.explain.facts import BY_RESOURCE, CHANNELS, ROOM, Facts, projected
from app.explain.facts.common import Ref, place
from app.explain.facts.pods import Pod
from app.explain.facts.values import at, items, text
from app.explain.reading import PAGE, Reading, collector_paused, facts_from
from app.kube.api import Object, Reader
from app.objects.resource import EVENT, NODE, POD, Resource
from app.rules.kinds import (
    CLAIM_TEMPLATE,
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    COMPUTE_DOMAIN,
    DEVICE_CLASS,
    DOMAIN_CLIQUE,
    K8S_POD_GROUP,
    KAI_TOPOLOGY,
    POD_CLIQUE,
    POD_CLIQUE_SCALING_GROUP,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GROUP,
    QUEUE,
    RESOURCE_CLAIM,
    WORKLOAD,
)

MOST_GETS = 12
"""Without room, so many nodes are read one by one, and not more."""

MOST_OWNERS = 4
"""How far owner references are followed to find the PodCliqueSet of an object without its label."""

SELECTORS = ("app.kubernetes.io/part-of={}", "grove.io/pcs-name={}")
"""How the objects of a PodCliqueSet are labelled: by Grove's operator, and in the designs."""

TOPOLOGY = (CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING, KAI_TOPOLOGY)
CLAIMS = (CLAIM_TEMPLATE, DEVICE_CLASS, COMPUTE_DOMAIN, DOMAIN_CLIQUE)
WORKLOADS = (WORKLOAD, K8S_POD_GROUP)
OBJECTS = {
    resource.kind: resource
    for resource in (
        POD_CLIQUE_SET,
        POD_CLIQUE_SCALING_GROUP,
        POD_CLIQUE,
        POD_GANG,
        POD_GROUP,
        WORKLOAD,
        POD,
        RESOURCE_CLAIM,
        COMPUTE_DOMAIN,
    )
}


async def read_for(client: Reader, ref: Ref, *, room: bool, now: float, page: int = PAGE) -> tuple[Facts, Reading]:
    """What is needed to explain one object. Only nodes, pods and, if the object has claims, ResourceClaims are read for
    the whole cluster, and without `room` not even those."""
    reading = Reading(client, page)
    with collector_paused():
        await _read_for(reading, ref, room=room)
    return reading.facts(now), reading


async def _read_for(reading: Reading, ref: Ref, *, room: bool) -> None:
    pcs = await _set_of(reading, ref)
    await asyncio.gather(
        *(reading.list(resource) for resource in (*TOPOLOGY, QUEUE)),
        *(_of_set(reading, resource, ref.namespace, pcs) for resource in (POD_CLIQUE, POD_GANG, POD_GROUP)),
        _the_set(reading, ref.namespace, pcs),
        reading.list(EVENT, ref.namespace),
        _pods(reading, ref.namespace, pcs, room=room),
        *([reading.list(NODE)] if room else []),
    )
    if not room:
        await _some_nodes(reading, ref.namespace)
    await _pod_groups(reading, ref.namespace, pcs)
    await _claims(reading, ref.namespace, all_pods=room)
    await _workloads(reading, ref)


async def _the_set(reading: Reading, namespace: str, pcs: str) -> None:
    if pcs:
        await reading.get(POD_CLIQUE_SET, pcs, namespace)


async def _set_of(reading: Reading, ref: Ref) -> str:
    """The name of the PodCliqueSet that the object belongs to, by its labels; "" if there is none."""
    if ref.kind == POD_CLIQUE_SET.kind:
        return ref.name
    name, kind = ref.name, ref.kind
    for _ in range(MOST_OWNERS):
        obj = await reading.get(OBJECTS[kind], name, ref.namespace)
        if obj is None:
            return ""
        pcs = place(obj["metadata"]).pcs
        above = _above(obj)
        if pcs or above is None:
            return pcs
        kind, name = above
    return ""


def _above(obj: Object) -> tuple[str, str] | None:
    """(kind, name) of an owner that may have the label, or of a pod that has reserved a claim."""
    owners = [(owner.get("kind", ""), owner.get("name", "")) for owner in items(obj["metadata"].get("ownerReferences"))]
    consumers = [("Pod", text(consumer, "name")) for consumer in items(at(obj, "status").get("reservedFor"))]
    return next((above for above in (*owners, *consumers) if above[0] in OBJECTS), None)


async def _of_set(reading: Reading, resource: Resource, namespace: str, pcs: str) -> None:
    """The objects of a set by its label; without a set, all of the namespace."""
    if not pcs:
        await reading.list(resource, namespace)
        return
    for selector in SELECTORS:
        if await reading.list(resource, namespace, selector=selector.format(pcs)):
            return


async def _pods(reading: Reading, namespace: str, pcs: str, *, room: bool) -> None:
    """All pods, so that room can be counted; else those of the set."""
    if room and await reading.list_everywhere(POD):
        return
    if room:
        reading.not_seen(ROOM, "no right to list pods of all namespaces")
    else:
        reading.skip(ROOM)
    await _of_set(reading, POD, namespace, pcs)


async def _some_nodes(reading: Reading, namespace: str) -> None:
    """The nodes that the pods are on, if they are few."""
    names = sorted({pod.node for pod in reading.of("pods") if pod.namespace == namespace and pod.node})
    if len(names) <= MOST_GETS:
        await asyncio.gather(*(reading.get(NODE, name) for name in names))
    reading.skip("nodes")


async def _pod_groups(reading: Reading, namespace: str, pcs: str) -> None:
    """The KAI PodGroups that pods of the set name and that don't have its label."""
    if not pcs:
        return
    known = {group.name for group in reading.of("pod_groups")}
    own = (pod for pod in reading.of("pods") if (pod.namespace, pod.place.pcs) == (namespace, pcs))
    missing = sorted({pod.group for pod in own if pod.group} - known)
    if len(missing) <= MOST_GETS:
        await asyncio.gather(*(reading.get(POD_GROUP, name, namespace) for name in missing))
    else:
        reading.clear(POD_GROUP)
        await reading.list(POD_GROUP, namespace)


async def _claims(reading: Reading, namespace: str, *, all_pods: bool) -> None:
    """Claims and what they need, if pods of the namespace have any."""
    users = [*reading.of("pods"), *reading.of("cliques")]
    if not any(user.claims for user in users if user.namespace == namespace):
        return
    await asyncio.gather(
        *(reading.list(r, namespace if r.namespaced else None) for r in CLAIMS),
        _all_claims(reading, namespace, everywhere=all_pods),
    )
    if all_pods:
        return
    known = {pod.name for pod in reading.of("pods")}
    used = {claim.claim for user in users for claim in user.claims}
    consumers = {c.name for claim in reading.of("claims") if claim.name in used for c in claim.consumers}
    await asyncio.gather(*(reading.get(POD, name, namespace) for name in sorted(consumers - known)[:MOST_GETS]))


async def _all_claims(reading: Reading, namespace: str, *, everywhere: bool) -> None:
    """Claims of other namespaces hold channels of nodes too."""
    if not everywhere:
        reading.skip(CHANNELS)
    elif await reading.list_everywhere(RESOURCE_CLAIM):
        return
    else:
        reading.not_seen(CHANNELS, "no right to list ResourceClaims of all namespaces")
    await reading.list(RESOURCE_CLAIM, namespace)


async def _workloads(reading: Reading, ref: Ref) -> None:
    pods: Iterable[Pod] = (pod for pod in reading.of("pods") if pod.namespace == ref.namespace)
    if ref.kind == WORKLOAD.kind or any(pod.workload or pod.workload_group for pod in pods):
        await asyncio.gather(*(reading.list(resource, ref.namespace) for resource in WORKLOADS))


async def read_all(
    client: Reader, namespaces: Sequence[str], *, now: float, page: int = PAGE, only: Iterable[Resource] = BY_RESOURCE
) -> tuple[Facts, Reading]:
    """Every kind once for the whole cluster, or else for those of `namespaces` that may be read."""
    reading = Reading(client, page)
    with collector_paused():
        await asyncio.gather(*(reading.list_in(resource, namespaces) for resource in only))
    return reading.facts(now), reading


def facts_of(documents: Iterable[Object], now: float) -> Facts:
    """Facts of files. Kinds of which there is no document are not judged."""
    documents = list(documents)
    facts = projected(documents)
    fields = {projection.field for projection in BY_RESOURCE.values()}
    rooms = set() if {"nodes", "pods"} <= facts.keys() else {ROOM, CHANNELS}
    return replace(facts_from(facts), skipped=frozenset((fields - facts.keys()) | rooms), now=now)

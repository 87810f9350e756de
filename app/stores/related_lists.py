"""Read the lists that are needed to explain one object, or the pending workloads of a namespace.

The number of lists does not depend on the number of workloads.
"""

import asyncio
from collections.abc import Iterable, Iterator

from app.facts import kinds
from app.facts.identity import Ref
from app.facts.labels import KUEUE, SET_SELECTORS
from app.facts.rows import ROOM
from app.facts.workload_of_pod import WORKLOAD_KINDS
from app.objects.resource import EVENT, JOB, NODE, POD, Resource
from app.stores.list_reader import Reading

TOPOLOGY = (kinds.CLUSTER_TOPOLOGY, kinds.CLUSTER_TOPOLOGY_BINDING, kinds.KAI_TOPOLOGY)
_OF_CLAIMS = (
    kinds.RESOURCE_CLAIM,
    kinds.CLAIM_TEMPLATE,
    kinds.DEVICE_CLASS,
    kinds.RESOURCE_SLICE,
    kinds.COMPUTE_DOMAIN,
    kinds.DOMAIN_CLIQUE,
)
_OF_VOLUMES = (kinds.VOLUME_CLAIM, kinds.STORAGE_CLASS)
_OF_KUEUE = (kinds.KUEUE_WORKLOAD, kinds.KUEUE_QUEUE, kinds.CLUSTER_QUEUE)
_OF_CLUSTER = (POD, kinds.RESOURCE_CLAIM, kinds.POD_GROUP)
"""The kinds whose objects in other namespaces use capacity too, or come earlier in KAI's order."""

_ONLY_FOR_ROOM = (NODE, kinds.RESOURCE_SLICE)
"""The kinds that are needed only to find free capacity."""

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
        *WORKLOAD_KINDS,
    )
}
"""The resources of objects that users can ask about, by kind."""

_NAMESAKES = {kinds.RAY_JOB.kind: JOB, kinds.TRAIN_JOB.kind: kinds.JOB_SET}
"""The resource that the controller of a workload creates with the same name, by kind.

It is the Job that submits a Ray job, and the JobSet of a TrainJob. Their status is read too.
"""


async def read_everywhere(reading: Reading, resources: Iterable[Resource]) -> None:
    """Read the objects of `resources` in all namespaces."""
    await asyncio.gather(*map(reading.list_everywhere, resources))


async def read_namespace(
    reading: Reading, namespace: str, *, room: bool, asked: Ref | None = None
) -> None:
    """Read the facts that explain `asked`, or the pending workloads of `namespace` ("" for all).

    Without `room`, skip what is needed only to find free capacity: nodes, ResourceSlices, and the
    pods, claims and PodGroups of other namespaces. If `asked` is a PodCliqueSet, also skip the
    PodCliques of other sets.
    """

    async def read(resources: Iterable[Resource]) -> None:
        reads = (_read(reading, resource, namespace, room, asked) for resource in resources)
        await asyncio.gather(*reads)

    later = {*_OF_CLAIMS, *_OF_VOLUMES, kinds.VOLUME, *_OF_KUEUE, *WORKLOAD_KINDS}
    await read(resource for resource in reading.rows if resource not in later)
    if asked and asked.kind in {resource.kind for resource in WORKLOAD_KINDS}:
        await reading.list_one(ASKED[asked.kind], asked.namespace, asked.name)
        if asked.kind in _NAMESAKES:
            await reading.list_one(_NAMESAKES[asked.kind], asked.namespace, asked.name)
    needed = list(_needed(reading, namespace, asked))
    await read(needed)
    if reading.of("kueue_workloads"):
        await read(resource for resource in _OF_KUEUE if resource not in needed)
    if _names_volumes(reading):
        await reading.list_everywhere(kinds.VOLUME)
    for elsewhere in sorted(_scaling_namespaces(reading, namespace)):
        await reading.list(EVENT, elsewhere)
    if not room:
        reading.skip(ROOM)


async def _read(
    reading: Reading, resource: Resource, namespace: str, room: bool, asked: Ref | None
) -> None:
    """Read the objects of `resource` that `read_namespace` needs."""
    if resource in _ONLY_FOR_ROOM and not room:
        return

    of_set = asked if resource == kinds.POD_CLIQUE else None
    if of_set and of_set.kind == kinds.POD_CLIQUE_SET.kind:
        await _cliques_of(reading, of_set)
    elif not namespace or not resource.namespaced:
        await reading.list_everywhere(resource)
    elif room and resource in _OF_CLUSTER:
        await reading.list_everywhere(resource, namespace)
    else:
        await reading.list(resource, namespace)


async def _cliques_of(reading: Reading, pcs: Ref) -> None:
    """Read the PodCliques of one set, by its label.

    The other PodCliques of the namespace, which may be very many, are not read.
    """
    for selector in SET_SELECTORS:
        await reading.list(kinds.POD_CLIQUE, pcs.namespace, selector=selector.format(pcs.name))
        if reading.of("cliques"):
            return


def _scaling_namespaces(reading: Reading, namespace: str) -> set[str]:
    """Return the other namespaces with KAI's scaling pods, whose events must be read too.

    The result is empty unless a pending pod of `namespace` requests a GPU fraction: an autoscaler's
    event about a scaling pod concerns all such pods.
    """
    pods = reading.of("pods")
    if not namespace or not any(
        pod.shape.part and not pod.node and pod.namespace == namespace for pod in pods
    ):
        return set()
    return {pod.namespace for pod in pods if pod.scales_for is not None} - {namespace}


def _needed(reading: Reading, namespace: str, asked: Ref | None) -> Iterator[Resource]:
    """Yield the resources of claims, volumes and Kueue that the workloads may use."""
    pods = [pod for pod in reading.of("pods") if namespace in ("", pod.namespace)]
    has_claims = any(user.claims for user in (*pods, *reading.of("cliques"))) or any(
        pcs.asks_mnnvl for pcs in reading.of("sets") if namespace in ("", pcs.namespace)
    )
    if has_claims or (asked and ASKED[asked.kind] in _OF_CLAIMS):
        yield from _OF_CLAIMS
    if any(pod.volumes and not pod.node for pod in pods):
        yield from _OF_VOLUMES
    gangs = [gang for gang in reading.of("gangs") if namespace in ("", gang.namespace)]
    of_kueue = any(pod.queued for pod in pods) or any(gang.scheduler == KUEUE for gang in gangs)
    if of_kueue or (asked and _may_be_suspended(reading, asked)):
        yield from _OF_KUEUE
    elif asked is None:
        yield kinds.KUEUE_WORKLOAD  # a workload that Kueue suspends may have no pods and no events


def _names_volumes(reading: Reading) -> bool:
    """Return whether PersistentVolumes must be read.

    They are needed if a claim of a pending pod has a volume, or may get one that was created by
    hand.
    """
    named = {
        (pod.namespace, name)
        for pod in reading.of("pods")
        if not pod.node and pod.is_alive
        for name in pod.volumes
    }
    claims = [claim for claim in reading.of("volume_claims") if claim.key in named]
    by_hand = any(not known.provisions for known in reading.of("storage_classes"))
    return any(claim.volume or by_hand for claim in claims)


def _may_be_suspended(reading: Reading, asked: Ref) -> bool:
    """Return whether `asked` is a workload without pods, which Kueue may have suspended."""
    is_workload = asked.kind in {resource.kind for resource in WORKLOAD_KINDS}
    return is_workload and not any(asked in pod.made_for for pod in reading.of("pods"))

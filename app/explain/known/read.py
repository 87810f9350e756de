"""The reader of facts of a cluster.

It lists each kind once, never once for each workload, and sends only GET requests.

Objects become facts as pages arrive, so that only what is needed of them is kept. What may not be
read is noted, with the cause, and the rest is read all the same.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from app.explain.known.kinds import KINDS
from app.explain.known.snapshot import BY_RESOURCE, CHANNELS, RESOURCES, ROOM, Snapshot, projected
from app.facts import kinds
from app.facts.kubernetes.pod import Pod
from app.facts.labels import SET_SELECTORS
from app.facts.named import Ref
from app.facts.place import read_place
from app.kube.api import ClusterError, NotFound, Object, ObjectRef, Reader, Selection
from app.kube.pages import pages
from app.objects.resource import EVENT, NODE, POD, Resource
from app.objects.shape import map_at, maps_of, text_at
from app.stores.collector import paused

PAGE = 500
MOST_GETS = 12
"""Without room, so many nodes are read one by one, and not more."""

MOST_OWNERS = 4
"""How far owner references are followed to find the PodCliqueSet of an object without its label."""

TOPOLOGY = (kinds.CLUSTER_TOPOLOGY, kinds.CLUSTER_TOPOLOGY_BINDING, kinds.KAI_TOPOLOGY)
_CLAIMS = (kinds.CLAIM_TEMPLATE, kinds.DEVICE_CLASS, kinds.COMPUTE_DOMAIN, kinds.DOMAIN_CLIQUE)
_WORKLOADS = (kinds.WORKLOAD, kinds.K8S_POD_GROUP)
_OF_SET = (kinds.POD_CLIQUE, kinds.POD_GANG, kinds.POD_GANG_MAP, kinds.POD_GROUP)
_OBJECTS = {
    resource.kind: resource
    for resource in RESOURCES
    if resource.kind in KINDS.values() and resource != kinds.K8S_POD_GROUP
}
"""What may be asked about, by its kind."""
_OF_ALL_NAMESPACES = {POD: ROOM, kinds.RESOURCE_CLAIM: CHANNELS}
"""What isn't known unless the objects of all namespaces are."""


class Reading:
    """Facts as they come in."""

    def __init__(self, client: Reader, page: int = PAGE) -> None:
        self._client = client
        self._page = page
        self._facts: dict[str, list[Any]] = {row.name: [] for row in BY_RESOURCE.values()}
        self._unseen: dict[str, str] = {}
        self._skipped: set[str] = set()
        self._got: set[str] = set()
        self._served: set[str] = set()
        self._absent: set[str] = set()

    def facts(self, now: float) -> Snapshot:
        """Return what was read; a kind that was not asked for counts as skipped."""
        absent = self._absent - self._served
        unread = self._facts.keys() - self._served - self._absent
        # An object that was read by itself may be in a list too.
        for name in self._got:
            self._facts[name] = list({fact.ref: fact for fact in self._facts[name]}.values())

        return Snapshot(
            **{name: tuple(facts) for name, facts in self._facts.items()},
            unseen=dict(self._unseen),
            skipped=frozenset((unread | self._skipped) - absent - self._unseen.keys()),
            absent=frozenset(absent),
            now=now,
        )

    def of(self, field: str) -> list[Any]:
        return self._facts[field]

    def skip(self, field: str) -> None:
        self._skipped.add(field)

    async def list(
        self, resource: Resource, namespace: str | None = None, *, selector: str = ""
    ) -> int:
        """Read a list; gives the number of objects. What goes wrong is noted."""
        field = BY_RESOURCE[resource].name
        before = len(self._facts[field])
        error = await self._try(resource, namespace, selector)
        if error is not None:
            self._unseen.setdefault(field, cause(error))
        return len(self._facts[field]) - before

    async def list_everywhere(self, resource: Resource, namespace: str | None = None) -> None:
        """List all namespaces, or else the one namespace if that may be read."""
        error = await self._try(resource, None)
        if error is None:
            return
        if resource in _OF_ALL_NAMESPACES:
            why = (
                f"{cause(error)} {resource.plural} of all namespaces"
                if error.code == 403
                else cause(error)
            )
            self._unseen[_OF_ALL_NAMESPACES[resource]] = why

        if error.code == 403 and namespace is not None:
            error = await self._try(resource, namespace)
        if error is not None:
            self._unseen.setdefault(BY_RESOURCE[resource].name, cause(error))

    async def _try(
        self, resource: Resource, namespace: str | None, selector: str = ""
    ) -> ClusterError | None:
        """Return the error that ended a list.

        None for none, and for a resource that isn't served.
        """
        row = BY_RESOURCE[resource]
        facts = self._facts[row.name]
        try:
            async for page in pages(
                self._client, Selection(resource, namespace, labels=selector), limit=self._page
            ):
                facts += map(row.read, page.items)
            self._served.add(row.name)
        except NotFound:
            self._absent.add(row.name)
        except ClusterError as error:
            return error

        return None

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None
    ) -> Object | None:
        """Return one object, which becomes a fact too if its kind is one of the facts.

        None if it doesn't exist.
        """
        row = BY_RESOURCE.get(resource)
        try:
            obj = await self._client.get(ObjectRef(resource, name, namespace))
        except NotFound as error:
            if row is not None:
                (self._absent if error.no_resource else self._served).add(row.name)
            return None
        except ClusterError as error:
            if row is not None:
                self._unseen.setdefault(row.name, cause(error))
            return None

        if row is not None:
            self._served.add(row.name)
            self._got.add(row.name)
            self._facts[row.name].append(row.read(obj))

        return obj


async def read_for(
    client: Reader, ref: Ref, *, room: bool, now: float, page: int = PAGE
) -> Snapshot:
    """Return what is needed to explain one object.

    Only nodes, pods and, if the object has claims, ResourceClaims are read for the whole cluster,
    and without `room` not even those.
    """
    reading = Reading(client, page)
    with paused():
        await _read_for(reading, ref, room=room)
    return reading.facts(now)


async def _read_for(reading: Reading, ref: Ref, *, room: bool) -> None:
    namespace = ref.namespace
    pcs = await _set_of(reading, ref)
    await asyncio.gather(
        *(
            reading.list(resource)
            for resource in (
                *TOPOLOGY,
                kinds.QUEUE,
                kinds.PRIORITY_CLASS,
                *((NODE,) if room else ()),
            )
        ),
        *(_of_set(reading, resource, namespace, pcs) for resource in _OF_SET),
        *((reading.get(kinds.POD_CLIQUE_SET, pcs, namespace),) if pcs else ()),
        reading.list(EVENT, namespace),
        reading.list_everywhere(POD, namespace) if room else _of_set(reading, POD, namespace, pcs),
    )
    if not room:
        reading.skip(ROOM)
        await _some_nodes(reading, namespace)

    await _pod_groups(reading, namespace, pcs)
    await _claims(reading, namespace, everywhere=room)
    await _volumes(reading, namespace)
    pods: Iterable[Pod] = (pod for pod in reading.of("pods") if pod.namespace == namespace)
    if ref.kind == kinds.WORKLOAD.kind or any(pod.workload or pod.workload_group for pod in pods):
        await asyncio.gather(*(reading.list(resource, namespace) for resource in _WORKLOADS))


async def _set_of(reading: Reading, ref: Ref) -> str:
    """Return the name of the PodCliqueSet that the object belongs to, by its labels.

    "" if there is none.
    """
    if ref.kind == kinds.POD_CLIQUE_SET.kind:
        return ref.name

    name = ref.name
    kind = ref.kind
    for _ in range(MOST_OWNERS):
        obj = await reading.get(_OBJECTS[kind], name, ref.namespace)
        if obj is None:
            return ""
        pcs = read_place(obj["metadata"].get("labels")).pcs
        above = _above(obj)
        if pcs or above is None:
            return pcs
        kind, name = above

    return ""


def _above(obj: Object) -> tuple[str, str] | None:
    """(kind, name) of an owner that may have the label, or of a pod that has reserved a claim."""
    owners = [
        (text_at(o, "kind"), text_at(o, "name"))
        for o in maps_of(obj["metadata"].get("ownerReferences"))
    ]
    consumers = [
        ("Pod", text_at(consumer, "name"))
        for consumer in maps_of(map_at(obj, "status").get("reservedFor"))
    ]
    return next((above for above in (*owners, *consumers) if above[0] in _OBJECTS), None)


async def _of_set(reading: Reading, resource: Resource, namespace: str, pcs: str) -> None:
    """Return the objects of a set by its label; without a set, all of the namespace."""
    if not pcs:
        await reading.list(resource, namespace)
        return
    for selector in SET_SELECTORS:
        if await reading.list(resource, namespace, selector=selector.format(pcs)):
            return


async def _some_nodes(reading: Reading, namespace: str) -> None:
    """Return the nodes that the pods are on, if they are few."""
    names = sorted(
        {pod.node for pod in reading.of("pods") if pod.namespace == namespace and pod.node}
    )
    if len(names) <= MOST_GETS:
        await asyncio.gather(*(reading.get(NODE, name) for name in names))
    reading.skip("nodes")


async def _pod_groups(reading: Reading, namespace: str, pcs: str) -> None:
    """Return the KAI PodGroups that pods of the set name and that don't have its label."""
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
    """Claims and what they need, if pods of the namespace have any.

    Claims of other namespaces hold channels of nodes too. Without `everywhere`, pods that have
    reserved a claim are read one by one.
    """
    users = [*reading.of("pods"), *reading.of("cliques")]
    if not any(user.claims for user in users if user.namespace == namespace):
        return

    await asyncio.gather(
        *(
            reading.list(resource, namespace if resource.namespaced else None)
            for resource in _CLAIMS
        ),
        (
            reading.list_everywhere(kinds.RESOURCE_CLAIM, namespace)
            if everywhere
            else reading.list(kinds.RESOURCE_CLAIM, namespace)
        ),
    )
    if everywhere:
        await reading.list(kinds.RESOURCE_SLICE)
        return

    reading.skip(CHANNELS)
    known = {pod.name for pod in reading.of("pods")}
    used = {claim.claim for user in users for claim in user.claims}
    consumers = {
        c.name for claim in reading.of("claims") if claim.name in used for c in claim.consumers
    }
    await asyncio.gather(
        *(reading.get(POD, name, namespace) for name in sorted(consumers - known)[:MOST_GETS])
    )


async def _volumes(reading: Reading, namespace: str) -> None:
    """Volumes, if pods that wait in the namespace have any."""
    pods = (pod for pod in reading.of("pods") if pod.namespace == namespace and not pod.node)
    if any(pod.volumes for pod in pods):
        await asyncio.gather(
            reading.list(kinds.VOLUME_CLAIM, namespace),
            reading.list(kinds.VOLUME),
            reading.list(kinds.STORAGE_CLASS),
        )


async def read_all(
    client: Reader, *, now: float, page: int = PAGE, only: Iterable[Resource] = BY_RESOURCE
) -> Snapshot:
    """Every kind once, for the whole cluster."""
    reading = Reading(client, page)
    with paused():
        await asyncio.gather(*(reading.list_everywhere(resource) for resource in only))
    return reading.facts(now)


def facts_of(documents: Iterable[Object], now: float) -> Snapshot:
    """Facts of files. Kinds of which there is no document are not judged."""
    facts = projected(documents)
    missing = {row.name for row in BY_RESOURCE.values()} - facts.keys()
    wide = set() if {"nodes", "pods"} <= facts.keys() else {ROOM, CHANNELS}
    values: dict[str, Any] = {name: tuple(values) for name, values in facts.items()}
    return Snapshot(**values, skipped=frozenset(missing | wide), now=now)


def cause(error: ClusterError) -> str:
    """Return why a list could not be read, in a few words."""
    return "no right to list" if error.code == 403 else error.message

"""Reads facts from a cluster: one list of each kind, never one for each workload, and only GET requests.

Objects become facts as pages arrive, so that only what is needed of them is kept. What may not be read is noted, with
the cause, and the rest is read all the same.
"""

import asyncio
import contextlib
import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.explain.facts import CHANNELS, ROOM, Facts, Pod, Ref
from app.explain.project import BY_RESOURCE, projected
from app.explain.project.pods import place
from app.explain.resources import (
    CLAIM_TEMPLATE,
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    COMPUTE_DOMAIN,
    DEVICE_CLASS,
    DOMAIN_CLIQUE,
    EVENT,
    K8S_POD_GROUP,
    KAI_TOPOLOGY,
    NODE,
    POD,
    POD_CLIQUE,
    POD_CLIQUE_SCALING_GROUP,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GROUP,
    QUEUE,
    RESOURCE_CLAIM,
    WORKLOAD,
    Resource,
)
from app.explain.values import at, items, text
from app.kube.api import ClusterError, Forbidden, NotFound, NotServed, Object
from app.kube.pages import pages
from app.kube.readonly import Reader

PAGE = 500
AT_ONCE = 100
"""After so many objects others get their turn. Decoding a page can't be divided: so pages are small if that matters."""

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


class Reading:
    """Facts as they come in. `lists` counts lists and `gets` single reads, for people who care for their API server."""

    def __init__(self, client: Reader, page: int = PAGE) -> None:
        self.lists = self.gets = 0
        self._client, self._page = client, page
        self._facts: dict[str, list[Any]] = {}
        self._unseen: dict[str, str] = {}
        self._skipped: set[str] = set()
        self._single: set[str] = set()
        self._absent: set[Resource] = set()
        self._read: set[Resource] = set()

    def facts(self, now: float) -> Facts:
        """What was read; a kind that no list was made of counts as skipped."""
        of_field: dict[str, list[Resource]] = {}
        for resource, projection in BY_RESOURCE.items():
            of_field.setdefault(projection.field, []).append(resource)
        absent = {name for name, resources in of_field.items() if all(r in self._absent for r in resources)}
        unread = {name for name, resources in of_field.items() if not any(r in self._read for r in resources)}
        return replace(
            _facts(self._facts | {field: _distinct(self._facts[field]) for field in self._single}),
            unseen=dict(self._unseen),
            skipped=frozenset((unread | self._skipped) - absent - self._unseen.keys()),
            absent=frozenset(absent),
            now=now,
        )

    def of(self, field: str) -> list[Any]:
        return self._facts.setdefault(field, [])

    def skip(self, field: str) -> None:
        self._skipped.add(field)

    def clear(self, resource: Resource) -> None:
        """Forgets what was read of a resource, before it is read anew."""
        self.of(BY_RESOURCE[resource].field).clear()

    def not_seen(self, field: str, cause: str) -> None:
        self._unseen.setdefault(field, cause)

    async def list(
        self, resource: Resource, namespace: str | None = None, *, selector: str = "", fields: str = ""
    ) -> int:
        """Reads a list; gives the number of objects. What goes wrong is noted."""
        projection, before = BY_RESOURCE[resource], len(self.of(BY_RESOURCE[resource].field))
        error = await self._try(resource, namespace, selector, fields)
        if error is not None:
            self.not_seen(projection.field, cause(error))
        return len(self.of(projection.field)) - before

    async def _try(
        self, resource: Resource, namespace: str | None, selector: str = "", fields: str = ""
    ) -> ClusterError | None:
        """The error that ended a list; None for none, and for a resource that isn't served."""
        projection = BY_RESOURCE[resource]
        facts = self.of(projection.field)
        self.lists += 1
        self._read.add(resource)
        try:
            if self._client.served_version(resource) is None:
                raise NotServed("not served")
            listing = pages(
                self._client, resource, namespace, limit=self._page, label_selector=selector, field_selector=fields
            )
            async for page in listing:
                for position, obj in enumerate(page.items, 1):
                    facts.append(projection.project(obj))
                    if position % AT_ONCE == 0:
                        await asyncio.sleep(0)
        except NotFound:
            self._absent.add(resource)
        except ClusterError as error:
            return error
        return None

    async def list_everywhere(self, resource: Resource) -> bool:
        """A list of all namespaces; False if only the right to it is missing."""
        error = await self._try(resource, None)
        if error is not None and error.code != 403:
            self.not_seen(BY_RESOURCE[resource].field, cause(error))
            self.not_seen(ROOM if resource is POD else CHANNELS, cause(error))
        return error is None or error.code != 403

    async def list_in(self, resource: Resource, namespaces: Sequence[str]) -> None:
        """A list of all namespaces, or else of each of `namespaces` that may be read."""
        error = await self._try(resource, None)
        if error is None:
            return
        field = BY_RESOURCE[resource].field
        if resource is RESOURCE_CLAIM:
            self.not_seen(CHANNELS, cause(error))
        if resource is POD:
            self.not_seen(ROOM, "no right to list pods of all namespaces" if error.code == 403 else cause(error))
        if not isinstance(error, Forbidden) or not namespaces or not resource.namespaced:
            self.not_seen(field, cause(error))
            return
        errors = [await self._try(resource, namespace) for namespace in namespaces]
        for error, namespace in zip(errors, namespaces, strict=True):
            if error is not None:
                self.not_seen(field, f"{cause(error)} in {namespace}")

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        """One object, which becomes a fact too if its kind is known here; None if it doesn't exist."""
        self.gets += 1
        self._read.add(resource)
        try:
            if self._client.served_version(resource) is None:
                return None
            obj = await self._client.get(resource, name, namespace)
        except NotFound:
            return None
        except ClusterError as error:
            if resource in BY_RESOURCE:
                self.not_seen(BY_RESOURCE[resource].field, cause(error))
            return None
        self.add(resource, obj)
        return obj

    def add(self, resource: Resource, obj: Object) -> None:
        """Takes in an object."""
        projection = BY_RESOURCE.get(resource)
        if projection is not None:
            self.of(projection.field).append(projection.project(obj))
            self._single.add(projection.field)


def _distinct(facts: list[Any]) -> list[Any]:
    """Each object once: one that was read by itself may be in a list too."""
    named: dict[object, Any] = {}
    for fact in facts:
        key = (getattr(fact, "kind", ""), getattr(fact, "namespace", ""), getattr(fact, "name", id(fact)))
        named.setdefault(key, fact)
    return list(named.values())


def cause(error: ClusterError) -> str:
    """Why a list could not be read, in a few words."""
    return "no right to list" if error.code == 403 else error.message


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Without the garbage collector: decoded pages have no cycles, and looking for some takes longer than decoding."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # or else the next collection would look at everything that was read, in one go
        if was_enabled:
            gc.enable()


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
    return replace(_facts(facts), skipped=frozenset((fields - facts.keys()) | rooms), now=now)


def _facts(by_field: Mapping[str, list[Any]]) -> Facts:
    values: dict[str, Any] = {name: tuple(facts) for name, facts in by_field.items()}
    return Facts(**values)

"""Grove is upgraded while PodGangs own MNNVL resources, and the leader is killed at any call.

The next leader's caches may be late: what the former leader gave to PodGangs, it doesn't know yet.
Grove's operator then writes its PodGangs once more and deletes them, through the webhooks of that
server. Nothing that running pods use is ever deleted.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from jsonpatch import apply_patch

from app.facts.kinds import (
    COMPUTE_DOMAIN,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GANG_MAP,
    RESOURCE_CLAIM,
)
from app.kube.api import Object, ObjectRef, Selection
from app.objects.resource import Resource
from app.rules.mnnvl.plan import desired_resource
from app.webhooks.podgang import PodGangWebhook
from tests import builders
from tests.builders import injection_into
from tests.cluster.watched import WatchedMemory
from tests.kube import virtual
from tests.kube.memory.client import MemoryClient
from tests.kube.memory.objects import check_preconditions, patched
from tests.kube.memory.wire import Wire
from tests.reconcilers.servers import NAMESPACE, Server, gang_request, judged

T = TypeVar("T")

ADOPTED = "grove.io/mnnvl-resources-adopted"
SET_UID = "uid-train"
CLIQUES_OF = {"train-0": "train-0-worker", "train-0-pool-0": "train-0-pool-1-leader"}
"""The PodGangs of the set `train`, each with its PodClique of scope `clique`."""

SETTLED_SECONDS = 5.0

RESOURCES = (COMPUTE_DOMAIN, RESOURCE_CLAIM)
NEVER = 10_000
"""More calls than a leader makes here."""


class Api(WatchedMemory):
    """An API server, whose patches of PodGangs pass `webhook`."""

    webhook: PodGangWebhook

    async def patch(self, ref: ObjectRef, patch: Any, **options: Any) -> Object:
        if ref.resource != POD_GANG:
            return await super().patch(ref, patch, **options)

        before = await self.get(ref)
        stored = patched(before, patch)
        check_preconditions(ref.resource, ref.name, before, stored["metadata"])
        verdict = await judged(self.webhook, gang_request("UPDATE", stored, before))
        changed = apply_patch(stored, list(verdict.patch))
        value = changed["metadata"].get("annotations", {})
        annotations = [{"op": "add", "path": "/metadata/annotations", "value": value}]
        await super().patch(ref, patch, **options)
        return await super().patch(ref, annotations, **options)


class Mortal(Wire):
    """The connection of a server that is killed at its call number `last`.

    It ends before or, if `lost`, after the effect of the call. Watches of `late` resources deliver
    nothing until `arrived` is set.
    """

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.last = NEVER
        self.lost = False
        self.made = 0
        self.is_dead = False
        self.is_upgraded = False
        self.late = frozenset[Resource]()
        self.arrived = asyncio.Event()

    def served_version(self, resource: Resource) -> str | None:
        if resource == POD_GANG_MAP and not self.is_upgraded:
            return None
        return super().served_version(resource)

    async def through(self, call: Callable[[], Awaitable[T]]) -> T:
        self.made += 1
        number = self.made
        if number > self.last or (number == self.last and not self.lost):
            await self._die()
        await asyncio.sleep(0.01)
        answer = await call()
        if number == self.last:
            await self._die()
        return answer

    async def delivers(self, selection: Selection) -> None:
        if selection.resource in self.late:
            await self.arrived.wait()

    def end_at(self, call: int, *, lost: bool) -> None:
        """Let the server end at its call number `call` from now on."""
        self.last = self.made + call
        self.lost = lost

    async def _die(self) -> None:
        self.is_dead = True
        await asyncio.Event().wait()


class MortalServer(Server):
    """A server over its own connection, whose discovery can see the upgrade of Grove."""

    def __init__(self, api: Api) -> None:
        self.wire = Mortal(api)
        super().__init__(self.wire, api.discovery, topology=False)

    def upgraded(self) -> None:
        """Its discovery has seen the CRD of PodGangMaps."""
        self.wire.is_upgraded = True
        self.reconcile_everything()


class Grove:
    """Grove's operator, whose deletions of PodGangs pass the webhook of `server`.

    A PodGang is deleted `pause` seconds after that was allowed.
    """

    def __init__(self, api: Api, server: MortalServer, pause: float = 0.0) -> None:
        self._api = api
        self._server = server
        self._pause = pause

    async def write(self, name: str) -> None:
        """Write a PodGang, without what Grove doesn't know."""
        patch = {"metadata": {"labels": {"written": "again"}}}
        await self._api.patch(ObjectRef(POD_GANG, name, NAMESPACE), patch)

    async def delete(self, name: str) -> None:
        """Delete a PodGang, and try again if that is denied."""
        ref = ObjectRef(POD_GANG, name, NAMESPACE)
        while True:
            stored = await self._api.get(ref)
            if ADOPTED not in stored["metadata"].get("annotations", {}):
                break
            if (await judged(self._server.deletion, gang_request("DELETE", stored))).allowed:
                break
            await asyncio.sleep(1)
        await asyncio.sleep(self._pause)
        await self._api.delete(ref)
        self._api.collect_garbage()


def objects_of(gang: str, name: str) -> list[Object]:
    """Return a PodGang, its PodClique with a claim, and the resources, which the set owns."""
    by_set = POD_CLIQUE_SET.owner_reference("train", SET_UID)
    owned = {"namespace": NAMESPACE, "ownerReferences": [by_set]}
    stored = builders.pod_gang(gang, builders.gang_labels("train"), name)
    stored["metadata"] |= {**owned, "uid": f"uid-{gang}"}

    labels = builders.labels("train", 0, gang, grove=True)
    clique = builders.pod_clique(name, labels, scope="clique")
    clique["metadata"] |= owned
    injection = injection_into(clique, NAMESPACE, "shared")
    assert injection.plan is not None
    made = (
        desired_resource(injection.plan, COMPUTE_DOMAIN, "v1beta1"),
        desired_resource(injection.plan, RESOURCE_CLAIM, "v1"),
    )
    return [stored, apply_patch(clique, list(injection.patch)), *made]


def owners_of(api: MemoryClient) -> dict[str, list[str]]:
    """Return the names of the owners of each resource, by its uid."""
    return {
        obj["metadata"]["uid"]: [owner["name"] for owner in obj["metadata"]["ownerReferences"]]
        for resource in RESOURCES
        for obj in api.objects(resource)
    }


def marked_in(api: MemoryClient) -> tuple[str, ...]:
    """Return the names of the PodGangs with the annotation."""
    gangs = (obj["metadata"] for obj in api.objects(POD_GANG))
    return tuple(gang["name"] for gang in gangs if ADOPTED in gang.get("annotations", {}))


@dataclass(frozen=True)
class Kill:
    """The leader is killed at its call `call` since it began to adopt, or since the upgrade.

    If `lost`, the call has its effect, and only its answer is lost.
    """

    adopting: bool
    call: int
    lost: bool


@dataclass
class Outcome:
    """The uids of the resources before the upgrade, and their owners in the end.

    `calls` are those of the leader that is killed, and `marked` the PodGangs that still have the
    annotation when Grove deletes them.
    """

    before: set[str]
    after: dict[str, list[str]]
    calls: int
    marked: tuple[str, ...]


def cluster() -> Api:
    """A cluster of the designs with the set `train`, whose PodGangs own nothing yet."""
    pcs = builders.pod_clique_set("train", mnnvl=True)
    pcs["metadata"] |= {"namespace": NAMESPACE, "uid": SET_UID}
    objects = [obj for gang, clique in CLIQUES_OF.items() for obj in objects_of(gang, clique)]
    return Api([pcs, *objects])


async def migration(kill: Kill, late: frozenset[Resource]) -> Outcome:
    api = cluster()
    before = set(owners_of(api))
    first = MortalServer(api)
    second = MortalServer(api)
    api.webhook = second.webhook

    async with second.running():
        second.wire.late = late
        async with first.running(), first.leading():
            if kill.adopting:
                first.wire.end_at(kill.call, lost=kill.lost)
            await asyncio.sleep(SETTLED_SECONDS)
            api.served[POD_GANG_MAP] = "v1alpha1"
            second.upgraded()
            if not kill.adopting:
                first.wire.end_at(kill.call, lost=kill.lost)
            calls = first.wire.made
            first.upgraded()
            if not first.wire.is_dead:
                await asyncio.sleep(SETTLED_SECONDS)
            calls = first.wire.made - (0 if kill.adopting else calls)

        async with second.leading():
            await asyncio.sleep(SETTLED_SECONDS)
            grove = Grove(api, second)
            for name in CLIQUES_OF:
                await grove.write(name)
            marked = marked_in(api)
            for name in CLIQUES_OF:
                await grove.delete(name)
            second.wire.arrived.set()
            await asyncio.sleep(SETTLED_SECONDS)

    return Outcome(before, owners_of(api), calls, marked)


@pytest.mark.slow
@pytest.mark.untraced
@pytest.mark.parametrize("adopting", [True, False], ids=["while adopting", "while giving back"])
@pytest.mark.parametrize(
    "late",
    [
        pytest.param(frozenset(), id="in time"),
        pytest.param(frozenset({COMPUTE_DOMAIN}), id="ComputeDomains late"),
        pytest.param(frozenset({RESOURCE_CLAIM}), id="claims late"),
        pytest.param(frozenset({COMPUTE_DOMAIN, RESOURCE_CLAIM}), id="both late"),
        pytest.param(frozenset({POD_GANG}), id="PodGangs late"),
        pytest.param(frozenset({POD_GANG, *RESOURCES}), id="all late"),
    ],
)
def test_whenever_the_leader_is_killed_running_pods_keep_what_they_use(
    late: frozenset[Resource], adopting: bool
) -> None:
    """A call without effect leaves what the call before it has left, so only the first is tried
    without.
    """
    undisturbed = virtual.run(migration(Kill(adopting, NEVER, lost=False), late))
    assert undisturbed.calls > 0
    kills = [
        Kill(adopting, 1, lost=False),
        *(Kill(adopting, call, lost=True) for call in range(1, undisturbed.calls + 2)),
    ]
    wrong = {}
    for kill in kills:
        outcome = virtual.run(migration(kill, late))
        is_marked = bool(outcome.marked) and POD_GANG not in late
        if is_marked or outcome.after != {uid: ["train"] for uid in outcome.before}:
            wrong[kill] = outcome
    assert wrong == {}


async def late_leader(pause: float) -> Outcome:
    """The leader's discovery has not seen the upgrade yet when Grove deletes PodGangs."""
    api = cluster()
    before = set(owners_of(api))
    first = MortalServer(api)
    second = MortalServer(api)
    api.webhook = second.webhook

    async with second.running(), first.running(), first.leading():
        await asyncio.sleep(SETTLED_SECONDS)
        api.served[POD_GANG_MAP] = "v1alpha1"
        second.upgraded()
        grove = Grove(api, second, pause)
        for name in CLIQUES_OF:
            await grove.delete(name)
        first.upgraded()
        await asyncio.sleep(SETTLED_SECONDS)

    return Outcome(before, owners_of(api), first.wire.made, marked_in(api))


@pytest.mark.parametrize("pause", [0.0, 0.01, 0.02, 0.03, 0.05, 0.1, 1.0])
def test_a_leader_that_has_not_seen_the_upgrade_takes_nothing_back(pause: float) -> None:
    outcome = virtual.run(late_leader(pause))
    assert outcome.after == {uid: ["train"] for uid in outcome.before}

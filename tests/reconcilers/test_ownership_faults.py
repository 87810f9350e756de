"""Ownership under faults: leaders killed at any moment, lagging caches, lost answers, PodGangs
deleted and recreated.

Each run is made of one seed, in virtual time. In the end every PodGang that is there owns what was
made for it, nothing is owned by one that isn't, and nothing that was in use has ever been taken
away.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from copy import copy
from random import Random
from typing import Any, TypeVar

import pytest

from app.facts.grove.podgang import read_gang
from app.facts.kinds import COMPUTE_DOMAIN, POD_CLIQUE_SET, POD_GANG, RESOURCE_CLAIM
from app.kube.api import (
    ClusterError,
    Conflict,
    Object,
    ObjectRef,
    Selection,
    Unavailable,
)
from app.rules.mnnvl.plan import Plan
from tests import builders
from tests.builders import injection_into
from tests.cluster.watched import WatchedMemory
from tests.effort import tries
from tests.kube import virtual
from tests.kube.memory.client import MemoryClient
from tests.kube.memory.wire import Wire
from tests.reconcilers.servers import TOPOLOGY, Server

T = TypeVar("T")

KINDS = (COMPUTE_DOMAIN, RESOURCE_CLAIM)
STEPS = 60
ADOPTION_SECONDS = 0.4
"""Two calls over our bad network."""
STEADY = 0
FICKLE = (1, 2, 3)
"""Replicas of the set: one that nobody touches, and those that come and go."""

REFUSALS: tuple[ClusterError, ...] = (
    Unavailable("internal error", code=500),
    Unavailable("too many requests", code=429, retry_after=1.0),
    Conflict("changed meanwhile", code=409, reason="Conflict"),
)


class Api(WatchedMemory):
    """Watches who is given what: nothing is ever taken from a PodGang that lives, nor given to one
    that had been dead for longer than an adoption takes.
    """

    def __init__(self, objects: list[Object]) -> None:
        super().__init__(objects)
        self.wrong: list[str] = []
        self._died: dict[str, float] = {}

    async def delete(self, ref: ObjectRef, **options: Any) -> None:
        stored = self.objects(ref.resource)
        doomed = [obj for obj in stored if obj["metadata"]["name"] == ref.name]
        await super().delete(ref, **options)
        self._died |= dict.fromkeys(uids(doomed), virtual.now())

    async def patch(self, ref: ObjectRef, *arguments: Any, **options: Any) -> Object:
        name = ref.name
        before = {obj["metadata"]["name"]: owners([obj]) for obj in self.objects(ref.resource)}
        stored = await super().patch(ref, *arguments, **options)
        if ref.resource in KINDS and before[name] != owners([stored]):
            self._judge(name, before[name], owners([stored]))
        return stored

    def _judge(self, name: str, before: list[str], after: list[str]) -> None:
        living = set(uids(self.objects(POD_GANG)))
        if living & set(before):
            self.wrong.append(f"{name} was taken from a PodGang that lives")
        if any(
            virtual.now() - self._died.get(uid, virtual.now()) > ADOPTION_SECONDS for uid in after
        ):
            self.wrong.append(f"{name} was given to a PodGang that is gone")


class BadNetwork(Wire):
    """The connection of a server: calls take a while on either way, some are refused, some answers
    are lost; watches lag and are cut. Where `calm`, they only take a while.
    """

    def __init__(self, api: Api, random: Random) -> None:
        super().__init__(api)
        self.calm = False
        self._random = random

    async def through(self, call: Callable[[], Awaitable[T]]) -> T:
        await asyncio.sleep(self._random.uniform(0, 0.1))
        self._fail(0.1, self._random.choice(REFUSALS))
        answer = await call()
        await asyncio.sleep(self._random.uniform(0, 0.1))
        self._fail(0.1, Unavailable("the answer was lost"))
        return answer

    async def delivers(self, selection: Selection) -> None:
        await asyncio.sleep(self._random.choice((0.0, 0.01, 0.1, 3.0)))
        self._fail(0.1, Unavailable("the watch was cut"))

    def _fail(self, share: float, error: ClusterError) -> None:
        if not self.calm and self._random.random() < share:
            raise copy(error)  # because an exception keeps the frames of each time it was raised


def server_over(wire: Wire, api: Api, random: Random) -> Server:
    return Server(wire, api.discovery, topology=True, random=random.random)


class Grove:
    """The operator's part, for the set `train`, with `server` for our webhooks."""

    def __init__(self, api: Api, server: Server, random: Random) -> None:
        self._api = api
        self._server = server.cluster
        self._random = random
        self.wanted: set[int] = set()

    async def step(self) -> None:
        number = self._random.choice(FICKLE)
        await self._random.choice((self.up, self.down, self.again, self.updated))(number)

    async def up(self, number: int) -> None:
        self.wanted.add(number)
        steps = [self.clique, self._gang]
        self._random.shuffle(steps)
        for step in steps:
            await step(number)

    async def clique(self, number: int) -> None:
        """A PodClique is reconciled, and passes our webhook; the operator tries again later where
        it doesn't.
        """
        with suppress(ClusterError):
            await self._server.resources.ensure(plan(number), dry_run=False)

    async def _gang(self, number: int) -> None:
        name = f"train-{number}"
        with suppress(Conflict):
            gang = builders.pod_gang(name, builders.gang_labels("train"), f"{name}-worker")
            await self._api.create(POD_GANG, gang, "ns")

    async def down(self, number: int) -> None:
        self.wanted.discard(number)
        with suppress(ClusterError):
            await self._api.delete(ObjectRef(POD_GANG, f"train-{number}", "ns"))

    async def again(self, number: int) -> None:
        await self.down(number)
        await self.up(number)

    async def updated(self, number: int) -> None:
        """A PodGang is updated, and passes our webhook, which adopts what it can."""
        with suppress(ClusterError):
            gang = read_gang(
                await self._api.get(ObjectRef(POD_GANG, f"train-{number}", "ns")), "ns"
            )
            await self._server.owners.adopt(gang, dry_run=False)


def plan(number: int) -> Plan:
    labels = builders.labels("train", number, f"train-{number}", grove=True)
    made = injection_into(
        builders.pod_clique(f"train-{number}-worker", labels), "ns", "shared"
    ).plan
    assert made is not None
    return made


def stored_resources(server: MemoryClient, number: int) -> list[Object]:
    names = {f"train-{number}-cd", f"train-{number}-mnnvl-claim"}
    return [
        obj for kind in KINDS for obj in server.objects(kind) if obj["metadata"]["name"] in names
    ]


def uids(objects: list[Object]) -> list[str]:
    return [obj["metadata"]["uid"] for obj in objects]


def owners(objects: list[Object]) -> list[str]:
    return [
        reference["uid"]
        for obj in objects
        for reference in obj["metadata"].get("ownerReferences", ())
    ]


async def trouble(api: Api, grove: Grove, network: BadNetwork, random: Random) -> None:
    """Things happen, under one leader after the other."""
    for _ in range(STEPS // 10):
        leader = server_over(network, api, random)
        async with leader.running(), leader.leading():
            for _ in range(10):
                await grove.step()
                await asyncio.sleep(random.choice((0.0, 0.05, 0.3, 2.0)))
                if random.random() < 0.3:
                    api.collect_garbage()


async def calm(api: Api, grove: Grove, network: BadNetwork, random: Random) -> None:
    """The last leader works in peace, while the operator goes on looking at its PodCliques."""
    network.calm = True
    leader = server_over(network, api, random)
    async with leader.running(), leader.leading():
        for _ in range(6):
            for number in sorted(grove.wanted):
                await grove.clique(number)
            await asyncio.sleep(30)
            api.collect_garbage()


async def story(seed: int) -> None:
    random = Random(seed)
    pcs = builders.pod_clique_set("train", domain="rack", mnnvl=True, replicas=100)
    topology = builders.cluster_topology(TOPOLOGY, rack="example.com/rack")
    api = Api(
        [topology, {**pcs, "metadata": pcs["metadata"] | {"namespace": "ns", "uid": "uid-train"}}]
    )
    network = BadNetwork(api, random)
    quiet = server_over(Wire(api), api, random)
    async with quiet.running():
        await Grove(api, quiet, random).up(STEADY)
    steady = uids(stored_resources(api, STEADY))
    server = server_over(network, api, random)
    async with server.running():
        grove = Grove(api, server, random)
        grove.wanted.add(STEADY)
        await trouble(api, grove, network, random)
        await calm(api, grove, network, random)
    assert api.wrong == []
    assert uids(stored_resources(api, STEADY)) == steady
    check(api, grove.wanted)
    await api.delete(ObjectRef(POD_CLIQUE_SET, "train", "ns"))
    for number in grove.wanted:
        await api.delete(ObjectRef(POD_GANG, f"train-{number}", "ns"))
    api.collect_garbage()
    assert [obj for kind in KINDS for obj in api.objects(kind)] == []


def check(server: MemoryClient, numbers: set[int]) -> None:
    gangs = {obj["metadata"]["name"]: obj for obj in server.objects(POD_GANG)}
    assert sorted(gangs) == sorted(f"train-{number}" for number in numbers)
    for number in numbers:
        gang = gangs[f"train-{number}"]["metadata"]
        assert owners(stored_resources(server, number)) == [gang["uid"]] * 2, gang["name"]
        assert gang["annotations"]["grove.io/mnnvl-resources-adopted"] == "true", gang["name"]
    # what was never adopted waits for its set's next replica of that number
    for number in set(FICKLE) - numbers:
        assert set(owners(stored_resources(server, number))) <= {"uid-train"}, number


@pytest.mark.slow
@pytest.mark.untraced
@pytest.mark.parametrize("seed", range(tries(15, 50)))
def test_whatever_happens_everything_belongs_to_the_podgang_that_is_there(seed: int) -> None:
    virtual.run(story(seed))

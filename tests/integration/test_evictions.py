"""Gangs that lose their place, told by leaders of which one is killed: processes with the rights of
the manifests, and the test in the part of KAI.
"""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace

from app.explain.state.snapshot import RESOURCES
from app.facts.identity import Place
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kinds import POD_GROUP
from app.facts.kubernetes.pod import Pod
from app.kube.api import Object, ObjectRef, Selection, list_all
from app.kube.client import HttpClient
from app.objects.resource import EVENT, POD
from app.objects.time import timestamp, utc_now
from tests.explain import fleet
from tests.explain.fleet import NAMESPACE, PLACE, facts
from tests.integration.processes import Server, Servers
from tests.integration.stage import staged
from tests.integration.system import connect, eventually
from tests.integration.test_waiting import QUIET_SECONDS, rules
from tests.waiting.test_evictions import SAYS

CONFIGURATION = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
server: {drainSeconds: 0}
leaderElection: {leaseSeconds: 12, renewSeconds: 9, retrySeconds: 1}
waiting: {enabled: true, afterSeconds: 3600}
"""
COUNT = 40
PATIENCE = 240.0
CAUSES = list(SAYS)
NAME = re.compile(r"g-([0-9]+) lost its place: ")
METRIC = re.compile(r'waiting_placements_lost_total\{cause="([a-z]+)"\} ([0-9.e+]+)')
CORE_EVENT = replace(EVENT, group="")
"""KAI writes events of the core group."""


def gangs() -> tuple[tuple[Pod, ...], tuple[KaiPodGroup, ...]]:
    """Gangs of one pod each, every other one of the set `llm`."""
    placed = tuple(
        fleet.pod(
            "w",
            n,
            name=f"g-{n}-0",
            uid=f"uid-{n}",
            place=Place() if n % 2 else replace(PLACE, podgang=f"g-{n}"),
            group=f"g-{n}",
            node="gpu-00",
        )
        for n in range(COUNT)
    )
    groups = (
        fleet.pod_group(name=f"g-{n}", uid=f"uid-g-{n}", owners=(), minimum=1, subgroups=())
        for n in range(COUNT)
    )
    return placed, tuple(groups)


class Kai:
    """Evicts gangs as KAI does: first the event, then the pod. A controller makes another one."""

    def __init__(self, admin: HttpClient) -> None:
        self._admin = admin
        self.times: dict[int, float] = {}

    async def evict(self, number: int) -> None:
        name = f"g-{number}"
        pod = await self._admin.get(ObjectRef(POD, f"{name}-0", NAMESPACE))
        group = await self._admin.get(ObjectRef(POD_GROUP, name, NAMESPACE))
        self.times[number] = time.time()
        await self._admin.create(CORE_EVENT, _event(group, _words(number)), NAMESPACE)
        await self._admin.delete(ObjectRef(POD, f"{name}-0", NAMESPACE))

        kept = ("namespace", "labels", "annotations")
        metadata = {key: pod["metadata"][key] for key in kept if key in pod["metadata"]}
        spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
        again = {"metadata": {"name": f"{name}-1", **metadata}, "spec": spec}
        await self._admin.create(POD, again, NAMESPACE)


def _words(number: int) -> str:
    return SAYS[CAUSES[number % len(CAUSES)]].format(f"{NAMESPACE}/g-{number}-0")


def _event(group: Object, words: str) -> Object:
    """An event as client-go writes it for KAI."""
    names = ("namespace", "name", "uid")
    about = {"apiVersion": group["apiVersion"], "kind": group["kind"]}
    now = timestamp(utc_now())
    return {
        "metadata": {"name": f"{group['metadata']['name']}.1", "namespace": NAMESPACE},
        "involvedObject": about | {name: group["metadata"][name] for name in names},
        "type": "Normal",
        "reason": "Evict",
        "message": words,
        "source": {"component": "kai-scheduler"},
        "reportingComponent": "kai-scheduler",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


async def told(admin: HttpClient) -> list[Object]:
    return await list_all(admin, Selection(EVENT, fields="reason=PlacementLost"))


def numbers(events: Iterable[Object]) -> Counter[int]:
    """How often each gang was told."""
    counts: Counter[int] = Counter()
    for event in events:
        found = NAME.search(event["note"])
        assert found
        counts[int(found[1])] += (event.get("series") or {}).get("count", 1)
    return counts


async def counted(server: Server) -> dict[str, int]:
    """What a server has counted, by cause."""
    async with httpx.AsyncClient(verify=False) as client:
        text = (await client.get(f"https://127.0.0.1:{server.tools_port}/metrics")).text
    return {cause: int(float(count)) for cause, count in METRIC.findall(text)}


@pytest.mark.slow
@pytest.mark.untraced
async def test_evictions_are_told_once_though_the_leader_is_killed(
    kind: str, tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text(CONFIGURATION)
    async with (
        staged(tmp_path, "design", rules(tmp_path / "rules"), kind) as (api, stage),
        await connect(api, "admin", (*RESOURCES, CORE_EVENT)) as admin,
    ):
        placed, groups = gangs()
        await stage.show(facts(pods=placed, pod_groups=groups))
        servers = Servers(api, tmp_path, [])
        kai = Kai(admin)
        async with servers.started(2):
            await eventually(servers.leader, patience=PATIENCE)
            for number in range(15):
                await kai.evict(number)
            await eventually(lambda: told(admin), bool, PATIENCE)
            for number in range(15, 20):
                await kai.evict(number)
            await servers.kill_leader()
            killed = time.time()
            for number in range(20, 30):
                await kai.evict(number)
            leader = await eventually(servers.leader, patience=PATIENCE)
            assert leader
            leads = time.time()
            for number in range(30, COUNT):
                await kai.evict(number)

            missing = {n for n, at in kai.times.items() if killed < at < leads}
            wanted = {*range(COUNT)} - missing
            await eventually(
                lambda: told(admin), lambda events: numbers(events).keys() >= wanted, PATIENCE
            )
            await asyncio.sleep(QUIET_SECONDS)
            events = await told(admin)
            print(f"{kind}: {len(events)} of {COUNT} told")
            by_leader = Counter(event["reportingInstance"] for event in events)
            counts = await counted(leader)

    assert set(numbers(events).values()) == {1}
    for event in events:
        (number,) = numbers([event])
        assert event["note"].endswith(_words(number))
        assert event["regarding"]["kind"] == ("PodGroup" if number % 2 else "PodCliqueSet")
    assert len(by_leader) == 2
    assert sum(counts.values()) in by_leader.values()

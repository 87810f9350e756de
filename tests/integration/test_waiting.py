"""Why gangs wait, told by the leader in the cluster: each state of the table of reasons arises and
passes, with the rights of the manifests.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace

from app.base.sample import Sample
from app.config.read import read_configuration
from app.config.schema import Configuration
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.kinds import POD_CLIQUE_SET
from app.kube.api import Object, ObjectRef
from app.kube.client import HttpClient
from app.kube.credentials import from_kubeconfig
from app.kube.events import Recorder
from app.waiting import watcher
from app.waiting.evictions import PLACEMENT_LOST
from app.waiting.overdue import Blocked, Overdue, overdue
from app.waiting.reporter import PLACEMENT_BLOCKED, Pacing
from app.waiting.watcher import RESOURCES, WaitingDuty
from scripts.apiserver.admission_server import NAMESPACE, ApiServer
from scripts.apiserver.processes import free_port
from tests.explain import fleet
from tests.explain.fleet import SET_REF, facts, placed
from tests.explain.table.row import Row
from tests.explain.test_reasons import ROWS, start
from tests.integration.stage import Stage, in_a_dialect, skip_if_impossible, staged
from tests.integration.system import FAST, connect, eventually
from tests.proof.clock import Clock
from tests.rendered import documents, with_components

CONFIGURATION = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
server: {{host: 127.0.0.1, port: {port}, toolsPort: 0, drainSeconds: 0}}
client: {{queriesPerSecond: 10000, burst: 10000}}
waiting: {{enabled: true, afterSeconds: 0.001, maxWritesPerMinute: 1000}}
"""
WITHIN = 30.0
"""Seconds of the test's own time, in which a machine that is busy with other work takes no part."""
QUIET_SECONDS = 2.0
QUICK = Pacing(look=0.03, pause=0.0, refresh=0.0, share=1.0)
MADE_ANEW = (
    *("PreemptionDelay", "ClaimHeld", "PodGangMissing", "NothingMade", "NotGrouped"),
    "KueueHolds",  # says a time of the clock
    "KueueMayEvict",
    "PoolNotChosen",
)
"""Their texts depend on times, which the API server sets."""

System = tuple[str, ApiServer, Stage, WaitingDuty, HttpClient]


def settings() -> Configuration:
    return read_configuration(CONFIGURATION.format(port=free_port()), "test")


def rules(folder: Path) -> list[Object]:
    """The roles of the manifests with the component, for the user `operator`."""
    text = with_components("self-managed", folder, ["waiting"])
    kinds = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    objects = [obj for obj in documents(text) if obj["kind"] in kinds]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    return [namespace, *objects]


@contextlib.asynccontextmanager
async def on_duty(api: ApiServer, settings: Configuration) -> AsyncIterator[WaitingDuty]:
    """The duty of the leader alone, as the account of the manifests: no other writer changes the
    states. It looks again at once, and writes without pauses.
    """
    credentials = await from_kubeconfig(api.kubeconfig, "operator")
    async with HttpClient(credentials, RESOURCES, FAST) as client, asyncio.TaskGroup() as tasks:
        await client.discovery.refresh()
        events = Recorder(client, "test")
        duty = WaitingDuty(client, events, settings, pacing=QUICK)
        running = [tasks.create_task(work) for work in (events.run(), duty.run())]
        yield duty
        for task in running:
            task.cancel()


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["design", "today"])
async def system(
    request: pytest.FixtureRequest, kind: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[System]:
    dialect = str(request.param)
    folder = tmp_path_factory.mktemp(dialect)
    async with (
        staged(folder, dialect, rules(folder / "rules"), kind) as (server, stage),
        on_duty(server, settings()) as duty,
        await connect(server, "admin", RESOURCES) as admin,
    ):
        yield dialect, server, stage, duty, admin


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def clock() -> AsyncIterator[Clock]:
    clock = Clock()
    running = asyncio.create_task(clock.run())
    yield clock
    running.cancel()
    await asyncio.wait({running})


def expected(snapshot: Snapshot) -> Blocked | None:
    """What is to be told of the set, by the same facts: of events, those of evictions."""
    events = tuple(event for event in snapshot.events if event.reason in ("Evict", PLACEMENT_LOST))
    seen = replace(snapshot, events=events, skipped=frozenset({"events"}))
    waiting = overdue(Index(seen), 0.0, {})
    return next((blocked for blocked in waiting.workloads if blocked.ref == SET_REF), None)


async def condition(admin: HttpClient) -> tuple[str, str] | None:
    """The reason and the message of the set's condition."""
    stored = await admin.get(ObjectRef(POD_CLIQUE_SET, fleet.SET, fleet.NAMESPACE))
    for item in (stored.get("status") or {}).get("conditions") or []:
        if item["type"] == PLACEMENT_BLOCKED:
            assert item["status"] == "True"
            return item["reason"], item["message"]
    return None


def samples(duty: WaitingDuty, name: str) -> Iterator[Sample]:
    return (sample for sample in duty.samples() if sample.name == name)


def written(duty: WaitingDuty) -> float:
    (sample,) = samples(duty, "waiting_writes_total")
    return sample.value


def counted(duty: WaitingDuty) -> dict[str, float]:
    totals: dict[str, float] = {}
    for sample in samples(duty, "waiting_gangs"):
        reason = sample.labels["reason"]
        totals[reason] = totals.get(reason, 0) + sample.value
    return totals


@pytest.mark.slow
@pytest.mark.untraced
@pytest.mark.parametrize(("system", "row"), in_a_dialect(ROWS), indirect=["system"], scope="module")
async def test_a_state_is_told_and_passes(row: Row, system: System, clock: Clock) -> None:
    dialect, server, store, duty, admin = system
    skip_if_impossible(row, dialect, server)
    snapshot = facts(**{**start(dialect), **row.hit})
    if not snapshot.sets:
        pytest.skip("a state without a PodCliqueSet")
    told = expected(snapshot)
    if told is not None and told.reason in ("SchedulerSilent", "KaiSilent"):
        pytest.skip("how long a scheduler is silent is said by times of creation")

    begun = clock.now
    await store.show(snapshot)
    wanted_reason = None if told is None else told.reason
    await eventually(lambda: condition(admin), lambda has: (has and has[0]) == wanted_reason)
    if told is not None:
        if row.id not in MADE_ANEW:
            await eventually(
                lambda: condition(admin), lambda has: has == (told.reason, told.message)
            )
        await eventually(counts(duty), lambda has: told.reason in has)
    assert clock.now - begun < WITHIN

    healthy = placed("gpu-00", "gpu-01", "gpu-02", "gpu-03")
    await store.show(facts(**{**start(dialect), "pods": healthy}))
    await eventually(lambda: condition(admin), lambda has: has is None)
    await eventually(counts(duty), lambda has: has == {})


def counts(duty: WaitingDuty):  # type: ignore[no-untyped-def]
    async def read() -> dict[str, float]:
        return counted(duty)

    return read


FULL = {
    "pods": (*fleet.pods(), *fleet.fill("rack-a1", "rack-a2", "rack-b1", "rack-b2")),
}
HEALTHY = {"pods": placed("gpu-00", "gpu-01", "gpu-02", "gpu-03")}
NO_QUEUE = {"queues": ()}


@contextlib.asynccontextmanager
async def alone(kind: str, folder: Path) -> AsyncIterator[tuple[ApiServer, Stage, HttpClient]]:
    async with (
        staged(folder, "design", rules(folder / "rules"), kind) as (server, stage),
        await connect(server, "admin", RESOURCES) as admin,
    ):
        yield server, stage, admin


async def reason(admin: HttpClient) -> str | None:
    current = await condition(admin)
    return None if current is None else current[0]


@pytest.mark.untraced
async def test_what_a_killed_leader_left_is_corrected_and_removed(
    kind: str, tmp_path: Path
) -> None:
    async with alone(kind, tmp_path) as (server, store, admin):
        await store.show(facts(**FULL))
        async with on_duty(server, settings()):
            await eventually(lambda: reason(admin), lambda has: has == "NoDomainFits")
        await store.show(facts(**NO_QUEUE))
        assert await reason(admin) == "NoDomainFits"
        async with on_duty(server, settings()):
            await eventually(lambda: reason(admin), lambda has: has == "QueueMissing")
        await store.show(facts(**HEALTHY))
        assert await reason(admin) == "QueueMissing"
        async with on_duty(server, settings()) as duty:
            await eventually(lambda: reason(admin), lambda has: has is None)
            await eventually(counts(duty), lambda has: has == {})


async def test_a_look_that_fails_ends_nothing_and_is_repeated(
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures = iter(["a bug", "the same bug"])

    def fails_twice(*arguments: Any) -> Overdue:
        for failure in failures:
            raise LookupError(failure)
        return overdue(*arguments)

    monkeypatch.setattr(watcher, "overdue", fails_twice)
    async with alone(kind, tmp_path) as (server, store, admin):
        await store.show(facts(**{**start("design"), **FULL}))
        async with on_duty(server, settings()) as duty:
            await eventually(lambda: reason(admin), lambda has: has == "NoDomainFits")
            await eventually(counts(duty), lambda has: "NoDomainFits" in has)

    logged = [
        record
        for record in caplog.records
        if "could not report why gangs are pending" in record.msg
    ]
    assert [str(record.exc_info[1]) for record in logged if record.exc_info] == [
        "a bug",
        "the same bug",
    ]


async def test_a_quiet_cluster_gets_no_write(kind: str, tmp_path: Path) -> None:
    async with alone(kind, tmp_path) as (server, store, admin):
        await store.show(facts(**FULL))
        async with on_duty(server, settings()) as duty:
            await eventually(lambda: reason(admin), lambda has: has == "NoDomainFits")
            ref = ObjectRef(POD_CLIQUE_SET, fleet.SET, fleet.NAMESPACE)
            before = (await admin.get(ref))["metadata"]["resourceVersion"]
            await asyncio.sleep(QUIET_SECONDS)
            assert (await admin.get(ref))["metadata"]["resourceVersion"] == before
            assert written(duty) == 1


@pytest.mark.untraced
async def test_another_leader_writes_nothing_again(kind: str, tmp_path: Path) -> None:
    async with alone(kind, tmp_path) as (server, store, admin):
        await store.show(facts(**FULL))
        async with on_duty(server, settings()):
            await eventually(lambda: reason(admin), lambda has: has == "NoDomainFits")
        async with on_duty(server, settings()) as duty:
            await eventually(counts(duty), lambda has: "NoDomainFits" in has)
            await asyncio.sleep(QUIET_SECONDS)
            assert written(duty) == 0

"""The first random schedules of both kinds over the sandbox; `./scripts/proof` runs more of them."""

import asyncio
import gc
import gzip
import ssl
from collections.abc import Iterable
from pathlib import Path
from random import Random

import httpx
import pytest
from aiohttp import web

from app.kube.api import ObjectRef, find
from app.objects.resource import LEASE
from app.webhooks.configurations import NAME
from tests.effort import tries
from tests.integration.system import connect
from tests.proof.loop import PatientLoop
from tests.proof.migration import CalmMigration
from tests.proof.network import FaultyProxy
from tests.proof.schedule import Report, Schedule, operator_token, run_seed, sandbox

SEEDS = range(tries(3, 10))
MIGRATIONS = range(tries(1, 3))
AT_ONCE = 4


@pytest.mark.slow
@pytest.mark.untraced
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
# a killed server closes nothing
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_whatever_happens_nothing_is_lost_leaked_or_stuck(tmp_path: Path) -> None:
    """Several at a time: a schedule mostly waits."""
    reports = reports_of(Schedule, SEEDS, tmp_path)
    assert {report.seed: report.broken for report in reports if report.broken} == {}
    assert sum(report.faults for report in reports) > 40


@pytest.mark.slow
@pytest.mark.untraced
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
# a killed server closes nothing
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_whatever_grove_replaces_running_pods_keep_what_they_use(tmp_path: Path) -> None:
    reports = reports_of(CalmMigration, MIGRATIONS, tmp_path)
    assert {report.seed: report.broken for report in reports if report.broken} == {}
    assert sum(report.steps.get("migrated", 0) for report in reports) > 0


async def test_a_schedule_leaves_no_lease_to_the_next_one(tmp_path: Path) -> None:
    """A Lease lasts an hour there, so that the next leader would have to wait for it."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "grove-system"}}
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": NAME, "namespace": "grove-system"},
        "spec": {"holderIdentity": "the last leader"},
    }
    async with sandbox(tmp_path) as api, await connect(api, "admin") as admin:
        await api.apply([namespace, lease])
        schedule = Schedule(api, 0, tmp_path, operator_token(api))
        await schedule._balancer.start()
        await schedule._end(admin)
        assert await find(admin, ObjectRef(LEASE, NAME, "grove-system")) is None


def reports_of(kind: type[Schedule], seeds: Iterable[int], folder: Path) -> list[Report]:
    with asyncio.Runner(loop_factory=PatientLoop) as runner:
        return runner.run(_reports_of(kind, seeds, folder))


async def _reports_of(kind: type[Schedule], seeds: Iterable[int], folder: Path) -> list[Report]:
    turns = asyncio.Semaphore(AT_ONCE)

    async def in_turn(seed: int) -> Report:
        async with turns:
            return await run_seed(seed, folder / str(seed), kind)

    reports = await asyncio.gather(*map(in_turn, seeds))
    _collect_what_killed_servers_left()
    for report in reports:
        print(report.line())
    return reports


def _collect_what_killed_servers_left() -> None:
    """Collect it here, where its warnings are passed over, and not in a later test.

    A server that reads large lists excludes what exists from collection: that of killed servers too.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


async def test_the_network_passes_on_compressed_answers_as_they_are() -> None:
    """An API server compresses lists of more than 128 KiB."""

    async def answer(_: web.Request) -> web.Response:
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        return web.Response(body=gzip.compress(b'{"items": []}'), headers=headers)

    app = web.Application()
    app.router.add_get("/list", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    proxy = FaultyProxy(
        f"http://127.0.0.1:{runner.addresses[0][1]}", ssl.create_default_context(), Random(0), 0.0
    )
    await proxy.start()
    try:
        async with httpx.AsyncClient() as client:
            received = await client.get(f"{proxy.url}/list")
        assert (received.headers["content-encoding"], received.json()) == ("gzip", {"items": []})
    finally:
        await proxy.stop()
        await runner.cleanup()

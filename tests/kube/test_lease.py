"""Leader election, in virtual time: who leads when, and that it is never two, whatever the cluster
does.
"""

import asyncio
import random
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, TypeVar

import pytest

from app.kube.api import ClusterError, Conflict, Object, ObjectRef, Unavailable
from app.kube.lease import Elector, LeaseTiming
from app.objects.resource import LEASE
from tests.effort import tries
from tests.kube import virtual
from tests.kube.memory.client import MemoryClient
from tests.kube.memory.wire import Wire

T = TypeVar("T")


@dataclass
class Stage:
    """Who is at work, and since when; it falls over if there are ever two."""

    at_work: set[str] = field(default_factory=set)
    entered: list[tuple[str, float]] = field(default_factory=list)
    left: list[tuple[str, float]] = field(default_factory=list)
    overlaps: list[set[str]] = field(default_factory=list)

    def work(
        self, name: str, cleanup: Callable[[], float] = lambda: 0.0
    ) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            self.at_work.add(name)
            self.entered.append((name, virtual.now()))
            if len(self.at_work) > 1:
                self.overlaps.append(set(self.at_work))
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(cleanup())
                self.at_work.discard(name)
                self.left.append((name, virtual.now()))

        return run

    def names(self) -> list[str]:
        return [name for name, _ in self.entered]


class Stuck(BaseException):
    """Stands for the end of the process."""


def die() -> None:
    raise Stuck


def elector(client: Any, name: str, **options: Any) -> Elector:
    fixed = {
        "timing": LeaseTiming(),
        "clock": virtual.now,
        "random": lambda: 0.0,
        "stop_process": die,
    }
    return Elector(client, "grove-system", "leader", name, **{**fixed, **options})


@asynccontextmanager
async def candidates(
    *electors: tuple[Elector, Callable[[], Awaitable[None]]],
) -> AsyncGenerator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(contender.lead(work)) for contender, work in electors]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def stored(client: MemoryClient) -> Object:
    (lease,) = client.objects(LEASE)
    return lease


def test_one_leads_and_hands_over_at_once_when_it_is_stopped() -> None:
    async def main() -> None:
        client = MemoryClient()
        stage = Stage()
        first = elector(client, "a")
        second = elector(client, "b")
        async with candidates((first, stage.work("a")), (second, stage.work("b"))) as (task, _):
            await asyncio.sleep(30)
            assert (stage.names(), first.leading, second.leading) == (["a"], True, False)
            task.cancel()
            await asyncio.sleep(3)
            assert (stage.names(), first.leading, second.leading) == (["a", "b"], False, True)
            assert stored(client)["spec"]["leaseTransitions"] == 1
        assert stored(client)["spec"]["holderIdentity"] == ""

    virtual.run(main())


def test_a_leader_that_dies_silently_is_followed_after_its_lease() -> None:
    async def main() -> None:
        client = MemoryClient()
        stage = Stage()
        spec = {
            "holderIdentity": "dead",
            "leaseDurationSeconds": 15,
            "renewTime": "2020-01-01T00:00:00.000000Z",
        }
        client.load(
            [
                {
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "spec": spec,
                    "metadata": _lease_name(),
                }
            ]
        )
        async with candidates((elector(client, "b"), stage.work("b"))):
            await asyncio.sleep(14.9)
            assert stage.names() == []
            await asyncio.sleep(3)
            assert stage.names() == ["b"]

    virtual.run(main())


def test_a_lease_that_has_changed_its_holder_too_often_is_taken_all_the_same() -> None:
    """An API server refuses a larger number, and then nobody would lead again."""

    async def main() -> None:
        client = MemoryClient()
        stage = Stage()
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": _lease_name(),
            "spec": {"holderIdentity": "", "leaseTransitions": 2**31 - 1},
        }
        client.load([lease])
        async with candidates((elector(client, "b"), stage.work("b"))):
            await asyncio.sleep(1)
            assert stored(client)["spec"]["holderIdentity"] == "b"
            assert stored(client)["spec"]["leaseTransitions"] == 2**31 - 1

    virtual.run(main())


def _lease_name() -> Object:
    return {"name": "leader", "namespace": "grove-system"}


@pytest.mark.parametrize(
    "verb_error", [Unavailable("down"), Conflict("again", code=409)], ids=["down", "conflict"]
)
def test_short_trouble_is_survived(verb_error: ClusterError) -> None:
    async def main() -> None:
        client = MemoryClient()
        stage = Stage()
        async with candidates((elector(client, "a"), stage.work("a"))):
            for _ in range(5):
                await asyncio.sleep(10)
                client.fail_next("patch", LEASE, verb_error, times=2, after_effect=True)
            assert stage.left == []

    virtual.run(main())


def test_work_is_stopped_before_the_lease_can_expire_and_taken_up_again() -> None:
    async def main() -> None:
        client = MemoryClient()
        stage = Stage()
        async with candidates((elector(client, "a"), stage.work("a", lambda: 3.0))):
            await asyncio.sleep(5)
            client.fail_next("patch", None, Unavailable("down"), times=100)
            client.fail_next("get", None, Unavailable("down"), times=100)
            before = virtual.now()
            await asyncio.sleep(60)
            ((_, left),) = stage.left
            assert before + 8 < left <= before + 15
            client.fail_next("patch", None, Unavailable("last"))
            await asyncio.sleep(600)
            assert stage.names() == ["a", "a"]

    virtual.run(main())


def test_a_leader_whose_lease_another_has_stops_and_leaves_it_alone() -> None:
    async def main() -> None:
        client = MemoryClient()
        stage = Stage()
        async with candidates((elector(client, "a"), stage.work("a"))):
            await asyncio.sleep(5)
            ref = ObjectRef(LEASE, "leader", "grove-system")
            await client.patch(ref, {"spec": {"holderIdentity": "b"}})
            await asyncio.sleep(5)
            assert (stage.names(), stage.at_work) == (["a"], set())
        assert stored(client)["spec"]["holderIdentity"] == "b"

    virtual.run(main())


class HangingClient(MemoryClient):
    """A cluster that stops answering, without an error."""

    hanging = False

    async def patch(self, *args: Any, **kwargs: Any) -> Object:
        if self.hanging:
            await asyncio.Event().wait()
        return await super().patch(*args, **kwargs)


def test_a_hung_renewal_does_not_leave_the_work_running() -> None:
    async def main() -> None:
        client = HangingClient()
        stage = Stage()
        async with candidates((elector(client, "a"), stage.work("a"))):
            await asyncio.sleep(5)
            client.hanging = True
            await asyncio.sleep(11)
            assert stage.at_work == set()

    virtual.run(main())


class LateAnswers:
    """Writes take effect at once and are answered three seconds later; then nothing is answered any
    more.
    """

    def __init__(self, cluster: MemoryClient, down_from: float) -> None:
        self._cluster = cluster
        self._down_from = down_from

    async def get(self, *args: Any, **kwargs: Any) -> Object:
        return await self._answer(self._cluster.get(*args, **kwargs), 0.0)

    async def create(self, *args: Any, **kwargs: Any) -> Object:
        return await self._answer(self._cluster.create(*args, **kwargs), 3.0)

    async def patch(self, *args: Any, **kwargs: Any) -> Object:
        return await self._answer(self._cluster.patch(*args, **kwargs), 3.0)

    async def _answer(self, call: Coroutine[Any, Any, Object], late: float) -> Object:
        if virtual.now() >= self._down_from:
            call.close()
            await asyncio.Event().wait()
        answer = await call
        await asyncio.sleep(late)
        return answer


def test_a_lease_counts_from_when_its_renewal_began_not_from_the_answer() -> None:
    async def main() -> None:
        cluster = MemoryClient()
        stage = Stage()
        first: Any = LateAnswers(cluster, down_from=30.0)
        electors = (
            (elector(first, "a"), stage.work("a", lambda: 4.9)),
            (elector(cluster, "b"), stage.work("b")),
        )
        async with candidates(*electors):
            await asyncio.sleep(70)
            assert stage.names() == ["a", "b"]
            assert stage.overlaps == []

    virtual.run(main())


@pytest.mark.parametrize("outcome", ["raises", "returns"])
def test_work_that_ends_ends_the_election_and_releases(outcome: str) -> None:
    async def work() -> None:
        await asyncio.sleep(1)
        if outcome == "raises":
            raise LookupError("a reconciler died")

    async def main() -> None:
        client = MemoryClient()
        elector = Elector(
            client, "grove-system", "leader", "a", timing=LeaseTiming(), clock=virtual.now
        )
        leading = elector.lead(work)
        if outcome == "raises":
            with pytest.raises(LookupError, match="a reconciler died"):
                await leading
        else:
            await leading
        assert stored(client)["spec"]["holderIdentity"] == ""

    virtual.run(main())


def test_a_release_without_a_response_is_logged_with_its_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        client = MemoryClient()
        reads: list[float] = []

        async def never(ref: ObjectRef, **options: Any) -> Any:
            reads.append(virtual.now())
            await asyncio.sleep(3600)

        async def work() -> None:
            client.get = never  # type: ignore[method-assign]

        with caplog.at_level("INFO", logger="app.kube.lease"):
            await elector(client, "a").lead(work)
        assert reads

    virtual.run(main())
    assert "could not release lease grove-system/leader: no response in time" in caplog.messages


def test_work_that_does_not_end_takes_the_process_down_when_the_lease_runs_out() -> None:
    async def main() -> None:
        client = MemoryClient()
        ended: list[float] = []
        release = asyncio.Event()

        async def stubborn() -> None:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        def end() -> None:
            ended.append(virtual.now())
            release.set()

        async with candidates((elector(client, "a", stop_process=end), stubborn)):
            await asyncio.sleep(1)
            client.fail_next("patch", None, Unavailable("down"), times=1000)
            client.fail_next("get", None, Unavailable("down"), times=1000)
            await asyncio.sleep(20)
            assert [round(at) for at in ended] == [15]

    virtual.run(main())


def test_while_work_takes_its_time_to_stop_the_lease_is_kept() -> None:
    async def main() -> None:
        client = MemoryClient()
        stage = Stage()
        electors = (
            (elector(client, "a"), stage.work("a", lambda: 60.0)),
            (elector(client, "b"), stage.work("b")),
        )
        async with candidates(*electors) as (task, _):
            await asyncio.sleep(5)
            task.cancel()
            await asyncio.sleep(59)
            assert stage.names() == ["a"]
            await asyncio.sleep(5)
            assert stage.names() == ["a", "b"]
            assert stage.overlaps == []

    virtual.run(main())


def test_a_deleted_lease_still_protects_its_holder() -> None:
    async def main() -> None:
        client = MemoryClient()
        stage = Stage()
        electors = (
            (elector(client, "a"), stage.work("a", lambda: 4.0)),
            (elector(client, "b"), stage.work("b")),
        )
        async with candidates(*electors):
            await asyncio.sleep(20)
            await client.delete(ObjectRef(LEASE, "leader", "grove-system"))
            await asyncio.sleep(60)
        assert stage.overlaps == []
        assert len(stage.entered) == 2

    virtual.run(main())


def test_times_are_utc_with_microseconds_whatever_the_time_zone() -> None:
    async def main() -> None:
        client = MemoryClient()
        stage = Stage()
        local = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=timezone(timedelta(hours=5)))
        async with candidates((elector(client, "a", now=lambda: local), stage.work("a"))):
            await asyncio.sleep(1)
            assert stored(client)["spec"] == {
                "holderIdentity": "a",
                "leaseDurationSeconds": 15,
                "acquireTime": "2026-03-01T07:00:00.000005Z",
                "renewTime": "2026-03-01T07:00:00.000005Z",
                "leaseTransitions": 0,
            }

    virtual.run(main())
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    )


@pytest.mark.parametrize("seconds", [(10, 10, 2), (15, 2, 2), (15, 10, 0)])
def test_timing_that_cannot_be_safe_is_refused(seconds: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="lease > renew > retry"):
        LeaseTiming(*seconds)


class BadNetwork(Wire):
    """One candidate's way to the cluster: slow, failing before or after the effect, hung, or late:
    the caller has long given up when the write arrives.
    """

    def __init__(self, cluster: MemoryClient, dice: random.Random) -> None:
        super().__init__(cluster)
        self._dice = dice
        self._trouble_until = 0.0
        self._late: set[asyncio.Task[Any]] = set()

    async def through(self, call: Callable[[], Awaitable[T]]) -> T:
        if virtual.now() > self._trouble_until and self._dice.random() < 0.03:
            self._trouble_until = virtual.now() + self._dice.uniform(1, 40)
        await asyncio.sleep(self._dice.expovariate(20))
        if virtual.now() > self._trouble_until:
            return await call()
        return await self._fault(call)

    async def _fault(self, call: Callable[[], Awaitable[T]]) -> T:
        kind = self._dice.choice(["refused", "lost", "hung", "late", "slow", "slow answer", "fine"])
        if kind == "refused":
            raise Unavailable("refused")
        if kind == "late":
            self._send_late(call, self._dice.uniform(0, 40))
        if kind in ("hung", "late"):
            await asyncio.sleep(self._dice.uniform(5, 40))
            raise Unavailable("timed out")
        if kind == "slow":
            await asyncio.sleep(self._dice.uniform(0, 12))
        answer = await call()
        if kind == "slow answer":
            await asyncio.sleep(self._dice.uniform(0, 12))
        if kind == "lost":
            raise Unavailable("the answer was lost")
        return answer

    def _send_late(self, call: Callable[[], Awaitable[Any]], delay: float) -> None:
        async def send() -> None:
            await asyncio.sleep(delay)
            try:
                await call()
            except ClusterError:
                return

        task = asyncio.create_task(send())
        self._late.add(task)
        task.add_done_callback(self._late.discard)


@pytest.mark.slow
@pytest.mark.untraced
def test_never_two_leaders_whatever_faults_there_are() -> None:
    async def one_run(seed: int) -> Stage:
        dice = random.Random(seed)
        cluster = MemoryClient()
        stage = Stage()

        async def candidate(name: str) -> None:
            """Stopped and started again now and then, like a Pod: each time with a new identity."""
            for life in range(100):
                identity = f"{name}-{life}"
                contender = elector(BadNetwork(cluster, dice), identity, random=dice.random)
                work = stage.work(identity, lambda: dice.uniform(0, 4.5))
                try:
                    async with asyncio.timeout(dice.uniform(20, 400)):
                        await contender.lead(work)
                except TimeoutError:
                    await asyncio.sleep(dice.uniform(0, 5))

        tasks = [asyncio.create_task(candidate(name)) for name in "ab"]
        await asyncio.sleep(900)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return stage

    runs = [virtual.run(one_run(seed)) for seed in range(tries(20, 50))]
    assert [seed for seed, stage in enumerate(runs) if stage.overlaps] == []
    assert all(stage.entered for stage in runs)
    assert sum(len(stage.entered) for stage in runs) > 5 * len(runs)

"""The names of Queues in one object: written once, with pauses, and never in part."""

import pytest

from app.cluster.leader_rows import LISTED_QUEUES
from app.facts.kinds import QUEUE_NAMES
from app.facts.rows import QUEUE_NAMES as NAMES
from app.kube.api import Object
from app.kube.store import WatchStore
from app.reconcilers.queue_names import PAUSE_SECONDS, QueueNamesReconciler
from app.stores.stores import Stores, fill
from tests.kube.memory.client import EVERYTHING, MemoryClient

KEY = ("", "grove-admission")


def queues(*names: str) -> list[Object]:
    return [{"metadata": {"name": name, "resourceVersion": "1"}} for name in names]


class System:
    """A cluster in memory with the CRD, and the time as it is set."""

    def __init__(self, *names: str) -> None:
        self.client = MemoryClient(served={**EVERYTHING, QUEUE_NAMES: "v1"})
        self.now = 0.0
        stores = Stores((NAMES, LISTED_QUEUES))
        self.queues: WatchStore[str] = stores[NAMES]
        self.listed = stores[LISTED_QUEUES]
        self.now_has(*names)
        fill(self.listed, [])
        self.reconciler = self.started()

    def started(self) -> QueueNamesReconciler:
        """The reconciler of a leader that begins now."""
        return QueueNamesReconciler(self.client, self.queues, self.listed, clock=lambda: self.now)

    def now_has(self, *names: str) -> None:
        """Replace the Queues."""
        self.queues.forget()
        fill(self.queues, queues(*names))

    async def step(self, seconds: float = 0.0) -> float | None:
        self.now += seconds
        return await self.reconciler.reconcile(KEY)

    @property
    def names(self) -> list[str] | None:
        for obj in self.client.objects(QUEUE_NAMES):
            return sorted(obj["spec"]["names"])
        return None

    @property
    def writes(self) -> int:
        return len(self.client.writes())


async def test_they_are_written_once_per_change() -> None:
    system = System("a", "b")
    assert await system.step() is None
    assert (system.names, system.writes) == (["a", "b"], 1)
    assert await system.step(60.0) is None
    assert system.writes == 1
    system.now_has("b", "c")
    assert await system.step() is None
    assert (system.names, system.writes) == (["b", "c"], 2)


async def test_a_burst_of_queues_is_written_after_a_pause() -> None:
    system = System()
    for number in range(100):
        system.now_has(*(f"q{other}" for other in range(number + 1)))
        await system.step(0.01)
    assert (system.names, system.writes) == (["q0"], 1)
    again = await system.step()
    assert again is not None
    assert 0 < again < PAUSE_SECONDS
    assert await system.step(again) is None
    assert (len(system.names or ()), system.writes) == (100, 2)


async def test_what_another_changes_is_written_again() -> None:
    system = System("a")
    await system.step()
    (stored,) = system.client.objects(QUEUE_NAMES)
    fill(system.listed, [{**stored, "spec": {"names": {"x": ""}}}])
    assert await system.step(PAUSE_SECONDS) is None
    assert system.writes == 2
    assert system.listed.get(*KEY) == frozenset({"a"})


async def test_the_next_leader_writes_what_this_one_did_not() -> None:
    system = System("a")
    await system.step()
    system.now_has("a", "b")
    assert await system.step(0.1) is not None
    system.reconciler = system.started()
    assert await system.step() is None
    assert (system.names, system.writes) == (["a", "b"], 2)


async def test_nothing_is_written_before_everything_is_known() -> None:
    system = System("a")
    for store in (system.queues, system.listed):
        system.now_has("a")
        fill(system.listed, [])
        store.forget()
        assert await system.step() == PAUSE_SECONDS
    assert system.writes == 0


async def test_without_the_crd_nothing_is_written() -> None:
    system = System("a")
    del system.client.served[QUEUE_NAMES]
    assert await system.step() is None
    assert system.writes == 0


async def test_too_many_names_are_not_listed_in_part() -> None:
    """A Queue that is not in the list would be called missing."""
    system = System("a")
    await system.step()
    system.now_has("a", *(f"{number:05}" + "q" * 245 for number in range(6000)))
    assert await system.step(PAUSE_SECONDS) is None
    assert system.names == []


@pytest.mark.untraced
async def test_20_000_names_of_50_characters_are_listed() -> None:
    names = [f"{number:05}" + "q" * 45 for number in range(20_000)]
    system = System(*names)
    await system.step()
    assert system.names == names

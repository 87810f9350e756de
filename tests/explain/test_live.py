"""The facts of a watched cluster: what pages say while they are not up to date.

Tests `app/explain/live.py`.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from app.explain import live as live_module
from app.explain.live import KindProgress, Live, Trouble
from app.explain.state.index import Index
from app.facts.explain_rows import PODS, QUEUES, WIDE_NODES
from app.facts.rows import ROOM, Row
from app.kube.api import ClusterError, Object, Unavailable
from app.stores.stores import Stores, fill
from tests import builders
from tests.kube import virtual


class Watched:
    """Stores with the facts and the problems that a test gives them."""

    def __init__(self, *rows: tuple[Row[Any], str | None]) -> None:
        self.current: list[tuple[str, ClusterError | None]] = []
        self.stores = {
            (row, namespace): store
            for row, namespace in rows
            for of_row, store in Stores((row,))
            if of_row is row
        }
        self.denied: set[tuple[Row[Any], str | None]] = set()
        self.note: Callable[[str], None] = lambda name: None

    @property
    def ready(self) -> bool:
        return all(store.synced for store in self.stores.values())

    def subscribe(self, note: Callable[[str], None]) -> None:
        self.note = note

    def fill(self, row: Row[Any], namespace: str | None, *objects: Object) -> None:
        fill(self.stores[row, namespace], objects)
        self.note(row.name)

    def problems(self) -> list[tuple[str, ClusterError | None]]:
        return self.current

    async def run(self) -> None:
        await asyncio.Event().wait()


def test_the_first_problem_is_said_with_the_time_since_when_there_is_any() -> None:
    async def main() -> list[tuple[str, float] | None]:
        watched = Watched()
        live = Live(cast(Any, watched), clock=lambda: float(round(virtual.now(), -1)))
        running = asyncio.create_task(live.run())
        said: list[tuple[str, float] | None] = []
        for names in ([], ["pods", "nodes"], ["pods"], [], ["queues"]):
            watched.current = [(name, None) for name in names]
            before = live.revision
            await asyncio.sleep(100)
            trouble = live.trouble
            said.append(None if trouble is None else (trouble.message, trouble.since))
            assert live.revision - before <= 1
        running.cancel()
        return said

    assert virtual.run(main()) == [
        None,
        ("nodes", 100.0),
        ("pods", 100.0),
        None,
        ("queues", 400.0),
    ]


async def test_credentials_that_expire_or_are_renewed_change_what_is_said_of_the_first_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The problem that is named stays, and that of other stores changes."""
    monkeypatch.setattr(live_module, "_LOOK", 0.001)
    watched = Watched()
    live = Live(cast(Any, watched), clock=lambda: 0.0, renewal=lambda error: "")
    looking = asyncio.create_task(live._look_for_trouble())
    for error in (Unavailable("down"), ClusterError("who?", code=401), Unavailable("down")):
        seen = live.revision
        watched.current = [("nodes: down", Unavailable("down")), ("pods: ?", error)]
        async with asyncio.timeout(30):
            await live.changes(seen)
        assert live.trouble == Trouble("nodes: down", 0.0, expired=error.code == 401)
    looking.cancel()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, Trouble("pods: down", 10.0)),
        (Unavailable("down", code=503), Trouble("pods: down", 10.0)),
        (
            ClusterError("who?", code=401),
            Trouble("pods: down", 10.0, expired=True, command="log in (401)"),
        ),
    ],
    ids=["unknown", "not reachable", "the credentials have expired"],
)
async def test_expired_credentials_come_with_the_command_that_renews_them(
    error: ClusterError | None, expected: Trouble
) -> None:
    watched = Watched()
    live = Live(
        cast(Any, watched),
        clock=lambda: 10.0,
        renewal=lambda error: f"log in ({cast(ClusterError, error).code})",
    )
    watched.current = [("pods: down", None), ("queues: down", error)]
    looking = asyncio.create_task(live._look_for_trouble())
    async with asyncio.timeout(10):
        await live.changes(live.revision)
    looking.cancel()
    assert live.trouble == expected


def node(name: str) -> Object:
    made = builders.node(name)
    return {**made, "metadata": {**made["metadata"], "resourceVersion": "1"}}


def names(live: Live) -> list[str]:
    return sorted(node.name for node in live.snapshot().nodes)


def test_a_snapshot_is_kept_until_a_fact_changes_or_a_minute_has_passed() -> None:
    now = 1000.0
    watched = Watched((WIDE_NODES, None), (QUEUES, None))
    live = Live(cast(Any, watched), clock=lambda: now)
    watched.fill(WIDE_NODES, None, node("a"))
    first = live.snapshot()
    assert (names(live), first.now, live.revision) == (["a"], 1000.0, 2)
    now = 1059.0
    assert live.snapshot() is first
    now = 1060.0
    later = live.snapshot()
    assert (later is first, later.now, later.nodes is first.nodes) == (False, 1060.0, True)
    watched.fill(WIDE_NODES, None, node("a"), node("b"))
    assert (names(live), live.revision) == (["a", "b"], 3)
    assert live.snapshot().queues == ()


def test_kinds_that_are_not_served_are_absent_and_those_without_permission_unseen() -> None:
    watched = Watched((WIDE_NODES, None), (QUEUES, None), (PODS, "b"), (PODS, "a"))
    live = Live(cast(Any, watched), clock=lambda: 1.0)
    assert live.snapshot().absent == frozenset()
    watched.stores[QUEUES, None].mark_not_served()
    watched.fill(WIDE_NODES, None)
    seen = live.snapshot()
    every = "no permission to list pods of all namespaces"
    assert (seen.absent, dict(seen.unseen)) == (frozenset({"queues"}), {ROOM: every})
    watched.denied = {(PODS, "b"), (PODS, "a"), (WIDE_NODES, None)}
    watched.note("")
    assert live.snapshot().unseen == {
        "pods": "no permission to list in a and b",
        "nodes": "no permission to list",
        ROOM: every,
    }


async def test_progress_is_that_of_the_lists_that_are_not_complete() -> None:
    watched = Watched((WIDE_NODES, None), (QUEUES, None))
    live = Live(cast(Any, watched))
    watched.stores[WIDE_NODES, None].total = 7
    assert not live.ready
    assert live.progress() == [KindProgress("nodes", 0, 7), KindProgress("queues", 0, None)]
    waiting = asyncio.create_task(live.until_ready())
    watched.fill(WIDE_NODES, None, node("a"))
    await asyncio.sleep(0)
    assert live.progress() == [KindProgress("queues", 0, None)]
    assert not waiting.done()
    watched.fill(QUEUES, None)
    await asyncio.wait_for(waiting, 20)
    assert (live.ready, live.progress()) == (True, [])


async def test_work_gets_one_index_that_follows_the_facts() -> None:
    def look(index: Index, *more: str) -> tuple[int, list[str], tuple[str, ...]]:
        return id(index), [node.name for node in index.facts.nodes], more

    watched = Watched((WIDE_NODES, None))
    live = Live(cast(Any, watched), clock=lambda: 1.0)
    watched.fill(WIDE_NODES, None, node("a"))
    first, seen, more = await live.in_thread(look, "x", "y")
    assert (seen, more) == (["a"], ("x", "y"))
    watched.fill(WIDE_NODES, None, node("b"))
    assert await live.in_thread(look) == (first, ["a", "b"], ())


async def test_who_waits_for_changes_gets_the_next_revision() -> None:
    live = Live(cast(Any, Watched()))
    assert await live.changes(0) == 1
    waiting = asyncio.create_task(live.changes(1))
    await asyncio.sleep(0)
    assert not waiting.done()
    live.touch()
    assert await asyncio.wait_for(waiting, 20) == 2

"""Watching, in virtual time: how a store keeps in step through cuts, silence, Gone and absent APIs."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from app.facts.kinds import COMPUTE_DOMAIN
from app.kube.api import (
    Gone,
    NotFound,
    NotServed,
    Object,
    ObjectRef,
    Page,
    Rejected,
    Selection,
    Unavailable,
    WatchEvent,
)
from app.kube.store import WatchStore
from app.kube.watch import Pace, list_into, run_store
from app.objects.resource import NODE
from tests.kube import virtual
from tests.kube.memory.client import MemoryClient

NODES = Selection(NODE)
DOMAINS = Selection(COMPUTE_DOMAIN)
PACE = Pace(page_size=3, slice_size=2, random=lambda: 0.0)


def node(name: str, **labels: str) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def name_of(obj: Object) -> str:
    return str(obj["metadata"]["name"])


class SilentClient(MemoryClient):
    """A cluster whose watches can fall silent: no event, no bookmark, no end."""

    silent = False
    bookmark_every = 60.0

    async def watch(self, *args: Any, **kwargs: Any) -> AsyncGenerator[WatchEvent, None]:
        async for event in super().watch(*args, **kwargs):
            if self.silent:
                await asyncio.Event().wait()
            yield event


class CutClient(MemoryClient):
    """A cluster behind a proxy that ends connections without traffic after 35 s: sooner than a
    bookmark comes.
    """

    bookmark_every = 60.0

    async def watch(self, *args: Any, **kwargs: Any) -> AsyncGenerator[WatchEvent, None]:
        async with aclosing(super().watch(*args, **kwargs)) as events:
            while True:
                try:
                    async with asyncio.timeout(35):
                        event = await anext(events)
                except StopAsyncIteration:
                    return
                except TimeoutError:
                    raise Unavailable("cut") from None
                yield event


def new_store() -> WatchStore[str]:
    return WatchStore(name_of, clock=virtual.now)


@asynccontextmanager
async def running(
    client: MemoryClient, store: WatchStore[str], selection: Selection = NODES, **options: Any
) -> AsyncGenerator[None, None]:
    task = asyncio.create_task(run_store(client, store, selection, **{"pace": PACE, **options}))
    try:
        await asyncio.sleep(0.5)
        yield
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def names(store: WatchStore[str]) -> list[str]:
    return sorted(store.values())


def in_virtual_time(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run_it() -> None:
        virtual.run(test())

    run_it.__name__ = test.__name__
    run_it.__doc__ = test.__doc__
    return run_it


def calls(client: MemoryClient, verb: str) -> int:
    return sum(call.verb == verb for call in client.calls)


class LateClient(MemoryClient):
    """A cluster in which a response to an earlier write arrives between two pages of a list."""

    def __init__(self, store: WatchStore[str], late: Object, *objects: Object) -> None:
        super().__init__(objects)
        self._watched = store
        self._late = late

    async def list(self, *arguments: Any, **options: Any) -> Page:
        if options["continue_token"]:
            self._watched.note(self._late)
        return await super().list(*arguments, **options)


@in_virtual_time
async def test_a_late_response_does_not_undo_a_page_that_has_been_read() -> None:
    store: WatchStore[str] = WatchStore(lambda obj: str(obj["metadata"]["labels"]))
    late = node("a", role="old")
    late["metadata"]["resourceVersion"] = "2"
    nodes = [node(name, role="new") for name in "abcd"]
    await list_into(LateClient(store, late, *nodes), store, NODES, PACE)
    assert store.get("", "a") == "{'role': 'new'}"


@in_virtual_time
async def test_it_lists_in_pages_and_then_watches() -> None:
    client = MemoryClient([node(f"n{i}") for i in range(7)])
    store = new_store()
    async with running(client, store):
        assert (store.synced, len(store), calls(client, "list")) == (True, 7, 3)
        await client.create(NODE, node("late"))
        await client.delete(ObjectRef(NODE, "n0"))
        await asyncio.sleep(0.01)
        assert names(store) == ["late", *(f"n{i}" for i in range(1, 7))]


@in_virtual_time
async def test_a_selector_is_passed_on() -> None:
    client = MemoryClient([node("a", pool="x"), node("b")])
    store = new_store()
    async with running(client, store, Selection(NODE, labels="pool=x", metadata_only=True)):
        await client.create(NODE, node("c", pool="x"))
        await client.create(NODE, node("d"))
        await asyncio.sleep(0.01)
        assert names(store) == ["a", "c"]


@in_virtual_time
async def test_a_cut_watch_goes_on_from_the_last_version_without_a_list() -> None:
    client = MemoryClient([node("a")])
    store = new_store()
    async with running(client, store):
        for number, error in enumerate([None, Unavailable("cut"), None]):
            client.drop_watches(error)
            await client.create(NODE, node(f"while-cut-{number}"))
            await asyncio.sleep(5)
        assert names(store) == ["a", "while-cut-0", "while-cut-1", "while-cut-2"]
        assert calls(client, "list") == 1
        assert store.restarts == {"ended": 2, "error": 1}


@in_virtual_time
async def test_a_proxy_that_ends_quiet_watches_again_and_again_delays_nothing() -> None:
    client = CutClient()
    store = new_store()
    async with running(client, store):
        for number in range(10):
            await asyncio.sleep(1000 + 7 * number)
            await client.create(NODE, node(f"n{number}"))
            await asyncio.sleep(1)
            assert len(store) == number + 1
        assert calls(client, "list") == 1


@in_virtual_time
async def test_a_version_that_is_gone_leads_to_a_new_list() -> None:
    client = MemoryClient([node("a"), node("b")])
    store = new_store()
    async with running(client, store):
        client.fail_next("watch", NODE, Gone("too old", code=410))
        client.drop_watches()
        await client.delete(ObjectRef(NODE, "a"))
        await asyncio.sleep(5)
        assert names(store) == ["b"]
        assert store.restarts["gone"] == 1


@in_virtual_time
async def test_a_page_that_is_gone_begins_the_list_again() -> None:
    client = MemoryClient([node(f"n{i}") for i in range(7)])
    store = new_store()
    client.fail_next("list", NODE, Gone("expired", code=410))
    async with running(client, store):
        await asyncio.sleep(5)
        assert len(store) == 7


@in_virtual_time
async def test_a_silent_watch_is_noticed_within_a_minute() -> None:
    client = SilentClient([node("a")])
    store = new_store()
    async with running(client, store):
        client.silent = True
        await client.create(NODE, node("unheard"))
        await asyncio.sleep(1)
        client.silent = False
        await asyncio.sleep(58)
        assert names(store) == ["a", "unheard"]
        assert store.restarts == {"quiet": 1}


@in_virtual_time
async def test_a_server_that_stays_silent_is_told_as_a_problem() -> None:
    client = SilentClient([node("a")])
    store = new_store()
    async with running(client, store):
        client.silent = True
        await asyncio.sleep(120)
        for _ in range(60):
            await asyncio.sleep(3)
            assert store.problem == "nodes: the watch is silent"
        assert store.restarts["silent"] >= 2
        client.silent = False
        await asyncio.sleep(120)
        assert store.problem == ""


@in_virtual_time
async def test_a_quiet_but_healthy_resource_stays_fresh_at_little_cost() -> None:
    client = MemoryClient([node("a")])
    store = new_store()
    async with running(client, store):
        await asyncio.sleep(3600)
        assert (store.age() or 0.0) < 75
        assert "silent" not in store.restarts
        assert calls(client, "list") == 1
        assert calls(client, "watch") < 120


@in_virtual_time
async def test_errors_back_off_and_are_told_until_they_pass() -> None:
    client = MemoryClient([node("a")])
    store = new_store()
    client.fail_next("list", NODE, Rejected("no list for you", code=403), times=8)
    async with running(client, store):
        await asyncio.sleep(60)
        assert store.problem == "nodes: no list for you"
        assert not store.synced
        assert calls(client, "list") == 7
        await asyncio.sleep(60)
        assert (store.problem, store.synced) == ("", True)


@in_virtual_time
async def test_a_watch_that_is_accepted_again_is_no_problem_though_nothing_changes() -> None:
    client = MemoryClient([node("a")])
    store = new_store()
    refusal = Unavailable("storage is (re)initializing", code=429)
    client.fail_next("watch", NODE, refusal, times=3)
    async with running(client, store):
        assert store.problem == "nodes: storage is (re)initializing"
        await asyncio.sleep(20)
        assert store.problem == ""
        assert calls(client, "watch") == 4


@in_virtual_time
async def test_the_servers_wish_to_wait_is_respected() -> None:
    client = MemoryClient([node("a")])
    store = new_store()
    client.fail_next("list", NODE, Unavailable("busy", code=429, retry_after=20.0))
    async with running(client, store):
        await asyncio.sleep(19)
        assert calls(client, "list") == 1
        await asyncio.sleep(2)
        assert calls(client, "list") == 2


@in_virtual_time
async def test_a_resource_that_is_not_served_waits_for_discovery() -> None:
    client = MemoryClient(served={NODE: "v1"})
    store = new_store()
    installed = asyncio.Event()

    async def served_changed() -> None:
        await installed.wait()

    async with running(client, store, DOMAINS, served_changed=served_changed):
        assert (store.synced, store.served) == (True, False)
        calls_before = len(client.calls)
        await asyncio.sleep(100)
        assert len(client.calls) == calls_before
        client.served[COMPUTE_DOMAIN] = "v1beta1"
        installed.set()
        await asyncio.sleep(0.1)
        assert (store.synced, store.served) == (True, True)


@in_virtual_time
async def test_a_list_that_is_not_found_although_the_resource_is_served_is_soon_tried_again() -> (
    None
):
    domain = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {"name": "a"},
    }
    client = MemoryClient([domain])
    store = new_store()
    client.fail_next(
        "list",
        COMPUTE_DOMAIN,
        NotFound("the server could not find the requested resource", code=404),
    )
    async with running(client, store, DOMAINS, served_changed=asyncio.Event().wait):
        await asyncio.sleep(5)
        assert (names(store), store.served) == (["a"], True)


@in_virtual_time
async def test_what_is_known_stays_until_discovery_says_that_it_is_not_served() -> None:
    """A proxy in front of an API server that restarts may answer a list with 404."""
    client = MemoryClient([node("a")])
    store = new_store()
    asked: list[float] = []
    async with running(client, store, not_found=lambda: asked.append(virtual.now())):
        client.fail_next("list", NODE, NotServed("404 page not found", code=404), times=5)
        client.forget_history()
        client.drop_watches()
        await asyncio.sleep(5)
        assert asked
        assert (names(store), store.served) == (["a"], True)
        assert store.problem.endswith("404 page not found")
        await asyncio.sleep(60)
        assert (names(store), store.problem) == (["a"], "")


@in_virtual_time
async def test_a_resource_that_is_uninstalled_empties_its_store() -> None:
    domain = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {"name": "a"},
    }
    client = MemoryClient([domain])
    store = new_store()
    async with running(client, store, DOMAINS):
        assert names(store) == ["a"]
        del client.served[COMPUTE_DOMAIN]
        client.drop_watches()
        await asyncio.sleep(5)
        assert (names(store), store.served) == ([], False)


def test_a_failing_projection_is_not_swallowed() -> None:
    async def main() -> None:
        store: WatchStore[str] = WatchStore(lambda obj: str(obj["metadata"]["absent"]))
        await run_store(MemoryClient([node("a")]), store, NODES, pace=PACE)

    with pytest.raises(KeyError):
        virtual.run(main())


@in_virtual_time
async def test_a_long_list_gives_way_to_the_event_loop() -> None:
    """Of what comes in and of what goes, never more than one slice is handled in one turn of the
    loop.
    """
    client = MemoryClient([node(f"node-{i}") for i in range(1000)])
    store = new_store()
    handled = 0
    most = 0

    def count(*_: object) -> None:
        nonlocal handled
        handled += 1

    async def measure() -> None:
        nonlocal handled, most
        while True:
            handled, most = 0, max(most, handled)
            await asyncio.sleep(0)

    store.subscribe(count)
    measuring = asyncio.create_task(measure())
    pace = Pace(page_size=500, slice_size=50, random=lambda: 0.0)
    await list_into(client, store, NODES, pace)
    assert (len(store), most) == (1000, 50)
    for i in range(1000):
        await client.delete(ObjectRef(NODE, f"node-{i}"))
    await list_into(client, store, NODES, pace)
    assert (len(store), most) == (0, 50)
    measuring.cancel()

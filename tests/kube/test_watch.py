"""Watching, in virtual time: how a store keeps in step through cuts, silence, Gone and absent APIs."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from app.facts.kinds import COMPUTE_DOMAIN
from app.kube.api import (
    PAGE_BYTES,
    Gone,
    NotFound,
    NotServed,
    Object,
    ObjectRef,
    Page,
    Rejected,
    Selection,
    TooLong,
    Unavailable,
    WatchEvent,
    every,
)
from app.kube.store import WatchStore
from app.kube.watch import TURN_SECONDS, Pace, Silent, list_into, run_store
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
    client = MemoryClient([node(f"n{i}") for i in range(7)], streams="refused")
    store = new_store()
    async with running(client, store):
        assert (store.synced, len(store), calls(client, "list")) == (True, 7, 3)
        await client.create(NODE, node("late"))
        await client.delete(ObjectRef(NODE, "n0"))
        await asyncio.sleep(0.01)
        assert names(store) == ["late", *(f"n{i}" for i in range(1, 7))]


@in_virtual_time
async def test_it_lists_by_the_watch_where_lists_are_streamed() -> None:
    client = MemoryClient([node(f"n{i}") for i in range(7)])
    store = new_store()
    async with running(client, store):
        assert (store.synced, len(store), store.age()) == (True, 7, 0.5)
        await client.create(NODE, node("late"))
        await client.delete(ObjectRef(NODE, "n0"))
        await asyncio.sleep(0.01)
        assert names(store) == ["late", *(f"n{i}" for i in range(1, 7))]
        assert (calls(client, "watch"), calls(client, "list")) == (1, 0)


@pytest.mark.parametrize("code", [400, 403, 405, 422])
def test_a_server_that_refuses_to_stream_is_asked_for_pages_at_once(code: int) -> None:
    async def main() -> None:
        client = MemoryClient([node(f"n{i}") for i in range(7)])
        client.fail_next("watch", NODE, Rejected("sendInitialEvents is forbidden", code=code))
        store = new_store()
        async with running(client, store):
            assert (len(store), store.problem, store.restarts) == (7, "", {})
            await client.create(NODE, node("late"))
            await asyncio.sleep(0.01)
            assert len(store) == 8

    virtual.run(main())


@in_virtual_time
async def test_a_server_that_ignores_the_wish_for_a_list_is_asked_for_pages() -> None:
    """It sends the objects and never says that they were all."""
    client = MemoryClient([node(f"n{i}") for i in range(7)], streams="ignored")
    store = new_store()
    async with running(client, store):
        assert (store.synced, len(store)) == (False, 7)
        await client.delete(ObjectRef(NODE, "n0"))
        await asyncio.sleep(PACE.stream_quiet_after + 1)
        assert (store.synced, len(store), store.problem) == (True, 6, "")


@in_virtual_time
async def test_a_streaming_list_that_breaks_is_read_in_pages() -> None:
    class Breaking(MemoryClient):
        async def watch(self, *args: Any, **kwargs: Any) -> AsyncGenerator[WatchEvent, None]:
            async with aclosing(super().watch(*args, **kwargs)) as events:
                async for event in events:
                    if kwargs["list_first"] and event.object["metadata"]["name"] == "n3":
                        raise Unavailable("the watch was closed")
                    yield event

    client = Breaking([node(f"n{i}") for i in range(7)])
    store = new_store()
    async with running(client, store):
        assert (store.synced, len(store), store.problem) == (True, 7, "")


@in_virtual_time
async def test_an_error_in_place_of_a_streaming_list_leads_to_pages() -> None:
    """Kubernetes 1.36 accepts the watch and then sends this, beside etcd 3.4.23."""

    class OldEtcd(MemoryClient):
        async def watch(self, *args: Any, **kwargs: Any) -> AsyncGenerator[WatchEvent, None]:
            async with aclosing(super().watch(*args, **kwargs)) as events:
                async for event in events:
                    if kwargs["list_first"]:
                        raise Unavailable("RequestWatchProgress is disabled", code=500)
                    yield event

    client = OldEtcd([node("a")])
    store = new_store()
    async with running(client, store):
        assert (names(store), store.problem, store.restarts) == (["a"], "", {})


@in_virtual_time
async def test_an_api_server_that_is_down_is_not_asked_for_pages_too() -> None:
    client = MemoryClient([node("a")])
    store = new_store()
    busy = Unavailable("storage is (re)initializing", code=429, retry_after=20.0)
    client.fail_next("watch", NODE, busy)
    async with running(client, store):
        assert store.problem == "nodes: storage is (re)initializing"
        assert calls(client, "list") == 0
        await asyncio.sleep(21)
        assert (store.synced, store.problem) == (True, "")


@in_virtual_time
async def test_a_version_that_is_gone_within_a_list_leads_to_a_new_list() -> None:
    class Forgetting(MemoryClient):
        forgotten = False

        async def watch(self, *args: Any, **kwargs: Any) -> AsyncGenerator[WatchEvent, None]:
            async with aclosing(super().watch(*args, **kwargs)) as events:
                async for event in events:
                    if event.ends_list and not self.forgotten:
                        self.forgotten = True
                        raise Gone("too old resource version", code=410)
                    yield event

    client = Forgetting([node("a"), node("b")])
    store = new_store()
    async with running(client, store):
        await asyncio.sleep(1)
        assert (names(store), store.synced, store.restarts["gone"]) == (["a", "b"], True, 1)


@in_virtual_time
async def test_what_is_missing_in_a_new_stream_is_removed() -> None:
    client = MemoryClient([node("a"), node("b")])
    store = new_store()
    async with running(client, store):
        client.fail_next("watch", NODE, Gone("too old", code=410))
        client.drop_watches()
        await client.delete(ObjectRef(NODE, "a"))
        await asyncio.sleep(5)
        assert (names(store), calls(client, "list")) == (["b"], 0)


class Long(MemoryClient):
    """A cluster whose lists are too long for a page of more than `fit` objects."""

    def __init__(self, fit: int, *objects: Object) -> None:
        super().__init__(objects, streams="refused")
        self._fit = fit
        self.limits: list[int] = []

    async def list(self, selection: Selection, **options: Any) -> Page:
        self.limits.append(options["limit"])
        if options["limit"] > self._fit:
            raise TooLong("more than 4 MiB")
        page = await super().list(selection, **options)
        return replace(page, length=len(page.items) * PAGE_BYTES // self._fit)


@pytest.mark.parametrize(
    ("fit", "limits"),
    [(1000, [25, 500]), (300, [25, 300]), (7, [25, 5, 7, 7]), (1, [25, 5, *[1] * 40])],
)
def test_pages_begin_small_and_follow_the_bytes_of_the_page_before(
    fit: int, limits: list[int]
) -> None:
    async def main() -> None:
        client = Long(fit, *(node(f"n{i}") for i in range(40)))
        store = new_store()
        pace = Pace(page_size=500, random=lambda: 0.0)
        await list_into(client, store, NODES, pace)
        assert len(store) == 40
        assert client.limits[: len(limits)] == limits

        client.limits.clear()
        assert len(await every(client, NODES)) == 40
        assert client.limits[: len(limits)] == limits

    virtual.run(main())


def test_one_object_that_is_longer_than_any_answer_is_named_as_the_problem() -> None:
    async def main() -> None:
        store = new_store()
        async with running(Long(0, node("a")), store):
            assert store.problem == "nodes: more than 4 MiB"

    virtual.run(main())


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
        assert calls(client, "list") == 0
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
        assert calls(client, "list") == 0


class EndingClient(MemoryClient):
    """A cluster whose watches end at once, without an error."""

    begun = 0

    async def watch(self, *args: Any, **kwargs: Any) -> AsyncGenerator[WatchEvent, None]:
        self.begun += 1
        none: tuple[WatchEvent, ...] = ()
        for event in none:
            yield event


@in_virtual_time
async def test_a_watch_that_ends_at_once_begins_again_after_at_most_a_second() -> None:
    client = EndingClient([node("a")])
    async with running(client, new_store()):
        await asyncio.sleep(20)
        assert client.begun == 22  # after 0, 0.5, 1.5, 2.5 s ...


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
    client = MemoryClient([node(f"n{i}") for i in range(7)], streams="refused")
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
            assert isinstance(store.error, Silent)
        assert store.restarts["silent"] >= 2
        assert "error" not in store.restarts
        client.silent = False
        await asyncio.sleep(120)
        assert (store.problem, store.error) == ("", None)


@in_virtual_time
async def test_a_quiet_but_healthy_resource_stays_fresh_at_little_cost() -> None:
    client = MemoryClient([node("a")])
    store = new_store()
    async with running(client, store):
        await asyncio.sleep(3600)
        assert (store.age() or 0.0) < 75
        assert "silent" not in store.restarts
        assert calls(client, "list") == 0
        assert calls(client, "watch") < 120


@in_virtual_time
async def test_errors_back_off_and_are_told_until_they_pass() -> None:
    client = MemoryClient([node("a")], streams="refused")
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
    client = MemoryClient([node("a")], streams="refused")
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
    client = MemoryClient([domain], streams="refused")
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
    client = MemoryClient([node("a")], streams="refused")
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
    assert len(store) == 1000
    assert most <= 50
    for i in range(1000):
        await client.delete(ObjectRef(NODE, f"node-{i}"))
    await list_into(client, store, NODES, pace)
    assert len(store) == 0
    assert most <= 50
    measuring.cancel()


@pytest.mark.parametrize("streams", ["served", "refused"])
def test_objects_that_take_long_give_way_to_the_lease(
    streams: Literal["served", "refused"],
) -> None:
    """Also if the next object is always there, and also for changes after the list."""

    async def main() -> None:
        client = MemoryClient([node(f"n{i}") for i in range(20)], streams=streams)
        turns: list[int] = []
        turn = 0

        async def count_turns() -> None:
            nonlocal turn
            while True:
                turn += 1
                await asyncio.sleep(0)

        def slow(obj: Object) -> str:
            end = time.perf_counter() + 2 * TURN_SECONDS
            while time.perf_counter() < end:
                pass
            turns.append(turn)
            return name_of(obj)

        counting = asyncio.create_task(count_turns())
        store: WatchStore[str] = WatchStore(slow, clock=virtual.now)
        watching = asyncio.create_task(run_store(client, store, NODES, pace=PACE))
        await store.until_synced()
        for number in range(20):
            client.load([node(f"later-{number}")])
        while len(turns) < 40:  # noqa: ASYNC110 - each turn of the loop counts
            await asyncio.sleep(0)
        counting.cancel()
        watching.cancel()
        assert len(set(turns)) == len(turns)

    asyncio.run(main())

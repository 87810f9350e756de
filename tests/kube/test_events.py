"""Events: one per happening, counted up when it happens again."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from app.facts.kinds import POD_GANG
from app.kube.api import ObjectRef, Rejected, Unavailable
from app.kube.events import NOTE_LIMIT, QUEUE_LIMIT, Notices, Recorder, Regarding
from app.objects.names import is_subdomain
from app.objects.resource import EVENT, NODE
from tests.kube.memory.client import MemoryClient

GANG = Regarding("scheduler.grove.io/v1alpha1", "PodGang", "ml", "train-0", "uid-1")
TOPOLOGY = Regarding("grove.io/v1alpha1", "ClusterTopology", "", "grove-topology", "uid-2")


@contextlib.asynccontextmanager
async def recorder(client: MemoryClient) -> AsyncIterator[Recorder]:
    recorder = Recorder(client, "pod-1", now=lambda: datetime(2026, 11, 21, 12, 0, 0, 5, UTC))
    running = asyncio.create_task(recorder.run())
    yield recorder
    await recorder.written()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


def stored(client: MemoryClient) -> list[dict[str, Any]]:
    return list(client.objects(EVENT))


async def test_an_event_says_what_happened_to_which_object() -> None:
    client = MemoryClient()
    async with recorder(client) as events:
        events.record(GANG, "Normal", "MnnvlResourcesAdopted", "2 resources")
    (event,) = stored(client)
    event["metadata"] = {key: event["metadata"][key] for key in ("name", "namespace")}
    assert event["metadata"].pop("name").startswith("train-0.")
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "ml"},
        "eventTime": "2026-11-21T12:00:00.000005Z",
        "reportingController": "grove-admission",
        "reportingInstance": "pod-1",
        "action": "Reconcile",
        "type": "Normal",
        "reason": "MnnvlResourcesAdopted",
        "note": "2 resources",
        "regarding": {
            "apiVersion": "scheduler.grove.io/v1alpha1",
            "kind": "PodGang",
            "namespace": "ml",
            "name": "train-0",
            "uid": "uid-1",
        },
    }


async def test_the_same_again_counts_up_after_a_restart_too() -> None:
    client = MemoryClient()
    async with recorder(client) as events:
        events.record(GANG, "Warning", "X", "same")
        events.record(GANG, "Warning", "X", "same")
        events.record(GANG, "Warning", "X", "other")
    async with recorder(client) as events:
        events.record(GANG, "Warning", "X", "same")
    counts = {event["note"]: event.get("series", {}).get("count") for event in stored(client)}
    assert counts == {"same": 2, "other": None}


async def test_an_event_that_has_expired_is_written_anew() -> None:
    client = MemoryClient()
    async with recorder(client) as events:
        events.record(GANG, "Normal", "X", "same")
        await events.written()
        await client.delete(ObjectRef(EVENT, stored(client)[0]["metadata"]["name"], "ml"))
        events.record(GANG, "Normal", "X", "same")
    assert [event["note"] for event in stored(client)] == ["same"]


async def test_events_on_cluster_scoped_objects_go_to_default() -> None:
    client = MemoryClient()
    async with recorder(client) as events:
        events.record(TOPOLOGY, "Normal", "X", "y")
    assert stored(client)[0]["metadata"]["namespace"] == "default"
    assert "namespace" not in stored(client)[0]["regarding"]


async def test_what_the_cluster_refuses_is_counted_and_the_next_one_is_written() -> None:
    client = MemoryClient()
    client.fail_next("create", EVENT, Rejected("no", code=403))
    client.fail_next("create", EVENT, Unavailable("down", code=503))
    async with recorder(client) as events:
        for note in ("one", "two", "three"):
            events.record(GANG, "Normal", "X", note)
    assert ([event["note"] for event in stored(client)], events.lost) == (["three"], 2)


async def test_a_flood_is_bounded_and_a_long_note_cut() -> None:
    client = MemoryClient()
    events = Recorder(client, "pod-1")
    for number in range(QUEUE_LIMIT + 3):
        events.record(GANG, "Normal", "X", f"{number} {'x' * 2000}")
    assert events.lost == 3
    async with asyncio.timeout(240):
        running = asyncio.create_task(events.run())
        await events.written()
        running.cancel()
    assert {len(event["note"]) for event in stored(client)} == {NOTE_LIMIT}


@pytest.mark.parametrize("note", ["x" * 1025, "\u2026" * 400, "x" * 1020 + "\u2026\u2026"])
async def test_a_note_is_cut_to_the_bytes_that_the_api_server_accepts(note: str) -> None:
    client = MemoryClient()
    async with recorder(client) as events:
        events.record(GANG, "Normal", "X", note)
    (event,) = stored(client)
    assert NOTE_LIMIT - 3 < len(event["note"].encode()) <= NOTE_LIMIT
    assert note.startswith(event["note"].removesuffix("..."))


@pytest.mark.parametrize(
    "name", ["a" * 253, "a" * 199 + "-" + "b" * 53, "a" * 198 + ".b" + ".c" * 20]
)
async def test_the_name_of_an_event_is_valid_if_the_name_of_its_object_is_long(name: str) -> None:
    client = MemoryClient()
    async with recorder(client) as events:
        events.record(replace(GANG, name=name), "Normal", "X", "y")
    assert [is_subdomain(event["metadata"]["name"]) for event in stored(client)] == [True]


def test_an_object_becomes_what_an_event_regards() -> None:
    metadata = {"namespace": "ml", "name": "train-0", "uid": "uid-1"}
    obj = {"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "metadata": metadata}
    assert Regarding.of(obj) == GANG
    assert Regarding.to(POD_GANG, "train-0", "ml", "uid-1") == GANG
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}
    assert Regarding.of(node) == Regarding.to(NODE, "a") == Regarding("v1", "Node", "", "a", "")
    assert Regarding.of(node).reference() == {"apiVersion": "v1", "kind": "Node", "name": "a"}
    assert GANG.reference() == {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        **metadata,
    }


def notices() -> tuple[Notices, Callable[[], list[str]]]:
    """Notices, and a function for the notes that were recorded since it was called last."""
    recorder = Recorder(MemoryClient(), "test")

    def told() -> list[str]:
        queue = recorder._waiting
        return [queue.take()["note"] for _ in range(len(queue))]

    return Notices(recorder), told


def test_a_problem_is_told_once_until_it_is_another_one_or_was_gone() -> None:
    kept, told = notices()
    key = ("ns", "a")
    for note, expected in (("first", ["first"]), ("first", []), ("second", ["second"])):
        kept.say(key, [GANG], "Reason", note)
        assert told() == expected
    kept.say(key, [GANG, replace(GANG, name="other")], "Reason", "second")
    assert told() == ["second"]
    kept.forget(key)
    kept.say(key, [GANG], "Reason", "second")
    assert told() == ["second"]


def test_of_very_many_problems_the_oldest_may_be_told_again() -> None:
    kept, told = notices()
    for number in range(10_001):
        kept.say(("ns", str(number)), [GANG], "Reason", "note")
        assert told() == ["note"]
    kept.say(("ns", "1"), [GANG], "Reason", "note")
    assert told() == []
    kept.say(("ns", "0"), [GANG], "Reason", "note")
    assert told() == ["note"]


async def test_the_events_of_one_namespace_do_not_displace_those_of_others() -> None:
    client = MemoryClient()
    waiting = Recorder(client, "test")
    for number in range(2 * QUEUE_LIMIT):
        waiting.record(replace(GANG, namespace="many", uid=str(number)), "Warning", "X", "y")
    assert waiting.record(GANG, "Warning", "X", "y")
    assert waiting.lost == QUEUE_LIMIT

    writing = asyncio.create_task(waiting.run())
    await waiting.written()
    writing.cancel()
    namespaces = [call.namespace for call in client.calls]
    assert namespaces[:2] == ["many", GANG.namespace]
    assert len(namespaces) == QUEUE_LIMIT + 1


def test_a_lost_warning_is_told_again() -> None:
    recorder = Recorder(MemoryClient(), "test")
    kept = Notices(recorder)
    for number in range(QUEUE_LIMIT):
        recorder.record(replace(GANG, uid=str(number)), "Warning", "X", "y")
    kept.say(("ns", "a"), [GANG], "Reason", "note")
    recorder._waiting.take()
    kept.say(("ns", "a"), [GANG], "Reason", "note")
    notes = [recorder._waiting.take()["note"] for _ in range(len(recorder._waiting))]
    assert notes.count("note") == 1


def test_a_long_note_is_not_kept() -> None:
    """It may list the groups of a Workload, and 10,000 keys may each have their own."""
    kept, told = notices()
    kept.say(("ns", "a"), [GANG], "Reason", "x" * 100_000)
    (note,) = told()
    ((_, _, remembered),) = kept._current["ns", "a"]
    assert len(note) == len(remembered) == NOTE_LIMIT

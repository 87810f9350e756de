"""The storage: versions, history, mailboxes of watches, and who depends on whom."""

import asyncio
from typing import Any

import pytest

from scripts.apiserver.objects.errors import ApiError
from scripts.apiserver.storage import Storage, StoredChange, Watcher

TABLE = ("", "configmaps")
OTHER = ("", "secrets")


def obj(name: str, namespace: str = "home", *owners: str, **more: Any) -> dict[str, Any]:
    references = {"ownerReferences": [{"uid": owner} for owner in owners]} if owners else {}
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", **references},
        **more,
    }


def version(stored: dict[str, Any]) -> str:
    return str(stored["metadata"]["resourceVersion"])


def summary(changes: list[StoredChange]) -> list[tuple[str, int, str]]:
    return [(change.type, change.version, change.obj["metadata"]["name"]) for change in changes]


def test_versions_count_all_writes_of_all_tables() -> None:
    storage = Storage()
    first = storage.insert(TABLE, obj("one"))
    second = storage.insert(OTHER, obj("two"))
    changed = storage.replace(TABLE, obj("one", data={}), version(first))
    gone = storage.remove(OTHER, ("home", "two"))
    assert [version(item) for item in (first, second, changed, gone)] == ["2", "3", "4", "5"]
    assert (storage.get(TABLE, ("home", "one")), storage.get(OTHER, ("home", "two"))) == (
        changed,
        None,
    )


@pytest.mark.parametrize(
    ("action", "code", "reason"),
    [
        pytest.param(
            lambda storage: storage.insert(TABLE, obj("one")),
            409,
            "AlreadyExists",
            id="a second insert",
        ),
        pytest.param(
            lambda storage: storage.replace(TABLE, obj("one"), "1"),
            409,
            "Conflict",
            id="an old version",
        ),
        pytest.param(
            lambda storage: storage.replace(TABLE, obj("two"), "1"),
            404,
            "NotFound",
            id="a change of nothing",
        ),
        pytest.param(
            lambda storage: storage.remove(TABLE, ("home", "two")),
            404,
            "NotFound",
            id="a removal of nothing",
        ),
    ],
)
def test_writes_that_do_not_go(action: Any, code: int, reason: str) -> None:
    storage = Storage()
    stored = storage.insert(TABLE, obj("one"))
    with pytest.raises(ApiError) as raised:
        action(storage)
    assert (raised.value.code, raised.value.reason) == (code, reason)
    assert (storage.version, storage.get(TABLE, ("home", "one"))) == (2, stored)


def test_items_are_in_order_of_namespace_and_name() -> None:
    storage = Storage()
    for namespace, name in (("b", "one"), ("a-b", "one"), ("a", "two"), ("a", "one")):
        storage.insert(TABLE, obj(name, namespace) | {"data": name})
    table = storage.table(TABLE)
    assert table.keys() == [("a", "one"), ("a", "two"), ("a-b", "one"), ("b", "one")]
    assert table.keys("a") == [("a", "one"), ("a", "two")]
    storage.remove(TABLE, ("a", "one"))
    assert [item["metadata"]["name"] for item in table.items("a")] == ["two"]
    assert table.keys("nowhere") == []


def test_history_gives_what_came_after_a_version() -> None:
    storage = Storage()
    stored = storage.insert(TABLE, obj("one"))
    storage.insert(OTHER, obj("two"))
    storage.replace(TABLE, obj("one"), version(stored))
    storage.remove(TABLE, ("home", "one"))
    table = storage.table(TABLE)
    assert summary(table.since(2)) == [("MODIFIED", 4, "one"), ("DELETED", 5, "one")]
    assert summary(table.since(5)) == []


def test_history_is_bounded_and_says_what_it_forgot() -> None:
    storage = Storage(history=2)
    for name in ("one", "two", "three"):
        storage.insert(TABLE, obj(name))
    assert summary(storage.table(TABLE).since(2)) == [("ADDED", 3, "two"), ("ADDED", 4, "three")]
    with pytest.raises(ApiError, match=r"too old resource version: 1 \(2\)") as raised:
        storage.table(TABLE).since(1)
    assert (raised.value.code, raised.value.reason) == (410, "Expired")


def test_compaction_forgets_everything_also_of_tables_to_come() -> None:
    storage = Storage()
    storage.insert(TABLE, obj("one"))
    storage.compact()
    storage.insert(OTHER, obj("two"))
    for table in (TABLE, OTHER):
        with pytest.raises(ApiError, match="too old"):
            storage.table(table).since(1)
    assert summary(storage.table(OTHER).since(2)) == [("ADDED", 3, "two")]


def test_dependents_follow_owner_references() -> None:
    storage = Storage()
    stored = storage.insert(TABLE, obj("one", "home", "a", "b"))
    storage.insert(OTHER, obj("two", "home", "b"))
    first = (TABLE, ("home", "one"))
    second = (OTHER, ("home", "two"))
    assert (storage.dependents("a"), storage.dependents("b")) == ([first], [first, second])
    storage.replace(TABLE, obj("one", "home", "b"), version(stored))
    assert (storage.dependents("a"), storage.dependents("b")) == ([], [second, first])
    storage.remove(TABLE, ("home", "one"))
    assert (storage.dependents("b"), storage.uids) == ([second], {"uid-two": second})


def test_listeners_hear_of_each_write_after_it_is_done() -> None:
    storage = Storage()
    heard = []
    storage.listeners.append(
        lambda change: heard.append((change.type, storage.get(TABLE, ("home", "one")) is not None))
    )
    storage.insert(TABLE, obj("one"))
    storage.remove(TABLE, ("home", "one"))
    assert heard == [("ADDED", True), ("DELETED", False)]


def change(number: int) -> StoredChange:
    return StoredChange("ADDED", number, TABLE, obj("one"), None)


async def test_a_mailbox_gives_everything_that_arrived() -> None:
    watcher = Watcher()
    first = change(1)
    second = change(2)
    watcher.offer(first)
    watcher.offer(second)
    assert await watcher.take(0) == [first, second]
    assert await watcher.take(0) == []


async def test_a_mailbox_wakes_who_waits() -> None:
    watcher = Watcher()
    sent = change(1)
    waiting = asyncio.create_task(watcher.take(60))
    await asyncio.sleep(0)
    watcher.offer(sent)
    assert await waiting == [sent]


async def test_what_arrives_as_the_time_is_over_is_not_left_lying() -> None:
    """Else a bookmark could promise a version whose change was not delivered yet."""
    watcher = Watcher()
    sent = change(1)
    waiting = asyncio.create_task(watcher.take(0))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(watcher.offer, sent)
    assert await waiting == [sent]


async def test_the_end_of_the_storage_ends_all_watches() -> None:
    storage = Storage()
    watcher = Watcher()
    storage.table(TABLE).watchers.add(watcher)
    waiting = asyncio.create_task(watcher.take(60))
    await asyncio.sleep(0)
    storage.close()
    assert (await waiting, watcher.closed) == ([], True)

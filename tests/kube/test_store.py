"""WatchStore: what it keeps, in which order versions win, and what subscribers hear."""

import asyncio
import gc
import tracemalloc
from typing import NamedTuple

import pytest

from app.base.sample import counter
from app.kube.api import Key, Object, Rejected, Unavailable, WatchEvent
from app.kube.store import WatchStore


class Kept(NamedTuple):
    name: str
    owner: str


Heard = list[tuple[Key, Kept | None, Kept | None]]


def obj(name: str, version: int | str, owner: str = "", **labels: str) -> Object:
    metadata = {"namespace": "ns", "name": name, "resourceVersion": str(version), "labels": labels}
    return {"metadata": metadata, "owner": owner}


def project(document: Object) -> Kept | None:
    if "unwanted" in document["metadata"].get("labels", {}):
        return None
    return Kept(document["metadata"]["name"], document.get("owner", ""))


@pytest.fixture
def store() -> WatchStore[Kept]:
    return WatchStore(
        project,
        {"owner": lambda kept: [("ns", kept.owner)] if kept.owner else []},
        clock=lambda: 0.0,
    )


def listed(store: WatchStore[Kept], version: int, *objects: Object) -> None:
    store.begin_list()
    store.take_listed(objects)
    store.drop_unlisted(store.known_keys(), str(version))
    store.end_list(str(version))


def names(store: WatchStore[Kept]) -> list[str]:
    return sorted(kept.name for kept in store.values())


def heard_by(store: WatchStore[Kept]) -> Heard:
    heard: Heard = []
    store.subscribe(lambda key, before, after: heard.append((key, before, after)))
    return heard


def test_a_store_is_synced_after_the_last_page(store: WatchStore[Kept]) -> None:
    store.begin_list()
    store.take_listed([obj("a", 1)])
    assert (store.synced, names(store)) == (False, ["a"])
    store.take_listed([obj("b", 2)])
    store.end_list("2")
    assert (store.synced, store.served, names(store), len(store)) == (True, True, ["a", "b"], 2)


def test_what_a_later_list_lacks_is_dropped(store: WatchStore[Kept]) -> None:
    listed(store, 2, obj("a", 1), obj("b", 2))
    heard = heard_by(store)
    listed(store, 5, obj("b", 2), obj("c", 4))
    assert names(store) == ["b", "c"]
    assert heard == [(("ns", "c"), None, Kept("c", "")), (("ns", "a"), Kept("a", ""), None)]


def test_events_are_applied(store: WatchStore[Kept]) -> None:
    listed(store, 1, obj("a", 1))
    heard = heard_by(store)
    events = [
        WatchEvent("ADDED", obj("b", 2, "x")),
        WatchEvent("MODIFIED", obj("a", 3, "x")),
        WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "7"}}),
        WatchEvent("DELETED", obj("b", 8, "x")),
    ]
    assert [store.apply(event) for event in events] == [2, 3, 7, 8]
    assert store.by_index("owner", ("ns", "x")) == [Kept("a", "x")]
    assert heard == [
        (("ns", "b"), None, Kept("b", "x")),
        (("ns", "a"), Kept("a", ""), Kept("a", "x")),
        (("ns", "b"), Kept("b", "x"), None),
    ]


def test_an_object_that_is_no_longer_wanted_leaves(store: WatchStore[Kept]) -> None:
    listed(store, 1, obj("a", 1), obj("b", 1, unwanted="1"))
    assert names(store) == ["a"]
    store.apply(WatchEvent("MODIFIED", obj("a", 2, unwanted="1")))
    assert names(store) == []


def test_a_change_that_the_projection_does_not_show_is_not_told(store: WatchStore[Kept]) -> None:
    listed(store, 1, obj("a", 1))
    heard = heard_by(store)
    store.apply(WatchEvent("MODIFIED", obj("a", 2, other="label")))
    assert heard == []


def test_indexes_follow_their_objects(store: WatchStore[Kept]) -> None:
    listed(store, 3, obj("a", 1, "x"), obj("b", 2, "x"), obj("c", 3, "y"))
    assert [kept.name for kept in store.by_index("owner", ("ns", "x"))] == ["a", "b"]
    store.apply(WatchEvent("MODIFIED", obj("a", 4, "y")))
    store.apply(WatchEvent("DELETED", obj("c", 5)))
    assert [kept.name for kept in store.by_index("owner", ("ns", "x"))] == ["b"]
    assert [kept.name for kept in store.by_index("owner", ("ns", "y"))] == ["a"]
    store.apply(WatchEvent("DELETED", obj("a", 6)))
    assert store.by_index("owner", ("ns", "y")) == []


def test_an_index_that_was_not_declared_is_an_error(store: WatchStore[Kept]) -> None:
    with pytest.raises(KeyError):
        store.by_index("absent", ("ns", "x"))


@pytest.mark.parametrize(
    ("noted", "expected"),
    [
        pytest.param(obj("a", 9, "new"), [Kept("a", "new")], id="newer than the cache is taken in"),
        pytest.param(obj("a", 2, "old"), [Kept("a", "")], id="older than the cache is passed over"),
        pytest.param(
            obj("b", 4, "x"),
            [Kept("a", "")],
            id="absent but already passed by the watch was deleted",
        ),
        pytest.param(
            obj("b", 9, "x"),
            [Kept("a", ""), Kept("b", "x")],
            id="absent and ahead of the watch is taken",
        ),
    ],
)
def test_notes(store: WatchStore[Kept], noted: Object, expected: list[Kept]) -> None:
    listed(store, 5, obj("a", 3))
    store.note(noted)
    assert sorted(store.values()) == expected


def test_the_watch_catching_up_does_not_undo_a_note(store: WatchStore[Kept]) -> None:
    listed(store, 1, obj("a", 1))
    store.note(obj("a", 7, "new"))
    store.apply(WatchEvent("MODIFIED", obj("a", 3, "middle")))
    store.apply(WatchEvent("DELETED", obj("a", 5)))
    assert store.values() == [Kept("a", "new")]
    store.apply(WatchEvent("DELETED", obj("a", 8)))
    assert store.values() == []


def test_a_note_made_while_a_list_comes_in_outlives_it_only_if_newer(
    store: WatchStore[Kept],
) -> None:
    store.begin_list()
    for name, version in (("newer", 9), ("deleted", 4), ("both", 8)):
        store.note(obj(name, version, "noted"))
    store.take_listed([obj("both", 2, "listed")])
    store.drop_unlisted(store.known_keys(), "5")
    store.end_list("5")
    assert sorted(store.values()) == [Kept("both", "noted"), Kept("newer", "noted")]


@pytest.mark.parametrize("late", [2, 8])
def test_a_late_response_does_not_undo_what_a_list_has_brought(
    store: WatchStore[Kept], late: int
) -> None:
    """A response may arrive at any time until the list has ended, for any object."""
    listed(store, 1, obj("a", 1))
    store.begin_list()
    store.note(obj("a", 3, "noted"))
    store.take_listed([obj("a", 9, "listed")], "10")
    store.note(obj("a", late, "late"))
    store.drop_unlisted(store.known_keys(), "10")
    store.note(obj("deleted", late, "late"))
    store.end_list("10")
    assert store.values() == [Kept("a", "listed")]


def test_an_older_response_does_not_undo_a_newer_one(store: WatchStore[Kept]) -> None:
    listed(store, 1, obj("a", 1))
    store.note(obj("a", 9, "newer"))
    store.note(obj("a", 8, "older"))
    store.apply(WatchEvent("MODIFIED", obj("a", 8, "older")))
    assert store.values() == [Kept("a", "newer")]


def test_a_response_that_the_watch_has_passed_is_late_whatever_was_noted(
    store: WatchStore[Kept],
) -> None:
    listed(store, 1)
    store.note(obj("a", 5, "noted"))
    store.apply(WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "20"}}))
    store.note(obj("a", 15, "late"))
    assert store.values() == [Kept("a", "noted")]


def test_the_watch_goes_on_after_a_note(store: WatchStore[Kept]) -> None:
    listed(store, 1, obj("a", 1))
    store.note(obj("a", 5, "noted"))
    for version, owner in ((5, "noted"), (6, "then")):
        store.apply(WatchEvent("MODIFIED", obj("a", version, owner)))
    store.note(obj("a", 5, "late"))
    assert store.values() == [Kept("a", "then")]


def test_a_list_after_a_database_restore_replaces_higher_versions(store: WatchStore[Kept]) -> None:
    listed(store, 900, obj("a", 800, "before"), obj("b", 801))
    store.note(obj("a", 901, "noted"))
    listed(store, 50, obj("a", 40, "restored"))
    assert store.values() == [Kept("a", "restored")]


def test_versions_that_are_no_numbers_last_one_wins(store: WatchStore[Kept]) -> None:
    listed(store, 1, obj("a", "abc", "first"))
    store.apply(WatchEvent("MODIFIED", obj("a", "aaa", "second")))
    assert store.values() == [Kept("a", "second")]


def test_a_resource_that_is_not_served_is_synced_and_empty(store: WatchStore[Kept]) -> None:
    listed(store, 1, obj("a", 1))
    heard = heard_by(store)
    store.mark_not_served()
    assert (store.synced, store.served, len(store)) == (True, False, 0)
    assert heard == [(("ns", "a"), Kept("a", ""), None)]
    listed(store, 1, obj("a", 1))
    assert store.served


def test_age_counts_from_the_last_sign_of_life() -> None:
    clock = [10.0]
    store = WatchStore(project, clock=lambda: clock[0])
    assert store.age() is None
    listed(store, 1)
    clock[0] = 15.0
    assert store.age() == 5.0
    store.apply(WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "2"}}))
    assert store.age() == 0.0


def bytes_per_object(prefix: str, count: int = 5_000) -> float:
    tracemalloc.start()
    store = WatchStore(project, {"owner": lambda kept: [("ns", kept.owner)]})
    before = tracemalloc.get_traced_memory()[0]
    for number in range(count):
        store.apply(
            WatchEvent(
                "ADDED",
                obj(f"{prefix}-0-decode-{number:06d}", 1_000_000 + number, f"{prefix}-{number}"),
            )
        )
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return used / count


@pytest.mark.untraced
def test_a_cached_object_costs_less_than_a_kibibyte() -> None:
    """Python's table of interned strings grows now and then by megabytes: that is no cost of these
    objects.
    """
    assert min(bytes_per_object("workload"), bytes_per_object("another")) < 1024


# Streaming lists.


def streamed(store: WatchStore[Kept], *events: WatchEvent) -> None:
    for event in events:
        store.take_streamed(event)


def end_stream(store: WatchStore[Kept], version: int) -> None:
    store.drop_unlisted(store.known_keys(), str(version))
    store.end_list(str(version))


def test_changes_before_a_streaming_list_ends_count(store: WatchStore[Kept]) -> None:
    listed(store, 3, obj("gone", 3))
    store.begin_list()
    streamed(
        store,
        WatchEvent("ADDED", obj("a", 5)),
        WatchEvent("ADDED", obj("b", 4)),
        WatchEvent("DELETED", obj("a", 6)),
        WatchEvent("MODIFIED", obj("b", 7, "new")),
        WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "8"}}),
    )
    end_stream(store, 9)
    assert store.values() == [Kept("b", "new")]


def test_an_object_that_is_made_again_within_a_streaming_list_is_kept(
    store: WatchStore[Kept],
) -> None:
    store.begin_list()
    events = (("ADDED", 5, ""), ("DELETED", 6, ""), ("ADDED", 7, "new"))
    for kind, version, owner in events:
        store.take_streamed(WatchEvent(kind, obj("a", version, owner)))  # type: ignore[arg-type]
    end_stream(store, 7)
    assert store.values() == [Kept("a", "new")]


def test_a_response_to_a_write_within_a_streaming_list_is_kept_if_it_is_newer(
    store: WatchStore[Kept],
) -> None:
    store.begin_list()
    streamed(store, WatchEvent("ADDED", obj("a", 5)), WatchEvent("ADDED", obj("b", 6)))
    store.note(obj("a", 7, "written"))
    store.note(obj("b", 4, "too old"))
    store.note(obj("c", 8, "written"))
    streamed(store, WatchEvent("ADDED", obj("c", 3)))
    end_stream(store, 6)
    assert sorted(store.values()) == [Kept("a", "written"), Kept("b", ""), Kept("c", "written")]


# Objects that are too large.


@pytest.fixture
def bounded() -> WatchStore[Kept]:
    return WatchStore(project, clock=lambda: 0.0, most=100, is_cut=lambda kept: kept.owner == "cut")


LARGE = "x" * 100


def test_an_object_that_is_too_large_is_not_stored_and_named(bounded: WatchStore[Kept]) -> None:
    listed(bounded, 3, obj("a", 1, LARGE), obj("b", 2, "small"))
    assert (names(bounded), set(bounded.too_large)) == (["b"], {("ns", "a")})
    assert sorted(bounded.known_keys()) == [("ns", "a"), ("ns", "b")]

    bounded.apply(WatchEvent("MODIFIED", obj("b", 4, LARGE), length=1000))
    assert (names(bounded), set(bounded.too_large)) == ([], {("ns", "a"), ("ns", "b")})
    bounded.apply(WatchEvent("MODIFIED", obj("a", 5), length=10))
    assert (names(bounded), set(bounded.too_large)) == (["a"], {("ns", "b")})
    bounded.apply(WatchEvent("DELETED", obj("b", 6, LARGE), length=1000))
    assert bounded.too_large == {}


def test_a_long_object_of_which_little_is_kept_is_stored(bounded: WatchStore[Kept]) -> None:
    bounded.apply(WatchEvent("ADDED", obj("a", 1), length=2**20))
    assert (names(bounded), set(bounded.too_large)) == (["a"], set())


@pytest.mark.parametrize("length", [0, 1000], ids=["unknown", "known"])
def test_an_object_of_which_too_much_is_decoded_is_not_projected(length: int) -> None:
    projected: list[str] = []

    def note(obj: Object) -> Kept | None:
        projected.append(obj["metadata"]["name"])
        return project(obj)

    store = WatchStore(note, clock=lambda: 0.0, most_decoded=300)
    for name, size in (("a", 10), ("b", 300)):
        store.apply(WatchEvent("ADDED", obj(name, 1, "x" * size), length=length))
    assert (projected, names(store), set(store.too_large)) == (["a"], ["a"], {("ns", "b")})
    store.apply(WatchEvent("MODIFIED", obj("b", 2, "x"), length=length))
    assert (names(store), store.too_large) == (["a", "b"], {})


def test_an_object_whose_length_nobody_has_counted_is_measured(
    bounded: WatchStore[Kept],
) -> None:
    bounded.note(obj("a", 1, LARGE))
    bounded.note(obj("b", 2))
    bounded.apply(WatchEvent("ADDED", obj("c", 3, LARGE)))
    bounded.apply(WatchEvent("ADDED", obj("d", 4)))
    assert (names(bounded), set(bounded.too_large)) == (["b", "d"], {("ns", "a"), ("ns", "c")})


def test_a_value_that_is_cut_is_stored_and_named(bounded: WatchStore[Kept]) -> None:
    bounded.apply(WatchEvent("ADDED", obj("a", 1, "cut"), length=2**20))
    assert (names(bounded), set(bounded.too_large)) == (["a"], {("ns", "a")})


def test_one_that_is_too_large_and_gone_from_the_next_list_is_forgotten(
    bounded: WatchStore[Kept],
) -> None:
    listed(bounded, 3, obj("a", 1, LARGE))
    listed(bounded, 4)
    assert bounded.too_large == {}
    listed(bounded, 5, obj("a", 5, LARGE))
    bounded.mark_not_served()
    assert bounded.too_large == {}


def large(name: str, version: int, size: int, namespace: str = "ns") -> Object:
    document = obj(name, version, "x" * size)
    document["metadata"]["namespace"] = namespace
    return document


def test_the_objects_of_a_namespace_have_a_bounded_size() -> None:
    """Thousands of objects below the limit of one would take all memory."""
    store = WatchStore(project, clock=lambda: 0.0, most_of_namespace=4000)
    first = [large(name, 1, 2900) for name in ("a", "b", "c")]
    others = [large("d", 1, 2900, "other"), large("e", 1, 900), large("f", 1, 2900, "other")]
    listed(store, 1, *first, *others)
    assert (names(store), set(store.too_large)) == (["a", "b", "d", "e", "f"], {("ns", "c")})

    store.apply(WatchEvent("MODIFIED", large("a", 2, 2950)))
    store.apply(WatchEvent("MODIFIED", large("c", 3, 2900)))
    assert set(store.too_large) == {("ns", "c")}

    store.apply(WatchEvent("DELETED", large("a", 4, 2950)))
    store.apply(WatchEvent("MODIFIED", large("c", 5, 2900)))
    assert (names(store), store.too_large) == (["b", "c", "d", "e", "f"], {})

    store.apply(WatchEvent("MODIFIED", large("b", 6, 10)))
    store.apply(WatchEvent("ADDED", large("g", 7, 2900)))
    assert (names(store), store.too_large) == (["b", "c", "d", "e", "f", "g"], {})
    store.apply(WatchEvent("MODIFIED", large("c", 8, 9000)))
    store.apply(WatchEvent("MODIFIED", large("b", 9, 2900)))
    assert (names(store), set(store.too_large)) == (["b", "d", "e", "f", "g"], {("ns", "c")})


def test_the_objects_of_a_namespace_have_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first KiB of each counts for no other limit, so small ones would take all memory."""
    monkeypatch.setattr("app.kube.store.MOST_NAMED", 2)
    store = WatchStore(project, clock=lambda: 0.0, most_objects=3, rest=rest_of)
    small = [large(name, 1, 10) for name in ("a", "b", "c", "none", "d", "long")]
    listed(store, 1, *small, large("e", 1, 10, "other"))
    kept = {kept.name: kept.owner[:2] for kept in store.values()}
    assert kept == {"a": "xx", "b": "xx", "c": "xx", "d": "re", "e": "xx"}
    assert set(store.too_large) == {("ns", "none"), ("ns", "d")}
    assert (store.lacks_some_of("ns"), store.lacks_some_of("other")) == (True, False)

    store.apply(WatchEvent("MODIFIED", large("a", 2, 20)))
    store.apply(WatchEvent("MODIFIED", large("d", 3, 20)))
    assert (len(store), set(store.too_large)) == (5, {("ns", "none"), ("ns", "d")})

    store.apply(WatchEvent("DELETED", large("d", 4, 20)))
    store.apply(WatchEvent("DELETED", large("b", 5, 20)))
    store.apply(WatchEvent("MODIFIED", large("none", 6, 20)))
    assert (names(store), store.too_large) == (["a", "c", "e", "none"], {})
    assert store.lacks_some_of("ns"), "an object without a name may still be there"

    store.apply(WatchEvent("ADDED", large("h", 6, 9, "ns")))
    store.apply(WatchEvent("ADDED", large("i", 6, 9, "ns")))
    assert set(store.too_large) == {("ns", "h"), ("ns", "i")}
    unwanted = large("h", 7, 10)
    unwanted["metadata"]["labels"] = {"unwanted": ""}
    store.apply(WatchEvent("ADDED", unwanted))
    assert (len(store), set(store.too_large)) == (5, {("ns", "i")})


def test_objects_without_a_namespace_have_no_common_limit() -> None:
    """Only administrators create nodes."""
    store = WatchStore(project, clock=lambda: 0.0, most_of_namespace=4000, most_objects=3)
    listed(store, 1, *(large(str(number), 1, 3000, "") for number in range(5)))
    assert (len(store), store.too_large) == (5, {})


def test_an_object_whose_bytes_are_known_counts_for_no_more_than_these() -> None:
    store = WatchStore(project, clock=lambda: 0.0, most=3000, most_of_namespace=4000)
    store.begin_list()
    for name in ("a", "b", "c"):
        store.take_listed([large(name, 1, 3200)], "1", 2500)
    store.end_list("1")
    assert (names(store), set(store.too_large)) == (["a", "b"], {("ns", "c")})


def rest_of(document: Object) -> Kept | None:
    """What is kept of an object in the tests below that is too large."""
    name = document["metadata"]["name"]
    return None if name == "none" else Kept(name, "y" * 5000 if name == "long" else "rest")


@pytest.mark.parametrize(("most", "most_decoded"), [(2000, None), (2**20, 2000)])
def test_of_an_object_that_is_too_large_the_rest_is_kept(
    most: int, most_decoded: int | None
) -> None:
    store = WatchStore(
        project, clock=lambda: 0.0, most=most, most_decoded=most_decoded, rest=rest_of
    )
    listed(store, 1, *(large(name, 1, 2900) for name in ("a", "none", "long")))
    assert store.values() == [Kept("a", "rest")]
    assert set(store.too_large) == {("ns", "a"), ("ns", "none"), ("ns", "long")}

    store.apply(WatchEvent("MODIFIED", large("a", 2, 10)))
    assert (store.values(), len(store.too_large)) == ([Kept("a", "x" * 10)], 2)
    store.apply(WatchEvent("MODIFIED", large("a", 3, 2900)))
    assert store.values() == [Kept("a", "rest")]
    store.apply(WatchEvent("DELETED", large("a", 4, 2900)))
    assert (store.values(), len(store.too_large)) == ([], 2)


def test_a_rest_does_not_count_in_its_namespace() -> None:
    store = WatchStore(project, clock=lambda: 0.0, most_of_namespace=4000, rest=rest_of)
    listed(store, 1, *(large(name, 1, 2900) for name in ("a", "b", "c", "d")))
    assert [kept.owner for kept in store.values()][2:] == ["rest", "rest"]
    store.apply(WatchEvent("MODIFIED", large("a", 2, 9000)))
    store.apply(WatchEvent("MODIFIED", large("c", 3, 2900)))
    assert set(store.too_large) == {("ns", "a"), ("ns", "d")}


def test_a_store_is_ready_once_it_is_synced(store: WatchStore[Kept]) -> None:
    with pytest.raises(Unavailable) as caught:
        store.ready("PodGangs")
    assert caught.value.message == (
        "the cache of PodGangs is not filled yet; try again in a few seconds"
    )
    listed(store, 1)
    assert store.ready("PodGangs") is store


async def test_who_waits_for_a_store_goes_on_when_it_is_synced(store: WatchStore[Kept]) -> None:
    waiting = asyncio.create_task(store.until_synced())
    await asyncio.sleep(0)
    assert not waiting.done()
    listed(store, 1)
    await asyncio.wait_for(waiting, 20)
    store.forget()
    waiting = asyncio.create_task(store.until_synced())
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()


def test_a_forgotten_store_is_as_new(store: WatchStore[Kept]) -> None:
    listed(store, 5, obj("a", 5, "x"))
    store.note(obj("b", 9, "x"))
    heard = heard_by(store)
    store.mark_not_served()
    store.forget()
    assert (store.synced, store.served, len(store), store.age()) == (False, True, 0, None)
    assert list(store.by_index("owner", ("ns", "x"))) == []
    assert {(key, after) for key, _, after in heard} == {(("ns", "a"), None), (("ns", "b"), None)}
    listed(store, 2, obj("b", 2, "y"))
    assert list(store.values()) == [Kept("b", "y")]


def test_an_error_ends_with_its_problem(store: WatchStore[Kept]) -> None:
    for ends in (store.sign_of_life, store.end_problem, store.mark_not_served):
        store.fail("pods: expired", Rejected("expired", code=401))
        assert (store.problem, getattr(store.error, "code", 0)) == ("pods: expired", 401)
        ends()
        assert (store.problem, store.error) == ("", None)


def test_restarts_are_counted_by_reason(store: WatchStore[Kept]) -> None:
    for reason in ("gone", "silent", "gone"):
        store.count_restart(reason)
    text = "Restarts of watches, by reason."
    assert list(store.restart_samples("pods")) == [
        counter("watch_restarts_total", text, 2, resource="pods", reason="gone"),
        counter("watch_restarts_total", text, 1, resource="pods", reason="silent"),
    ]

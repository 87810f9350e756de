"""Lists in pages, watches from where a list ended, and what they are refused for."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from scripts.apiserver.objects.resources import Registry, Served
from scripts.apiserver.objects.selectors import label_selector
from scripts.apiserver.requests.builtins import builtins
from scripts.apiserver.requests.reads import Query, ReadHandlers, Representation
from scripts.apiserver.storage import Storage
from tests.apiserver.api import (
    CONFIGMAPS,
    NAMESPACE,
    WIDGETS,
    Api,
    Object,
    configmap,
    namespace,
    widget,
)
from tests.kube import virtual

PARTIAL = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def fill(api: Api, *names: str) -> None:
    for name in names:
        obj = configmap(name, a=name)
        obj["metadata"]["labels"] = {"odd": str(len(name) % 2)}
        await api.done("POST", CONFIGMAPS, obj)


# Lists.


async def test_a_list_is_consistent_and_says_its_version(api: Api) -> None:
    await fill(api, "one", "four")
    listed = await api.done("GET", CONFIGMAPS)
    assert {key: value for key, value in listed.items() if key != "items"} == {
        "kind": "ConfigMapList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": listed["items"][0]["metadata"]["resourceVersion"]},
    }
    assert [(item["metadata"]["name"], item["data"]) for item in listed["items"]] == [
        ("four", {"a": "four"}),
        ("one", {"a": "one"}),
    ]


async def test_a_list_of_all_namespaces_and_of_one(api: Api) -> None:
    await api.done("POST", "/api/v1/namespaces", namespace("away"))
    await fill(api, "one")
    await api.done("POST", "/api/v1/namespaces/away/configmaps", configmap("two"))
    assert await api.names("/api/v1/configmaps") == ["two", "one"]
    assert await api.names(CONFIGMAPS) == ["one"]


async def test_pages_come_from_one_moment(api: Api) -> None:
    await fill(api, "a", "b", "c", "d", "e")
    first = await api.done("GET", CONFIGMAPS, limit=2)
    await api.done("DELETE", f"{CONFIGMAPS}/c")
    await fill(api, "f")
    second = await api.done(
        "GET", CONFIGMAPS, limit=2, **{"continue": first["metadata"]["continue"]}
    )
    third = await api.done("GET", CONFIGMAPS, **{"continue": second["metadata"]["continue"]})
    pages = [
        [item["metadata"]["name"] for item in page["items"]] for page in (first, second, third)
    ]
    assert pages == [["a", "b"], ["c", "d"], ["e"]]
    assert [page["metadata"].get("remainingItemCount") for page in (first, second, third)] == [
        3,
        1,
        None,
    ]
    assert {page["metadata"]["resourceVersion"] for page in (first, second, third)} == {
        first["metadata"]["resourceVersion"]
    }
    assert "continue" not in third["metadata"]


async def test_how_many_remain_is_not_known_of_a_selection(api: Api) -> None:
    await fill(api, "a", "b", "c")
    listed = await api.done("GET", CONFIGMAPS, limit=1, labelSelector="odd=1")
    assert sorted(listed["metadata"]) == ["continue", "resourceVersion"]


@pytest.mark.parametrize(
    ("forget", "token", "expected"),
    [
        pytest.param(
            True,
            None,
            (
                410,
                "Expired",
                "The provided continue parameter is too old to display a consistent list result.",
            ),
            id="a page from before a compaction",
        ),
        pytest.param(
            False,
            "1",
            (400, "BadRequest", "continue key is not valid"),
            id="a token that means nothing",
        ),
        pytest.param(
            False,
            "%%%",
            (400, "BadRequest", "continue key is not valid"),
            id="a token that is none",
        ),
    ],
)
async def test_later_pages_that_can_not_be_given(
    api: Api, forget: bool, token: str | None, expected: tuple[int, str, str]
) -> None:
    await fill(api, "a", "b")
    first = await api.done("GET", CONFIGMAPS, limit=1)
    if forget:
        api.sandbox.compact()
    code, reason, message = await api.refused(
        "GET", CONFIGMAPS, **{"continue": token or first["metadata"]["continue"]}
    )
    assert (code, reason) == expected[:2]
    assert message.startswith(expected[2])


async def test_only_so_many_lists_are_kept_for_later_pages(api: Api) -> None:
    await fill(api, "a", "b")
    first = await api.done("GET", CONFIGMAPS, limit=1)
    for _ in range(64):
        last = await api.done("GET", CONFIGMAPS, limit=1)
    assert (await api.refused("GET", CONFIGMAPS, **{"continue": first["metadata"]["continue"]}))[
        0
    ] == 410
    assert await api.names(CONFIGMAPS, **{"continue": last["metadata"]["continue"]}) == ["b"]


LIST_OPTIONS = 'ListOptions.meta.k8s.io "" is invalid: '


@pytest.mark.parametrize(
    ("params", "code", "told"),
    [
        pytest.param({"resourceVersion": "0"}, 200, "", id="any version"),
        pytest.param({"resourceVersion": "1"}, 200, "", id="not older than"),
        pytest.param(
            {"resourceVersion": "x"}, 400, "resourceVersion: Invalid value: 'x'", id="no version"
        ),
        pytest.param({"limit": "x"}, 400, "limit: Invalid value: 'x'", id="no limit"),
        pytest.param(
            {"labelSelector": "a b"}, 400, "unable to parse requirement: 'a b'", id="no selector"
        ),
        pytest.param(
            {"fieldSelector": "data.a=b"},
            400,
            "field label not supported: data.a",
            id="a field that is no label",
        ),
    ],
)
async def test_what_a_list_may_ask(api: Api, params: dict[str, str], code: int, told: str) -> None:
    await fill(api, "a")
    status, answer = await api.ask("GET", CONFIGMAPS, **params)
    assert (status, answer.get("message", "")[: len(told)]) == (code, told)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        pytest.param({"labelSelector": "odd=1"}, ["one"], id="a label"),
        pytest.param({"labelSelector": "odd notin (1)"}, ["four"], id="a set of labels"),
        pytest.param({"fieldSelector": "metadata.name=four"}, ["four"], id="a name"),
        pytest.param(
            {"fieldSelector": "metadata.name!=four", "labelSelector": "odd"},
            ["one"],
            id="both at once",
        ),
        pytest.param({"fieldSelector": "metadata.namespace=away"}, [], id="another namespace"),
    ],
)
async def test_selections(api: Api, params: dict[str, str], expected: list[str]) -> None:
    await fill(api, "one", "four")
    assert await api.names(CONFIGMAPS, **params) == expected


async def test_metadata_alone(api: Api) -> None:
    await fill(api, "one")
    whole = await api.done("GET", f"{CONFIGMAPS}/one")
    headers = {"Accept": PARTIAL}
    listed = await api.done("GET", CONFIGMAPS, headers=headers)
    partial = {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": whole["metadata"],
    }
    assert (listed["kind"], listed["apiVersion"], listed["items"]) == (
        "PartialObjectMetadataList",
        "meta.k8s.io/v1",
        [partial],
    )
    assert await api.done("GET", f"{CONFIGMAPS}/one", headers=headers) == partial


async def test_who_asks_for_a_table_gets_objects(api: Api) -> None:
    await fill(api, "one")
    listed = await api.done("GET", CONFIGMAPS, headers={"Accept": TABLE})
    assert (listed["kind"], [obj["metadata"]["name"] for obj in listed["items"]]) == (
        "ConfigMapList",
        ["one"],
    )


async def test_who_prefers_objects_gets_objects(api: Api) -> None:
    await fill(api, "one")
    listed = await api.done("GET", CONFIGMAPS, headers={"Accept": f"application/json, {PARTIAL}"})
    assert listed["kind"] == "ConfigMapList"


# Watches, in virtual time.


class Watched:
    """A storage, a reader of it, and the lines that one watch has given."""

    def __init__(self, history: int = 100) -> None:
        self.storage = Storage(history)
        self.reader = ReadHandlers(self.storage, bookmark_seconds=60)
        registry = Registry(builtins())
        self.served: Served = registry.find("", "v1", "configmaps")  # type: ignore[assignment]
        self.seen: list[tuple[str, str, str]] = []

    def put(self, name: str, namespace: str = NAMESPACE, **labels: str) -> str:
        """Creates or changes an object; gives its resourceVersion."""
        key = (namespace, name)
        table = self.served.table
        metadata = {"name": name, "namespace": namespace, "uid": name, "labels": labels}
        new = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        old = self.storage.get(table, key)
        if old is None:
            stored = self.storage.insert(table, new)
        else:
            stored = self.storage.replace(table, new, old["metadata"]["resourceVersion"])
        return str(stored["metadata"]["resourceVersion"])

    def drop(self, name: str) -> None:
        self.storage.remove(self.served.table, (NAMESPACE, name))

    async def events(
        self, query: Query, shown: Representation | None = None
    ) -> AsyncIterator[Object]:
        async with aclosing(
            self.reader.watch(self.served, query, shown or Representation())
        ) as lines:  # type: ignore[type-var]
            async for chunk in lines:
                for line in chunk.splitlines():
                    yield msgspec.json.decode(line)

    async def follow(self, query: Query) -> None:
        """Notes (type, name, resourceVersion) of all events until the watch ends."""
        async for event in self.events(query):
            meta = event["object"]["metadata"]
            self.seen.append((event["type"], meta.get("name", ""), meta.get("resourceVersion", "")))


def watch(
    query: Query,
    before: Callable[[Watched], None],
    during: Callable[[Watched], Coroutine[Any, Any, None]] | None = None,
) -> list[tuple[str, str, str]]:
    """What a watch sees in its two minutes: `before` happens before it begins, `during` after its
    first lines.
    """

    async def main() -> list[tuple[str, str, str]]:
        watched = Watched()
        before(watched)
        following = asyncio.create_task(watched.follow(query))
        await asyncio.sleep(1)
        if during:
            await during(watched)
        await following
        assert not watched.storage.table(watched.served.table).watchers
        return watched.seen

    return virtual.run(main())


def two(watched: Watched) -> None:
    watched.put("one")
    watched.put("two")


async def changes(watched: Watched) -> None:
    watched.put("two", odd="1")
    watched.put("three", odd="1")
    await asyncio.sleep(1)
    watched.drop("one")
    watched.put("two", odd="2")
    watched.put("two", "away", odd="1")
    watched.drop("three")


LATER = [
    ("MODIFIED", "two", "4"),
    ("ADDED", "three", "5"),
    ("DELETED", "one", "6"),
    ("MODIFIED", "two", "7"),
]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param(
            Query(timeout=120),
            [
                ("ADDED", "one", "2"),
                ("ADDED", "two", "3"),
                *LATER,
                ("ADDED", "two", "8"),
                ("DELETED", "three", "9"),
            ],
            id="from nothing: what is there, then what happens",
        ),
        pytest.param(
            Query(timeout=120, resource_version=0, namespace=NAMESPACE),
            [("ADDED", "one", "2"), ("ADDED", "two", "3"), *LATER, ("DELETED", "three", "9")],
            id="from any version, of one namespace",
        ),
        pytest.param(
            Query(timeout=120, resource_version=2, namespace=NAMESPACE),
            [("ADDED", "two", "3"), *LATER, ("DELETED", "three", "9")],
            id="from a version: what was missed, then what happens",
        ),
        pytest.param(
            Query(
                timeout=120,
                resource_version=3,
                matches=label_selector("odd=1"),
                namespace=NAMESPACE,
            ),
            [
                ("ADDED", "two", "4"),
                ("ADDED", "three", "5"),
                ("DELETED", "two", "7"),
                ("DELETED", "three", "9"),
            ],
            id="of a selection: to come into it is ADDED, to leave it is DELETED",
        ),
        pytest.param(
            Query(timeout=120, resource_version=3, namespace="nowhere"),
            [],
            id="of a quiet namespace",
        ),
    ],
)
def test_what_a_watch_sees(query: Query, expected: list[tuple[str, str, str]]) -> None:
    assert watch(query, two, changes) == expected


async def late(watched: Watched) -> None:
    await asyncio.sleep(70)
    watched.put("three")


@pytest.mark.parametrize(
    ("bookmarks", "during", "expected"),
    [
        pytest.param(
            True,
            None,
            [("BOOKMARK", "", "3"), ("BOOKMARK", "", "3")],
            id="a quiet watch hears every minute where it stands",
        ),
        pytest.param(
            True,
            late,
            [("BOOKMARK", "", "3"), ("ADDED", "three", "4"), ("BOOKMARK", "", "4")],
            id="a bookmark says the newest version",
        ),
        pytest.param(False, None, [], id="who doesn't ask for bookmarks gets none"),
    ],
)
def test_bookmarks(bookmarks: bool, during: Any, expected: list[tuple[str, str, str]]) -> None:
    query = Query(timeout=120, resource_version=3, bookmarks=bookmarks)
    assert watch(query, two, during) == expected


def errors_of(query: Query, before: Callable[[Watched], None]) -> list[Object]:
    async def main() -> list[Object]:
        watched = Watched(history=2)
        before(watched)
        return [event async for event in watched.events(query)]

    return virtual.run(main())


def compacted(watched: Watched) -> None:
    two(watched)
    watched.storage.compact()


def three(watched: Watched) -> None:
    two(watched)
    watched.put("three")


@pytest.mark.parametrize(
    ("version", "before", "message"),
    [
        pytest.param(
            2, compacted, "too old resource version: 2 (3)", id="from before a compaction"
        ),
        pytest.param(1, three, "too old resource version: 1 (2)", id="from before the history"),
    ],
)
def test_a_watch_that_can_not_begin_says_so_in_its_only_line(
    version: int, before: Callable[[Watched], None], message: str
) -> None:
    [event] = errors_of(Query(resource_version=version), before)
    told = event["object"]
    assert (event["type"], told["kind"], told["code"], told["message"]) == (
        "ERROR",
        "Status",
        410,
        message,
    )


def test_a_watch_ends_with_the_storage() -> None:
    async def main() -> float:
        watched = Watched()
        following = asyncio.create_task(watched.follow(Query()))
        await asyncio.sleep(1)
        watched.storage.close()
        await following
        return virtual.now()

    assert virtual.run(main()) == pytest.approx(1.0)


async def first_two(shown: Representation) -> list[Object]:
    """A watch's first event and its first bookmark."""
    watched = Watched()
    watched.put("one", a="b")
    query = Query(timeout=60, bookmarks=True)
    return [event async for event in watched.events(query, shown)]


@pytest.mark.parametrize(
    ("shown", "kinds"),
    [
        pytest.param(Representation(), ["ConfigMap", "ConfigMap"], id="objects"),
        pytest.param(
            Representation(metadata_only=True),
            ["PartialObjectMetadata", "PartialObjectMetadata"],
            id="metadata alone",
        ),
    ],
)
def test_events_and_bookmarks_have_one_form(shown: Representation, kinds: list[str]) -> None:
    events = virtual.run(first_two(shown))
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    assert [event["object"]["kind"] for event in events] == kinds


# Watches over HTTP: these end by their own time.


async def test_a_watch_over_http_gives_lines(api: Api) -> None:
    await api.done("POST", WIDGETS, widget("one"))
    answer = await api.send(
        "GET", WIDGETS, watch="true", timeoutSeconds=1, allowWatchBookmarks="true"
    )
    events = [msgspec.json.decode(line) for line in answer.content.splitlines()]
    assert [(event["type"], event["object"]["kind"]) for event in events] == [
        ("ADDED", "Widget"),
        ("BOOKMARK", "Widget"),
    ]
    assert events[0]["object"]["metadata"]["name"] == "one"
    assert answer.headers["content-type"] == "application/json"


async def test_a_streaming_list_ends_with_a_bookmark(api: Api) -> None:
    await api.send("POST", WIDGETS, widget("one"))
    answer = await api.send(
        "GET",
        WIDGETS,
        watch="1",
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        timeoutSeconds=1,
        allowWatchBookmarks="1",
    )
    first, end, *_ = [msgspec.json.decode(line) for line in answer.content.splitlines()]
    assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "one")
    assert (end["type"], end["object"]["kind"]) == ("BOOKMARK", "Widget")
    assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert "spec" not in end["object"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"watch": "1"},
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting"
            " resourceVersionMatch to NotOlderThan",
        ),
        (
            {"resourceVersionMatch": "NotOlderThan"},
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
        ),
    ],
)
async def test_options_that_do_not_fit_a_streaming_list(
    api: Api, params: dict[str, str], message: str
) -> None:
    code, reason, said = await api.refused("GET", WIDGETS, sendInitialEvents="true", **params)
    assert (code, reason, said) == (422, "Invalid", f"{LIST_OPTIONS}{message}")

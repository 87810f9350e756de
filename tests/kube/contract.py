"""What every `Client` has to do.

A test module subclasses `ClientContract` and gives the fixture `client`.

The suite keeps to what a real API server answers too: it makes its own names, and asks of
ClusterTopology (with a status subresource, cluster-scoped) and Secret (namespaced) only.
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest

from app.facts.kinds import CLUSTER_TOPOLOGY
from app.kube.api import (
    Client,
    Conflict,
    Gone,
    NotFound,
    Object,
    ObjectRef,
    Rejected,
    Selection,
    Unavailable,
    WatchEvent,
)
from app.objects.resource import SECRET

NAMESPACE = "default"
_NUMBERS = itertools.count(1)


def unique(prefix: str) -> str:
    return f"contract-{prefix}-{next(_NUMBERS)}"


def secret(name: str, labels: dict[str, str] | None = None, **data: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": labels or {}},
        "data": data,
    }


def topology(name: str, *keys: str) -> Object:
    domains = ("region", "zone", "datacenter", "block", "rack", "host", "numa")
    levels = [{"domain": domain, "key": key} for domain, key in zip(domains, keys, strict=False)]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": name},
        "spec": {"levels": levels},
    }


def version_of(obj: Object) -> str:
    return str(obj["metadata"]["resourceVersion"])


async def take(client: Client, count: int, version: str, **selected: Any) -> list[WatchEvent]:
    """The first `count` events of a watch of Secrets, bookmarks left out."""
    events: list[WatchEvent] = []
    selection = Selection(SECRET, NAMESPACE, **selected)
    watch = client.watch(selection, resource_version=version)
    async with asyncio.timeout(240), aclosing(watch) as stream:
        async for event in stream:
            if event.type != "BOOKMARK":
                events.append(event)
            if len(events) == count:
                break
    return events


@asynccontextmanager
async def streaming() -> AsyncGenerator[None, None]:
    """Skip the test if the API server has an etcd with which it can't stream lists."""
    try:
        yield
    except Unavailable as error:
        if "RequestWatchProgress is disabled" not in error.message:
            raise
        pytest.skip("needs etcd 3.4.25, 3.5.8 or later: this API server can't stream lists")


def summary(events: list[WatchEvent]) -> list[tuple[str, str]]:
    return [(event.type, event.object["metadata"]["name"]) for event in events]


class ClientContract:
    async def test_create_assigns_identity(self, client: Client) -> None:
        name = unique("identity")
        created = await client.create(CLUSTER_TOPOLOGY, topology(name, "zone"))
        metadata = created["metadata"]
        assert metadata["uid"]
        assert metadata["resourceVersion"]
        assert metadata["creationTimestamp"].endswith("Z")
        assert metadata["generation"] == 1
        assert await client.get(ObjectRef(CLUSTER_TOPOLOGY, name)) == created

    async def test_create_of_what_exists_is_already_exists(self, client: Client) -> None:
        name = unique("twice")
        await client.create(SECRET, secret(name), NAMESPACE)
        with pytest.raises(Conflict) as raised:
            await client.create(SECRET, secret(name), NAMESPACE)
        assert raised.value.already_exists
        assert raised.value.code == 409

    async def test_create_with_generate_name(self, client: Client) -> None:
        unnamed = secret("")
        unnamed["metadata"] = {"generateName": unique("generated") + "-"}
        created = await client.create(SECRET, unnamed, NAMESPACE)
        assert created["metadata"]["name"].startswith(unnamed["metadata"]["generateName"])
        assert created["metadata"]["name"] != unnamed["metadata"]["generateName"]

    async def test_a_missing_object_is_not_found_but_the_resource_is_served(
        self, client: Client
    ) -> None:
        for call in (
            client.get(ObjectRef(SECRET, "contract-absent", NAMESPACE)),
            client.patch(ObjectRef(SECRET, "contract-absent", NAMESPACE), {"data": {}}),
            client.delete(ObjectRef(SECRET, "contract-absent", NAMESPACE)),
        ):
            with pytest.raises(NotFound) as raised:
                await call
            assert not raised.value.no_resource

    async def test_merge_patch_deletes_merges_and_replaces(self, client: Client) -> None:
        name = unique("merge")
        await client.create(CLUSTER_TOPOLOGY, topology(name, "zone", "rack"))
        labels = {"metadata": {"labels": {"keep": "1", "drop": "1"}}}
        await client.patch(ObjectRef(CLUSTER_TOPOLOGY, name), labels)
        patch = {
            "metadata": {"labels": {"drop": None, "add": "2"}},
            "spec": {"levels": [{"domain": "host", "key": "kubernetes.io/hostname"}]},
        }
        patched = await client.patch(ObjectRef(CLUSTER_TOPOLOGY, name), patch)
        assert patched["metadata"]["labels"] == {"keep": "1", "add": "2"}
        assert patched["spec"]["levels"] == [{"domain": "host", "key": "kubernetes.io/hostname"}]

    async def test_json_patch(self, client: Client) -> None:
        name = unique("json")
        await client.create(SECRET, secret(name, {"a": "1"}, one="YQ=="), NAMESPACE)
        operations = [
            {"op": "test", "path": "/metadata/labels/a", "value": "1"},
            {"op": "replace", "path": "/metadata/labels/a", "value": "2"},
            {"op": "add", "path": "/metadata/labels/example.com~1b", "value": "3"},
            {"op": "remove", "path": "/data/one"},
            {"op": "add", "path": "/data/two", "value": "Yg=="},
        ]
        patched = await client.patch(ObjectRef(SECRET, name, NAMESPACE), operations)
        assert patched["metadata"]["labels"] == {"a": "2", "example.com/b": "3"}
        assert patched["data"] == {"two": "Yg=="}

    @pytest.mark.parametrize(
        "operation",
        [
            pytest.param(
                {"op": "test", "path": "/metadata/labels/a", "value": "other"}, id="a failed test"
            ),
            pytest.param({"op": "remove", "path": "/data/absent"}, id="a path that doesn't exist"),
            pytest.param(
                {"op": "add", "path": "/absent/child", "value": "1"},
                id="a parent that doesn't exist",
            ),
        ],
    )
    async def test_a_json_patch_that_does_not_apply_changes_nothing(
        self, client: Client, operation: Object
    ) -> None:
        name = unique("json-refused")
        stored = await client.create(SECRET, secret(name, {"a": "1"}, one="YQ=="), NAMESPACE)
        with pytest.raises(Rejected):
            await client.patch(ObjectRef(SECRET, name, NAMESPACE), [operation])
        assert await client.get(ObjectRef(SECRET, name, NAMESPACE)) == stored

    async def test_a_resource_version_in_a_merge_patch_is_a_precondition(
        self, client: Client
    ) -> None:
        name = unique("precondition")
        first = await client.create(SECRET, secret(name), NAMESPACE)
        stamped = {"metadata": {"resourceVersion": version_of(first), "labels": {"by": "me"}}}
        second = await client.patch(ObjectRef(SECRET, name, NAMESPACE), stamped)
        with pytest.raises(Conflict) as raised:
            await client.patch(ObjectRef(SECRET, name, NAMESPACE), stamped)
        assert not raised.value.already_exists
        assert version_of(second) != version_of(first)

    async def test_a_resource_version_in_a_json_patch_is_a_precondition(
        self, client: Client
    ) -> None:
        name = unique("json-precondition")
        first = await client.create(SECRET, secret(name, {"by": "nobody"}), NAMESPACE)
        stamped = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version_of(first)},
            {"op": "replace", "path": "/metadata/labels/by", "value": "me"},
        ]
        second = await client.patch(ObjectRef(SECRET, name, NAMESPACE), stamped)
        assert (second["metadata"]["labels"], version_of(second) != version_of(first)) == (
            {"by": "me"},
            True,
        )
        stamped[1]["value"] = "me again"
        with pytest.raises(Conflict) as raised:
            await client.patch(ObjectRef(SECRET, name, NAMESPACE), stamped)
        assert not raised.value.already_exists
        assert await client.get(ObjectRef(SECRET, name, NAMESPACE)) == second

    async def test_a_patch_that_changes_nothing_writes_nothing(self, client: Client) -> None:
        name = unique("unchanged")
        first = await client.create(SECRET, secret(name, {"a": "1"}), NAMESPACE)
        second = await client.patch(
            ObjectRef(SECRET, name, NAMESPACE), {"metadata": {"labels": {"a": "1"}}}
        )
        assert version_of(second) == version_of(first)

    async def test_status_and_the_rest_are_written_apart(self, client: Client) -> None:
        name = unique("status")
        created = await client.create(
            CLUSTER_TOPOLOGY, {**topology(name, "zone"), "status": {"observedGeneration": 9}}
        )
        assert "status" not in created
        both = {
            "spec": {"levels": topology(name, "changed")["spec"]["levels"]},
            "status": {"observedGeneration": 1},
        }
        after_status = await client.patch(
            ObjectRef(CLUSTER_TOPOLOGY, name), both, subresource="status"
        )
        assert after_status["spec"] == created["spec"]
        assert after_status["status"] == {"observedGeneration": 1}
        assert after_status["metadata"]["generation"] == 1
        both["status"] = {"observedGeneration": 5}
        after_spec = await client.patch(ObjectRef(CLUSTER_TOPOLOGY, name), both)
        assert after_spec["spec"]["levels"][0]["key"] == "changed"
        assert after_spec["status"] == {"observedGeneration": 1}
        assert after_spec["metadata"]["generation"] == 2

    async def test_a_resource_without_status_answers_not_found(self, client: Client) -> None:
        name = unique("no-status")
        await client.create(SECRET, secret(name), NAMESPACE)
        with pytest.raises(NotFound):
            await client.patch(
                ObjectRef(SECRET, name, NAMESPACE), {"status": {}}, subresource="status"
            )

    async def test_metadata_only_reads(self, client: Client) -> None:
        name = unique("metadata")
        group = unique("group")
        stored = await client.create(SECRET, secret(name, {"group": group}, a="YQ=="), NAMESPACE)
        single = await client.get(ObjectRef(SECRET, name, NAMESPACE), metadata_only=True)
        page = await client.list(
            Selection(SECRET, NAMESPACE, labels=f"group={group}", metadata_only=True)
        )
        for obj in [single, *page.items]:
            assert (obj["apiVersion"], obj["kind"]) == ("meta.k8s.io/v1", "PartialObjectMetadata")
            assert obj["metadata"] == stored["metadata"]
            assert "data" not in obj

    async def test_list_items_carry_their_kind(self, client: Client) -> None:
        group = unique("group")
        await client.create(SECRET, secret(unique("kind"), {"group": group}), NAMESPACE)
        page = await client.list(Selection(SECRET, NAMESPACE, labels=f"group={group}"))
        assert [(item["apiVersion"], item["kind"]) for item in page.items] == [("v1", "Secret")]

    async def test_pages_show_one_moment_and_all_of_it(self, client: Client) -> None:
        group = unique("group")
        names = [
            (await client.create(SECRET, secret(unique("page"), {"group": group}), NAMESPACE))
            for _ in range(5)
        ]
        expected = sorted(obj["metadata"]["name"] for obj in names)
        page = await client.list(Selection(SECRET, NAMESPACE, labels=f"group={group}"), limit=2)
        first_version = page.resource_version
        seen = [*page.items]
        sizes = [len(page.items)]
        await client.create(SECRET, secret(unique("page-late"), {"group": group}), NAMESPACE)
        while page.continue_token:
            token = page.continue_token
            page = await client.list(
                Selection(SECRET, NAMESPACE, labels=f"group={group}"), limit=2, continue_token=token
            )
            seen += page.items
            sizes.append(len(page.items))
        assert sorted(item["metadata"]["name"] for item in seen) == expected
        assert sizes == [2, 2, 1]
        assert page.resource_version == first_version

    @pytest.mark.parametrize(
        ("selector", "expected"),
        [
            ("tier=gold", ["a"]),
            ("tier==gold", ["a"]),
            ("tier!=gold", ["b", "c"]),
            ("tier in (gold, silver)", ["a", "b"]),
            ("tier notin (gold)", ["b", "c"]),
            ("tier", ["a", "b"]),
            ("!tier", ["c"]),
            ("tier in (gold,silver),!spare", ["a"]),
        ],
    )
    async def test_label_selectors(
        self, client: Client, selector: str, expected: list[str]
    ) -> None:
        group = unique("group")
        for name, labels in {
            "a": {"tier": "gold"},
            "b": {"tier": "silver", "spare": ""},
            "c": {},
        }.items():
            await client.create(
                SECRET, secret(f"{group}-{name}", {"group": group, **labels}), NAMESPACE
            )
        page = await client.list(Selection(SECRET, NAMESPACE, labels=f"group={group},{selector}"))
        assert [item["metadata"]["name"] for item in page.items] == [
            f"{group}-{name}" for name in expected
        ]

    async def test_field_selector_by_name(self, client: Client) -> None:
        name = unique("field")
        await client.create(SECRET, secret(name), NAMESPACE)
        page = await client.list(Selection(SECRET, NAMESPACE, fields=f"metadata.name={name}"))
        assert [item["metadata"]["name"] for item in page.items] == [name]

    async def test_a_selector_that_cannot_be_read_is_refused(self, client: Client) -> None:
        with pytest.raises(Rejected):
            await client.list(Selection(SECRET, NAMESPACE, labels="a in (b"))

    @pytest.mark.parametrize("field", ["uid", "resource_version"])
    async def test_delete_preconditions(self, client: Client, field: str) -> None:
        name = unique("delete")
        stored = await client.create(SECRET, secret(name), NAMESPACE)
        wrong = {"uid": "00000000-0000-0000-0000-000000000000", "resource_version": "1"}[field]
        with pytest.raises(Conflict):
            await client.delete(ObjectRef(SECRET, name, NAMESPACE), **{field: wrong})
        right = stored["metadata"]["uid"] if field == "uid" else version_of(stored)
        await client.delete(ObjectRef(SECRET, name, NAMESPACE), **{field: right})
        with pytest.raises(NotFound):
            await client.get(ObjectRef(SECRET, name, NAMESPACE))

    async def test_finalizers_hold_a_deletion_back(self, client: Client) -> None:
        name = unique("finalizer")
        with_finalizer = secret(name)
        with_finalizer["metadata"]["finalizers"] = ["grove.io/contract"]
        await client.create(SECRET, with_finalizer, NAMESPACE)
        await client.delete(ObjectRef(SECRET, name, NAMESPACE))
        assert (await client.get(ObjectRef(SECRET, name, NAMESPACE)))["metadata"][
            "deletionTimestamp"
        ]
        await client.patch(ObjectRef(SECRET, name, NAMESPACE), {"metadata": {"finalizers": None}})
        with pytest.raises(NotFound):
            await client.get(ObjectRef(SECRET, name, NAMESPACE))

    async def test_a_watch_tells_changes_in_order(self, client: Client) -> None:
        name = unique("watch")
        start = (await client.list(Selection(SECRET, NAMESPACE), limit=1)).resource_version
        await client.create(SECRET, secret(name), NAMESPACE)
        patched = await client.patch(
            ObjectRef(SECRET, name, NAMESPACE), {"metadata": {"labels": {"a": "1"}}}
        )
        await client.delete(ObjectRef(SECRET, name, NAMESPACE))
        by_name = f"metadata.name={name}"
        events = await take(client, 3, start, fields=by_name)
        assert summary(events) == [("ADDED", name), ("MODIFIED", name), ("DELETED", name)]
        versions = [int(version_of(event.object)) for event in events]
        assert versions == sorted(versions)
        assert versions[1] == int(version_of(patched)) < versions[2]
        resumed = await take(client, 1, version_of(patched), fields=by_name)
        assert summary(resumed) == [("DELETED", name)]

    async def test_a_watch_is_accepted_before_anything_changes(self, client: Client) -> None:
        accepted = asyncio.Event()
        version = (await client.list(Selection(SECRET), limit=1)).resource_version
        stream = client.watch(Selection(SECRET), resource_version=version, accepted=accepted.set)
        first = asyncio.ensure_future(anext(stream))
        async with asyncio.timeout(240):
            await accepted.wait()
        assert not first.done()
        first.cancel()

    async def test_a_watch_with_a_selector_sees_objects_come_and_leave(
        self, client: Client
    ) -> None:
        name = unique("selected")
        group = unique("group")
        start = (await client.list(Selection(SECRET, NAMESPACE), limit=1)).resource_version
        await client.create(SECRET, secret(name), NAMESPACE)
        await client.patch(
            ObjectRef(SECRET, name, NAMESPACE), {"metadata": {"labels": {"group": group}}}
        )
        await client.patch(
            ObjectRef(SECRET, name, NAMESPACE), {"metadata": {"labels": {"group": None}}}
        )
        events = await take(client, 2, start, labels=f"group={group}")
        assert summary(events) == [("ADDED", name), ("DELETED", name)]

    async def test_a_metadata_only_watch(self, client: Client) -> None:
        name = unique("watch-metadata")
        start = (await client.list(Selection(SECRET, NAMESPACE), limit=1)).resource_version
        await client.create(SECRET, secret(name, a="YQ=="), NAMESPACE)
        (event,) = await take(client, 1, start, fields=f"metadata.name={name}", metadata_only=True)
        assert event.object["kind"] == "PartialObjectMetadata"
        assert "data" not in event.object

    async def test_a_watch_ends_by_itself_and_bookmarks_tell_how_far_it_got(
        self, client: Client
    ) -> None:
        name = unique("bookmark")
        start = (await client.list(Selection(SECRET, NAMESPACE), limit=1)).resource_version
        created = await client.create(SECRET, secret(name), NAMESPACE)
        events: list[WatchEvent] = []
        async with asyncio.timeout(240):
            async for event in client.watch(
                Selection(SECRET, NAMESPACE, fields=f"metadata.name={unique('nobody')}"),
                resource_version=start,
                timeout_seconds=3,
            ):
                events.append(event)
        # a real one sends them once a minute
        assert {event.type for event in events} <= {"BOOKMARK"}
        assert all(int(version_of(event.object)) >= int(version_of(created)) for event in events)
        assert not any("data" in event.object for event in events)

    @pytest.mark.parametrize("metadata_only", [False, True])
    async def test_a_streaming_list_sends_what_is_stored_then_its_end_then_changes(
        self, client: Client, metadata_only: bool
    ) -> None:
        label = unique("streamed")
        names = [unique("streamed") for _ in range(3)]
        for name in names:
            await client.create(SECRET, secret(name, {"of": label}, a="eA=="), NAMESPACE)
        other = await client.create(SECRET, secret(unique("other")), NAMESPACE)
        selection = Selection(SECRET, NAMESPACE, labels=f"of={label}", metadata_only=metadata_only)
        watch = client.watch(selection, resource_version="", list_first=True)
        events: list[WatchEvent] = []
        async with asyncio.timeout(240), aclosing(watch) as stream, streaming():
            async for event in stream:
                if event.ends_list:
                    break
                events.append(event)
            assert sorted(summary(events)) == sorted(("ADDED", name) for name in names)
            assert int(version_of(event.object)) >= int(version_of(other))
            assert all(("data" in found.object) != metadata_only for found in events)

            await client.delete(ObjectRef(SECRET, names[0], NAMESPACE))
            later = await anext(change async for change in stream if change.type != "BOOKMARK")
            assert summary([later]) == [("DELETED", names[0])]

    async def test_a_streaming_list_of_nothing_ends_too(self, client: Client) -> None:
        selection = Selection(SECRET, NAMESPACE, labels=f"of={unique('nothing')}")
        watch = client.watch(selection, resource_version="", list_first=True)
        async with asyncio.timeout(240), aclosing(watch) as stream, streaming():
            assert (await anext(stream)).ends_list

    async def test_a_watch_from_a_version_long_past_is_gone(self, client: Client) -> None:
        await self.compact(client)
        with pytest.raises(Gone):
            async with (
                asyncio.timeout(240),
                aclosing(client.watch(Selection(CLUSTER_TOPOLOGY), resource_version="1")) as stream,
            ):
                await anext(stream)

    async def compact(self, client: Client) -> None:
        """Makes the server forget version 1; for servers that don't by themselves."""

"""MemoryClient: the contract of every client, and what only it can do."""

import asyncio
from collections.abc import Callable

import pytest

from app.facts.kinds import CLUSTER_TOPOLOGY, COMPUTE_DOMAIN, POD_CLIQUE_SET, RESOURCE_CLAIM
from app.kube.api import (
    Client,
    Conflict,
    Gone,
    NotFound,
    NotServed,
    Object,
    ObjectRef,
    Selection,
    Unavailable,
)
from app.objects.resource import NODE, SECRET
from tests.kube.contract import ClientContract, secret, take, topology
from tests.kube.memory.client import Call, MemoryClient


@pytest.fixture
def client() -> MemoryClient:
    return MemoryClient()


class TestMemoryClientContract(ClientContract):
    async def compact(self, client: Client) -> None:
        assert isinstance(client, MemoryClient)
        client.forget_history()


def owned(name: str, *owners: Object, finalizers: tuple[str, ...] = ()) -> Object:
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }
        for owner in owners
    ]
    metadata = {"name": name, "ownerReferences": references, "finalizers": list(finalizers)}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}


def missing(api_version: str = "grove.io/v1alpha1", kind: str = "PodCliqueSet") -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "gone", "uid": "gone"}}


def names(client: MemoryClient) -> list[str]:
    return [obj["metadata"]["name"] for obj in client.objects(SECRET)]


async def test_uids_are_the_same_in_every_run() -> None:
    first = await MemoryClient().create(SECRET, secret("a"), "default")
    second = await MemoryClient().create(SECRET, secret("a"), "default")
    assert first["metadata"]["uid"] == second["metadata"]["uid"]


async def test_an_object_made_again_gets_another_uid(client: MemoryClient) -> None:
    first = await client.create(SECRET, secret("a"), "default")
    await client.delete(ObjectRef(SECRET, "a", "default"))
    second = await client.create(SECRET, secret("a"), "default")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]


async def test_loaded_objects_keep_uid_and_status(client: MemoryClient) -> None:
    loaded = {**topology("grove", "zone"), "status": {"observedGeneration": 3}}
    loaded["metadata"]["uid"] = "given"
    client.load([{"kind": "List", "apiVersion": "v1", "items": [loaded, secret("s")]}])
    stored = await client.get(ObjectRef(CLUSTER_TOPOLOGY, "grove"))
    assert stored["metadata"]["uid"] == "given"
    assert stored["status"] == {"observedGeneration": 3}
    assert (await client.get(ObjectRef(SECRET, "s", "default")))["metadata"]["uid"]


async def test_loading_an_unknown_kind_is_refused(client: MemoryClient) -> None:
    with pytest.raises(NotServed):
        client.load([{"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "a"}}])


async def test_what_is_answered_can_be_changed_without_changing_what_is_stored(
    client: MemoryClient,
) -> None:
    answered = await client.create(SECRET, secret("a", {"x": "1"}), "default")
    answered["metadata"]["labels"]["x"] = "2"
    (await client.list(Selection(SECRET))).items[0]["metadata"]["labels"]["x"] = "3"
    assert (await client.get(ObjectRef(SECRET, "a", "default")))["metadata"]["labels"] == {"x": "1"}


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda c: c.get(ObjectRef(COMPUTE_DOMAIN, "a", "default")), id="get"),
        pytest.param(lambda c: c.list(Selection(COMPUTE_DOMAIN)), id="list"),
        pytest.param(lambda c: c.delete(ObjectRef(COMPUTE_DOMAIN, "a", "default")), id="delete"),
        pytest.param(
            lambda c: c.create(COMPUTE_DOMAIN, {"metadata": {"name": "a"}}, "default"), id="create"
        ),
        pytest.param(
            lambda c: c.get(ObjectRef(RESOURCE_CLAIM, "a", "default"), version="v1beta1"),
            id="another version",
        ),
    ],
)
async def test_a_resource_that_is_not_served(
    call: Callable[[MemoryClient], asyncio.Future[object]],
) -> None:
    client = MemoryClient(served={RESOURCE_CLAIM: "v1"})
    assert client.served_version(COMPUTE_DOMAIN) is None
    with pytest.raises(NotServed) as raised:
        await call(client)
    assert raised.value.no_resource


async def test_every_call_is_recorded(client: MemoryClient) -> None:
    await client.create(SECRET, secret("a"), "default")
    with pytest.raises(NotFound):
        await client.patch(
            ObjectRef(CLUSTER_TOPOLOGY, "grove"), {"status": {}}, subresource="status"
        )
    assert client.calls == [
        Call("create", SECRET, "default", "a"),
        Call("patch", CLUSTER_TOPOLOGY, None, "grove", "status"),
    ]
    assert client.writes() == client.calls


async def test_faults_before_and_after_the_effect(client: MemoryClient) -> None:
    client.fail_next("create", SECRET, Unavailable("down"), times=2)
    client.fail_next("create", SECRET, Unavailable("lost"), after_effect=True)
    for text in ("down", "down", "lost"):
        with pytest.raises(Unavailable, match=text):
            await client.create(SECRET, secret("a"), "default")
    with pytest.raises(Conflict):
        await client.create(SECRET, secret("a"), "default")


async def test_garbage_is_collected_through_chains(client: MemoryClient) -> None:
    client.load([owned("child", missing())])
    client.load([owned("grandchild", client.objects(SECRET)[0])])
    client.load([owned("free")])
    assert client.collect_garbage() == [
        (SECRET, ("default", "child")),
        (SECRET, ("default", "grandchild")),
    ]
    assert names(client) == ["free"]


async def test_an_owner_that_exists_keeps_an_object_and_the_other_reference_goes(
    client: MemoryClient,
) -> None:
    (owner,) = client.load([topology("grove", "zone")])
    client.load([owned("child", owner, missing())])
    assert client.collect_garbage() == []
    (child,) = client.objects(SECRET)
    assert [reference["name"] for reference in child["metadata"]["ownerReferences"]] == ["grove"]


async def test_an_owner_of_a_kind_that_is_not_served_keeps_an_object() -> None:
    client = MemoryClient(served={SECRET: "v1"})
    client.load([owned("child", missing())])
    assert client.collect_garbage() == []


async def test_garbage_with_a_finalizer_is_marked_once(client: MemoryClient) -> None:
    client.load([owned("child", missing(), finalizers=("a/b",))])
    assert client.collect_garbage() == [(SECRET, ("default", "child"))]
    assert client.collect_garbage() == []
    assert client.objects(SECRET)[0]["metadata"]["deletionTimestamp"]


async def test_a_bounded_history_makes_old_watches_gone() -> None:
    client = MemoryClient(history=2)
    start = (await client.list(Selection(SECRET))).resource_version
    for name in "abc":
        await client.create(SECRET, secret(name), "default")
    with pytest.raises(Gone):
        await take(client, 1, start)
    assert len(await take(client, 2, str(int(start) + 1))) == 2


async def test_a_page_token_that_is_forgotten_is_gone(client: MemoryClient) -> None:
    client.load([secret("a"), secret("b")])
    page = await client.list(Selection(SECRET), limit=1)
    client.forget_history()
    with pytest.raises(Gone):
        await client.list(Selection(SECRET), limit=1, continue_token=page.continue_token)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        pytest.param(None, None, id="as a server that closes"),
        pytest.param(Unavailable("cut"), "cut", id="as a cut"),
    ],
)
async def test_dropped_watches(
    client: MemoryClient, error: Unavailable | None, outcome: str | None
) -> None:
    async def outcome_of_watch() -> str | None:
        try:
            return (
                "an event"
                if [event async for event in client.watch(Selection(NODE), resource_version="1")]
                else None
            )
        except Unavailable as raised:
            return raised.message

    async with asyncio.TaskGroup() as group:
        watching = group.create_task(outcome_of_watch())
        for _ in range(3):
            await asyncio.sleep(0)
        client.drop_watches(error)
    assert watching.result() == outcome


async def test_status_of_a_resource_told_to_have_none() -> None:
    client = MemoryClient([topology("grove", "zone")], without_status={CLUSTER_TOPOLOGY})
    with pytest.raises(NotFound) as raised:
        await client.patch(
            ObjectRef(CLUSTER_TOPOLOGY, "grove"), {"status": {}}, subresource="status"
        )
    assert not raised.value.no_resource
    assert client.served_version(POD_CLIQUE_SET) == "v1beta1"

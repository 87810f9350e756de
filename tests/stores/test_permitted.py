"""Stores that follow a cluster with whatever rights there are."""

import asyncio
from collections.abc import Collection
from typing import Any

import pytest
from msgspec.structs import replace

from app.facts.explain_rows import PODS, QUEUES, WIDE_GANGS, WIDE_SETS
from app.facts.kinds import POD_CLIQUE_SET, POD_GANG, QUEUE
from app.kube.api import NotFound, Object, Page, Rejected, Selection
from app.objects.resource import NAMESPACE, POD, Resource
from app.stores.permitted import Namespaces, PermittedStores
from tests.cluster.watched import WatchedMemory, in_background, until

ROWS = (PODS, QUEUES)
Scope = tuple[Resource, str | None]


def pod(namespace: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {"containers": []},
    }


class Guarded(WatchedMemory):
    """A cluster of which `denied` may not be listed."""

    def __init__(self, objects: Collection[Object], denied: Collection[Scope]) -> None:
        super().__init__(list(objects))
        self.denied = set(denied)

    async def list(self, selection: Selection, **options: Any) -> Page:
        if (selection.resource, selection.namespace) in self.denied:
            raise Rejected("denied", code=403)
        return await super().list(selection, **options)


def content(stores: PermittedStores) -> dict[Scope, int]:
    """Return how many objects there are of each scope that is read."""
    return {
        (row.resource, namespace): len(store) for (row, namespace), store in stores.stores.items()
    }


def denied(stores: PermittedStores) -> set[Scope]:
    return {(row.resource, namespace) for row, namespace in stores.denied}


EVERYWHERE: Scope = (POD, None)
NOWHERE: Scope = (NAMESPACE, None)


@pytest.mark.parametrize(
    ("missing", "namespaces", "read", "unread"),
    [
        pytest.param([], Namespaces(["a"]), {EVERYWHERE: 2}, set(), id="all rights"),
        pytest.param(
            [EVERYWHERE],
            Namespaces(["a"]),
            {(POD, "a"): 1},
            set(),
            id="the namespaces that are given",
        ),
        pytest.param(
            [EVERYWHERE],
            Namespaces(own="a"),
            {(POD, "a"): 1, (POD, "b"): 1},
            set(),
            id="the namespaces that may be listed",
        ),
        pytest.param(
            [EVERYWHERE, NOWHERE],
            Namespaces(own="b"),
            {(POD, "b"): 1},
            set(),
            id="the own namespace",
        ),
        pytest.param([EVERYWHERE, NOWHERE], Namespaces(), {}, {EVERYWHERE}, id="no namespace"),
        pytest.param(
            [EVERYWHERE, (POD, "a")],
            Namespaces(["a", "b"]),
            {(POD, "b"): 1},
            {(POD, "a")},
            id="one of two",
        ),
        pytest.param(
            [(QUEUE, None)],
            Namespaces(["a"]),
            {EVERYWHERE: 2},
            {(QUEUE, None)},
            id="a kind without namespaces",
        ),
    ],
)
async def test_what_is_read(
    missing: list[Scope], namespaces: Namespaces, read: dict[Scope, int], unread: set[Scope]
) -> None:
    objects = [pod("a"), pod("b")]
    objects += [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n}} for n in "ab"]
    client = Guarded(objects, missing)
    await client.discovery.refresh()
    stores = PermittedStores(client, ROWS, client.discovery, namespaces)
    async with in_background(stores.run()):
        await until(lambda: stores.ready)
        counted = {scope: count for scope, count in content(stores).items() if scope[0] is POD}
        assert (counted, denied(stores)) == (read, unread)


async def test_a_right_that_is_given_later_is_noticed() -> None:
    client = Guarded([pod("a")], [EVERYWHERE, NOWHERE])
    await client.discovery.refresh()
    names: list[str] = []
    stores = PermittedStores(client, ROWS, client.discovery, Namespaces(again=0.01))
    stores.subscribe(names.append)
    async with in_background(stores.run()):
        await until(lambda: stores.ready and denied(stores) == {EVERYWHERE})
        client.denied.clear()
        await until(lambda: content(stores).get(EVERYWHERE) == 1 and not stores.denied)
    assert {"pods", ""} <= set(names)


async def test_a_right_that_is_taken_away_empties_its_scope() -> None:
    client = Guarded([pod("a")], [])
    await client.discovery.refresh()
    stores = PermittedStores(client, ROWS, client.discovery)
    async with in_background(stores.run()):
        await until(lambda: content(stores).get(EVERYWHERE) == 1)
        client.denied |= {EVERYWHERE, NOWHERE}
        client.forget_history()
        client.drop_watches()
        await until(lambda: denied(stores) == {EVERYWHERE})
        assert EVERYWHERE not in content(stores)


async def test_a_kind_that_is_gone_is_looked_for_again() -> None:
    class Gone(WatchedMemory):
        gone = False

        async def list(self, selection: Selection, **options: Any) -> Page:
            if selection.resource == POD_CLIQUE_SET and self.gone:
                self.served.pop(selection.resource, None)
                raise NotFound("not found", code=404)
            return await super().list(selection, **options)

        def served_version(self, resource: Resource) -> str | None:
            return self.discovery.served_version(resource)

    client = Gone()
    stores = PermittedStores(client, [WIDE_SETS], client.discovery)
    told = list[bool]()
    stores.subscribe(lambda name: told.extend(store.served for store in stores.stores.values()))
    discovering = asyncio.create_task(client.discovery.run())
    async with in_background(stores.run()):
        await until(lambda: told[-1:] == [True])
        assert stores.ready
        client.gone = True
        client.forget_history()
        client.drop_watches()
        await until(lambda: told[-1:] == [False])
        assert client.discovery.served_version(POD_CLIQUE_SET) is None
        assert (stores.ready, list(stores.problems())) == (True, [])
    discovering.cancel()


@pytest.mark.parametrize("bounds_namespaces", [False, True])
async def test_the_leader_keeps_a_bounded_size_of_a_namespace(bounds_namespaces: bool) -> None:
    """The leader shares its memory with the webhooks of everybody."""
    references = [{"namespace": "a", "name": f"p{number:04}"} for number in range(300)]
    gangs = [
        {
            "apiVersion": "scheduler.grove.io/v1alpha1",
            "kind": "PodGang",
            "metadata": {"name": f"g{number}", "namespace": namespace},
            "spec": {"podgroups": [{"name": "g", "podReferences": references}]},
        }
        for namespace in ("a", "b")
        for number in range(4)
    ]
    row = replace(WIDE_GANGS, most_of_namespace=4_000)
    client = WatchedMemory(gangs)
    await client.discovery.refresh()
    stores = PermittedStores(
        client, [row], client.discovery, least=0, bounds_namespaces=bounds_namespaces
    )
    async with in_background(stores.run()):
        await until(lambda: stores.ready)
        assert content(stores) == {(POD_GANG, None): 4 if bounds_namespaces else 8}

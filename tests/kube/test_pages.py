"""Paging through a list that may lapse under way."""

import asyncio
from collections.abc import Sequence

import pytest

from app.kube.api import Gone, Object, Rejected, Selection, pages
from app.objects.resource import SECRET
from tests.kube.contract import secret
from tests.kube.memory.client import MemoryClient

NAMES = [("a", "one"), ("a", "two"), ("a-b", "one"), ("b", "one"), ("b", "three"), ("b", "two")]
LAPSED = Gone("too old", code=410, reason="Expired")


def cluster() -> MemoryClient:
    return MemoryClient([placed(namespace, name) for namespace, name in NAMES])


def placed(namespace: str, name: str) -> Object:
    made = secret(name)
    return {
        **made,
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {**made["metadata"], "namespace": namespace},
    }


def keys(items: Sequence[Object]) -> list[tuple[str, str]]:
    return [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in items]


async def test_every_object_comes_once_in_pages() -> None:
    read = [keys(page.items) async for page in pages(cluster(), Selection(SECRET), limit=4)]
    assert read == [NAMES[:4], NAMES[4:]]


async def test_the_next_page_is_made_while_one_is_read() -> None:
    client = cluster()
    listing = pages(client, Selection(SECRET), limit=4)
    assert keys((await anext(listing)).items) == NAMES[:4]
    assert [call.verb for call in client.calls] == ["list", "list"]
    (coming,) = asyncio.all_tasks() - {asyncio.current_task()}
    await listing.aclose()
    await asyncio.wait([coming])
    assert coming.cancelled()


async def test_one_namespace() -> None:
    assert [keys(page.items) async for page in pages(cluster(), Selection(SECRET, "b"))] == [
        NAMES[3:]
    ]


@pytest.mark.parametrize("lapses_after", [1, 2, 3, 4, 5])
async def test_a_list_that_lapses_goes_on_where_it_was(lapses_after: int) -> None:
    client = cluster()
    read = list[tuple[str, str]]()
    async for page in pages(client, Selection(SECRET), limit=1):
        read += keys(page.items)
        if len(read) == lapses_after:
            client.forget_history()
    assert read == NAMES


async def test_what_came_before_the_place_meanwhile_is_passed_over_and_what_comes_after_is_given() -> (
    None
):
    client = cluster()
    read = list[tuple[str, str]]()
    async for page in pages(client, Selection(SECRET), limit=3):
        read += keys(page.items)
        if len(read) == 3:
            client.forget_history()
            client.load([placed("a", "again"), placed("b", "zulu")])
    assert read == [*NAMES, ("b", "zulu")]


async def test_a_list_that_lapses_without_getting_further_is_gone() -> None:
    client = cluster()
    listing = pages(client, Selection(SECRET), limit=1)
    await anext(listing)
    client.fail_next("list", SECRET, LAPSED, times=2)
    with pytest.raises(Gone):
        await anext(listing)


async def test_other_errors_come_as_they_are() -> None:
    client = cluster()
    client.fail_next("list", SECRET, Rejected("no", code=403))
    with pytest.raises(Rejected):
        await anext(pages(client, Selection(SECRET)))

"""The client that only reads.

Tests `app/kube/read_only.py`.
"""

import contextlib

import pytest

from app.kube.api import ObjectRef, Rejected, Selection
from app.kube.read_only import ReadOnlyClient
from app.objects.resource import ACCESS_REVIEW, CONFIG_MAP, NODE, POD, SECRET, SELF_ACCESS_REVIEW
from tests.builders import node
from tests.console.fake import Lists
from tests.kube.memory.client import MemoryClient


async def test_it_sends_reads_and_access_reviews_only() -> None:
    lists = Lists({})
    client = ReadOnlyClient(lists, hidden=(SECRET,))
    await client.list(Selection(NODE))
    await client.create(ACCESS_REVIEW, {})
    await client.create(SELF_ACCESS_REVIEW, {})
    sent = list(lists.calls)
    for refused, why in (
        (client.create(POD, {}, "default"), "this client only reads, so it does not create pods"),
        (client.patch(ObjectRef(POD, "a", "default"), {}), "so it does not patch pods"),
        (client.delete(ObjectRef(POD, "a", "default")), "so it does not delete pods"),
        (client.get(ObjectRef(SECRET, "a", "default")), "the console never reads secrets"),
        (client.list(Selection(SECRET)), "the console never reads secrets"),
    ):
        with pytest.raises(Rejected, match=why) as raised:
            await refused
        assert (raised.value.code, raised.value.reason) == (403, "Forbidden")
    with pytest.raises(Rejected, match="the console never reads secrets"):
        client.watch(Selection(SECRET), resource_version="1")
    assert lists.calls == sent
    await client.list(Selection(CONFIG_MAP))
    assert len(lists.calls) == len(sent) + 1


async def test_reads_are_those_of_its_client() -> None:
    stored = [node("a"), node("b", example__com_rack="r")]
    memory = MemoryClient(stored)
    client = ReadOnlyClient(memory)
    assert (await client.get(ObjectRef(NODE, "a")))["metadata"]["name"] == "a"
    page = await client.list(Selection(NODE, labels="example.com/rack"), limit=5)
    assert [obj["metadata"]["name"] for obj in page.items] == ["b"]
    watched = client.watch(Selection(NODE), resource_version=page.resource_version)
    await memory.delete(ObjectRef(NODE, "a"))
    async with contextlib.aclosing(watched) as events:
        event = await anext(events)
    assert (event.type, event.object["metadata"]["name"]) == ("DELETED", "a")
    assert client.served_version(NODE) == "v1"

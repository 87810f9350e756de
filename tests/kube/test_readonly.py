"""The client that only reads.

Tests `app/kube/read_only.py`.
"""

import pytest

from app.kube.api import ObjectRef, Rejected, Selection
from app.kube.read_only import ReadOnlyClient
from app.objects.resource import ACCESS_REVIEW, CONFIG_MAP, NODE, POD, SECRET, SELF_ACCESS_REVIEW
from tests.console.fake import Lists


async def test_it_sends_reads_and_access_reviews_only() -> None:
    lists = Lists({})
    client = ReadOnlyClient(lists, hidden=(SECRET,))
    await client.list(Selection(NODE))
    await client.create(ACCESS_REVIEW, {})
    await client.create(SELF_ACCESS_REVIEW, {})
    sent = list(lists.calls)
    for refused in (
        client.create(POD, {}, "default"),
        client.patch(ObjectRef(POD, "a", "default"), {}),
        client.delete(ObjectRef(POD, "a", "default")),
        client.get(ObjectRef(SECRET, "a", "default")),
        client.list(Selection(SECRET)),
    ):
        with pytest.raises(Rejected):
            await refused
    with pytest.raises(Rejected):
        client.watch(Selection(SECRET), resource_version="1")
    assert lists.calls == sent
    await client.list(Selection(CONFIG_MAP))
    assert len(lists.calls) == len(sent) + 1

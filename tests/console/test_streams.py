"""Streams, by which pages hear of changes.

Tests `app/console/events.py`.
"""

import asyncio

from app.console.events import MOST_STREAMS, Streams
from app.explain.live import Live
from app.explain.state.snapshot import BY_RESOURCE
from app.stores.permitted import Namespaces, PermittedStores
from tests.console.fake import Lists, console, discovered
from tests.console.objects import objects
from tests.kube import virtual


async def test_streams_are_limited_coalesced_and_end_with_the_console() -> None:
    async with console(Lists(objects())) as (client, made):
        streams = [made.streams.messages() for _ in range(MOST_STREAMS)]
        firsts = [await anext(stream) for stream in streams]
        assert firsts == [f"data: {made.live.revision}\n\n".encode()] * MOST_STREAMS
        assert (await client.get("events")).status_code == 503
        for _ in range(1000):
            made.live.touch()
        assert await anext(streams[0]) == f"data: {made.live.revision}\n\n".encode()
        made.streams.close()
        assert [item async for item in streams[0]] == []
        for stream in streams[1:]:
            await stream.aclose()
        assert made.streams.open == 0


def test_a_change_is_told_at_once_or_at_the_end_of_the_pause() -> None:
    """So that half of the second in which the page has to follow is left for the page."""

    async def delays() -> list[float]:
        watched = PermittedStores(Lists(), BY_RESOURCE.values(), await discovered(), Namespaces(()))
        live = Live(watched)
        stream = Streams(live).messages()
        await anext(stream)
        told = []
        for wait in (0.1, 0.4, 0.6, 3.0):
            change = virtual.now() + wait
            asyncio.get_running_loop().call_at(change, live.touch)
            await anext(stream)
            told.append(round(virtual.now() - change, 3))
        await stream.aclose()
        return told

    assert virtual.run(delays()) == [0.4, 0.1, 0.0, 0.0]

"""The garbage collector rests while lists are read, and no longer."""

import asyncio
import gc
import platform
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.stores.gc_pause import pause_until, paused


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    was_enabled = gc.isenabled()
    yield
    gc.unfreeze()
    (gc.enable if was_enabled else gc.disable)()


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_before_once_it_has_rested(enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    with paused():
        assert not gc.isenabled()
    assert gc.isenabled() is enabled


@pytest.mark.parametrize(("number", "is_frozen"), [(20_000, True), (100, False)])
def test_what_was_read_is_never_examined_if_it_is_much(number: int, is_frozen: bool) -> None:
    gc.enable()
    gc.collect()
    before = gc.get_freeze_count()
    with paused():
        kept = [[position] for position in range(number)]
    assert (gc.get_freeze_count() - before > number / 2) is is_frozen
    assert len(kept) == number


async def test_of_two_pauses_at_once_none_is_for_ever() -> None:
    gc.enable()
    first = asyncio.Event()
    second = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pause_until(first.wait()))
        tasks.create_task(pause_until(second.wait()))
        await asyncio.sleep(0)
        assert not gc.isenabled()
        first.set()
        second.set()
    assert gc.isenabled()


async def test_a_list_that_never_comes_ends_the_pause() -> None:
    gc.enable()
    await pause_until(asyncio.Event().wait(), most_seconds=0.01)
    assert gc.isenabled()


def resident() -> int:
    """MiB of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 2**20


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has to be told")
async def test_memory_that_lists_took_while_they_were_read_is_given_back() -> None:
    kept: list[list[bytes]] = []

    async def read() -> None:
        blocks = [[bytes(2_000)] for _ in range(50_000)]
        kept.extend(blocks[::50])

    await read()
    before = resident()
    await pause_until(read())
    assert resident() < before - 40

    await read()
    before = resident()
    with paused():
        kept += [[] for _ in range(20_000)]
    assert resident() < before - 40
    assert len(kept) == 23_000

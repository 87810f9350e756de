"""Memory that is given back, and open files.

Tests `app/base/memory.py`.
"""

import asyncio
import logging
import resource
from collections.abc import Iterator

import pytest

from app.server.process import (
    FREED_CONNECTIONS,
    RETURN_SECONDS,
    MemoryReturn,
    allow_files,
)
from tests.kube import virtual


def test_memory_is_given_back_after_many_connections_and_not_too_often() -> None:
    async def scenario() -> list[float]:
        loop = asyncio.get_running_loop()
        times: list[float] = []
        memory = MemoryReturn(loop.time, lambda: times.append(loop.time()))
        begin = loop.time()
        for _ in range(FREED_CONNECTIONS - 1):
            memory.freed_some()
        await asyncio.sleep(100)
        assert times == []
        for _ in range(3 * FREED_CONNECTIONS):
            memory.freed_some()
        await asyncio.sleep(2)
        for _ in range(FREED_CONNECTIONS):
            memory.freed_some()
        await asyncio.sleep(100)
        return [time - begin for time in times]

    assert virtual.run(scenario()) == [101, 101 + RETURN_SECONDS]


@pytest.fixture
def file_limits() -> Iterator[tuple[int, int]]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield limits
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_the_limit_of_open_files_is_raised_as_far_as_it_is_needed_and_possible(
    file_limits: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    _, hard = file_limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (500, hard))
    allow_files(100)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (500, hard)
    allow_files(1000)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (1256, hard)
    assert caplog.records == []
    if hard == resource.RLIM_INFINITY:
        return
    with caplog.at_level(logging.WARNING):
        allow_files(hard)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    assert f"the limit of open files is {hard}" in caplog.text

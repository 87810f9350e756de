"""A sandbox of its own for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.apiserver.api import Api, opened


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with opened(tmp_path) as api:
        yield api

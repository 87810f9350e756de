"""One Chromium for all tests of a module."""

import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest_asyncio

from tests.console.chromium import chromium
from tests.integration.conftest import kind as kind

if TYPE_CHECKING:
    from playwright.async_api import Browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> "AsyncIterator[Browser]":
    path = chromium()
    from playwright.async_api import async_playwright

    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=path, args=options)
        yield started
        await started.close()

"""A real Chromium for tests, and its tabs."""

import contextlib
import importlib.util
import os
import shutil
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

VIOLATIONS = """async () => (await axe.run()).violations.map(
  (violation) => `${violation.id}: ${violation.nodes.map((node) => node.html).join(" ")}`)"""
"""What the rules of axe-core find in a page."""

SIZES = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
"""How wide a page is, and how wide the window."""


def chromium(*, whole_module: bool = False) -> str:
    """The path of a chromium. Skips the test if it or Playwright is missing.

    With `whole_module`, it skips the module that is being imported, with all of its tests.
    """
    if importlib.util.find_spec("playwright") is None:
        pytest.skip(
            "needs Playwright: install grove-admission[browser]", allow_module_level=whole_module
        )
    named = os.environ.get("CHROMIUM") or next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None
    )
    if named is None:
        pytest.skip(
            "needs a chromium: on PATH, or named by CHROMIUM", allow_module_level=whole_module
        )
    return str(named)


class Tab:
    """A page of the browser, with what it asked for and what it complained of."""

    def __init__(self, page: "Page", origin: str) -> None:
        self.page = page
        self.origin = origin
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._asked)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.origin, "file:")):
            self.elsewhere.append(request.url)


@contextlib.asynccontextmanager
async def tab(
    browser: "Browser",
    url: str,
    path: str = "workloads",
    scheme: Any = "light",
    width: int = 1366,
) -> "AsyncIterator[Tab]":
    context = await browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    page = await context.new_page()
    opened_tab = Tab(page, url)
    try:
        await page.goto(f"{url}{path}")
        yield opened_tab
        assert (opened_tab.complaints, opened_tab.elsewhere) == ([], [])
    finally:
        await context.close()

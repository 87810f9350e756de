"""Pages of a large cluster in a real Chromium: 1,152 nodes in 64 racks, 1,000 workloads.

AXE_CORE names a file axe.min.js (of the npm package axe-core); without it, no rules of axe are
examined.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from app.console.listing import NOT_EXAMINED
from tests.console.changing import Shown, shown
from tests.console.chromium import SIZES, VIOLATIONS, chromium, tab
from tests.console.fake import Lists
from tests.console.large import large

if TYPE_CHECKING:
    from playwright.async_api import Browser

chromium(whole_module=True)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]
PAGES = {
    "workloads": "workloads",
    "equal": "workloads?object=PodCliqueSet/inference/train-128",
    "topology": "topology",
    "worst": "topology?sort=worst",
    "room": "topology?pods=8&gpus=4&level=rack&gang=PodCliqueSet/inference/serve-00-00",
    "queues": "queues",
    "rack": "topology?at=zone-a/block-00/rack-03",
}
MOST_BYTES = 100_000
MOST_ELEMENTS = 4000
CLIPPED = """() => {
  const clipped = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const hides = (box, r) =>
    r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 1 || r.bottom > box.bottom + 1;
  while (walker.nextNode()) {
    const text = walker.currentNode, range = document.createRange();
    if (!text.textContent.trim() || !text.parentElement.checkVisibility()) continue;
    if (text.parentElement.closest(".off,.skip,select")) continue;
    range.selectNodeContents(text);
    for (const r of range.getClientRects()) {
      for (let parent = text.parentElement; parent && r.width; parent = parent.parentElement) {
        const style = getComputedStyle(parent), isWindow = parent === document.body;
        const box = isWindow ? { ...parent.getBoundingClientRect().toJSON(), left: 0, right: innerWidth }
          : parent.getBoundingClientRect();
        if ((isWindow || style.overflowX !== "visible") && hides(box, r)) clipped.push(text.textContent.trim());
      }
    }
  }
  return clipped;
}"""
"""Texts of which a part is outside the window, or of an element that hides what is outside it."""

WIDTH_OF_MAP = """() => {
  const boxes = [...document.querySelectorAll(".tile")].map((tile) => tile.getBoundingClientRect());
  return Math.max(...boxes.map((box) => box.right)) - Math.min(...boxes.map((box) => box.left));
}"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def console(browser: "Browser") -> AsyncIterator[Shown]:
    """A console that has explained all of its workloads."""
    async with shown(Lists(large())) as console:
        page = await browser.new_page()
        while NOT_EXAMINED in await (await page.request.get(f"{console.url}workloads")).text():
            pass
        await page.close()
        yield console


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1024, 1440, 2560])
@pytest.mark.parametrize("name", list(PAGES))
async def test_a_large_cluster_is_readable(
    browser: "Browser", console: Shown, name: str, width: int, scheme: str
) -> None:
    axe = os.environ.get("AXE_CORE")
    async with tab(browser, console.url, PAGES[name], scheme, width) as opened_tab:
        page = opened_tab.page
        await page.get_by_text("● live").wait_for()
        height = await page.evaluate("document.documentElement.scrollHeight")
        await page.set_viewport_size({"width": width, "height": height + 100})
        assert await page.evaluate(SIZES) == [width, width]
        assert await page.evaluate(CLIPPED) == []
        assert await page.locator("*").count() < MOST_ELEMENTS
        assert len(await page.content()) < MOST_BYTES
        if name in ("topology", "worst", "room"):
            assert await page.locator(".tile").count() == 64
            assert await page.evaluate(WIDTH_OF_MAP) > 0.9 * (width - 48)
        if axe:
            await page.evaluate(await asyncio.to_thread(Path(axe).read_text))
            assert await page.evaluate(VIOLATIONS) == []


async def test_equal_workloads_are_found_by_the_filter(browser: "Browser", console: Shown) -> None:
    async with tab(browser, console.url, "workloads") as opened_tab:
        page = opened_tab.page
        await page.get_by_text("● live").wait_for()
        assert await page.locator(".sets li").locator("visible=true").count() < 10
        await page.locator("[data-filter]").fill("whole-rack-005")
        found = page.get_by_role("link", name="pcs/whole-rack-005")
        assert await found.is_visible()
        await found.click()
        await page.get_by_role("heading", level=1, name="whole-rack-005").wait_for()
        assert await page.get_by_role("link", name="pcs/whole-rack-005").is_visible()

"""What stays while pages change, in a real Chromium, over lists in memory."""

import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from app.console.routes import Console
from tests.console.chromium import tab
from tests.console.fake import Lists, console, served
from tests.console.objects import objects

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]
STUCK = "workloads?object=PodCliqueSet/inference/llm-serve"
CONTROLS = "a[href], button:not([disabled]), input:not([type=hidden], [type=file]), select, textarea, summary, tr[tabindex='0']"
MARK = """(selector) => {
  window.controls = [...document.querySelectorAll(selector)].filter((e) => e.checkVisibility());
  return window.controls.length;
}"""
FOCUS = (
    "(n) => { window.controls[n].focus(); return document.activeElement === window.controls[n]; }"
)
IS_FOCUSED = (
    "(n) => document.activeElement === window.controls[n] && window.controls[n].isConnected"
)


@dataclass(frozen=True)
class Shown:
    """A console that is served, and the lists that it is of."""

    url: str
    made: Console
    lists: Lists

    async def change(self, *pages: "Page") -> None:
        """Make a set that waits, and return when all pages have it in the navigation."""
        sets = self.lists.objects["podcliquesets"]
        metadata = {"name": f"new-{len(sets)}", "namespace": "inference", "resourceVersion": "2"}
        sets.append({**sets[0], "metadata": {**metadata, "uid": metadata["name"]}})
        self.lists.change("podcliquesets", sets[-1], "ADDED")
        for page in pages:
            count = page.locator("nav .count").first
            await count.filter(has_text=re.compile(rf"^{len(sets) - 2}\b")).wait_for()


@contextlib.asynccontextmanager
async def shown(lists: Lists | None = None) -> AsyncIterator[Shown]:
    lists = lists or Lists(objects())
    async with console(lists) as (_, made), served(made) as url:
        yield Shown(url, made, lists)


@pytest.mark.parametrize(
    "path", [STUCK, "topology?pods=3&gpus=8&level=rack", "findings", "playground?example"]
)
async def test_every_control_keeps_the_focus(browser: "Browser", path: str) -> None:
    async with shown() as served_console, tab(browser, served_console.url, path) as opened_tab:
        page = opened_tab.page
        await page.get_by_text("● live").wait_for()
        count = await page.evaluate(MARK, CONTROLS)
        lost = []
        for number in range(count):
            assert await page.evaluate(FOCUS, number)
            await served_console.change(page)
            if not await page.evaluate(IS_FOCUSED, number):
                lost.append(number)
    assert count > 5
    assert lost == []


async def test_text_selection_scroll_and_what_is_open_stay(browser: "Browser") -> None:
    async with shown() as served_console, tab(browser, served_console.url, STUCK) as opened_tab:
        page = opened_tab.page
        await page.get_by_text("● live").wait_for()
        await page.set_viewport_size({"width": 1366, "height": 300})
        await page.locator("[data-filter]").fill("llm")
        await page.locator("[aria-level='2'] .fold").first.click()
        await page.locator(".cmd code").first.dblclick()
        await page.evaluate("scrollTo(0, 120)")
        before = await page.evaluate(STATE)
        for _ in range(3):
            await served_console.change(page)
        after = await page.evaluate(STATE)
    assert before["selected"] != ""
    assert before["scroll"] == 120
    assert before == after


STATE = """() => ({
  selected: getSelection().toString(),
  scroll: scrollY,
  filter: document.querySelector("[data-filter]").value,
  open: [...document.querySelectorAll("[aria-expanded]")].map((e) => e.getAttribute("aria-expanded")),
  visible: [...document.querySelectorAll("tr")].filter((e) => e.checkVisibility()).length,
})"""


async def test_seven_tabs_are_live_with_one_stream(browser: "Browser") -> None:
    async with shown() as served_console, contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(tab(browser, served_console.url, STUCK))
        pages = [first.page]
        for _ in range(6):
            pages.append(await first.page.context.new_page())
            await pages[-1].goto(f"{served_console.url}{STUCK}")
        for page in pages:
            await page.get_by_text("● live").wait_for()
        await served_console.change(*pages)
        await served_console.change(*pages)
        assert served_console.made.streams.open == 1
        await pages[0].close()
        await served_console.change(pages[1])
        assert served_console.made.streams.open == 1


async def test_a_page_says_that_the_console_has_ended(browser: "Browser") -> None:
    context = await browser.new_context()
    page = await context.new_page()
    async with shown() as served_console:
        await page.goto(f"{served_console.url}{STUCK}")
        await page.get_by_text("● live").wait_for()
        assert await page.get_by_text("The console does not answer").is_hidden()
    await page.get_by_text("The console does not answer").wait_for()
    assert await page.get_by_role("heading", level=1).inner_text() != ""
    await context.close()

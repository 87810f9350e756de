"""What stays while pages change, in a real Chromium, over lists in memory."""

import asyncio
import contextlib
import itertools
from typing import TYPE_CHECKING

import pytest

from tests.console.changing import Shown, many_pods, shown
from tests.console.chromium import tab
from tests.console.fake import Lists

if TYPE_CHECKING:
    from playwright.async_api import Browser

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


@pytest.mark.parametrize(
    "path",
    [
        STUCK,
        "topology?pods=3&gpus=8&level=rack",
        "topology?at=zone-a/block-a1/rack-a1",
        "findings",
        "playground?example",
    ],
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


CLICKS = 500
PODS = 60_000
RECORD = """() => {
  window.pressed = [];
  window.clicked = 0;
  addEventListener("mousedown", (event) => { window.pressed.push(event.target); }, true);
  addEventListener("click", (event) => {
    event.preventDefault();
    event.stopImmediatePropagation();
    window.clicked += event.target === window.pressed.at(-1);
  }, true);
}"""
PLACES = """(selector) => [...document.querySelectorAll(selector)]
  .map((e) => e.getBoundingClientRect())
  .filter((box) => box.width && box.top > 0 && box.bottom < innerHeight)
  .map((box) => [box.left + box.width / 2, box.top + box.height / 2])"""


async def test_no_click_is_lost_at_two_updates_a_second(browser: "Browser") -> None:
    """A click is lost if what was below the mouse is another element when the button comes up."""
    lists = Lists(many_pods(PODS))
    async with shown(lists) as served_console, tab(browser, served_console.url, STUCK) as opened:
        page = opened.page
        await page.get_by_text("● live").wait_for()
        await page.evaluate(RECORD)
        fetched: list[str] = []
        page.on("response", lambda response: fetched.append(response.url))
        changing = asyncio.create_task(_change_twice_a_second(served_console))
        for number in range(CLICKS):
            places = await page.evaluate(PLACES, CONTROLS)
            x, y = places[number % len(places)]
            await page.mouse.click(x, y, delay=60)
        changing.cancel()
        pressed = await page.evaluate("window.pressed.length")
        clicked = await page.evaluate("window.clicked")
    assert (pressed, clicked) == (CLICKS, CLICKS)
    assert len(fetched) > CLICKS / 20


async def _change_twice_a_second(served_console: Shown) -> None:
    """Place the pods of a gang, one after the other, and take them away again."""
    ticks = asyncio.Event()
    for number in itertools.count():
        node = f"gpu-a-{number % 16 + 1:02}" if number % 2 else ""
        served_console.place(f"llm-serve-0-worker-{number // 2 % 4}", node)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await ticks.wait()


async def test_without_locks_each_tab_has_a_stream(browser: "Browser") -> None:
    context = await browser.new_context()
    await context.add_init_script("Object.defineProperty(navigator, 'locks', { value: undefined })")
    async with shown() as served_console:
        pages = [await context.new_page(), await context.new_page()]
        for page in pages:
            await page.goto(f"{served_console.url}{STUCK}")
            await page.get_by_text("● live").wait_for()
        await served_console.change(*pages)
        assert served_console.made.streams.open == 2
        await context.close()

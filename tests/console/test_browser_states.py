"""The page in a real Chromium and the command say the same, in states of a cluster at random."""

import random
from typing import TYPE_CHECKING, Any

import pytest

from app.explain.answers.answer import explain
from app.explain.answers.pending import rows, workloads
from app.explain.answers.topology import survey
from app.explain.output.waiting_text import COLUMNS, cells, first_reason
from app.explain.state.index import Index
from app.explain.state.read import read_all
from app.facts.identity import Ref
from tests.console.changing import shown
from tests.console.chromium import tab
from tests.console.fake import NOW, Lists
from tests.console.objects import objects
from tests.integration.system import eventually

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]
STATES = 100
STUCK = Ref("PodCliqueSet", "inference", "llm-serve")
PATH = f"workloads?object={STUCK.kind}/{STUCK.namespace}/{STUCK.name}"
SAID = """(columns) => {
  const texts = (selector, inside = document) =>
    [...inside.querySelectorAll(selector)].map((e) => e.textContent.replace(/\\s+/g, " ").trim());
  const cell = (row, column) => texts(`[title="${column}"]`, row)[0].replace(/^[●◐▲■?] (?=.)/, "");
  return {
    headline: texts("h1")[0],
    reasons: texts("section.reason code.id"),
    list: [...document.querySelectorAll(".sets li")].map((row) => columns.map((c) => cell(row, c))),
    waiting: texts("nav .count").map((text) => parseInt(text)),
  };
}"""


async def test_the_page_follows_the_command_through_states_at_random(browser: "Browser") -> None:
    choice = random.Random(20261122)
    answers = set()
    made = objects()
    # without it, no rows are folded
    made["podgroups"] = [
        each for each in made["podgroups"] if "ownerReferences" in each["metadata"]
    ]
    async with (
        shown(Lists(made)) as shown_console,
        tab(browser, shown_console.url, PATH) as opened,
    ):
        page = opened.page
        await page.get_by_text("● live").wait_for()
        for _ in range(STATES):
            for _ in range(choice.randrange(1, 6)):
                shown_console.change_at_random(choice)
            printed = await _printed(shown_console.lists)
            await eventually(lambda: page.evaluate(SAID, COLUMNS), printed.__eq__)
            answers.add(str(printed))
    assert len(answers) > STATES / 4


async def _printed(lists: Lists) -> dict[str, Any]:
    """What the commands say: `explain` of the set and without a name, and `topology`."""
    index = Index(await read_all(lists, now=NOW))
    answer = explain(index, STUCK)
    assert answer is not None
    listed = rows(index, workloads(index))
    counts = [sum(row.state == "waits" for row in listed), len(survey(index).reasons)]
    return {
        "headline": answer.headline,
        "reasons": [reason.id for reason in answer.reasons],
        "list": [[*cells(row, index.facts), first_reason(row)] for row in listed],
        "waiting": [count for count in counts if count],
    }

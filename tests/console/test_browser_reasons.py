"""Every reason of the table in a real Chromium: its state is made on an API server, and the
Workloads page shows it.

One browser, one tab and one API server for each dialect; states follow each other, and the page is
opened for each.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from app.console.app import Opened, opened
from app.console.settings import ConsoleSettings
from app.explain.answers.answer import explain
from app.explain.reasons.reason import Reason
from app.explain.state.index import Index
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.command import default_configuration
from tests.console.chromium import Tab, chromium, tab
from tests.explain.fleet import SET_REF, facts
from tests.explain.table.row import Row
from tests.explain.test_reasons import ROWS, start
from tests.integration.stage import Stage, skip_if_impossible, staged
from tests.integration.system import eventually
from tests.integration.test_explain import AGES, OF_AGES, TIMES

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

chromium(whole_module=True)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]
PATH = f"workloads?object=PodCliqueSet/{SET_REF.namespace}/{SET_REF.name}"


@dataclass(frozen=True)
class Scene:
    """An API server of one dialect, a console of it, and a tab of the browser that shows the
    console.
    """

    server: ApiServer
    stage: Stage
    console: Opened
    tab: Tab


@contextlib.asynccontextmanager
async def scene(browser: "Browser", folder: Path, dialect: str, kind: str) -> AsyncIterator[Scene]:
    async with staged(folder, dialect, [], kind) as (server, stage):
        settings = ConsoleSettings(default_configuration(), server.kubeconfig, "admin", "admin")
        async with (
            opened(settings) as console,
            tab(browser, console.url, "playground") as opened_tab,
        ):
            await console.live.until_ready()
            yield Scene(server, stage, console, opened_tab)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["design", "today"])
async def shown(
    request: pytest.FixtureRequest,
    browser: "Browser",
    kind: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[str, Scene]]:
    dialect = str(request.param)
    async with scene(browser, tmp_path_factory.mktemp(dialect), dialect, kind) as made:
        yield dialect, made


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.id}: {row.name}")
async def test_the_page_shows_the_reason_and_what_helps(row: Row, shown: tuple[str, Scene]) -> None:
    dialect, scene = shown
    skip_if_impossible(row, dialect, scene.server)
    snapshot = facts(**{**start(dialect), **row.hit})
    expected = explain(Index(snapshot), SET_REF)
    assert expected is not None
    if OF_AGES & {reason.id for reason in expected.reasons}:
        pytest.skip("holds by the ages of objects, which the API server sets")
    await scene.stage.show(snapshot)
    page = scene.tab.page
    await page.goto(f"{scene.console.url}{PATH}")
    await eventually(lambda: _missing(page, expected.reasons), lambda missing: missing == [])
    assert (scene.tab.complaints, scene.tab.elsewhere) == ([], [])


async def _missing(page: "Page", reasons: Sequence[Reason]) -> list[str]:
    """What the page does not show of these reasons, and the ids of others that it shows."""
    cards = [
        " ".join(text.split()) for text in await page.locator("section.reason").all_text_contents()
    ]
    ids = await page.locator("section.reason code.id").all_inner_texts()
    if ids != [reason.id for reason in reasons] or len(cards) != len(reasons):
        return [f"{reason.id} is missing" for reason in reasons] + [
            f"{shown} is shown" for shown in ids
        ]
    missing = []
    for card, reason in zip(cards, reasons, strict=True):
        said = [] if reason.id in TIMES else [f"{reason.text}.", reason.remedy]
        texts = [*said, *reason.commands]
        there = AGES.sub("", card)
        missing += [text for text in texts if AGES.sub("", " ".join(text.split())) not in there]
    return missing

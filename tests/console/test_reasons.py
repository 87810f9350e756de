"""Every reason of the table is shown by the Workloads page, in the words of the command.

Tests `app/console/rendering.py`.
"""

import pytest

from app.console import workloads
from app.console.listing import WaitingList
from app.console.rendering import environment
from app.explain.answers.answer import explain
from app.explain.output.text import text
from app.explain.output.waiting_text import COLUMNS, cells, first_reason
from app.explain.state.index import Index
from tests.console.parsed import Parsed
from tests.explain.fleet import NOW, SET_REF, facts
from tests.explain.table.row import Row
from tests.explain.test_reasons import ROWS, start

CASES = [
    pytest.param(row, dialect, id=f"{row.id}: {row.name} ({dialect})")
    for row in ROWS
    for dialect in row.dialects
]
ENVIRONMENT = environment()
OBJECT = f"PodCliqueSet/{SET_REF.namespace}/{SET_REF.name}"


@pytest.mark.untraced
@pytest.mark.parametrize(("row", "dialect"), CASES)
def test_the_page_and_the_text_have_the_reason(row: Row, dialect: str) -> None:
    index = Index(facts(**{**start(dialect), **row.hit}))
    answer = explain(index, SET_REF)
    assert answer is not None
    listing = WaitingList(clock=lambda: 0.0)
    listing.follow(index)
    values = {
        "trouble": None,
        "time": NOW,
        **workloads.page(listing).read(index, {"object": OBJECT}),
    }
    page = Parsed(ENVIRONMENT.get_template("workloads.html").render(values))
    assert page.heading == answer.headline
    assert _listed(page) == [[*cells(row, index.facts), first_reason(row)] for row in listing.rows]
    assert page.texts("code", cls="id") == [reason.id for reason in answer.reasons]
    shown = " ".join(section.text for section in page.all("section", cls="reason"))
    for reason in answer.reasons:
        end = "" if reason.text.endswith("?") else "."
        assert f"{' '.join(reason.text.split())}{end}" in shown
        assert "?." not in shown
        assert " ".join(reason.remedy.split()) in shown
        assert [command for command in reason.commands if command not in page.texts("code")] == []
    assert workloads.printed(index, OBJECT, text) == text(answer)


def _listed(page: Parsed) -> list[list[str]]:
    """The cells of the list, in the order of the page."""
    titled = [element for element in page.elements if element.attributes.get("title") in COLUMNS]
    texts = [element.text.lstrip("◐●■▲? ") or element.text for element in titled]
    width = len(COLUMNS)
    return [texts[n : n + width] for n in range(0, len(texts), width)]

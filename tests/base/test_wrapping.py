"""Lines keep to the width of a terminal, and lose nothing."""

import re

import pytest

from app.base.wrapping import fitted
from app.explain.answers.answer import explain
from app.explain.output.text import text, tree_lines
from app.explain.state.index import Index
from tests.explain.fleet import SET_REF, facts, fill, pods

WAITING = facts(pods=(*pods(), *fill("rack-a1", "rack-a2", "rack-b1", "rack-b2")))


@pytest.mark.parametrize(
    ("line", "width", "lines"),
    [
        pytest.param("zone  4 of 5 nodes", 0, ["zone  4 of 5 nodes"], id="no terminal"),
        pytest.param("zone  4 of 5 nodes", 18, ["zone  4 of 5 nodes"], id="it fits"),
        pytest.param(
            "  1  No rack has room.      NoDomainFits",
            30,
            ["  1  No rack has room.", "     NoDomainFits"],
            id="between words",
        ),
        pytest.param(
            "          kubectl label node gpu-13 example.com/rack=rack-b2",
            30,
            ["          kubectl label node gpu-13 example.com/rack=rack-b2"],
            id="a command stays whole",
        ),
        pytest.param(
            "who may write RoleBindings gives the right: kubectl -n a create rolebinding b",
            30,
            [
                "who may write RoleBindings",
                "  gives the right:",
                "  kubectl -n a create rolebinding b",
            ],
            id="a command at the end of a sentence stays whole",
        ),
    ],
)
def test_a_line_is_broken_between_words(line: str, width: int, lines: list[str]) -> None:
    assert fitted(line, width).splitlines() == lines


@pytest.mark.parametrize("width", [60, 80, 120])
def test_an_answer_keeps_to_the_width(width: int) -> None:
    answer = explain(Index(WAITING), SET_REF)
    assert answer is not None
    lines = text(answer, everything=True, width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert said(lines) == said(text(answer, everything=True).splitlines())


def test_a_tree_is_still_drawn_where_its_cells_go_on() -> None:
    answer = explain(Index(WAITING), SET_REF)
    assert answer is not None
    assert tree_lines(answer.tree, width=70, everything=False, colour=False)[:9] == [
        "PodCliqueSet llm              zone       -          0/4  pending",
        "                              required",
        "└─ PodGang llm-0              zone       -          0/4  pending,",
        "                              required                   all or none",
        "   ├─ PodClique …-router      -          -          0/1  pending",
        "   │                                                     with its",
        "   │                                                     gang",
        "   ├─ replica llm-0-pool-0    rack       -          0/3  reason 1",
        "   │                          required",
    ]


def test_the_colour_of_a_state_goes_on_with_it() -> None:
    answer = explain(Index(WAITING), SET_REF)
    assert answer is not None
    coloured = tree_lines(answer.tree, width=70, colour=True, everything=False)
    assert coloured[2].endswith("\x1b[33mpending,\x1b[0m")
    assert coloured[3].endswith("\x1b[33mall or none\x1b[0m")
    plain = [re.sub("\x1b[^m]*m", "", line) for line in coloured]
    assert plain == tree_lines(answer.tree, width=70, everything=False, colour=False)


def said(lines: list[str]) -> list[str]:
    """The characters of an answer, without what draws it, in no order."""
    return sorted("".join(lines).translate(dict.fromkeys(map(ord, " │├└─"))))

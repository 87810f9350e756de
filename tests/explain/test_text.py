"""Answers as lines of text: each part, in whole answers.

Tests `app/explain/output/text.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import Answer
from app.explain.answers.branch import Branch
from app.explain.answers.positions import InLine
from app.explain.output.text import MOST_LINES, MOST_WORDS, text
from app.explain.reasons.reason import Reason
from app.explain.reasons.table import Unknown
from app.facts.identity import Ref
from app.facts.rows import ROOM

SET = Ref("PodCliqueSet", "ml", "llm")
GANG = Ref("PodGang", "ml", "llm-0")
LEAF = Branch(SET, "rack required", "zone-a", 4, 4, "well", "placed as requested")
PLACED = Answer(
    ref=SET,
    state="well",
    headline="llm is placed as requested",
    placed=4,
    total=4,
    reasons=(),
    tree=LEAF,
    unknown=(),
    unseen={},
    absent=(),
    skipped=(),
    lacking=(),
    said=(),
    silence="KAI has said nothing",
    room=(),
    line=(),
)
ROW = "PodCliqueSet llm  rack required  zone-a  4/4  placed as requested"


def reason(text: str, **more: Any) -> Reason:
    return Reason(
        **{
            "id": "SkyFalls",
            "objects": (GANG,),
            "text": text,
            "remedy": "Look up",
            "who": "you",
            **more,
        }
    )


def in_line(name: str, number: int, next: Any = "held", **more: Any) -> InLine:
    return InLine(Ref("PodGang", "ml", name), "team", number, 9, number + 3, next, **more)


def pod(name: str, **more: Any) -> Branch:
    return Branch(Ref("Pod", "ml", name), **{"placed": 1, "total": 1, "words": "runs", **more})


def clique(name: str, *pods: Branch, **more: Any) -> Branch:
    return Branch(
        Ref("PodClique", "ml", name), **{"placed": 2, "total": 2, "children": pods, **more}
    )


def tree(*children: Branch, **more: Any) -> Branch:
    return replace(LEAF, children=children, **more)


WAITS = replace(PLACED, state="waits", headline="llm is pending")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(PLACED, ["llm is placed as requested", ROW], id="placed"),
        pytest.param(
            replace(
                WAITS,
                reasons=(
                    reason("The sky falls", commands=("kubectl get nodes", "kubectl get pods")),
                    reason("It falls on several", objects=(GANG, SET), who="platform"),
                    reason(
                        "2 objects are under it",
                        objects=(GANG, SET),
                        who="platform",
                        remedy="Ask the platform team",
                    ),
                    reason("Does it fall?", id="Question", who="wait"),
                    reason("So all is dark", id="Dark", follows=True, commands=("none",)),
                ),
            ),
            [
                "llm is pending",
                "  1  The sky falls.                                                                       SkyFalls",
                "     fix: Look up",
                "          kubectl get nodes",
                "          kubectl get pods",
                "  2  It falls on several. (2 objects)                                                     SkyFalls",
                "     fix: Look up (platform team)",
                "  3  2 objects are under it.                                                              SkyFalls",
                "     fix: Ask the platform team",
                "  4  Does it fall?                                                                        Question",
                "     fix: Look up",
                "  5  So all is dark.                                                                      Dark",
                "     This follows from the reasons above.",
                ROW,
            ],
            id="reasons",
        ),
        pytest.param(
            replace(WAITS, line=(in_line("llm-0", 1, "next", where=("zone-a", "zone-b")),)),
            [
                "llm is pending",
                "  Position 1 of 9 in queue team; KAI should place it next in zone-a and zone-b",
                "  Nothing blocks it now; KAI should place it in its next cycle, in zone-a and zone-b.",
                ROW,
            ],
            id="the next one",
        ),
        pytest.param(
            replace(WAITS, line=(in_line("llm-0", 1), in_line("llm-1", 2, first=False))),
            [
                "llm is pending",
                "  llm-0: position 1 of 9 in queue team; it has room, but something else blocks it",
                "  llm-1: position 2 of 9 in queue team; it has room, but something else blocks it",
                "  Nothing we check is blocking it, and KAI has said nothing.",
                ROW,
            ],
            id="two in line",
        ),
        pytest.param(
            replace(
                WAITS,
                line=tuple(in_line(f"llm-{n}", n, first=n == 1) for n in range(1, MOST_WORDS + 2)),
            ),
            [
                "llm is pending",
                "  llm-1: position 1 of 9 in queue team; it has room, but something else blocks it",
                "  llm-2: position 2 of 9 in queue team; it has room, but something else blocks it",
                "  llm-3: position 3 of 9 in queue team; it has room, but something else blocks it",
                "  llm-4: position 4 of 9 in queue team; it has room, but something else blocks it",
                "  llm-5: position 5 of 9 in queue team; it has room, but something else blocks it",
                "  Nothing we check is blocking it, and KAI has said nothing.",
                ROW,
            ],
            id="many in line",
        ),
        pytest.param(
            replace(WAITS, said=("no room",), reasons=(reason("The sky falls"),)),
            [
                "llm is pending",
                "  1  The sky falls.                                                                       SkyFalls",
                "     fix: Look up",
                "  KAI says:",
                "     no room",
                ROW,
            ],
            id="KAI's words",
        ),
        pytest.param(
            replace(WAITS, said=("no room",), line=(in_line("llm-0", 1, "next"),)),
            [
                "llm is pending",
                "  Position 1 of 9 in queue team; KAI should place it next",
                "  Nothing blocks it now; KAI should place it in its next cycle. If no pod is placed within a minute, ask the platform team whether KAI's scheduler runs.",
                "  KAI said earlier, about an older state:",
                "     no room",
                ROW,
            ],
            id="KAI's earlier words",
        ),
        pytest.param(
            replace(
                WAITS, said=("no room",), line=(in_line("llm-0", 1, "next"),), skipped=("Dark",)
            ),
            [
                "llm is pending",
                "  Position 1 of 9 in queue team; KAI should place it next",
                "  Nothing that we could check is blocking it. The other checks are listed below.",
                "  KAI says:",
                "     no room",
                ROW,
                "not checked: Dark",
            ],
            id="KAI's words, and not everything was checked",
        ),
        pytest.param(
            replace(WAITS, said=tuple("abcde")),
            [
                "llm is pending",
                "  Nothing we check is blocking it.",
                "  KAI says:",
                "     a",
                "     b",
                "     c",
                "     d",
                "     e",
                ROW,
            ],
            id="as many words of KAI as are shown",
        ),
        pytest.param(
            replace(WAITS, said=tuple("abcdefg")),
            [
                "llm is pending",
                "  Nothing we check is blocking it.",
                "  KAI says:",
                "     a",
                "     b",
                "     c",
                "     d",
                "     e",
                "     … 2 more (--output json shows them)",
                ROW,
            ],
            id="more words of KAI",
        ),
        pytest.param(
            replace(WAITS, absent=("queues",)),
            [
                "llm is pending",
                "  Nothing we check is blocking it, and KAI has said nothing.",
                ROW,
                "KAI is not installed",
            ],
            id="what is not installed",
        ),
        pytest.param(
            replace(WAITS, absent=("queues", "pod_groups", "sets", "nodes")),
            [
                "llm is pending",
                "  Nothing we check is blocking it, and KAI has said nothing.",
                ROW,
                "KAI and Grove are not installed",
            ],
            id="products that are not installed",
        ),
        pytest.param(
            replace(
                WAITS,
                unseen={
                    "nodes": "no permission to list",
                    "queues": "no permission to list",
                    "events": "timed out",
                },
                unknown=(Unknown("NodesUnfit", ("nodes",)), Unknown("QueueFull", ("queues",))),
            ),
            [
                "llm is pending",
                "  Nothing that we could check is blocking it. The other checks are listed below. KAI has said nothing.",
                ROW,
                "could not read: nodes and queues (no permission to list); events (timed out). Reasons that need these facts were not checked",
                "not ruled out: NodesUnfit and QueueFull",
                "Ask a cluster admin for permission to read the whole cluster (USER is your user name): kubectl create clusterrolebinding USER-view --clusterrole=grove-admission-view --user=USER",
            ],
            id="what is not seen",
        ),
        pytest.param(
            replace(WAITS, skipped=("SkyFalls", "Dark"), lacking=("events", "queues")),
            [
                "llm is pending",
                "  Nothing that we could check is blocking it. The other checks are listed below. KAI has said nothing.",
                ROW,
                "not checked: SkyFalls and Dark",
                "missing from the files: events and queues, which some reasons need. Add these objects, or use a file written with --record",
            ],
            id="what was not checked",
        ),
        pytest.param(
            replace(WAITS, skipped=("NoDomainFits",), lacking=("events", "nodes", ROOM)),
            [
                "llm is pending",
                "  Nothing that we could check is blocking it. The other checks are listed below. KAI has said nothing.",
                ROW,
                "not checked: NoDomainFits",
                "missing from the files: events and nodes, which some reasons need. Add these objects, or use a file written with --record",
            ],
            id="files without nodes",
        ),
        pytest.param(
            replace(WAITS, skipped=("NoDomainFits",), lacking=(ROOM, "nodes")),
            [
                "llm is pending",
                "  Nothing that we could check is blocking it. The other checks are listed below. KAI has said nothing.",
                ROW,
                "not checked: NoDomainFits",
                "room was not examined, because that needs all nodes and pods. Run: grove-admission explain podcliqueset/llm -n ml",
            ],
            id="room was not requested",
        ),
        pytest.param(
            replace(WAITS, skipped=("NoDomainFits",), lacking=(ROOM, "pods")),
            [
                "llm is pending",
                "  Nothing that we could check is blocking it. The other checks are listed below. KAI has said nothing.",
                ROW,
                "not checked: NoDomainFits",
                "missing from the files: pods, which some reasons need. Add these objects, or use a file written with --record",
            ],
            id="files without pods",
        ),
        pytest.param(
            replace(WAITS, skipped=("NoDomainFits",), lacking=()),
            [
                "llm is pending",
                "  Nothing that we could check is blocking it. The other checks are listed below. KAI has said nothing.",
                ROW,
                "not checked: NoDomainFits",
                "room was not examined, because that needs all nodes and pods. Run: grove-admission explain podcliqueset/llm -n ml",
            ],
            id="nothing was lacking",
        ),
        pytest.param(
            replace(WAITS, reasons=(reason("It may fall", severity="note"),)),
            [
                "llm is pending",
                "  1  It may fall.                                                                         SkyFalls",
                "     fix: Look up",
                "  Nothing we check is blocking it, and KAI has said nothing. The notes above do not block it.",
                ROW,
            ],
            id="notes only",
        ),
        pytest.param(
            replace(
                WAITS,
                reasons=(reason("KAI is silent", id="KaiSilent", who="platform"),),
                line=(in_line("llm-0", 1, "next", where=("r3",)),),
            ),
            [
                "llm is pending",
                "  1  KAI is silent.                                                                       KaiSilent",
                "     fix: Look up (platform team)",
                "  Position 1 of 9 in queue team; by KAI's order, it is next in r3",
                ROW,
            ],
            id="the next one of a silent scheduler",
        ),
        pytest.param(
            replace(
                PLACED,
                tree=tree(
                    clique("llm-0-a", pod("llm-0-a-0"), pod("llm-0-a-1", marked=True)),
                    clique(
                        "llm-0-b",
                        pod("llm-0-b-0", reasons=(3,)),
                        state="waits",
                        words="pending",
                        reasons=(1,),
                        placed=0,
                    ),
                    clique("llm-0-c", state="warning", words="split", reasons=(2, 1)),
                    Branch(Ref("Replica", "ml", "1"), placed=None, total=None, state="unknown"),
                    Branch(Ref("Replica", "ml", "2"), placed=None, total=3, state="well"),
                    Branch(Ref("Replica", "ml", "3"), placed=2, total=3, state="unknown"),
                ),
            ),
            [
                "llm is placed as requested",
                "PodCliqueSet llm    rack required  zone-a  4/4  placed as requested",
                "├─ PodClique …-0-a  -              -       2/2",
                "│  └─ Pod …-1 *     -              -       1/1  runs",
                "├─ PodClique …-0-b  -              -       0/2  reasons 1 and 3",
                "├─ PodClique …-0-c  -              -       2/2  split, reasons 1 and 2",
                "├─ replica 1        -              -       ?",
                "├─ replica 2        -              -",
                "└─ replica 3        -              -       2/3",
            ],
            id="a tree",
        ),
        pytest.param(
            replace(
                PLACED,
                tree=tree(
                    *(clique(f"llm-{n}", placed=min(n, 3)) for n in range(6)),
                    clique("last", asked="host required"),
                ),
            ),
            [
                "llm is placed as requested",
                "PodCliqueSet llm   rack required  zone-a  4/4  placed as requested",
                "├─ PodClique …-0   -              -       0/2",
                "├─ PodClique …-1   -              -       1/2",
                "├─ PodClique …-2   -              -       2/2",
                "├─ PodClique …-3   -              -       3/2",
                "├─ 2 more like it",
                "└─ PodClique last  host required  -       2/2",
            ],
            id="equal ones",
        ),
        pytest.param(
            replace(PLACED, tree=tree(*(clique(f"llm-{n}") for n in range(3)))),
            [
                "llm is placed as requested",
                "PodCliqueSet llm   rack required  zone-a  4/4  placed as requested",
                "├─ PodClique …-0   -              -       2/2",
                "└─ 2 more like it",
            ],
            id="equal ones at the end",
        ),
        pytest.param(
            replace(
                PLACED,
                tree=Branch(
                    Ref("LeaderWorkerSet", "ml", "lws"), placed=1, total=1, children=(pod("lws-0"),)
                ),
            ),
            [
                "llm is placed as requested",
                "LeaderWorkerSet lws  -  -  1/1",
                "└─ Pod …-0           -  -  1/1  runs",
            ],
            id="pods without a gang",
        ),
        pytest.param(
            replace(PLACED, headline="a\x1b[31mb", said=("c\x07",)),
            ["a\\x1b[31mb", "  KAI says:", "     c\\x07", ROW],
            id="control characters",
        ),
    ],
)
def test_an_answer(answer: Answer, expected: list[str]) -> None:
    assert text(answer).splitlines() == expected


@pytest.mark.parametrize(
    ("children", "more"),
    [(MOST_LINES - 2, 0), (MOST_LINES - 1, 2), (MOST_LINES + 5, 8)],
    ids=["all lines", "one too many", "more"],
)
def test_a_long_tree_is_cut_unless_everything_is_asked_for(children: int, more: int) -> None:
    """The headline is a line too."""
    cliques = [clique(f"c{number}", placed=number) for number in range(children)]
    answer = replace(PLACED, tree=tree(*cliques))
    lines = text(answer).splitlines()
    assert len(lines) == min(MOST_LINES, children + 2)
    assert (lines[-1] == f"… {more} more lines (--all shows them)") is (more > 0)
    assert len(text(answer, everything=True).splitlines()) == children + 2


def test_everything_has_each_pod_and_no_fold() -> None:
    answer = replace(PLACED, tree=tree(*(clique(f"llm-{n}", pod(f"llm-{n}-0")) for n in range(2))))
    names = [line[:18].rstrip() for line in text(answer, everything=True).splitlines()]
    assert names[1:] == [
        "PodCliqueSet llm",
        "├─ PodClique …-0",
        "│  └─ Pod …-0",
        "└─ PodClique …-1",
        "   └─ Pod …-0",
    ]


def test_states_have_colours() -> None:
    states: tuple[Any, ...] = ("well", "waits", "warning", "problem", "unknown")
    children = [clique(f"c-{state}", state=state, words=state) for state in states]
    answer = replace(WAITS, tree=tree(*children))
    lines = text(answer, colour=True).splitlines()
    assert lines[0] == "\x1b[33mllm is pending\x1b[0m"
    assert [line.split("2/2  ")[1] for line in lines[3:]] == [
        "\x1b[32mwell\x1b[0m",
        "\x1b[33mwaits\x1b[0m",
        "\x1b[33mwarning\x1b[0m",
        "\x1b[31mproblem\x1b[0m",
        "\x1b[90munknown\x1b[0m",
    ]


def test_a_narrow_terminal_has_short_lines() -> None:
    answer = replace(
        WAITS,
        reasons=(reason("The sky falls on everybody", commands=("kubectl get nodes --all",)),),
    )
    assert text(answer, width=30).splitlines() == [
        "llm is pending",
        "  1  The sky falls on",
        "     everybody.",
        "     SkyFalls",
        "     fix: Look up",
        "          kubectl get nodes --all",
        "PodClique  rack      zone-a  4/4  placed as",
        "Set llm    required               requested",
    ]

"""Effects as lines of text: how many of each kind are shown, and that the rest is counted.

Tests `app/explain/output/whatif_text.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.whatif.effects import Effects, Fate, Worse
from app.explain.output.whatif_text import MOST, effects_headline, effects_text
from app.explain.reasons.reason import Reason
from app.facts.identity import Ref


def refs(count: int) -> list[Ref]:
    return [Ref("PodCliqueSet", "ns", f"w{number}") for number in range(count)]


def of_kind(kind: str, count: int) -> Effects:
    """So many gangs that must move, get a place or lose one."""
    reason = Reason("NoDomainFits", (), text="no domain fits", remedy="add nodes", who="platform")
    moves = [Fate(ref, ref, "fits", 1) for ref in refs(count)]
    waits = [Fate(ref, ref, "starts", 1) for ref in refs(count)]
    worse = [Worse(ref, (reason,)) for ref in refs(count)]
    return Effects(
        lines=("drain a",),
        moves=tuple(moves if kind == "moves" else ()),
        waits=tuple(waits if kind == "waits" else ()),
        worse=tuple(worse if kind == "worse" else ()),
        topology=(),
        others=0,
        made=frozenset(),
        cut=(0, 0),
    )


@pytest.mark.parametrize("kind", ["moves", "waits", "worse"])
@pytest.mark.parametrize(
    ("count", "everything", "shown"),
    [
        (1, False, 1),
        (MOST, False, MOST),
        (MOST + 3, False, MOST),
        (MOST + 3, True, MOST + 3),
    ],
)
def test_no_kind_has_more_lines_than_people_read_unless_they_ask(
    kind: str, count: int, everything: bool, shown: int
) -> None:
    text = effects_text(of_kind(kind, count), everything=everything)
    lines = text.splitlines()
    assert sum("ns/w" in line for line in lines) == shown
    left = [line for line in lines if line.startswith("…")]
    assert left == ([f"… {count - shown} more (--all lists them)"] if count > shown else [])


LLM = Ref("PodCliqueSet", "ns", "llm")


@pytest.mark.parametrize(
    ("moves", "waits", "worse", "made", "expected"),
    [
        pytest.param([], [], 0, [], "Nothing breaks", id="nothing"),
        pytest.param(["moves"], [], 0, [], "Nothing breaks; 1 gang must move", id="a move"),
        pytest.param(
            ["breaks", "shrinks", "moves"],
            [],
            1,
            [],
            "3 workloads would be worse; 3 gangs must move",
            id="losses",
        ),
        pytest.param([], [], 1, [], "1 workload would be worse", id="a reason more"),
        pytest.param(
            [],
            ["starts", "waits"],
            0,
            [],
            "Nothing breaks; 1 pending gang would fit; 1 gang stays pending",
            id="pending ones",
        ),
        pytest.param(
            [],
            ["waits", "waits"],
            0,
            [LLM],
            "Nothing breaks; 2 gangs stay pending",
            id="of a new set",
        ),
    ],
)
def test_the_headline(
    moves: list[Any], waits: list[Any], worse: int, made: list[Ref], expected: str
) -> None:
    effects = replace(
        of_kind("worse", worse),
        moves=tuple(Fate(LLM, LLM, how, number) for number, how in enumerate(moves)),
        waits=tuple(Fate(LLM, LLM, how, number) for number, how in enumerate(waits)),
        made=frozenset(made),
    )
    assert effects_headline(effects) == expected

"""What holds for all facts: order doesn't matter, and what is not seen is never well."""

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from app.explain.answers.answer import Answer
from app.explain.output.json import document
from app.explain.reasons.table import RULES
from app.explain.state.snapshot import TITLES, Snapshot
from app.facts.rows import CHANNELS, ROOM
from tests.effort import tries
from tests.explain import fleet
from tests.explain.fleet import answer, facts, placed
from tests.explain.test_reasons import ROWS

KINDS = tuple(
    name for name, kind in Snapshot.__annotations__.items() if str(kind).startswith("tuple")
)
KINDS_HIDDEN = [kind for kind in (*KINDS, ROOM, CHANNELS) if kind != "sets"]
"""A set is what is asked about."""

PART = tries(3, 1)
"""One in how many states hides a kind: each state hides other kinds than the next."""

STATES: list[dict[str, Any]] = [
    {"pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")},
    *(row.hit for row in ROWS),
]


def hidden(snapshot: Snapshot, kind: str) -> Snapshot:
    """The facts without one kind, which may not be read."""
    values: dict[str, Any] = {} if kind in (ROOM, CHANNELS) else {kind: ()}
    unseen = {**snapshot.unseen, kind: "no permission to list"}
    if kind == "pods":
        unseen[ROOM] = "no permission to list"
    if kind == ROOM:
        values["pods"] = tuple(pod for pod in snapshot.pods if pod.namespace == fleet.NAMESPACE)
    return replace(snapshot, unseen=unseen, **values)


@pytest.mark.untraced
@settings(max_examples=tries(25, 60), deadline=None)
@given(
    st.sampled_from(STATES), st.sampled_from(["design", "today"]), st.randoms(use_true_random=False)
)
def test_the_answer_does_not_depend_on_the_order_of_facts(
    changes: dict[str, Any], dialect: str, random: Any
) -> None:
    start = fleet.today() if dialect == "today" else fleet.design()
    ordered = facts(**{**start, **changes})
    kinds = {kind: getattr(ordered, kind) for kind in KINDS}
    shuffled: dict[str, Any] = {
        kind: tuple(random.sample(facts, len(facts))) for kind, facts in kinds.items()
    }
    assert document(answer(replace(ordered, **shuffled))) == document(answer(ordered))


@cache
def answered_states() -> list[tuple[Snapshot, Answer]]:
    return [(state, answer(state)) for state in (facts(**changes) for changes in STATES)]


@pytest.mark.untraced
@pytest.mark.parametrize("kind", KINDS_HIDDEN)
def test_hiding_a_kind_never_makes_an_answer_well(kind: str) -> None:
    begin = KINDS_HIDDEN.index(kind) % PART
    for shown, before in answered_states()[begin::PART]:
        after = answer(hidden(shown, kind))
        assert before.state == "well" or after.state != "well"
        lost = {reason.id for reason in before.reasons} - {reason.id for reason in after.reasons}
        assert not lost or after.exit_code == 2


def test_a_placed_gang_is_not_known_to_be_well_without_what_its_reasons_need() -> None:
    snapshot = facts(**STATES[0])
    needed = {
        need
        for rule in RULES
        for need in rule.needs
        if need in ("nodes", "topologies", "gangs", "pods")
    }
    states = {kind: answer(hidden(snapshot, kind)).state for kind in sorted(needed)}
    assert states == {
        "gangs": "unknown",
        "nodes": "unknown",
        "pods": "unknown",
        "topologies": "unknown",
    }


def test_every_kind_of_fact_and_every_need_has_a_title() -> None:
    assert set(TITLES) == {*KINDS, ROOM, CHANNELS}
    assert {need for rule in RULES for need in rule.needs} <= TITLES.keys()

"""What explain says of states that real Grove operators made, beside the real KAI scheduler.

`testdata/grove-states` has the objects as they were, without fields that decide nothing, and the
answer, which was compared with them by reading. Its README says which state each one is.
"""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import explain
from app.explain.answers.pending import rows, workloads
from app.explain.output.text import text
from app.explain.state.index import Index
from app.explain.state.read import facts_of
from app.objects.time import seconds_since_1970

FOLDER = Path(__file__).parents[1] / "testdata" / "grove-states"
STATES = sorted(path.stem for path in FOLDER.glob("*.json"))
HOLDER = "holder"
"""The set that only takes room."""


def index_of(state: str) -> Index:
    document = json.loads((FOLDER / f"{state}.json").read_text())
    facts = facts_of(document["items"], seconds_since_1970(document["now"]) or 0.0)
    # a kind that is not in the file was not in the cluster
    return Index(replace(facts, skipped=frozenset()))


def said(state: str) -> str:
    """The whole answer about each PodCliqueSet of a state."""
    index = index_of(state)
    refs = sorted(pcs.ref for pcs in index.facts.sets if pcs.name != HOLDER)
    answers = [explain(index, ref) for ref in refs]
    return "\n".join(f"{text(each, everything=True)}\n" for each in answers if each is not None)


@pytest.mark.parametrize("state", ["base-gang-waits", "base-gang-waits-epochs"])
def test_the_list_shows_the_cause_before_what_follows_from_it(state: str) -> None:
    index = index_of(state)
    [row] = [row for row in rows(index, workloads(index)) if row.ref.name == "s"]
    assert (row.id, row.more) == ("NoDomainFits", 1)


@pytest.mark.parametrize("state", STATES)
def test_explain_says_of_a_real_state_what_was_read_in_its_objects(state: str) -> None:
    assert said(state) == (FOLDER / f"{state}.txt").read_text()


def test_each_state_is_in_the_readme() -> None:
    readme = (FOLDER / "README.md").read_text()
    assert [state for state in STATES if f"`{state}`" not in readme] == []


@pytest.mark.parametrize("state", STATES)
def test_a_folded_answer_says_the_same_without_the_parts_of_gangs(state: str) -> None:
    index = index_of(state)
    for ref in workloads(index):
        whole = explain(index, ref)
        folded = explain(index, ref, folded=True)
        assert whole
        assert folded
        assert replace(folded, tree=whole.tree) == whole
        assert not any(gang.children for gang in folded.tree.children if gang.ref.kind == "PodGang")


def test_a_gang_that_kai_counts_as_below_its_minimum_is_not_left_alone() -> None:
    """KAI evicts it then, although its minimum runs."""
    facts = index_of("autoscaled").facts
    stale = tuple(replace(group, stale=facts.now - 5) for group in facts.pod_groups)
    [pcs] = [pcs for pcs in facts.sets if pcs.name != HOLDER]
    for groups, remedy in (
        (facts.pod_groups, "Do nothing if the minimum of the gang is enough"),
        (stale, "Use fewer pods, or ask the platform team for more nodes"),
    ):
        answer = explain(Index(replace(facts, pod_groups=groups)), pcs.ref)
        assert answer is not None
        [reason] = [reason for reason in answer.reasons if reason.id == "BoundToDomain"]
        assert reason.remedy.startswith(remedy)

"""No answer about workloads of other kinds and schedulers contradicts itself or withholds words.

The generator is `kin.py`: LeaderWorkerSets, JobSets, RayClusters, Jobs and StatefulSets, with
PodGroups that have no PodGang, with other schedulers, with Kueue, and with a misspelt scheduler.
"""

from collections import Counter
from collections.abc import Iterator

import pytest

from app.explain.answers.answer import Answer, explain
from app.explain.answers.pending import rows, waiting_alone, workloads
from app.explain.output.text import text
from app.facts.identity import Ref
from tests.effort import tries
from tests.explain.kin import PLACED_BY, Neighbourhood, Unit
from tests.explain.test_contradictions import NOW, contradictions
from tests.explain.test_waiting_words import waits_for_nothing

OF_KAI = {
    "AfterOthers",
    "FairShare",
    "KaiRefuses",
    "KaiSilent",
    "LowerPriority",
    "NotGrouped",
    "OutsidePool",
    "QueueLimit",
    "QueueMissing",
    "QueueQuota",
}
"""Reasons of pods that KAI places."""


def faults(unit: Unit, ref: Ref, answer: Answer) -> Iterator[str]:
    """Yield what is wrong in the answer about a unit, or about its first pod."""
    pods = unit.pods if ref == unit.ref else unit.pods[:1]
    waits = any(not pod.node for pod in pods)
    young = any(NOW - (pod.created or 0.0) < 60 for pod in unit.pods)
    shown = text(answer)
    problems = {reason.id for reason in answer.reasons if reason.severity == "problem"}
    for words in contradictions(answer):
        if not young or words != "it waits without a reason":
            yield words
    placed = sum(bool(pod.node) for pod in unit.pods)
    if ref == unit.ref and (answer.placed, answer.total) != (placed, len(unit.pods)):
        yield f"{answer.placed} of {answer.total} pods, not {placed} of {len(unit.pods)}"
    if waits and unit.said and unit.said not in shown:
        yield f"it does not say {unit.said}"
    if waits and answer.exit_code == 0:
        yield "it waits, and the exit code is 0"
    if unit.by not in ("kai", "ungrouped", "kueue") and problems & OF_KAI:
        yield f"KAI does not place it: {problems & OF_KAI}"
    others = (each for each in answer.reasons if unit.by in ("default-scheduler", "volcano"))
    yield from (
        f"it speaks of KAI: {each.text}; {each.remedy}"
        for each in others
        if "KAI" in f"{each.text} {each.remedy}"
    )
    if waits and unit.by == "kueue" and "KueueHolds" not in problems:
        yield "Kueue holds it"
    if waits and unit.by == "kai-schedular" and "Did you mean kai-scheduler" not in shown:
        yield "its scheduler is misspelt"


@pytest.mark.parametrize("first", range(0, tries(200, 2000), 50))
def test_no_answer_about_kin_contradicts_itself(first: int) -> None:
    found = []
    seen = Counter[tuple[str, str]]()
    for seed in range(first, first + 50):
        cluster = Neighbourhood(seed)
        index = cluster.index
        for unit in cluster.units:
            seen[unit.ref.kind, unit.by] += 1
            for ref in (unit.ref, unit.pods[0].ref):
                answer = explain(index, ref)
                assert answer, (seed, ref)
                found += [(seed, ref, words) for words in faults(unit, ref, answer)]
                found += [(seed, ref, words) for words in waits_for_nothing(index.facts, answer)]
    assert found == []
    assert {by for _, by in seen} == set(PLACED_BY)


@pytest.mark.parametrize("first", range(0, tries(50, 500), 50))
def test_each_unit_that_waits_has_one_row(first: int) -> None:
    for seed in range(first, first + 50):
        cluster = Neighbourhood(seed)
        index = cluster.index
        listed = rows(index, [*workloads(index), *waiting_alone(index)])
        assert max(Counter(row.ref for row in listed).values(), default=1) == 1
        for unit in cluster.units:
            if unit.waits:
                names = {unit.ref, Ref("PodGroup", "ns", f"pg-{unit.ref.name}")}
                assert [row.state for row in listed if row.ref in names] == ["waits"], (seed, unit)

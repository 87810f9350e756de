"""What explain tells gangs in recorded lines to do, beside what KAI did with them.

Each case was told something false, or less than the truth, before its remedy was carried out on the
real scheduler; see `REMEDIES.md`.
"""

import pytest

from app.explain.answers.answer import Answer, explain
from app.explain.known.index import Index
from app.explain.known.read import facts_of
from app.facts.named import Ref
from tests.explain.lines.recording import NOW, Object, line_recordings


def items_of(seed: int) -> list[Object]:
    recording = next(each for each in line_recordings() if each.name == f"line{seed}")
    return next(recording.moments()).items


def told(items: list[Object], gang: str) -> Answer:
    answer = explain(Index(facts_of(items, NOW)), Ref("PodGroup", "default", gang))
    assert answer
    return answer


CASES = [
    pytest.param(
        306,
        "w1",
        "GivenUp",
        "let KAI try again in each cycle",
        id="others take its place, and KAI tries it only once",
    ),
    pytest.param(
        14,
        "w2",
        "AfterOthers",
        "wait until they or others end: nothing is wrong with it",
        id="others take its place and keep it",
    ),
    pytest.param(
        12,
        "w1",
        "NoDomainFits",
        'wait until pods of others end, or use node pool "other" and a queue in it, if a scheduler'
        " serves it: it fits there",
        id="the scheduler of another pool knows only the queues in it",
    ),
    pytest.param(
        112,
        "w9",
        "OutsidePool",
        "remove the label kai.scheduler/node-pool from nodes",
        id="it fits in no other pool alone",
    ),
    pytest.param(
        0,
        "w0",
        "QueueQuota",
        "make the workload preemptible, or use a queue with so much quota left, if there is one",
        id="of the queues, none may have quota left",
    ),
]


@pytest.mark.parametrize(("seed", "gang", "reason", "remedy"), CASES)
def test_the_remedy_says_all_that_is_needed(seed: int, gang: str, reason: str, remedy: str) -> None:
    reasons = told(items_of(seed), gang).reasons
    assert [each.remedy for each in reasons if each.id == reason] == [remedy]


def test_kai_evicts_for_those_that_come_first() -> None:
    """It evicted `run1` for `run3`, and `w0` was placed in no cycle."""
    answer = told(items_of(54), "w0")
    assert answer.reasons[0].remedy == "wait: KAI may evict 1 pod of run1, which can be preempted"
    assert [own.words for own in answer.line] == [
        "second of 3 in queue q0, not placed as it is; others that wait come before it"
    ]

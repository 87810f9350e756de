"""What explain tells gangs in recorded lines to do, beside what KAI did with them.

Each case was told something false, or less than the truth, before its remedy was carried out on the
real scheduler; see `REMEDIES.md`.
"""

import itertools

import pytest

from app.explain.answers.answer import Answer, explain
from app.explain.state.index import Index
from app.explain.state.read import facts_of
from app.facts.identity import Ref
from tests.explain.lines.recording import NOW, Object, line_recordings


def items_of(seed: int, cycle: int = 0) -> list[Object]:
    recording = next(each for each in line_recordings() if each.name == f"line{seed}")
    return next(itertools.islice(recording.moments(), cycle, None)).items


def told(items: list[Object], gang: str) -> Answer:
    answer = explain(Index(facts_of(items, NOW)), Ref("PodGroup", "default", gang))
    assert answer
    return answer


CASES = [
    pytest.param(
        306,
        "w1",
        "GivenUp",
        "Set spec.schedulingBackoff of the PodGroup to -1, so that KAI tries in every cycle",
        id="others take its place, and KAI tries it only once",
    ),
    pytest.param(
        14,
        "w2",
        "AfterOthers",
        "Wait until pods of queue dep-a have ended, or ask for a higher limit or quota of this queue",
        id="others take its place and keep it",
    ),
    pytest.param(
        12,
        "w1",
        "NoDomainFits",
        'Use node pool "other" and a queue in it (ask the platform team for one: there is none), if a scheduler serves it: the gang fits there. Or wait until room for 2 more pods is free: PodGroup run6 (4 pods, there for 365 days), PodGroup run0 (3 pods, there for 365 days) and 8 more hold it. If they run indefinitely, ask their owners to stop them',
        id="the scheduler of another pool knows only the queues in it",
    ),
    pytest.param(
        112,
        "w9",
        "OutsidePool",
        "Ask the platform team for nodes without a pool, or for a pool that is large enough. Then room still has to become free there",
        id="it fits in no other pool alone, and pods of others hold all of them",
    ),
    pytest.param(
        0,
        "w0",
        "QueueQuota",
        "Make the workload preemptible: label it priorityClassName=train, or use a queue with enough quota left",
        id="of the queues, none may have quota left",
    ),
    pytest.param(
        342,
        "w0",
        "GangIncomplete",
        "Create the missing pods, or lower minMember of PodGroup w0 to 1",
        id="a foreign gate makes no pods once it is open",
    ),
]


@pytest.mark.parametrize(("seed", "gang", "reason", "remedy"), CASES)
def test_the_remedy_says_all_that_is_needed(seed: int, gang: str, reason: str, remedy: str) -> None:
    reasons = told(items_of(seed), gang).reasons
    assert [each.remedy for each in reasons if each.id == reason] == [remedy]


RAISE = "Ask for a higher limit on queue"
LIMITS = [
    pytest.param(
        416,
        "w0",
        [
            (
                "Queue q1: limit 24 GPUs, 33 used, 6 requested",
                f"Wait until PodGroups default/run0, default/run1, default/run10 and 6 more free enough of the limit, or {RAISE[:1].lower()}{RAISE[1:]} q1",
            ),
            (
                "Queue dep-b: limit 1 GPU, 33 used, 6 requested",
                f"Request at most 1 GPU and wait until PodGroups default/run0, default/run1, default/run10 and 6 more free enough of the limit, or {RAISE[:1].lower()}{RAISE[1:]} dep-b",
            ),
        ],
        id="that of the queue above is lower",
    ),
    pytest.param(
        62,
        "w1",
        [
            (
                "Queue dep-a: limit 2 GPUs, 8 used, 4 requested",
                f"Request at most 2 GPUs and wait until PodGroups default/run0, default/run1, default/run3 and 1 more free enough of the limit, or {RAISE[:1].lower()}{RAISE[1:]} dep-a",
            )
        ],
        id="whatever KAI reclaims, the limit is less than is asked for",
    ),
    pytest.param(
        658,
        "w11",
        [
            (
                "Queue dep-b: limit 1 GPU, 14 used, 2 requested",
                f"Request at most 1 GPU and wait until PodGroups default/run2, default/run3 and default/run7 free enough of the limit, or {RAISE[:1].lower()}{RAISE[1:]} dep-b",
            )
        ],
        id="whatever KAI evicts, the limit is less than is asked for",
    ),
    pytest.param(
        192,
        "run1",
        [("Queue q1: limit 8 GPUs, 16 used, 4 requested", f"{RAISE} q1")],
        id="its own pods leave too little of it",
    ),
    pytest.param(232, "w3", [], id="whatever KAI reclaims, it has no place"),
]


@pytest.mark.parametrize(("seed", "gang", "limits"), LIMITS)
def test_every_limit_is_named_that_keeps_a_gang_out(
    seed: int, gang: str, limits: list[tuple[str, str]]
) -> None:
    """They were told to wait, for others to end or for KAI; KAI placed none of them then."""
    items = items_of(seed)
    reasons = told(items, gang).reasons
    about_limits = {"QueueLimit", "LowerPriority", "FairShare"}
    found = [(each.text, each.remedy) for each in reasons if each.id in about_limits]
    assert found == limits


def test_a_gang_that_runs_is_not_to_start_anew_for_more_pods() -> None:
    """Once it did, KAI placed its minimum on the same node again, and no more."""
    [reason, note] = told(items_of(696, cycle=2), "w0").reasons
    assert (reason.id, note.id) == ("BoundToDomain", "GangSplit")
    assert (
        reason.remedy
        == "Wait until PodGroup run0 (1 pod, there for 365 days) ends and room for 1 more pod is free in z0/z0r0/z0r0n0. If it runs indefinitely, ask its owner to stop it"
    )


def test_kai_evicts_for_those_that_come_first() -> None:
    """It evicted `run1` for `run3`, and `w0` was placed in no cycle."""
    answer = told(items_of(54), "w0")
    assert answer.reasons[0].remedy == "Wait: KAI may preempt 1 pod of run1"
    assert [own.words for own in answer.line] == [
        "position 2 of 3 in queue q0; KAI can't place it right now, and other gangs are ahead of it"
    ]

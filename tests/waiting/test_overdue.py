"""Which gangs have waited too long, since when, and what is said of their workloads.

Tests `app/waiting/watcher.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.reasons.reason import Reason
from app.explain.state.index import Index
from app.facts.grove.status import LastError, StatusCondition
from app.facts.identity import Ref
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.workload import Workload
from app.waiting.overdue import (
    NOT_KNOWN,
    UNEXPLAINED,
    Blocked,
    Overdue,
    _of_workload,
    message,
    overdue,
)
from app.waiting.reporter import PLACEMENT_BLOCKED
from app.waiting.watcher import Looker
from tests.explain.fleet import (
    GANG_REF,
    NOW,
    SET_REF,
    cliques,
    facts,
    fill,
    pcs,
    placed,
    pod_group,
    pods,
    shape,
)
from tests.explain.table.queue_order import rival

FULL: dict[str, Any] = {"pods": (*pods(), *fill("rack-a1", "rack-a2", "rack-b1", "rack-b2"))}
AFTER = 300.0


def overdue_of(after: float = AFTER, **changes: Any) -> Overdue:
    return overdue(Index(facts(**changes)), after, {})


def told(of: tuple[Blocked, ...]) -> list[tuple[Ref, str, str]]:
    return [(blocked.ref, blocked.reason, blocked.who) for blocked in of]


def test_a_gang_that_waits_long_is_told_with_what_helps_and_who_can_do_it() -> None:
    (blocked,) = overdue_of(**FULL).workloads
    assert (blocked.ref, blocked.reason, blocked.who, blocked.since) == (
        SET_REF,
        "NoDomainFits",
        "wait",
        NOW - 840,
    )
    assert blocked.message.startswith("No rack has room for any of 3 pods of 8 GPUs")
    assert ". Wait until " in blocked.message
    assert "Fix: " not in blocked.message


def test_a_message_does_not_name_gangs_that_are_before_another() -> None:
    """They may be others in the next second."""
    (blocked,) = [each for each in overdue_of(**rival(3600)).workloads if each.ref == SET_REF]
    assert (blocked.reason, blocked.message) == (
        "AfterOthers",
        "The gang would fit by itself, but not after the gangs ahead of it. Wait: other gangs are"
        " ahead of it in KAI's order",
    )


def test_a_message_does_not_change_with_time() -> None:
    failing = replace(cliques()[1], errors=(LastError("quota exceeded", NOW - 60),))
    lacking = facts(pods=pods()[:3], cliques=(cliques()[0], failing))
    messages = {
        blocked.message
        for now in (NOW, NOW + 3600)
        for blocked in overdue(Index(replace(lacking, now=now)), AFTER, {}).workloads
    }
    (message,) = messages
    assert message.endswith("Grove said: quota exceeded (the owner of the workload can do that)")


@pytest.mark.parametrize("other", ["WrongScheduler", "GateBaseMissing", "NoDomainFits"])
def test_a_reason_with_several_rules_is_at_its_first_place_in_the_table(other: str) -> None:
    gangs = [Blocked(GANG_REF, NOW, id, "", "", "") for id in (other, "LevelUnknown")]
    first = "WrongScheduler" if other == "WrongScheduler" else "LevelUnknown"
    assert _of_workload(SET_REF, gangs).reason == first


def test_gangs_are_counted_with_their_queue() -> None:
    (blocked,) = overdue_of(**FULL).gangs
    assert (blocked.ref, blocked.queue) == (GANG_REF, "team-llm")


def test_a_queue_that_does_not_exist_is_no_label_of_a_metric() -> None:
    """Anybody can name any queue, also one of 200,000 characters."""
    named = overdue_of(**FULL, pod_groups=(pod_group(queue="x" * 200_000),))
    assert [blocked.queue for blocked in named.gangs] == [""]


def test_a_gang_that_has_not_waited_long_comes_later() -> None:
    assert overdue_of(841.0, **FULL) == Overdue(next_at=NOW - 840 + 841)
    assert len(overdue_of(840.0, **FULL).gangs) == 1


def test_what_is_placed_does_not_wait() -> None:
    running = placed("gpu-00", "gpu-01", "gpu-02", "gpu-03")
    assert overdue_of(pods=running) == Overdue()


def test_a_pod_that_was_made_again_waits_from_then_on() -> None:
    running = placed("gpu-00", "gpu-01", "gpu-02")
    again = replace(pods()[3], created=NOW - 10)
    assert overdue_of(pods=(*running, again)) == Overdue(next_at=NOW + 290)


def test_pods_that_are_missing_are_counted_from_when_that_was_first_seen() -> None:
    missing = facts(pods=placed("gpu-00", "gpu-01", "gpu-02"))
    first = overdue(Index(missing), AFTER, {})
    assert (first.gangs, first.first_seen, first.next_at) == ((), {GANG_REF: NOW}, NOW + 300)
    later = replace(missing, now=NOW + 301)
    second = overdue(Index(later), AFTER, first.first_seen)
    assert told(second.workloads) == [(SET_REF, "GangIncomplete", "you")]
    assert second.workloads[0].since == NOW


@pytest.mark.parametrize(("now", "after"), [(NOW, AFTER), (1795371768.2948925, 0.001)])
def test_another_leader_believes_the_condition_that_pods_were_missing_before(
    now: float, after: float
) -> None:
    """It has not seen since when, and would take the condition away."""
    told_before = StatusCondition(PLACEMENT_BLOCKED, "True", "NothingMade", "m")
    changes: dict[str, Any] = dict.fromkeys(("gangs", "cliques", "pods", "pod_groups"), ())
    stored = replace(pcs(), conditions=(told_before,))
    looker = Looker()
    first = looker.at(facts(**changes, sets=(stored,), now=now), after)
    assert told(first.workloads) == [(SET_REF, "NothingMade", "platform")]
    assert first.next_at is None

    unknown = Looker().at(facts(**changes, now=now), after)
    assert told(unknown.workloads) == []


def test_without_a_known_reason_kais_words_are_told() -> None:
    waiting = tuple(replace(pod, unscheduled="no luck") for pod in pods())
    (blocked,) = overdue_of(pods=waiting).workloads
    assert (blocked.reason, blocked.who) == (UNEXPLAINED, "")
    assert blocked.message == "Nothing we check is blocking it. KAI says: no luck"


def test_what_kai_says_now_is_the_reason_if_no_other_is_known() -> None:
    waiting = tuple(replace(pod, unscheduled="no luck", said_at=NOW - 60) for pod in pods())
    (blocked,) = overdue_of(pods=waiting).workloads
    assert (blocked.reason, blocked.who) == ("KaiRefuses", "you")
    assert blocked.message.startswith(
        "KAI says: no luck. According to our checks, the gang fits in zone-a/rack"
    )


def test_what_may_not_be_read_is_not_guessed() -> None:
    unseen = {"nodes": "no permission to list"}
    (blocked,) = overdue_of(**FULL, unseen=unseen).workloads
    assert blocked.reason == NOT_KNOWN


def test_a_set_without_podgangs_is_told_itself() -> None:
    changes: dict[str, Any] = dict.fromkeys(("gangs", "cliques", "pods", "pod_groups"), ())
    snapshot = facts(**changes)
    first = overdue(Index(snapshot), AFTER, {})
    second = overdue(Index(replace(snapshot, now=NOW + 300)), AFTER, first.first_seen)
    assert told(second.workloads) == [(SET_REF, "NothingMade", "platform")]


def alone(name: str, **changes: Any) -> Pod:
    pod = Pod(
        "research",
        name,
        uid=name,
        scheduler="kai-scheduler",
        shape=shape(1),
        created=NOW - 900,
    )
    return replace(pod, **changes)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(alone("a", group="g"), Ref("PodGroup", "research", "g"), id="of a PodGroup"),
        pytest.param(
            alone("a", group="g", workload="w"),
            Ref("Workload", "research", "w"),
            id="of a Workload",
        ),
        pytest.param(alone("a"), Ref("Pod", "research", "a"), id="of nothing"),
    ],
)
def test_a_workload_of_another_kind_is_found(pod: Pod, expected: Ref) -> None:
    groups = (KaiPodGroup("research", "g", uid="g", queue="absent", minimum=1),)
    result = overdue_of(
        pods=(pod,),
        pod_groups=groups,
        workloads=(Workload("research", "w"),),
        sets=(),
        gangs=(),
        cliques=(),
    )
    assert [blocked.ref for blocked in result.workloads] == [expected]


def test_pods_of_other_schedulers_are_not_ours() -> None:
    pod = alone("a", scheduler="default-scheduler")
    none: dict[str, Any] = dict.fromkeys(("sets", "gangs", "cliques", "pod_groups"), ())
    assert overdue_of(pods=(pod,), **none) == Overdue()


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("For 3 minutes, KAI's pod-grouper has created none", "KAI's pod-grouper has created none"),
        ("It may not preempt others for another 80 seconds", "It may not preempt others"),
        ("Node a has not been ready for at least 20 minutes", "Node a has not been ready"),
        ("No node pool is assigned, although the PodGroup is 3 days old", "No node pool is assigned"),
        ("Kueue admitted it 5 minutes ago, and it has no pods", "Kueue admitted it, and it has no pods"),
        ("Nodes are announced for 2 hours, last 9 minutes ago, in vain", "Nodes are announced, in vain"),
        ("4 pods have had a node for up to 5 minutes and did not start", "4 pods have had a node and did not start"),
        ("Helper pod r-0 (created 4 minutes ago) is Pending", "Helper pod r-0 is Pending"),
        ("kubelet says: no (2 minutes ago). 1 pod waits for 3 pods", "kubelet says: no. 1 pod waits for 3 pods"),
    ],
)  # fmt: skip
def test_a_message_has_no_ages(words: str, kept: str) -> None:
    reason = Reason("NotGrouped", (), words, "Wait", "wait")
    assert message(reason) == f"{kept}. Wait"

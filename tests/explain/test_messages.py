"""Words of KAI, what its silence means, and the headline above them: hits and near misses.

Tests `app/explain/output/text.py` and `app/facts/grove/status.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.output.text import text
from app.explain.reasons.messages import schedulers, usual_schedulers
from app.explain.state.index import Index
from app.facts.grove.status import LastError
from app.facts.kai.podgroup import Said
from app.facts.kubernetes.event import Event
from tests.explain.fleet import (
    GANG_REF,
    NOW,
    answer,
    facts,
    pcs,
    placed,
    pod,
    pod_group,
    pods,
)

pytestmark = pytest.mark.untraced

Changes = dict[str, Any]

FIRST = pods()[0]
UNSCHEDULED = "no nodes with enough resources were found"
ONE_WAITS = (*placed("gpu-00", "gpu-01", "gpu-02"), pods()[3])


def event(source: str, about: str = FIRST.uid) -> Changes:
    """An event ten seconds ago."""
    return {"events": (Event(about, "Unschedulable", "no room", NOW - 10, source),)}


SOON = "KAI has not reported anything yet: it should decide within seconds"
SILENT = "KAI has been silent for {}: ask the platform team whether its scheduler runs"

SILENCE: list[tuple[str, Changes, str]] = [
    ("for a minute", {"pods": pods(created=NOW - 60)}, SILENT.format("60 seconds")),
    ("for less than a minute", {"pods": pods(created=NOW - 59)}, SOON),
    (
        "for as long as the gang, if pods have no time",
        {"pods": pods(created=None)},
        SILENT.format("14 minutes"),
    ),
    (
        "since the pod that waits was made, though others run since long ago",
        {"pods": (*ONE_WAITS[:3], replace(ONE_WAITS[3], created=NOW - 5))},
        SOON,
    ),
    ("a pod waits as long as its gang", {"pods": ONE_WAITS}, SILENT.format("14 minutes")),
    (
        "a node pool, which a scheduler has to serve",
        {"pod_groups": (pod_group(pool="h100"),)},
        f"{SILENT.format('14 minutes')} and serves node pool h100",
    ),
    (
        "a node pool, and it is new",
        {"pod_groups": (pod_group(pool="h100"),), "pods": pods(created=NOW - 5)},
        f"{SOON}, if its scheduler serves node pool h100",
    ),
    (
        "another scheduler places the pods",
        {"pods": pods(scheduler="default-scheduler")},
        "the pods use default-scheduler, not KAI",
    ),
]


@pytest.mark.parametrize(
    ("changes", "words"), [pytest.param(*row[1:], id=row[0]) for row in SILENCE]
)
def test_what_it_means_that_kai_has_said_nothing(changes: Changes, words: str) -> None:
    explained = answer(facts(**changes), GANG_REF)
    assert (explained.said, explained.silence) == ((), words)


CONDITION = {"pod_groups": (pod_group(said=(Said("Other", "KAI's words", time=NOW - 5),)),)}
SHOWN = ("no room (10 seconds ago)",)

WORDS: list[tuple[str, Changes, tuple[str, ...]]] = [
    ("an event of the scheduler", event("kai-scheduler"), SHOWN),
    ("an event of the binder", event("binder"), SHOWN),
    ("an event of the pod-grouper", event("pod-grouper"), SHOWN),
    ("an event of the scheduler about the PodGroup", event("kai-scheduler", "uid-group"), SHOWN),
    ("an event about an object of somebody else", event("kai-scheduler", "uid-other"), ()),
    ("an event of the default scheduler", event("default-scheduler"), ()),
    ("an event of Grove", event("podclique-controller"), ()),
    ("an event of the controller of claims", event("resource_claim"), ()),
    ("an event of the kubelet", event("kubelet"), ()),
    ("an event of ours", event("grove-admission"), ()),
    ("an event of a name that begins like KAI's", event("kai-scheduler-ui"), ()),
    ("an event that doesn't say who wrote it", event(""), ()),
    ("a condition of the PodGroup is shown before events", {**CONDITION, **event("binder")}, ("KAI's words (5 seconds ago)",)),
    ("a pod that KAI could not place", {"pods": pods(unscheduled=UNSCHEDULED)}, (UNSCHEDULED,)),
    (
        "a pod that another scheduler could not place",
        {"pods": pods(unscheduled=UNSCHEDULED, scheduler="default-scheduler")},
        (),
    ),
    (
        "nothing waits",
        {**CONDITION, "pods": placed("gpu-00", "gpu-01", "gpu-02", "gpu-03")},
        (),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "words"), [pytest.param(*row[1:], id=row[0]) for row in WORDS])
def test_only_words_that_kai_wrote_are_shown_as_its_words(
    changes: Changes, words: tuple[str, ...]
) -> None:
    assert answer(facts(**changes), GANG_REF).said == words


@pytest.mark.parametrize("source", ["kubelet", "default-scheduler", ""])
@pytest.mark.parametrize("reason", ["BindingError", "FailedBinding", "PodGrouperWarning"])
def test_no_reason_rests_on_an_event_of_others(source: str, reason: str) -> None:
    event = Event(FIRST.uid, reason, "no room", NOW, source)
    explained = answer(facts(events=(event,), pods=pods(group="")), GANG_REF)
    texts = [reason.text for reason in explained.reasons]
    assert texts == [
        "For 14 minutes, KAI's pod-grouper has not created a PodGroup for these 4 pods"
    ]


def test_an_error_that_grove_never_removes_is_told_with_its_age() -> None:
    """Grove went on to report it 17 minutes after a migration that had succeeded."""
    over = LastError("ERR_GET_PODGANGMAP", NOW - 1020)
    explained = answer(facts(gangs=(), sets=(pcs(errors=(over,)),)))
    (missing,) = (reason for reason in explained.reasons if reason.id == "PodGangMissing")
    said = "ERR_GET_PODGANGMAP (17 minutes ago)"
    assert (
        missing.remedy
        == f"Ask the platform team to read the log of Grove's operator; Grove said: {said}"
    )


FOUR = ("gpu-00", "gpu-00", "gpu-01", "gpu-02")
NOTHING: Changes = {"pods": (), "gangs": (), "cliques": (), "pod_groups": ()}
AGO = "requested 14 minutes ago"

HEADLINES: list[tuple[str, Changes, str]] = [
    ("all waits", {}, f"llm is pending: 0 of 4 pods placed, {AGO}"),
    ("one pod waits", {"pods": ONE_WAITS}, f"llm is pending: 3 of 4 pods placed, {AGO}"),
    ("none waits", {"pods": placed(*FOUR)}, "llm is placed as requested: 4 of 4 pods placed"),
    (
        "none waits, and required levels are not kept",
        {"pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-08")},
        "llm is placed, with problems: 4 of 4 pods placed",
    ),
    (
        "none waits, and the set is being deleted",
        {"pods": placed(*FOUR), "sets": (pcs(deleted_at=NOW - 5),)},
        "llm is placed, with remarks: 4 of 4 pods placed",
    ),
    ("nothing is made", NOTHING, f"llm is pending: none of its objects exist yet, {AGO}"),
    (
        "nothing is to be made",
        {**NOTHING, "sets": (pcs(replicas=0),)},
        "llm has no replicas, so there is nothing to place",
    ),
    (
        "a replica is not made",
        {"sets": (pcs(replicas=2),), "pods": placed(*FOUR)},
        f"llm is pending: 4 of 4 pods placed, 1 of 2 replicas not created yet, {AGO}",
    ),
]


@pytest.mark.parametrize(
    ("changes", "headline"), [pytest.param(*row[1:], id=row[0]) for row in HEADLINES]
)
def test_the_headline(changes: Changes, headline: str) -> None:
    assert answer(facts(**changes)).headline == headline


@pytest.mark.parametrize(("age", "refuses"), [(61, True), (119, True), (121, False), (600, False)])
def test_words_of_kai_refuse_only_while_they_are_current(age: int, refuses: bool) -> None:
    """Room that became free since has no time: older words may be of a state that is over."""
    old = (Said("Other", "no luck", time=NOW - age),)
    said = answer(facts(pod_groups=(pod_group(said=old),)), GANG_REF)
    assert ("KaiRefuses" in {reason.id for reason in said.reasons}) == refuses
    assert [own.next for own in said.line] == ["held" if refuses else "next"]
    assert said.outlook.startswith("Nothing blocks it now; KAI should place it") != refuses
    assert ("KAI said earlier, about an older state:" in text(said)) != refuses


def test_of_many_schedulers_those_with_the_most_pods_are_told() -> None:
    """Each pod of a tenant can name another one: 4,000 of them took 44 s to explain."""
    acting = [
        pod("worker", number, scheduler=f"made-up-{number}", node="n") for number in range(99)
    ]
    real = [pod("worker", number, scheduler="volcano", node="n") for number in (100, 101)]
    index = Index(facts(pods=(*acting, *real)))

    assert len(schedulers(index)) == 99 + 3
    usual = usual_schedulers(index)
    assert {"default-scheduler", "kai-scheduler", "volcano"} < set(usual)
    assert len(usual) <= 22
    assert usual == sorted(usual)

"""Pods of one PodClique in several PodGangs: each is in the one that its label names."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from app.explain.gangs.assembly import gangs_of_set
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.grove.podgang import GangPart, MapEntry, PodGangMap
from tests.explain.fleet import NAMESPACE, PLACE, ROUTER, SET, answer, cliques, facts, gang, pod

FIRST = "llm-0-018"
SECOND = "llm-0-020"
ENTRIES = (MapEntry("018", (), ((ROUTER, 4),)), MapEntry("020", ("018",), ((ROUTER, 3),)))


def state(*named: str, entries: tuple[MapEntry, ...] = ENTRIES) -> Snapshot:
    """Two anchors of a PodClique of seven pods, with a pod for each label in `named`."""
    pods = tuple(
        pod(ROUTER, number, place=replace(PLACE, clique=ROUTER, podgang=name), group=name)
        for number, name in enumerate(named)
    )
    anchors = tuple(
        gang(
            name=name,
            uid=name,
            role="Anchor",
            epoch=name[-3:],
            place=replace(PLACE, podgang=""),
            parts=(GangPart(ROUTER, minimum),),
            groups=(),
            scheduled=False,
        )
        for name, minimum in ((FIRST, 4), (SECOND, 3))
    )
    return facts(
        pods=pods,
        gangs=anchors,
        gang_maps=(PodGangMap(NAMESPACE, "llm-0", entries),) if entries else (),
        cliques=(replace(cliques()[0], replicas=7),),
        pod_groups=(),
    )


def found(snapshot: Snapshot) -> Mapping[str, tuple[int, int]]:
    """How many pods each gang has, and how many it should have."""
    index = Index(snapshot)
    gangs = gangs_of_set(index, index.sets[NAMESPACE, SET])
    return {gang.ref.name: (len(gang.pods), gang.whole.expected) for gang in gangs}


ALL = (FIRST,) * 4 + (SECOND,) * 3


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        (state(*ALL), {FIRST: (4, 4), SECOND: (3, 3)}),
        (state(*ALL, entries=()), {FIRST: (4, 4), SECOND: (3, 3)}),
        (state(*ALL[:5]), {FIRST: (4, 4), SECOND: (1, 3)}),
        (state(*ALL[:4]), {FIRST: (4, 4), SECOND: (0, 3)}),
        (state(*ALL[:5], entries=()), {FIRST: (4, 4), SECOND: (1, 3)}),
        (state(*ALL[:6], ""), {FIRST: (5, 5), SECOND: (3, 3)}),
    ],
    ids=[
        "all there",
        "all there, and no map is known",
        "two are missing",
        "all of the second are missing",
        "two are missing, and no map is known",
        "a pod without the label may be of either",
    ],
)
def test_the_pods_of_a_gang_are_those_that_name_it(
    snapshot: Snapshot, expected: Mapping[str, tuple[int, int]]
) -> None:
    assert found(snapshot) == expected


def test_only_the_gang_that_a_failed_pod_was_of_has_it_replaced() -> None:
    snapshot = state(*ALL)
    failed = replace(snapshot.pods[-1], phase="Failed")
    said = answer(replace(snapshot, pods=(*snapshot.pods[:-1], failed)))
    [reason] = [reason for reason in said.reasons if reason.id == "GangIncomplete"]
    assert [ref.name for ref in reason.objects] == [SECOND]
    assert reason.remedy.endswith(f"so Grove creates new ones: {ROUTER}-6 (Failed)")


def test_all_pods_of_two_anchors_are_counted_once() -> None:
    assert (
        answer(state(*ALL)).headline
        == "llm is pending: 0 of 7 pods placed, requested 14 minutes ago"
    )

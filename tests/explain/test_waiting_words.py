"""Nobody is told to wait for nothing: remedies name for whom, and words that exist are shown."""

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import Answer, explain
from app.explain.output.text import text
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.kubernetes.pod import Pod
from tests.effort import tries
from tests.explain.fleet import SET_REF, answer, facts, pods
from tests.explain.test_contradictions import Clusters
from tests.explain.test_reasons import ROWS

COMPONENTS = ("KAI", "Grove", "Kueue", "Kubernetes", "node", "joined")
"""Whoever may end a wait without being a workload."""


def names_in(snapshot: Snapshot) -> set[str]:
    """The names of what may end: pods, their groups, sets and controllers."""
    names = {pod.name for pod in snapshot.pods} | {pod.group for pod in snapshot.pods}
    names |= {pod.controller.name for pod in snapshot.pods if pod.controller}
    names |= {group.name for group in snapshot.pod_groups} | {pcs.name for pcs in snapshot.sets}
    names |= {gang.name for gang in snapshot.gangs}
    names |= {claim.name for claim in snapshot.volume_claims}
    return names - {""}


def waits_for_nothing(snapshot: Snapshot, said: Answer) -> list[str]:
    """Return the remedies that say "wait" and not for whom."""
    names = names_in(snapshot)
    return [
        f"{reason.id}: {reason.remedy}"
        for reason in said.reasons
        if not reason.follows
        if reason.who == "wait" or reason.remedy.lower().startswith("wait")
        if not any(name in f"{reason.text} {reason.remedy}" for name in (*names, *COMPONENTS))
    ]


@pytest.mark.parametrize("part", range(4))
def test_a_wait_in_the_table_of_reasons_names_who_ends_it(part: int) -> None:
    found = []
    for row in ROWS[part::4]:
        snapshot = facts(**row.hit)
        found += waits_for_nothing(snapshot, answer(snapshot))
    assert found == []


@pytest.mark.parametrize("first", range(0, tries(100, 1000), 50))
def test_a_wait_in_random_clusters_names_who_ends_it(first: int) -> None:
    found = []
    for seed in range(first, first + 50):
        index = Clusters(seed).index
        for group in index.facts.pod_groups:
            said = explain(index, group.ref)
            assert said
            found += waits_for_nothing(index.facts, said)
    assert found == []


@pytest.mark.parametrize("scheduler", ["default-scheduler", "volcano", "kai-scheduler"])
@pytest.mark.parametrize("age", [30, 600])
def test_words_of_a_scheduler_are_never_withheld(scheduler: str, age: int) -> None:
    words = "0/16 nodes are available: a plugin said no"

    def waiting(pod: Pod) -> Pod:
        return replace(
            pod, scheduler=scheduler, unscheduled=words, said_at=1_800_000_000.0 - age, group=""
        )

    snapshot = facts(pods=tuple(map(waiting, pods())), pod_groups=())
    said = explain(Index(snapshot), SET_REF)
    assert said
    assert words in text(said)

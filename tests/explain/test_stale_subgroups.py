"""Gangs that KAI marks as below their minimum although enough of their SubGroups run.

Tests `app/explain/reasons/evictions.py`, and the search for SubGroups in
`app/explain/gangs/assembly.py`.
"""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import explain
from app.explain.gangs.assembly import gangs_of_pods, outside_subgroups
from app.explain.reasons.reason import Reason
from app.facts.identity import Ref
from app.facts.kai.podgroup import SubGroup
from tests.explain.queue_order.test_cycle import Gangs, node
from tests.explain.table.recorded import whole
from tests.said import Said

NOW = 1000.0
PARTS = (SubGroup("a", minimum=1), SubGroup("b", minimum=1))


def stale(said: Said, needed: int | None) -> Reason:
    """Return what is said of a gang that KAI has marked; one of its two SubGroups runs."""
    gangs = Gangs()
    gangs.add("g", 1, 8, nodes=("n1",), subgroups=PARTS, needed=needed, stale=NOW - 20)
    gangs.pods = [replace(pod, subgroup=name) for pod, name in zip(gangs.pods, "ab", strict=True)]
    answer = explain(gangs.index(node("n1"), now=NOW), Ref("PodGroup", "ns", "g"))
    assert answer
    said(whole(answer))
    assert not any(reason.remedy.startswith("Do nothing") for reason in answer.reasons)
    (reason,) = [reason for reason in answer.reasons if reason.id == "GangStale"]
    return reason


@pytest.mark.parametrize("needed", [None, 2])
def test_a_gang_that_is_below_its_minimum(needed: int | None, said: Said) -> None:
    reason = stale(said, needed)
    assert reason.text.startswith("g has been below its minimum for 20 seconds: KAI evicts its 1 ")
    assert reason.remedy.startswith("Find out why the other pods do not run. ")


def test_a_release_of_kai_that_does_not_know_how_many_subgroups_are_enough(said: Said) -> None:
    reason = stale(said, 1)
    assert reason.text.startswith(
        "KAI has counted g as below its minimum for 20 seconds, because KAI respects"
        " minSubGroup (1, satisfied) only from 0.18 on: KAI evicts its 1 running pod at "
    )
    assert reason.remedy.startswith(
        "Ask the platform team to upgrade KAI to 0.18. To keep KAI from "
    )


class _Counted(tuple[SubGroup, ...]):
    """SubGroups that count how often they are all read."""

    reads = 0

    def __iter__(self) -> Iterator[SubGroup]:
        _Counted.reads += 1
        return super().__iter__()


def test_the_subgroups_are_not_read_for_each_pod() -> None:
    """A tenant decides how many SubGroups and pods a PodGroup has."""
    names = [f"s{number}" for number in range(50)]
    gangs = Gangs()
    gangs.add("g", *(1 for _ in names), subgroups=_Counted(SubGroup(name) for name in names))
    gangs.pods = [replace(pod, subgroup=name) for pod, name in zip(gangs.pods, names, strict=True)]
    index = gangs.index(node("n1"))
    (group,) = index.pod_groups.values()
    before = _Counted.reads
    assert [gang.ref.name for gang, _ in gangs_of_pods(index, gangs.pods)] == ["g"]
    assert outside_subgroups(index, group) == []
    assert _Counted.reads - before < 10

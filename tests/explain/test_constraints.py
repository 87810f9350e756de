"""What is said of constraints that name unknown levels, are lost, or rejected by KAI.

Tests `app/explain/reasons/constraints.py` and `app/explain/reasons/rejected_constraints.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import explain
from app.explain.state.index import Index
from app.facts.constraint import UNBOUND, SchedulerConstraint
from app.facts.grove.podcliqueset import UserConstraint
from app.facts.identity import Ref
from app.facts.kai.podgroup import SubGroup
from app.facts.kai.topology import KaiTopology
from app.facts.kubernetes.pod import Pod
from tests.explain.fleet import (
    GROUP,
    HOST,
    NAMESPACE,
    RACK,
    RACKS,
    ROUTER,
    WORKERS,
    ZONE,
    cliques,
    facts,
    fill,
    gang,
    nodes,
    occupant,
    pcs,
    placed,
    pod,
    pod_group,
    pods,
    shape,
)
from tests.explain.table.recorded import Asking, whole
from tests.explain.table.rejected_constraints import IGNORED, OF_ZONE, SIZES, racks
from tests.explain.table.row import Changes
from tests.explain.test_remedy_words import GROUPED
from tests.explain.test_room import sizes
from tests.said import Said


def told(required: str, preferred: str, **more: Any) -> Changes:
    """The group of the workers requires and prefers these levels."""
    own = replace(gang().groups[0], told=SchedulerConstraint(required, preferred))
    return {"gangs": (gang(groups=(own,)),), **more}


def broad(*busy: Pod, workers: int = 8, **more: Any) -> Changes:
    """The workers require a rack and prefer a zone."""
    own = (pods()[0], *(pod(WORKERS, number, shape=shape(workers)) for number in range(3)))
    return told(RACK, ZONE, pods=(*own, *busy), **more)


TWO_FREE = fill(*RACKS, but=("gpu-00", "gpu-01", "gpu-04", "gpu-05"))
ONE_RACK = {**OF_ZONE, "nodes": racks("rack-a1")}
PARTS = (SubGroup(GROUP, told=SchedulerConstraint(RACK)), SubGroup(WORKERS, GROUP, 3))
BOTH = (
    pod(ROUTER, 0),
    *(pod(WORKERS, n, shape=shape(1, memory=size * 2**30)) for n, size in enumerate((900, 1, 1))),
)
CASES: dict[str, tuple[Changes, str]] = {
    "a scaling group of the set can never reach its minimum": (
        {"sets": (pcs(groups=(replace(pcs().groups[0], replicas=2, minimum=3),)),)},
        "Scaling group pool needs 3 replicas, but at most 2 can exist, so this minimum is never reached",
    ),
    "the minimums of the PodCliques explain that of the PodGroup": (
        {
            "cliques": (cliques()[0], replace(cliques()[1], replicas=2)),
            "pod_groups": (pod_group(minimum=4),),
        },
        f"{WORKERS} needs 3 pods, but at most 2 can exist, so this minimum is never reached",
    ),
    "the minimum of the PodGroup is above those of the PodCliques": (
        {
            "cliques": (cliques()[0], replace(cliques()[1], replicas=2)),
            "pod_groups": (pod_group(minimum=5),),
        },
        "The gang needs 5 pods, but at most 3 can exist, so this minimum is never reached",
    ),
    "the PodGang lacks what the set prefers": (
        {
            "sets": (pcs(asked=UserConstraint("zone", "host", "grove-topology", "pack.required")),),
            "gangs": (gang(told=SchedulerConstraint(ZONE)),),
        },
        "The PodCliqueSet requests host (preferred), but PodGang llm-0 does not, so the scheduler does not apply this request",
    ),
    "the PodGang lacks all that the set requests": (
        {"gangs": (gang(told=UNBOUND, groups=()),)},
        "The PodCliqueSet requests zone and rack, but PodGang llm-0 does not, so the scheduler does not apply this request",
    ),
    "the PodGroup lacks the levels of the gang and of its workers": (
        {"pod_groups": (pod_group(told=UNBOUND, subgroups=(SubGroup(GROUP), SubGroup(WORKERS, GROUP, 3))),)},
        "The PodGang requests zone and rack, but PodGroup llm-0 does not, so the scheduler does not apply this request",
    ),
    "the PodGroup has a SubGroup for the PodGang, with its level": (
        {
            "pod_groups": (
                pod_group(
                    told=UNBOUND,
                    subgroups=(SubGroup("llm-0", told=SchedulerConstraint(ZONE)), *PARTS[:1]),
                ),
            )
        },
        "Nothing we check is blocking it, and KAI has been silent for 14 minutes; it fits in zone-a/rack-a1",
    ),
    "without the preferred level it would fit now": (
        broad(),
        f"{GROUP} requires rack but prefers the broader level zone, so KAI never places it",
    ),
    "without the preferred level, and in a zone, it would fit now": (
        broad(*TWO_FREE),
        f"{GROUP} requires rack but prefers the broader level zone, so KAI never places it",
    ),
    "without the preferred level it would fit if others ended": (
        broad(*fill(*RACKS)),
        f"{GROUP} requires rack but prefers the broader level zone, so KAI never places it",
    ),
    "its pods are too large as well": (
        broad(workers=16),
        f"{GROUP} requires rack but prefers the broader level zone, so KAI never places it",
    ),
    "all nodes share a rack, and others hold it": (
        {**ONE_RACK, "pods": (*pods(), *fill(*RACKS))},
        "llm-0 requires zone, and all usable nodes are in one domain of a narrower level, so KAI never places the gang (a defect of KAI)",
    ),
    "all nodes share a rack, and are closed": (
        {
            **ONE_RACK,
            "nodes": tuple(replace(n, unschedulable=True) for n in racks("rack-a1")),
        },
        "llm-0 requires zone, and all usable nodes are in one domain of a narrower level, so KAI never places the gang (a defect of KAI)",
    ),
    "pods differ in size, and a zone would do": (
        {"pods": (*SIZES, *TWO_FREE)},
        "The pods of llm-0-pool-0 differ in size. KAI counts each like the largest, so KAI needs room in one rack for 3 x 8 GPUs, although the pods request 10 in total",
    ),
    "pods of as many GPUs differ in memory": (
        {
            "pods": (
                *BOTH,
                *(
                    occupant(n.name, shape=shape(1, memory=204 * 2**30))
                    for n in nodes()
                    if n.name not in ("gpu-00", "gpu-04")
                ),
            )
        },
        "The pods of llm-0-pool-0 differ in size. KAI counts each like the largest, so KAI needs room in one rack for 3 times the request of the largest pod",
    ),
    "pods differ in size, and prefer a level": (
        {
            **told(RACK, HOST),
            "pods": (*SIZES, *TWO_FREE),
        },
        "The pods of llm-0-pool-0 differ in size. KAI counts each like the largest, so KAI needs room in one rack for 3 x 8 GPUs, although the pods request 10 in total",
    ),
    "pods of a gang without a required level differ in size": (
        sizes(3, 2, 2, told=SchedulerConstraint("", RACK), free={"gpu-00": 4, "gpu-01": 3}),
        "The pods of llm-0 differ in size. KAI counts each like the largest, so KAI needs room at the preferred level for 3 x 3 GPUs, although the pods request 7 in total",
    ),
    "a SubGroup names a level and no topology, and pods are pending": (
        {
            "pod_groups": (
                pod_group(
                    subgroups=(
                        replace(PARTS[0], told=UNBOUND, unnamed=SchedulerConstraint("", RACK)),
                        PARTS[1],
                        SubGroup(ROUTER, minimum=1),
                    )
                ),
            )
        },
        f"{GROUP} requests level {RACK} but names no topology, so KAI ignores the level",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "text"), CASES.values(), ids=CASES)
def test_constraints_of_a_gang(changes: Changes, text: str, answered: Asking) -> None:
    assert text in [reason.text for reason in answered(facts(**changes)).reasons]


@pytest.mark.parametrize(
    ("name", "others", "text"),
    [
        (
            "gone",
            (),
            "PodGroup llm-0 names Topology gone, which does not exist; no Topology exists",
        ),
        (
            "gone",
            (KaiTopology("b", (ZONE,)), KaiTopology("a", (ZONE,))),
            "PodGroup llm-0 names Topology gone, which does not exist; existing ones are a and b",
        ),
    ],
)
def test_a_podgroup_that_names_a_topology_that_is_not_there(
    name: str, others: tuple[KaiTopology, ...], text: str, said: Said
) -> None:
    group = pod_group(owners=(), subgroups=(), topology=name, told=SchedulerConstraint(ZONE))
    state = {**GROUPED, "topologies": (), "kai_topologies": others, "pod_groups": (group,)}
    for unread, is_told in (({}, True), ({"skipped": frozenset({"kai_topologies"})}, False)):
        answer = explain(Index(facts(**state, **unread)), Ref("PodGroup", NAMESPACE, "llm-0"))
        assert answer
        said(whole(answer))
        assert (text in [reason.text for reason in answer.reasons]) is is_told


def test_a_level_that_kai_ignores_is_no_matter_if_all_pods_share_a_domain(
    answered: Asking,
) -> None:
    for names, is_told in (
        (("gpu-00", "gpu-00", "gpu-01", "gpu-02"), False),
        (("gpu-00", "gpu-00", "gpu-01", "gpu-04"), True),
    ):
        found = answered(facts(**{**IGNORED, "pods": placed(*names)})).reasons
        assert ("LevelWithoutTopology" in {reason.id for reason in found}) is is_told

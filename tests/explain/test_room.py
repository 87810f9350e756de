"""Where gangs fit: pod by pod, part by part, each part in one domain.

Tests `app/explain/placing/room.py`, `app/explain/placing/packer.py`,
`app/explain/placing/placements.py` and `app/explain/placing/demand.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.facts.constraint import SchedulerConstraint
from app.facts.grove.podclique import PodClique
from app.facts.grove.podgang import GangGroup, GangPart
from app.facts.identity import Place
from app.facts.kai.podgroup import SubGroup
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.workload import PriorityClass
from tests.explain.fleet import (
    GPU,
    HOST,
    NAMESPACE,
    NOW,
    RACK,
    RACKS,
    ROUTER,
    SET,
    WORKERS,
    ZONE,
    answer,
    cliques,
    facts,
    fill,
    gang,
    node,
    nodes,
    occupant,
    pcs,
    placed,
    pod,
    pod_group,
    pods,
    shape,
)
from tests.explain.table.recorded import Asking
from tests.explain.table.rejected_constraints import dotted

pytestmark = pytest.mark.untraced

FREE_SETS = {"sets": (pcs(groups=(), cliques=()),), "pod_groups": ()}


def reasons(**changes: Any) -> list[str]:
    return [reason.id for reason in answer(facts(**changes)).reasons]


def sizes(
    *gpus: int, told: SchedulerConstraint, free: dict[str, int], parts: int = 1
) -> dict[str, Any]:
    """A gang with a clique for each size, whose nodes have so many GPUs free.

    With several `parts`, so many equal groups of all cliques, each bound to a rack.
    """
    names = [f"llm-0-p{part}-c{number}" for part in range(parts) for number in range(len(gpus))]
    sized = dict(zip(names, gpus * parts, strict=True))
    own = [pod(name, 0, shape=shape(gpu), group="") for name, gpu in sized.items()]
    made = [
        PodClique(NAMESPACE, name, name, cliques()[0].place, 1, 0, shape(gpu))
        for name, gpu in sized.items()
    ]
    groups = [
        GangGroup(
            f"g{part}", tuple(n for n in names if f"-p{part}-" in n), SchedulerConstraint(RACK)
        )
        for part in range(parts)
    ]
    part_of = tuple(GangPart(name, 1, frozenset({f"{name}-0"})) for name in names)
    busy = [
        occupant(n.name, 0, 8 - free.get(n.name, 0)) for n in nodes() if free.get(n.name, 0) < 8
    ]
    return {
        **FREE_SETS,
        "gangs": (gang(told=told, parts=part_of, groups=tuple(groups) if parts > 1 else ()),),
        "cliques": tuple(made),
        "pods": (*(replace(p, scheduler="kai-scheduler", group="x") for p in own), *busy),
        "queues": (),
    }


def room_reasons(changes: dict[str, Any]) -> list[str]:
    return [
        id
        for id in reasons(**changes)
        if id in ("SizesDiffer", "NoDomainFits", "NeverFits", "BoundToDomain", "NodesUnfit")
    ]


@pytest.mark.parametrize(
    ("gpus", "free", "expected"),
    [
        ((3, 3, 3), {"gpu-00": 6, "gpu-01": 3}, []),
        ((3, 2, 2), {"gpu-00": 4, "gpu-01": 3}, ["SizesDiffer", "NoDomainFits"]),
        ((3, 3, 2), {"gpu-00": 4, "gpu-01": 4}, ["NoDomainFits"]),
        ((8,), {"gpu-00": 4, "gpu-01": 4}, ["NoDomainFits"]),
        ((4, 4), {"gpu-00": 8}, []),
        ((4, 4), {"gpu-00": 4, "gpu-04": 4}, ["NoDomainFits"]),
    ],
)
def test_pods_of_several_sizes_in_one_rack(
    gpus: tuple[int, ...], free: dict[str, int], expected: list[str]
) -> None:
    assert room_reasons(sizes(*gpus, told=SchedulerConstraint(RACK), free=free)) == expected


def test_equal_parts_may_share_a_rack() -> None:
    free = dict.fromkeys(("gpu-00", "gpu-01", "gpu-02", "gpu-03"), 8)
    assert room_reasons(sizes(8, 8, told=SchedulerConstraint(ZONE), free=free, parts=2)) == []
    del free["gpu-03"]
    assert room_reasons(sizes(8, 8, told=SchedulerConstraint(ZONE), free=free, parts=2)) == [
        "NoDomainFits"
    ]


def test_parts_that_fit_each_alone_but_not_in_one_zone(answered: Asking) -> None:
    free = dict.fromkeys(("gpu-00", "gpu-01", "gpu-08", "gpu-09"), 8)
    changes = sizes(8, 8, told=SchedulerConstraint(ZONE), free=free, parts=2)
    (reason,) = [
        reason for reason in answered(facts(**changes)).reasons if reason.id == "NoDomainFits"
    ]
    assert reason.text == "No zone has room for 4 pods of 8 GPUs; zone-a has room for 2"


def test_nodes_outside_the_topology_take_only_parts_without_a_constraint() -> None:
    unlabelled = node(16, "zone-b", "rack-b2")
    outside = replace(unlabelled, labels={HOST: unlabelled.name})
    big = (replace(pods()[0], shape=shape(8)), *pods()[1:])
    changes: dict[str, Any] = {
        "nodes": (*nodes(), outside),
        "pods": (*big, *fill("rack-a2", "rack-b1", "rack-b2"), occupant("gpu-03")),
        "gangs": (gang(told=SchedulerConstraint()),),
        "sets": (pcs(groups=(), cliques=()),),
    }
    assert "NoDomainFits" not in reasons(**changes)
    assert "NoDomainFits" in reasons(**{**changes, "gangs": (gang(),)})
    inside = (*nodes(), replace(unlabelled, labels={**unlabelled.labels, ZONE: "zone-a"}))
    assert "NoDomainFits" not in reasons(**{**changes, "gangs": (gang(),), "nodes": inside})


def test_a_part_may_require_more_than_its_gang_where_dots_join_racks() -> None:
    """The only free node is of the rack that KAI takes for the other one."""
    small = tuple(replace(p, shape=shape(1)) for p in pods())
    part = replace(gang().groups[0], told=SchedulerConstraint(RACK, RACK))
    changes: dict[str, Any] = {
        "nodes": dotted("zone-a.a", "1"),
        "pods": (*small, *fill(*RACKS, but=("gpu-12",))),
        "gangs": (gang(told=SchedulerConstraint(HOST), groups=(part,)),),
    }
    assert room_reasons(changes) == []
    assert room_reasons({**changes, "pods": (*small, *fill(*RACKS))}) == ["NoDomainFits"]


def test_finished_pods_hold_nothing_and_terminating_ones_soon_hold_nothing(
    answered: Asking,
) -> None:
    finished = tuple(replace(p, phase="Succeeded") for p in fill(*RACKS))
    assert room_reasons({"pods": (*pods(), *finished)}) == []
    ending = tuple(replace(p, deleting=NOW) for p in fill(*RACKS))
    (reason,) = answered(facts(pods=(*pods(), *ending))).reasons
    assert (reason.id, reason.remedy.split(",")[0]) == (
        "NoDomainFits",
        "Wait until research/batch-gpu-01-0",
    )


def test_kai_does_not_count_on_pods_that_should_have_ended_long_ago(answered: Asking) -> None:
    stuck = tuple(replace(p, deleting=NOW - 121) for p in fill(*RACKS))
    (reason,) = answered(facts(pods=(*pods(), *stuck))).reasons
    assert (reason.id, "terminating for 2 minutes, do not end: kubectl" in reason.remedy) == (
        "NoDomainFits",
        True,
    )
    assert "Wait" not in reason.remedy


@pytest.mark.parametrize(
    ("since", "finalizers", "ends"),
    [
        pytest.param(30_000, (), True, id="deleted long ago"),
        pytest.param(30_000, ("example.com/keep",), False, id="kept by a finalizer"),
        pytest.param(None, (), False, id="not deleted"),
    ],
)
def test_a_kubelet_that_is_back_ends_pods_that_were_deleted(
    since: int | None, finalizers: tuple[str, ...], ends: bool, answered: Asking
) -> None:
    lost = {f"gpu-{n:02}" for n in range(12, 16)}
    fleet = tuple(replace(n, ready=n.name not in lost) for n in nodes())
    deleted = None if since is None else NOW - since
    busy = tuple(
        replace(p, deleting=deleted, finalizers=finalizers) if p.node in lost else p
        for p in fill(*RACKS)
    )
    (reason, *_) = answered(facts(nodes=fleet, pods=(*pods(), *busy))).reasons
    assert (reason.id == "NodesUnfit") is ends
    assert ("hold room until the kubelet of gpu-12, gpu-13" in reason.remedy) is ends


def test_one_more_pod_than_the_minimum_must_join_the_others() -> None:
    running = placed("gpu-00", "gpu-01", "gpu-02", "gpu-03")
    changes: dict[str, Any] = {
        "cliques": (cliques()[0], replace(cliques()[1], replicas=4)),
        "sets": (pcs(cliques=()),),
        "pods": (*running, pod(WORKERS, 3)),
    }
    assert room_reasons({**changes, "pods": (*changes["pods"], occupant("gpu-00", gpus=8))}) == [
        "BoundToDomain"
    ]
    assert room_reasons(changes) == []


def test_the_wider_level_that_fits_is_advised(answered: Asking) -> None:
    busy = fill(*RACKS, but=("gpu-00", "gpu-01", "gpu-04", "gpu-05"))
    (reason,) = answered(facts(pods=(*pods(), *busy))).reasons
    assert reason.remedy.startswith(
        """Require "zone" instead of "rack" in a new PodCliqueSet: it"""
    )


def test_a_new_set_restarts_the_pods_of_its_other_replicas() -> None:
    busy = fill(*RACKS, but=("gpu-00", "gpu-01", "gpu-04", "gpu-05"))
    place = Place(SET, "1", podgang="llm-1")
    runs = pod("llm-1-router", 0, node="gpu-00", phase="Running", place=place, group="llm-1")
    runs = replace(runs, shape=shape(0))
    reason, *_ = answer(facts(pods=(*pods(), *busy, runs))).reasons
    assert reason.remedy.startswith(
        'Require "zone" instead of "rack" in a new PodCliqueSet, which restarts its running pods: '
    )


def test_nothing_is_said_of_nodes_that_the_pods_do_not_need() -> None:
    own: tuple[Pod, ...] = tuple(replace(p, shape=shape(0)) for p in pods())
    assert room_reasons({"pods": (*own, *fill(*RACKS))}) == []
    assert GPU not in dict(own[0].shape.requests)
    assert own[0].name == f"{ROUTER}-0"


CLASSES = (PriorityClass("train", 50), PriorityClass("build", 100), PriorityClass("urgent", 200))


def remedy_with(own: str = "urgent", of: dict[str, Any] | None = None, **changes: Any) -> str:
    """What helps if the gang is of one PriorityClass and `of` are changes of who holds the room."""
    holders = replace(pod_group(), namespace="research", name="batch-eval", owners=(), subgroups=())
    values: dict[str, Any] = {"priority_class": "train", **(of or {})}
    snapshot = facts(
        **{
            "pods": (*pods(), *fill(*RACKS, but=("gpu-08", "gpu-09"))),
            "pod_groups": (pod_group(priority_class=own), replace(holders, **values)),
            "priorities": CLASSES,
            **changes,
        }
    )
    return next(reason for reason in answer(snapshot).reasons if reason.id == "NoDomainFits").remedy


KAI_EVICTS = "Wait: KAI may preempt 3 pods of batch-eval"
OTHERS_END = "Wait until PodGroup research/batch-eval (2 pods) ends and room for 1 more pod is free in zone-b/rack-b1. If it runs indefinitely, ask its owner to stop it"


@pytest.mark.parametrize(
    ("own", "of", "evicts"),
    [
        pytest.param("urgent", {}, True, id="of a lower class, below 100"),
        pytest.param("urgent", {"priority_class": "build"}, False, id="from 100 on"),
        pytest.param(
            "urgent",
            {"priority_class": "build", "preemptibility": "preemptible"},
            True,
            id="from 100 on, but it says that it is preemptible",
        ),
        pytest.param(
            "urgent", {"preemptibility": "non-preemptible"}, False, id="it says that it is not"
        ),
        pytest.param(
            "urgent",
            {"preemptibility": "semi-preemptible", "minimum": 14},
            False,
            id="semi-preemptible, and no more than its minimum",
        ),
        pytest.param(
            "urgent",
            {"priority_class": "build", "preemptibility": "semi-preemptible", "minimum": 0},
            True,
            id="semi-preemptible without a minimum, whatever the class",
        ),
        pytest.param("train", {}, False, id="of the same class"),
        pytest.param("urgent", {"queue": "research"}, False, id="of another queue"),
        pytest.param("urgent", {"priority_class": "unknown"}, True, id="without a class: 50"),
    ],
)
def test_only_holders_that_kai_evicts_are_named(own: str, of: dict[str, Any], evicts: bool) -> None:
    assert remedy_with(own, of) == (KAI_EVICTS if evicts else OTHERS_END)


@pytest.mark.parametrize(
    ("of", "evicts"),
    [
        pytest.param({"minimum": 12}, False, id="two beyond the minimum are not enough"),
        pytest.param({"minimum": 11}, True, id="three beyond the minimum"),
        pytest.param(
            {"minimum": 12, "subgroups": (SubGroup("s", minimum=10),)},
            True,
            id="those of a SubGroup",
        ),
    ],
)
def test_pods_of_a_semi_preemptible_group_beyond_its_minimum(
    of: dict[str, Any], evicts: bool
) -> None:
    holders = (replace(p, subgroup="s") for p in fill(*RACKS, but=("gpu-08", "gpu-09")))
    semi = {"preemptibility": "semi-preemptible", **of}
    remedy = remedy_with("urgent", semi, pods=(*pods(), *holders))
    assert remedy == (KAI_EVICTS if evicts else OTHERS_END)


def test_the_class_of_the_pods_decides_nothing() -> None:
    busy = tuple(replace(p, priority=0) for p in fill(*RACKS, but=("gpu-08", "gpu-09")))
    of = {"priority_class": "build"}
    assert remedy_with("urgent", of, pods=(*pods(), *busy)) == OTHERS_END


def test_nobody_is_named_on_nodes_that_the_gang_can_not_use() -> None:
    closed = tuple(replace(n, unschedulable=n.labels[RACK] == "rack-a1") for n in nodes())
    remedy = remedy_with(nodes=closed)
    assert remedy == KAI_EVICTS


def test_nobody_is_named_if_priority_classes_are_not_known() -> None:
    unseen = {"priorities": "no permission to list"}
    assert remedy_with(priorities=(), unseen=unseen) == OTHERS_END

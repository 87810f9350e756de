"""Where gangs fit: pod by pod, part by part, each part in one domain."""

from dataclasses import replace
from typing import Any

import pytest

from app.explain.facts.common import Told
from app.explain.facts.grove import GangGroup, GangPart, PodClique
from app.explain.facts.pods import Pod, PodClaim
from tests.explain.fleet import (
    GPU,
    HOST,
    NAMESPACE,
    RACK,
    ROUTER,
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
from tests.explain.table.devices import fleet as devices
from tests.explain.table.devices import racks, taken

RACKS = ("rack-a1", "rack-a2", "rack-b1", "rack-b2")
FREE_SETS = {"sets": (pcs(groups=(), cliques=()),), "pod_groups": ()}


def reasons(**changes: Any) -> list[str]:
    return [reason.id for reason in answer(facts(**changes)).reasons]


def sizes(*gpus: int, told: Told, free: dict[str, int], parts: int = 1) -> dict[str, Any]:
    """A gang with a clique for each size, whose nodes have so many GPUs free.

    With several `parts`, so many equal groups of all cliques, each bound to a rack.
    """
    names = [f"llm-0-p{part}-c{number}" for part in range(parts) for number in range(len(gpus))]
    sized = dict(zip(names, gpus * parts, strict=True))
    own = [pod(name, 0, shape=shape(gpu), group="") for name, gpu in sized.items()]
    made = [
        PodClique(NAMESPACE, name, name, cliques()[0].place, 1, 1, 0, shape(gpu))
        for name, gpu in sized.items()
    ]
    groups = [
        GangGroup(f"g{part}", tuple(n for n in names if f"-p{part}-" in n), Told(RACK))
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
        if id in ("NoDomainFits", "NeverFits", "BoundToDomain", "NodesUnfit")
    ]


@pytest.mark.parametrize(
    ("gpus", "free", "expected"),
    [
        ((3, 2, 2), {"gpu-00": 4, "gpu-01": 3}, []),
        ((3, 3, 2), {"gpu-00": 4, "gpu-01": 4}, ["NoDomainFits"]),
        ((8,), {"gpu-00": 4, "gpu-01": 4}, ["NoDomainFits"]),
        ((4, 4), {"gpu-00": 8}, []),
        ((4, 4), {"gpu-00": 4, "gpu-04": 4}, ["NoDomainFits"]),
    ],
)
def test_pods_of_several_sizes_in_one_rack(
    gpus: tuple[int, ...], free: dict[str, int], expected: list[str]
) -> None:
    assert room_reasons(sizes(*gpus, told=Told(RACK), free=free)) == expected


def test_equal_parts_may_share_a_rack() -> None:
    free = dict.fromkeys(("gpu-00", "gpu-01", "gpu-02", "gpu-03"), 8)
    assert room_reasons(sizes(8, 8, told=Told(ZONE), free=free, parts=2)) == []
    del free["gpu-03"]
    assert room_reasons(sizes(8, 8, told=Told(ZONE), free=free, parts=2)) == ["NoDomainFits"]


def test_parts_that_fit_each_alone_but_not_in_one_zone() -> None:
    free = dict.fromkeys(("gpu-00", "gpu-01", "gpu-08", "gpu-09"), 8)
    changes = sizes(8, 8, told=Told(ZONE), free=free, parts=2)
    (reason,) = [
        reason for reason in answer(facts(**changes)).reasons if reason.id == "NoDomainFits"
    ]
    assert reason.text == "No zone has room for 4 pods of 8 GPUs; zone-a has room for 2"


def test_nodes_outside_the_topology_take_no_part_of_a_gang_with_a_constraint() -> None:
    unlabelled = node(16, "zone-b", "rack-b2")
    outside = replace(unlabelled, labels={HOST: unlabelled.name})
    big = (replace(pods()[0], shape=shape(8)), *pods()[1:])
    changes: dict[str, Any] = {
        "nodes": (*nodes(), outside),
        "pods": (*big, *fill("rack-a2", "rack-b1", "rack-b2"), occupant("gpu-03")),
        "gangs": (gang(told=Told()),),
        "sets": (pcs(groups=(), cliques=()),),
    }
    assert "NoDomainFits" in reasons(**changes)
    assert "NoDomainFits" not in reasons(**{**changes, "nodes": (*nodes(), unlabelled)})


def test_finished_pods_hold_nothing_and_terminating_ones_soon_hold_nothing() -> None:
    finished = tuple(replace(p, phase="Succeeded") for p in fill(*RACKS))
    assert room_reasons({"pods": (*pods(), *finished)}) == []
    ending = tuple(replace(p, deleting=1.0) for p in fill(*RACKS))
    (reason,) = answer(facts(pods=(*pods(), *ending))).reasons
    assert (reason.id, reason.remedy.split(",")[0]) == (
        "NoDomainFits",
        "wait for 16 terminating pods to end",
    )


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


def test_the_wider_level_that_fits_is_advised() -> None:
    busy = fill(*RACKS, but=("gpu-00", "gpu-01", "gpu-04", "gpu-05"))
    (reason,) = answer(facts(pods=(*pods(), *busy))).reasons
    assert reason.remedy.endswith("or ask for zone in place of rack: it fits there")


def test_nothing_is_said_of_nodes_that_the_pods_do_not_need() -> None:
    own: tuple[Pod, ...] = tuple(replace(p, shape=shape(0)) for p in pods())
    assert room_reasons({"pods": (*own, *fill(*RACKS))}) == []
    assert GPU not in dict(own[0].shape.requests)
    assert own[0].name == f"{ROUTER}-0"


def remedy_with(**changes: Any) -> str:
    """Who has the room that is missing, if these are changes of each pod of somebody else."""
    groups = changes.pop("pod_groups", ())
    busy = (replace(other, **changes) for other in fill(*RACKS, but=("gpu-08", "gpu-09")))
    given = facts(pods=(*pods(), *busy), pod_groups=(pod_group(), *groups))
    return next(reason for reason in answer(given).reasons if reason.id == "NoDomainFits").remedy


KAI: dict[str, Any] = {"scheduler": "kai-scheduler"}
BATCH = replace(pod_group(), namespace="research", name="batch-eval", owners=())


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, ""),
        (KAI, ", preemptible"),
        (KAI | {"priority": 99}, ", preemptible"),
        (KAI | {"priority": 100}, ""),
        (KAI | {"priority": 100, "preemptibility": "preemptible"}, ", preemptible"),
        (KAI | {"preemptibility": "non-preemptible"}, ""),
        (KAI | {"pod_groups": (replace(BATCH, preemptibility="non-preemptible"),)}, ""),
    ],
)
def test_holders_that_kai_may_evict_are_named(changes: dict[str, Any], state: str) -> None:
    expected = f"free room for 1 more in zone-b/rack-b1 (batch-eval has 2 pods there{state})"
    assert remedy_with(**changes).startswith(expected)


def test_holders_by_claim_are_named() -> None:
    others = tuple(
        occupant(name, 0, 0, claims=(PodClaim("g", f"{name}-x"),))
        for name in racks("rack-b1", but="gpu-11")
    )
    full = devices(
        *taken(*racks("rack-a1", "rack-a2", "rack-b2"), *(other.node for other in others))
    )
    given = facts(**{**full, "pods": (*full["pods"], *others)})
    reason = next(reason for reason in answer(given).reasons if reason.id == "NoDomainFits")
    assert reason.remedy.startswith(
        "free room for 2 more in zone-b/rack-b1 (batch-eval has 3 pods there)"
    )

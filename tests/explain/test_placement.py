"""What is said of a gang that has no room: what is too small or full, and what helps.

Tests `app/explain/reasons/placement.py` and `app/explain/reasons/blocking_workloads.py`.
"""

import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from app.facts.constraint import SchedulerConstraint
from app.facts.grove.podgang import GangPart
from app.facts.identity import Ref
from app.facts.kai.queue import Queue
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod
from tests.explain.fleet import (
    GPU,
    NOW,
    RACK,
    RACKS,
    WORKERS,
    answer,
    cliques,
    facts,
    fill,
    gang,
    nodes,
    occupant,
    placed,
    pod,
    pod_group,
    pods,
    shape,
)
from tests.explain.table.placement import ELASTIC, FIVE_WORKERS, MIG, ONE_PART, RUNNING
from tests.explain.table.queues import OF_POOL
from tests.explain.table.recorded import Asking
from tests.explain.table.rejected_constraints import OF_ZONE, racks
from tests.explain.table.row import Changes, changed, labelled, part_of
from tests.explain.test_nodes import FIRST, HELD, WITHOUT
from tests.explain.test_obstacle import SATISFIED, larger, running

LARGE = (pods()[0], *(pod(WORKERS, number, shape=shape(16)) for number in range(3)))
FIVE = {**FIVE_WORKERS, "pods": (pods()[0], *(pod(WORKERS, n, shape=shape(1)) for n in range(5)))}
TOO_FEW = "No node has 16 GPUs, which a pod requests; the largest has 8 GPUs"
ALL = tuple(n.name for n in nodes())


def offering(**amounts: int) -> tuple[Node, ...]:
    """The nodes with these allocatable amounts instead of GPUs: `_` stands for `/` and `.`."""
    names = {"nic": "example.com/nic", "mig_1g": MIG, "mig_3g": "nvidia.com/mig-3g.40gb"}
    names["shared"] = "nvidia.com/gpu.shared"
    has = {names[name]: amount for name, amount in amounts.items()}
    return tuple(replace(n, allocatable={**n.allocatable, GPU: 0, **has}) for n in nodes())


def asking(name: str) -> tuple[Pod, ...]:
    """The workers request one of a device."""
    asked = replace(shape(), requests=((name, 1000),))
    return (pods()[0], *(pod(WORKERS, number, shape=asked) for number in range(3)))


def seventeen() -> Changes:
    """A gang without a constraint that requests more than all nodes have."""
    return {
        **WITHOUT,
        "cliques": (cliques()[0], replace(cliques()[1], replicas=17)),
        "gangs": (gang(told=SchedulerConstraint(), groups=(), parts=(GangPart(WORKERS, 17),)),),
        "pods": tuple(pod(WORKERS, number) for number in range(17)),
    }


CASES: dict[str, tuple[Changes, str]] = {
    "the minimum runs, and the rest is too large for any node": (
        {**SATISFIED, "pods": (*running("gpu-00", "gpu-01")[:2], *larger(16))},
        "The minimum of llm-0 runs, but there is no room for 1 pod of 16 GPUs next to it, even without other workloads",
    ),
    "the same, and KAI counts the gang as below its minimum": (
        {
            **SATISFIED,
            "pods": (*running("gpu-00", "gpu-01")[:2], *larger(16)),
            "pod_groups": (replace(SATISFIED["pod_groups"][0], stale=NOW - 20),),
        },
        "The minimum of llm-0 runs, but there is no room for 1 pod of 16 GPUs next to it, even without other workloads",
    ),
    "a pod that ends holds the room of a gang": (
        {
            "pods": (
                *pods(),
                *fill("rack-a2", "rack-b1", "rack-b2"),
                occupant("gpu-00"),
                occupant("gpu-01", deleting=NOW - 9),
            )
        },
        "KAI should choose gpu-01, gpu-02 and gpu-03 and wait until 1 pod there has ended: it already counts its room as free",
    ),
    "pods are too large, and all nodes are closed": (
        {"pods": LARGE, "nodes": changed(ALL, unschedulable=True)},
        TOO_FEW,
    ),
    "pods are too large, and all nodes share a rack": (
        {**OF_ZONE, "pods": LARGE, "nodes": racks("rack-a1")},
        TOO_FEW,
    ),
    "all nodes together are too small": (
        seventeen(),
        "Together, the nodes that the pods may use have 128 GPUs, but llm-0 needs 136 GPUs",
    ),
    "nodes take fewer pods than a gang has in a rack": (
        {
            **FIVE,
            "nodes": tuple(replace(n, allocatable={**n.allocatable, "pods": 1000}) for n in nodes()),
        },
        "Even empty, no rack has room for 5 pods of 1 GPU; zone-a/rack-a1 would have room for 4"
        " (nodes take too few pods)",
    ),
    "a device has nearly the name of another one": (
        {"pods": asking("example.com/nics"), "nodes": offering(nic=1000)},
        "No node offers example.com/nics, which a pod requests. Did you mean example.com/nic?",
    ),
    "no node has any device": (
        {"pods": asking("example.com/nics"), "nodes": offering()},
        "No node offers example.com/nics, which a pod requests",
    ),
    "nodes have other devices": (
        {"pods": asking("vendor.example/fpga"), "nodes": offering(nic=1000)},
        "No node offers vendor.example/fpga, which a pod requests",
    ),
    "no node has reserved huge pages": (
        {"pods": asking("hugepages-1Gi")},
        "No node offers hugepages-1Gi, which a pod requests",
    ),
    "GPUs are divided in two ways": (
        {"nodes": offering(mig_1g=7000, mig_3g=2000)},
        "No node offers nvidia.com/gpu, which a pod requests; 16 nodes offer nvidia.com/mig-1g.10gb and nvidia.com/mig-3g.40gb",
    ),
    "GPUs are shared by time slicing": (
        {"nodes": offering(shared=32_000)},
        "No node offers nvidia.com/gpu, which a pod requests; 16 nodes offer nvidia.com/gpu.shared",
    ),
    "GPUs are divided in another way": (
        {
            "pods": (pods()[0], *(pod(WORKERS, n, shape=ONE_PART) for n in range(3))),
            "nodes": (*offering(mig_3g=2000)[:1], *offering(nic=1000)[1:]),
        },
        "No node offers nvidia.com/mig-1g.10gb, which a pod requests; 1 node offers nvidia.com/mig-3g.40gb",
    ),
    "only the open nodes of one rack are full, and no level is required": (
        {
            **WITHOUT,
            "nodes": tuple(replace(n, unschedulable=n.labels[RACK] != "rack-a1") for n in nodes()),
            "pods": (*pods(), *fill("rack-a1", but=("gpu-02",)), *fill("rack-b1", "rack-b2", "rack-a2")),
        },
        "The open nodes, which are all in rack zone-a/rack-a1, have no room for 1 pod without GPUs and 3 pods of 8 GPUs, only for 2 of these pods",
    ),
    "the nodes of a node pool are full, and no level is required": (
        {
            **WITHOUT,
            "pod_groups": (replace(WITHOUT["pod_groups"][0], pool="h100"),),
            "nodes": labelled(ALL, pool="h100"),
            "queues": OF_POOL,
            "pods": (*pods(), *fill(*RACKS)),
        },
        "The nodes of node pool h100 have no room for 1 pod without GPUs and 3 pods of 8 GPUs, only for 1 of these pods",
    ),
    "it fits in another pool": (
        {
            "nodes": labelled(ALL[:8], pool="h100"),
            "queues": (*OF_POOL, Queue("open-root"), Queue("open", "open-root")),
            "pod_groups": (pod_group(pool="h100"),),
            "pods": (*pods(), *fill("rack-a1", "rack-a2")),
        },
        "No rack has room for any of 3 pods of 8 GPUs",
    ),
    "the rest joins running pods in a rack with closed nodes": (
        {
            "pods": (*placed("gpu-00", "gpu-01", "gpu-02"), pod(WORKERS, 2), *HELD),
            "nodes": changed(("gpu-00", "gpu-03"), unschedulable=True),
        },
        "2 of 3 pods of llm-0-pool-0 run in zone-a/rack-a1, and the rest must join them, but zone-a/rack-a1 has no room for 1 pod of 8 GPUs",
    ),
    "the rest joins running pods in a rack with smaller nodes, and others hold all others": (
        {
            "pods": (*placed("gpu-00", "gpu-00"), pod(WORKERS, 1), pod(WORKERS, 2), *HELD),
            "nodes": changed(FIRST[1:], allocatable={**nodes()[0].allocatable, GPU: 4000}),
        },
        "1 of 3 pods of llm-0-pool-0 runs in zone-a/rack-a1, and the rest must join it, but zone-a/rack-a1 has no room for 2 pods of 8 GPUs",
    ),
    "the rest joins running pods in a rack with smaller nodes, and all others are closed": (
        {
            "pods": (*placed("gpu-00", "gpu-00"), pod(WORKERS, 1), pod(WORKERS, 2)),
            "nodes": tuple(
                replace(n, allocatable={**n.allocatable, GPU: 4000})
                if n.name in FIRST[1:]
                else replace(n, unschedulable=n.name not in FIRST)
                for n in nodes()
            ),
        },
        "1 of 3 pods of llm-0-pool-0 runs in zone-a/rack-a1, and the rest must join it, but zone-a/rack-a1 has no room for 2 pods of 8 GPUs",
    ),
    "the domain of running pods has room for one more": (
        {
            "pods": (
                *placed("gpu-00", "gpu-00"),
                pod(WORKERS, 1),
                pod(WORKERS, 2),
                occupant("gpu-02"),
                occupant("gpu-03"),
                *HELD,
            ),
        },
        "1 of 3 pods of llm-0-pool-0 runs in zone-a/rack-a1, and the rest must join it, but zone-a/rack-a1 has room for 1 of 2 pods of 8 GPUs",
    ),
    "no room for one more, beside a minimum that runs": (
        {**ELASTIC, "pods": (*RUNNING, pod(WORKERS, 2), *fill(*RACKS, but=("gpu-00", "gpu-01")))},
        "The nodes have no room for 1 pod of 8 GPUs",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "text"), CASES.values(), ids=CASES)
def test_a_gang_without_room(changes: Changes, text: str, answered: Asking) -> None:
    assert text in [reason.text for reason in answered(facts(**changes)).reasons]


def held(**of_nodes: tuple[str, dict[str, Any]]) -> Changes:
    """Pods of workloads hold nodes: `gpu_00=("Job a", {...})`. Others hold all other racks."""
    own = []
    for name, (of, more) in of_nodes.items():
        kind, owner = of.split()
        controller = Ref(kind, "research", owner)
        own.append(occupant(name.replace("_", "-"), controller=controller, group="", **more))
    return {"pods": (*pods(), *HELD, *own)}


OLD = {"created": NOW - 7200}
JOB_A: dict[str, Any] = {"created": NOW - 60}
HOLDERS: dict[str, tuple[Changes, str]] = {
    "three Jobs, of which the one with most pods is first": (
        held(
            gpu_00=("Job a", OLD),
            gpu_01=("Job b", {}),
            gpu_02=("Job b", {"created": NOW - 59}),
            gpu_03=("Job c", {}),
        ),
        "Wait until room for 3 more pods is free in zone-a/rack-a1: Job research/b (2 pods), Job research/a (1 pod, there for 2 hours) and 1 more hold it",
    ),
    "one Job": (
        held(gpu_00=("Job a", JOB_A), gpu_01=("Job a", {"created": NOW - 30})),
        "Wait until Job research/a (2 pods, there for 60 seconds) ends and room for 1 more pod is free in zone-a/rack-a1",
    ),
    "a Job, and what may never end": (
        held(gpu_00=("Job a", OLD), gpu_01=("Thing b", OLD)),
        "Wait until room for 1 more pod is free in zone-a/rack-a1: Job research/a (1 pod, there for 2 hours) and Thing research/b (1 pod, there for 2 hours) hold it. If they run indefinitely, ask their owners to stop them",
    ),
    "only what does not end by itself": (
        held(gpu_00=("Deployment a", OLD), gpu_01=("StatefulSet b", OLD)),
        "Ask the owners of Deployment research/a (1 pod, there for 2 hours) and StatefulSet research/b (1 pod, there for 2 hours) to scale down: the pods in zone-a/rack-a1 do not end by themselves",
    ),
    "most of the pods do not start": (
        held(
            gpu_00=("Job a", {"bound": NOW - 301}),
            gpu_01=("Job b", {"bound": NOW - 900}),
            gpu_02=("Job c", {"bound": NOW - 300}),
        ),
        "Ask the owner of pod research/batch-gpu-01-0 why the pod, which has had a node for 15 minutes, does not start: grove-admission explain pod/batch-gpu-01-0 -n research",
    ),
    "half of the pods do not start": (
        held(gpu_00=("Job a", {"bound": NOW - 301}), gpu_01=("Job b", {"bound": NOW - 300})),
        "Wait until room for 1 more pod is free in zone-a/rack-a1: Job research/a (1 pod) and Job research/b (1 pod) hold it",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "remedy"), HOLDERS.values(), ids=HOLDERS)
def test_who_holds_the_room(changes: Changes, remedy: str, answered: Asking) -> None:
    reasons = answered(facts(**changes)).reasons
    assert [reason.remedy for reason in reasons if reason.id == "NoDomainFits"] == [remedy]


def offering_some(*offers: tuple[str, ...]) -> tuple[Node, ...]:
    """The nodes, of which each of the first ones offers these devices, and the others none."""
    of_nodes = itertools.chain(offers, itertools.repeat(()))
    return tuple(
        replace(n, allocatable={**n.allocatable, **{f"example.com/{key}": 1000 for key in own}})
        for n, own in zip(nodes(), of_nodes, strict=False)
    )


@pytest.mark.parametrize(
    ("offers", "says"),
    [
        pytest.param(
            [("a", "b"), ("b", "c"), ("c",)],
            "1 node has 1 example.com/a and 2 nodes have 1 example.com/c, and no node has both",
            id="another pair is on one node",
        ),
        pytest.param(
            [("a", "b"), ("b", "c"), ("a", "c")],
            "2 nodes have 1 example.com/a, 2 nodes have 1 example.com/b and 2 nodes have 1"
            " example.com/c, and no node has all of these",
            id="each pair is on one node",
        ),
    ],
)
def test_resources_that_no_node_has_together(offers: list[tuple[str, ...]], says: str) -> None:
    whole = shape(8, **{f"example.com/{key}": 1 for key in "abc"})
    asking = (pods()[0], *(pod(WORKERS, number, shape=whole) for number in range(3)))
    found = answer(facts(nodes=offering_some(*offers), pods=asking))
    text = f"No node has everything that a pod requests: {says}"
    assert text in [reason.text for reason in found.reasons]


MIXED = {"nvidia.com/mig.strategy": "mixed", "node-role.kubernetes.io/mig-enabled": "true"}
SINGLE = {"nvidia.com/mig.strategy": "single", "node-role.kubernetes.io/mig-enabled": "true"}


def of_kind(labels: dict[str, str], numbers: range, **amounts: int) -> tuple[Node, ...]:
    """The nodes, some of them with these labels and with other amounts of devices."""
    changed_ones = [
        replace(n, labels={**n.labels, **labels}, allocatable={**n.allocatable, **amounts})
        for n in nodes()
    ]
    return tuple(
        changed_ones[number] if number in numbers else n for number, n in enumerate(nodes())
    )


PARTS = (pods()[0], *(pod(WORKERS, n, shape=part_of(0.5)) for n in range(3)))
NO_KIND = "KAI uses no node with GPUs for pods with this request"


@pytest.mark.parametrize(
    ("changes", "text", "begin"),
    [
        pytest.param(
            {"nodes": of_kind(MIXED, range(16), **{GPU: 4000, MIG: 28_000})},
            f"{NO_KIND}: gpu-00, gpu-01, gpu-02 and 13 more are only for MIG devices (MIG strategy mixed)",
            "Request MIG devices (nvidia.com/mig-1g.10gb), or",
            id="whole GPUs beside MIG devices",
        ),
        pytest.param(
            {"nodes": of_kind(SINGLE, range(16), **{GPU: 56_000}), "pods": PARTS},
            f"{NO_KIND}: gpu-00, gpu-01, gpu-02 and 13 more are only for whole GPUs (MIG strategy single)",
            "Request nvidia.com/gpu: each MIG device is one nvidia.com/gpu there, or",
            id="parts of MIG devices",
        ),
        pytest.param(
            {
                "nodes": of_kind({}, range(16), **{GPU: 0, "gpu.nvidia.com/gpu": 8000}),
                "pods": PARTS,
            },
            f"{NO_KIND}: DRA allocates the GPUs of gpu-00, gpu-01, gpu-02 and 13 more, so that pods can't share them",
            "Request GPUs with a ResourceClaim instead of gpu-fraction or gpu-memory, or",
            id="parts of GPUs that DRA allocates",
        ),
        pytest.param(
            {"nodes": of_kind(MIXED, range(16), **{GPU: 0, MIG: 56_000})},
            "No node offers nvidia.com/gpu, which a pod requests; 16 nodes offer nvidia.com/mig-1g.10gb",
            "Request",
            id="no whole GPU is left",
        ),
    ],
)
def test_kai_uses_no_node_for_this_kind_of_gpus(
    changes: Changes, text: str, begin: str, answered: Asking
) -> None:
    reasons = answered(facts(**changes)).reasons
    [reason] = [each for each in reasons if each.id == "NeverFits"]
    assert (reason.text, reason.who) == (text, "you")
    assert reason.remedy.startswith(begin) or begin == "Request"


def test_nodes_for_mig_do_not_matter_beside_others(answered: Asking) -> None:
    changes = {"nodes": of_kind(MIXED, range(15), **{GPU: 4000, MIG: 28_000})}
    assert NO_KIND not in answered(facts(**changes)).reasons[0].text


@pytest.mark.parametrize(
    ("counts", "has", "asked", "text"),
    [
        (("8",), 7000, 8, ". gpu-00 (7 of 8) offers fewer GPUs than its label"),
        (("8", "16"), 6000, 8, ". gpu-00 (6 of 8) and gpu-01 (6 of 16) offer fewer GPUs than"),
        (("8",), 7000, 16, ""),
        (("no",), 7000, 8, ""),
    ],
    ids=["one node", "two nodes", "no node has so many", "the label is no number"],
)
def test_no_node_offers_as_many_gpus_as_nodes_have(
    counts: tuple[str, ...], has: int, asked: int, text: str, answered: Asking
) -> None:
    """The device plugin withdraws GPUs that it finds unhealthy."""
    labels = {number: {"nvidia.com/gpu.count": count} for number, count in enumerate(counts)}
    lacking = tuple(
        replace(
            n,
            labels={**n.labels, **labels.get(number, {})},
            allocatable={**n.allocatable, GPU: has},
        )
        for number, n in enumerate(nodes())
    )
    workers = (pod(WORKERS, number, shape=shape(asked)) for number in range(3))
    reasons = answered(facts(nodes=lacking, pods=(pods()[0], *workers))).reasons
    [reason] = [each for each in reasons if each.id == "NeverFits"]
    whole = f"No node has {asked} GPUs, which a pod requests; the largest has {has // 1000} GPUs"
    assert reason.text.startswith(f"{whole}{text}")
    assert ("fewer GPUs" in reason.text) is bool(text)
    assert reason.who == ("platform" if text else "you")

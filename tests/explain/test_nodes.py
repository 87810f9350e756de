"""What is said of nodes that are closed, not selected, in other pools or short of a resource.

Tests `app/explain/reasons/nodes.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.reasons.missing_queue import NOT_CHOSEN
from app.facts.constraint import UNBOUND
from app.facts.grove.podcliqueset import UserConstraint
from app.facts.kai.queue import Queue
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.selectors import Requirement, Taint
from app.facts.labels import MIG_ENABLED, MIG_STRATEGY, NODE_POOL
from tests.explain.fleet import (
    HOST,
    NOW,
    RACK,
    RACKS,
    WORKERS,
    ZONE,
    facts,
    fill,
    gang,
    nodes,
    occupant,
    pcs,
    pod_group,
    pods,
    shape,
)
from tests.explain.table.recorded import Asking
from tests.explain.table.row import Changes, changed

HELD = fill("rack-a2", "rack-b1", "rack-b2")
FIRST = tuple(f"gpu-0{number}" for number in range(4))
CORDONED_OR_MIG = tuple(
    replace(n, labels={**n.labels, MIG_ENABLED: "true", MIG_STRATEGY: "mixed"})
    if n.name == "gpu-03"
    else n
    for n in changed(("gpu-00", "gpu-01"), unschedulable=True)
)
WITHOUT: Changes = {
    "gangs": (gang(told=UNBOUND, groups=()),),
    "sets": (pcs(asked=UserConstraint(), groups=()),),
    "pod_groups": (pod_group(told=UNBOUND, topology="", subgroups=()),),
}
"""The gang requires no level."""


def selecting(**selected: str) -> tuple[Pod, ...]:
    """The pods, of which the workers select labels: `zone`, `rack`, `host` or others."""
    keys = {"zone": ZONE, "rack": RACK, "host": HOST}
    selector = tuple(Requirement(keys.get(key, key), "In", (v,)) for key, v in selected.items())
    return tuple(
        replace(pod, shape=replace(pod.shape, selector=selector))
        if pod.place.clique == WORKERS
        else pod
        for pod in pods()
    )


def requiring(*requirements: Requirement) -> tuple[Pod, ...]:
    """The pods, of which the workers require one of these node affinities."""
    affinity = tuple((requirement,) for requirement in requirements)
    return tuple(
        replace(pod, shape=replace(pod.shape, affinity=affinity))
        if pod.place.clique == WORKERS
        else pod
        for pod in pods()
    )


@pytest.mark.parametrize(
    ("requirements", "remedy"),
    [
        (
            (Requirement(RACK, "In", ("rack-x",)),),
            "Correct the selector (nodes have example.com/rack=rack-a1)",
        ),
        (
            (Requirement("tier", "In", ("gold",)), Requirement(ZONE, "In", ("zone-c",))),
            "Correct the selector (nodes have topology.kubernetes.io/zone=zone-a)",
        ),
        (
            (Requirement(ZONE, "NotIn", ("zone-a", "zone-b")),),
            "Correct the nodeSelector or the node affinity, or ask the platform team for large",
        ),
    ],
)
def test_an_affinity_is_corrected_like_a_selector(
    requirements: tuple[Requirement, ...], remedy: str, answered: Asking
) -> None:
    """Values that an affinity excludes are left out on purpose."""
    reasons = answered(facts(pods=requiring(*requirements))).reasons
    [told] = [reason for reason in reasons if reason.id == "NoNodeMatches"]
    assert told.remedy.startswith(remedy)


def tainted(**taints: Taint) -> tuple[Node, ...]:
    """The nodes, some of them with a taint: `gpu_01=Taint(...)`."""
    of_nodes = {name.replace("_", "-"): (taint,) for name, taint in taints.items()}
    return tuple(replace(n, taints=of_nodes.get(n.name, ())) for n in nodes())


def pooled(*pools: str, **changes: Any) -> tuple[Node, ...]:
    """The nodes in these pools in turn; "" is none."""
    labels = (
        {NODE_POOL: pool} if pool else {} for n in range(16) for pool in [pools[n % len(pools)]]
    )
    return tuple(
        replace(n, labels={**n.labels, **own}, **changes)
        for n, own in zip(nodes(), labels, strict=True)
    )


def workers(**asked: int) -> tuple[Pod, ...]:
    """The pods, of which the workers ask for these amounts too."""
    return tuple(
        replace(pod, shape=shape(8, **asked)) if pod.place.clique == WORKERS else pod
        for pod in pods()
    )


DEDICATED = Taint("dedicated", "team-x", "NoSchedule")
BROKEN = Taint("broken", "", "NoExecute")
CPU_HUNGRY = tuple(occupant(n.name, shape=shape(0, cpu=33)) for n in nodes())
CASES: dict[str, tuple[Changes, str]] = {
    "the first rack with room has another name than the selected one": (
        {"pods": (*selecting(rack="rack-x"), *fill("rack-a1"))},
        "No node matches example.com/rack=rack-x, which pods of llm-0-pool-0-workers select (0 of 16 nodes)",
    ),
    "no rack has room now, and the nodes of the first one are cordoned": (
        {
            "pods": (*selecting(rack="rack-x"), *fill(*RACKS)),
            "nodes": changed(FIRST, unschedulable=True),
        },
        "No node matches example.com/rack=rack-x, which pods of llm-0-pool-0-workers select (0 of 16 nodes)",
    ),
    "no value of the label would be enough": (
        {"pods": selecting(host="gpu-99")},
        "No node matches kubernetes.io/hostname=gpu-99, which pods of llm-0-pool-0-workers select (0 of 16 nodes)",
    ),
    "the second label is wrong": (
        {"pods": selecting(zone="zone-b", rack="rack-x")},
        "No node matches topology.kubernetes.io/zone=zone-b and example.com/rack=rack-x, which pods of llm-0-pool-0-workers select (0 of 16 nodes)",
    ),
    "the rack has one taint": (
        {"nodes": tainted(gpu_00=DEDICATED, gpu_01=DEDICATED), "pods": (*pods(), *HELD)},
        "2 of 4 nodes of zone-a/rack-a1 are closed: 2 tainted dedicated",
    ),
    "the rack has two taints": (
        {"nodes": tainted(gpu_00=DEDICATED, gpu_01=BROKEN), "pods": (*pods(), *HELD)},
        "2 of 4 nodes of zone-a/rack-a1 are closed: 1 tainted broken and 1 tainted dedicated",
    ),
    "one node is cordoned, one is not ready, and one is tainted": (
        {
            "nodes": tuple(
                replace(n, unschedulable=n.name == "gpu-01", ready=n.name != "gpu-02")
                for n in tainted(gpu_00=BROKEN)
            ),
            "pods": (*pods(), *HELD),
        },
        "3 of 4 nodes of zone-a/rack-a1 are closed: 1 cordoned, 1 not ready and 1 tainted broken",
    ),
    "two nodes are cordoned, and one has only MIG devices": (
        {"nodes": CORDONED_OR_MIG, "pods": (*pods(), *HELD)},
        "2 of 4 nodes of zone-a/rack-a1 are closed: 2 cordoned",
    ),
    "two nodes are cordoned, and one takes only the pod without GPUs": (
        {
            "nodes": CORDONED_OR_MIG,
            "pods": (*pods()[:3], replace(pods()[3], shape=shape(0, cpu=1)), *HELD),
        },
        "2 of 4 nodes of zone-a/rack-a1 are closed: 2 cordoned",
    ),
    "the only node that is needed is closed": (
        {
            "nodes": changed(("gpu-01",), unschedulable=True),
            "pods": (*pods(), *HELD, occupant("gpu-02")),
        },
        "1 of 4 nodes of zone-a/rack-a1 is closed: 1 cordoned",
    ),
    "each rack has two nodes that are cordoned, and others hold the rest": (
        {
            "nodes": tuple(
                replace(n, unschedulable=at % 4 < 2) for at, n in enumerate(nodes())
            ),
            "pods": (*pods(), *fill(*RACKS, but=("gpu-11",))),
        },
        "2 of 4 nodes of zone-b/rack-b1 are closed: 2 cordoned",
    ),
    "nodes that the pods select are closed": (
        {
            "nodes": changed(FIRST, unschedulable=True),
            "pods": (*selecting(rack="rack-a1"), *HELD),
        },
        "4 of 4 nodes of zone-a/rack-a1 are closed: 4 cordoned (4 of 16 nodes match example.com/rack=rack-a1)",
    ),
    "others use the CPUs": (
        {"pods": (*workers(cpu=32), *CPU_HUNGRY)},
        "GPUs are free in 4 racks, but not enough CPU: a pod requests 32 CPUs, and at most 31 CPUs are free on a node with free GPUs",
    ),
    "others use all CPUs but one": (
        {"pods": (*workers(cpu=32), *(occupant(n.name, shape=shape(0, cpu=63)) for n in nodes()))},
        "GPUs are free in 4 racks, but not enough CPU: a pod requests 32 CPUs, and at most 1 CPU is free on a node with free GPUs",
    ),
    "others use the CPUs, and nodes with more of them have no free GPUs": (
        {
            "pods": (
                *workers(cpu=32),
                *CPU_HUNGRY[4:],
                *(occupant(name, gpus=1) for name in FIRST),
            )
        },
        "GPUs are free in 3 racks, but not enough CPU: a pod requests 32 CPUs, and at most 31 CPUs are free on a node with free GPUs",
    ),
    "others use the CPUs, and no level is required": (
        {**WITHOUT, "pods": (*workers(cpu=32), *CPU_HUNGRY)},
        "GPUs are free on the nodes, but not enough CPU: a pod requests 32 CPUs, and at most 31 CPUs are free on a node with free GPUs",
    ),
    "others use the CPUs, and the pods request devices other than GPUs": (
        {
            "nodes": tuple(
                replace(n, allocatable={**n.allocatable, "example.com/nic": 8000}) for n in nodes()
            ),
            "pods": (
                *(
                    replace(pod, shape=shape(0, **{"cpu": 32, "example.com/nic": 1}))
                    for pod in pods()
                ),
                *(occupant(n.name, shape=shape(0, cpu=33)) for n in nodes()),
            ),
        },
        "Devices are free in 4 racks, but not enough CPU: a pod requests 32 CPUs, and at most 31 CPUs are free on a node with free devices",
    ),
    "only the largest pod lacks memory": (
        {
            "pods": (
                *workers(memory=100 * 2**30)[:3],
                replace(pods()[3], shape=shape(8, memory=900 * 2**30)),
                *(occupant(n.name, shape=shape(0, memory=204 * 2**30)) for n in nodes()),
            )
        },
        "GPUs are free in 4 racks, but not enough memory: a pod requests 900 GiB, and at most 820 GiB is free on a node with free GPUs",
    ),
    "a node pool is not assigned within a minute": (
        {"pod_groups": (pod_group(pool=NOT_CHOSEN, created=NOW - 60),)},
        "KAI Resource Management has not assigned a node pool, although the PodGroup is 60 seconds old",
    ),
    "a node pool is not assigned yet": (
        {"pod_groups": (pod_group(pool=NOT_CHOSEN, created=NOW - 59, queue=""),)},
        "KAI Resource Management has not assigned a node pool or a queue yet",
    ),
    "nobody knows since when a node pool is not assigned": (
        {"pod_groups": (pod_group(pool=NOT_CHOSEN, created=None),)},
        "KAI Resource Management has not assigned a node pool yet",
    ),
    "no pool is large enough for a gang without one": (
        {"nodes": pooled("h100", "gold")},
        'The gang is in no node pool, and each node is in one; nodes elsewhere: 8 in pool "gold" and 8 in pool "h100"',
    ),
    "no pool is large enough for a gang in one": (
        {
            "nodes": pooled("h100", "gold", ""),
            "pod_groups": (pod_group(pool="blue"),),
            "queues": (Queue("root", pool="blue"), Queue("team-llm", "root", pool="blue")),
        },
        'The gang\'s node pool "blue" has no nodes; nodes elsewhere: 5 without a pool, 5 in pool "gold" and 6 in pool "h100"',
    ),
    "another pool is large enough, and full": (
        {"nodes": pooled("h100"), "pods": (*pods(), *fill(*RACKS))},
        'The gang is in no node pool, and each node is in one; nodes elsewhere: 16 in pool "h100"',
    ),
    "another pool is large enough, and has no node that pods select": (
        {"nodes": pooled("h100"), "pods": selecting(tier="gold")},
        'The gang is in no node pool, and each node is in one; nodes elsewhere: 16 in pool "h100"',
    ),
    "two pools are large enough, and the first one by name is meant": (
        {
            "nodes": tuple(
                replace(n, labels={**n.labels, NODE_POOL: "gold" if at < 8 else "h100"})
                for at, n in enumerate(nodes())
            )
        },
        'The gang is in no node pool, and each node is in one; nodes elsewhere: 8 in pool "gold" and 8 in pool "h100"',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "text"), CASES.values(), ids=CASES)
def test_nodes_that_a_gang_lacks(changes: Changes, text: str, answered: Asking) -> None:
    assert text in [reason.text for reason in answered(facts(**changes)).reasons]


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("dedicated", "Add the toleration {key: dedicated, operator: Exists, effect: NoSchedule}"),
        (
            "karpenter.sh/disrupted",
            "Ask the platform team for other nodes: an autoscaler is removing gpu-00 and gpu-01 (taint"
            " karpenter.sh/disrupted)",
        ),
        (
            "aws-node-termination-handler/spot-itn",
            "Ask the platform team for other nodes: the cloud is about to stop gpu-00 and gpu-01",
        ),
        (
            "cloud.google.com/impending-node-termination",
            "Ask the platform team for other nodes: the cloud is about to stop gpu-00 and gpu-01",
        ),
        (
            "startup-taint.cluster-autoscaler.kubernetes.io/driver",
            "Find out why the component that removes the taint"
            " startup-taint.cluster-autoscaler.kubernetes.io/driver is not ready on gpu-00 and",
        ),
    ],
)
def test_no_pod_is_to_tolerate_a_taint_for_the_state_of_a_node(
    key: str, remedy: str, answered: Asking
) -> None:
    """The pods on a node that an autoscaler removes are lost, even if the node is empty now."""
    taint = Taint(key, "", "NoSchedule")
    state = {"nodes": tainted(gpu_00=taint, gpu_01=taint), "pods": (*pods(), *HELD)}
    [told] = [each for each in answered(facts(**state)).reasons if each.id == "NodesUnfit"]
    assert told.remedy.startswith(remedy)
    assert ("Add the toleration" in told.remedy) == (key == "dedicated")

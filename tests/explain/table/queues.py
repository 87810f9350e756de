"""Reasons in queues, and in what KAI says."""

from msgspec.structs import replace

from app.facts.kai.podgroup import KaiPodGroup, Said
from app.facts.kai.queue import Queue, Share
from app.facts.kai.shard import Shard
from app.facts.kubernetes.workload import PriorityClass
from tests.explain.fleet import (
    GPU,
    NOW,
    fill,
    nodes,
    occupant,
    pod_group,
    pods,
    shape,
)
from tests.explain.table.row import FULL, Changes, Row, labelled, part_of, queues, said, using

GIB = 1024**3 * 1000
LARGE = pods(shape=shape(8, memory=4 * 1024**3))
POOLED = tuple(node.name for node in nodes() if node.labels["example.com/rack"] == "rack-b2")
HALF: Changes = {
    "pods": (*pods(), *fill("rack-a1", "rack-a2")),
    "priorities": (PriorityClass("urgent", 75),),
}
"""Others have 64 of the GPUs."""
SHARED = (
    Queue("root", "", None, 64_000, 64_000),
    Queue("team-llm", "root", 32_000),
    Queue("team-b", "root", 32_000, None, 64_000),
)
FIXED = "non-preemptible"


def batch(queue: str, preemptibility: str = "") -> KaiPodGroup:
    """The PodGroup of the pods that fill racks."""
    return KaiPodGroup("research", "batch-eval", queue=queue, preemptibility=preemptibility)


LIMITED_ROOT = (Queue("root", "", None, 64_000), Queue("team-llm", "root"), Queue("b", "root"))
UNSET = Share(0, 0, weight=0, unset=("quota", "limit"))


POOLED_NODES = labelled(tuple(n.name for n in nodes()), pool="h100")
ROOT_AND_TEAM = (Queue("root"), Queue("team-llm", "root"))
OF_POOL = (Queue("root", pool="h100"), Queue("team-llm", "root", pool="h100"))


def ending(gpus: int) -> Changes:
    """The same as `using`, and the pod is ending."""
    changes = using(gpus)
    *others, held = changes["pods"]
    return {**changes, "pods": (*others, replace(held, deleting=NOW))}


def shared(quota: int) -> Changes:
    """All pods ask for 0.2 GPUs together, and another one has 0.1."""
    held = occupant("gpu-00", shape=part_of(0.1), group="held")
    group = KaiPodGroup("research", "held", queue="team-llm", preemptibility=FIXED)
    return {
        "queues": queues(quota=quota),
        "pods": (*pods(shape=part_of(0.05)), held),
        "pod_groups": (pod_group(preemptibility=FIXED), group),
    }


def full(changes: Changes) -> Changes:
    return {**changes, "pods": (*pods(), *FULL)}


def parted(preemptible: int) -> Changes:
    """A sibling has HALF of the GPUs, and of its pods so many are preemptible."""
    others = fill("rack-a1", "rack-a2")
    fixed = (replace(pod, group="fixed") for pod in others[preemptible:])
    group = replace(batch("team-b", FIXED), name="fixed")
    return {
        "pods": (*pods(), *others[:preemptible], *fixed),
        "pod_groups": (pod_group(), batch("team-b"), group),
        "queues": SHARED,
    }


QUEUES = (
    Row(
        "QueueMissing",
        "the queue does not exist",
        {"pod_groups": (pod_group(queue="team-x"),)},
        "Queue team-x does not exist; usable queues are research and team-llm",
        "you",
        {},
    ),
    Row(
        "QueueMissing",
        "the queue has queues below it; one without a parent is used like any other",
        {"pod_groups": (pod_group(queue="root"),)},
        "Queue root has child queues, and KAI places workloads only in queues without children; usable queues are research and team-llm",
        "you",
        {"pod_groups": (pod_group(queue="root"),), "queues": (Queue("root"),)},
    ),
    Row(
        "QueueMissing",
        "queues are below each other, and the whole scheduler of KAI counts in a circle",
        {"queues": (Queue("team-llm", "a"), Queue("a", "b"), Queue("b", "a"), Queue("c"))},
        "Queue team-llm is below a, which is below itself: KAI hangs, and places nothing at all; the only usable queue is c",
        "platform",
        {"queues": (Queue("team-llm", "a"), Queue("a", "b"), Queue("b"), Queue("c"))},
    ),
    Row(
        "QueueMissing",
        "the queue is of a node pool, and the workload of none",
        {
            "queues": (Queue("root", pool="h100"), Queue("team-llm", "root", pool="h100")),
            "nodes": POOLED_NODES,
        },
        "Queue team-llm has the label kai.scheduler/node-pool=h100, so it does not exist for the"
        " scheduler of the nodes without a node pool",
        "you",
        {},
    ),
    Row(
        "QueueMissing",
        "the workload is of a node pool, and its queue of none",
        {"pod_groups": (pod_group(pool="h100"),), "nodes": POOLED_NODES},
        "Queue team-llm has no label kai.scheduler/node-pool, so it does not exist for the scheduler"
        " of node pool h100",
        "platform",
        {"pod_groups": (pod_group(pool="h100"),), "nodes": POOLED_NODES, "queues": OF_POOL},
    ),
    Row(
        "QueueMissing",
        "the queue is of a node pool that no SchedulingShard has",
        {
            "queues": (Queue("root", pool="h100"), Queue("team-llm", "root", pool="h100")),
            "nodes": POOLED_NODES,
            "shards": (Shard("default"),),
        },
        "Queue team-llm has the label kai.scheduler/node-pool=h100, so it does not exist for the"
        " scheduler of the nodes without a node pool",
        "platform",
        {},
    ),
    Row(
        "QueueMissing",
        "KAI Resource Management has assigned a node pool and no queue",
        {"pod_groups": (pod_group(pool="h100", queue=""),), "nodes": POOLED_NODES},
        "PodGroup llm-0 is in node pool h100 and names no queue, so KAI does not place it",
        "platform",
        {"pod_groups": (pod_group(pool="h100"),), "nodes": POOLED_NODES, "queues": OF_POOL},
    ),
    Row(
        "QueueMissing",
        "the queue above is of another node pool",
        {"queues": (Queue("root", pool="h100"), Queue("team-llm", "root"))},
        "Queue team-llm is below root, which has the label kai.scheduler/node-pool=h100, so KAI does not use team-llm; there is no usable queue",
        "platform",
        {},
    ),
    Row(
        "WithinQuota",
        "a sibling keeps what is within its quota",
        {
            "pod_groups": (pod_group(), batch("team-b")),
            "queues": (
                Queue("root"),
                Queue("team-llm", "root", 32_000),
                Queue("team-b", "root", 128_000),
            ),
            "pods": (*pods(), *FULL),
        },
        "KAI reclaims nothing for this gang: queue team-b uses 128 GPUs, within its quota of 128 GPUs. The"
        " quotas of all queues add up to 160 GPUs, more than the 128 GPUs of the nodes",
        "platform",
        {
            "pod_groups": (pod_group(), batch("team-b")),
            "queues": (
                Queue("root"),
                Queue("team-llm", "root", 32_000),
                Queue("team-b", "root", 96_000),
            ),
            "pods": (*pods(), *FULL),
        },
        also=("NoDomainFits",),
    ),
    Row(
        "GivenUp",
        "KAI may try once to place it, and has done so",
        {"pod_groups": (pod_group(tries_once=True, given_up=True),)},
        "KAI tries to place llm-0 only once, because its schedulingBackoff is 1",
        "you",
        {},
    ),
    Row(
        "GivenUp",
        "KAI may try once to place it, and there is no room now",
        {"pod_groups": (pod_group(tries_once=True),), "pods": (*pods(), *FULL)},
        "KAI tries to place llm-0 only once, because its schedulingBackoff is 1",
        "you",
        {"pod_groups": (pod_group(tries_once=True),)},
        also=("NoDomainFits",),
    ),
    Row(
        "QueueLimit",
        "the queue's limit leaves room for 23 GPUs, and 24 are asked for",
        {"queues": queues(limit=64_000), **using(41)},
        "Queue team-llm: limit 64 GPUs, 41 used, 24 requested",
        "you",
        {"queues": queues(limit=64_000), **using(40)},
    ),
    Row(
        "QueueLimit",
        "the limit of the queue above",
        {"queues": LIMITED_ROOT, **using(60, queue="b")},
        "Queue root: limit 64 GPUs, 60 used, 24 requested",
        "you",
        {"queues": LIMITED_ROOT, **using(40, queue="b")},
    ),
    Row(
        "QueueLimit",
        "pods that end don't count, and the status of the queue lags behind",
        {"queues": queues(limit=64_000, allocated=64_000), **using(41)},
        "Queue team-llm: limit 64 GPUs, 41 used, 24 requested",
        "you",
        {"queues": queues(limit=64_000, allocated=64_000), **ending(41)},
    ),
    Row(
        "QueueLimit",
        "pods of a queue on nodes of another pool don't count",
        {"queues": queues(limit=64_000), **using(41)},
        "Queue team-llm: limit 64 GPUs, 41 used, 24 requested",
        "you",
        {
            "queues": queues(limit=64_000),
            "nodes": labelled((nodes()[-1].name,), pool="h100"),
            **using(41),
        },
    ),
    Row(
        "QueueLimit",
        "the queue sets no limit for CPUs and memory",
        {"queues": queues(cpu=UNSET, memory=UNSET), "pods": LARGE},
        "Queue team-llm sets no limit of cpu and memory, which KAI reads as a limit of 0; the gang requests 4 CPUs and 16 GiB",
        "platform",
        {"queues": queues(cpu=UNSET, memory=UNSET), "pods": pods(shape=shape(8, cpu=0))},
    ),
    Row(
        "QueueQuota",
        "the queue sets no quota for GPUs",
        {
            "queues": queues(quota=0, unset=("quota",)),
            "pod_groups": (pod_group(preemptibility=FIXED),),
        },
        "Queue team-llm sets no quota of gpu, which KAI reads as a quota of 0; the gang requests 24 GPUs",
        "platform",
        {"queues": queues(quota=0, unset=("quota",))},
    ),
    Row(
        "QueueQuota",
        "parts of GPUs fit exactly, and KAI adds them as floating-point numbers",
        shared(quota=300),
        "The workload is not preemptible (spec.preemptibility of its PodGroup is non-preemptible), so it must fit in the quota of queue team-llm: 0.3 GPUs, 0.1 used by non-preemptible pods, 0.2 requested; it fits exactly, but KAI's arithmetic rounds",
        "you",
        shared(quota=310),
    ),
    Row(
        "QueueStatusStale",
        "the status of the queue says that its limit is reached, and its pods use less",
        {"queues": queues(limit=64_000, allocated=64_000), **using(40)},
        "The status of queue team-llm reports 64 GPUs in use, but the queue's pods use 40 GPUs. KAI counts the pods, so the queue has room",
        "platform",
        {"queues": queues(limit=64_000, allocated=40_000), **using(40)},
    ),
    Row(
        "QueueLimit",
        "the limit of CPUs",
        {"queues": queues(cpu=Share(None, 23_000)), **using(cpu=20)},
        "Queue team-llm: limit 23 CPUs, 20 used, 4 requested",
        "you",
        {"queues": queues(cpu=Share(None, 24_000)), **using(cpu=20)},
    ),
    Row(
        "QueueLimit",
        "the limit of memory",
        {"queues": queues(memory=Share(None, 15 * GIB)), "pods": LARGE},
        "Queue team-llm: limit 15 GiB, 0 B used, 16 GiB requested",
        "you",
        {"queues": queues(memory=Share(None, 17 * GIB)), "pods": LARGE},
    ),
    Row(
        "QueueLimit",
        "KAI says so, in words only",
        full(said("OverLimit")),
        "KAI says: KAI's words",
        "you",
        full(said("Other")),
        also=("NoDomainFits",),
    ),
    Row(
        "QueueLimit",
        "KAI said so, and places the gang next by what is known now",
        full(said("OverLimit")),
        "KAI says: KAI's words",
        "you",
        said("OverLimit"),
        also=("NoDomainFits",),
    ),
    Row(
        "QueueQuota",
        "KAI says that a workload that is not preemptible is over the quota",
        full(
            said(
                "NonPreemptibleOverQuota",
                queue="team-llm",
                quota={GPU: 64_000},
                allocated={GPU: 60_000},
            )
        ),
        "The workload is not preemptible, so it must fit in the quota of queue team-llm: 64 GPUs, 60 used by non-preemptible pods",
        "you",
        full(said("Other")),
        also=("NoDomainFits",),
    ),
    Row(
        "QueueQuota",
        "KAI gives no numbers, the queue does",
        full(
            {
                **said("NonPreemptibleOverQuota"),
                "queues": queues(quota=16_000, allocated_fixed=8_000),
            }
        ),
        "The workload is not preemptible, so it must fit in the quota of queue team-llm: 16 GPUs, 8 used by non-preemptible pods",
        "you",
        full({"queues": queues(quota=16_000, allocated_fixed=8_000)}),
        also=("NoDomainFits",),
    ),
    Row(
        "QueueQuota",
        "nobody gives numbers",
        full(said("NonPreemptibleOverQuota")),
        "KAI says: KAI's words",
        "you",
        full(said("x")),
        also=("NoDomainFits",),
    ),
    Row(
        "QueueQuota",
        "the quota of CPUs, and KAI has said nothing yet",
        {
            **using(cpu=4, fixed=True),
            "pod_groups": (pod_group(preemptibility=FIXED), using(fixed=True)["pod_groups"][1]),
            "queues": queues(cpu=Share(7_000)),
        },
        "The workload is not preemptible (spec.preemptibility of its PodGroup is non-preemptible), so it must fit in the quota of queue team-llm: 7 CPUs, 4 used by non-preemptible pods, 4 requested",
        "you",
        {
            **using(cpu=4, fixed=True),
            "pod_groups": (pod_group(preemptibility=FIXED), using(fixed=True)["pod_groups"][1]),
            "queues": queues(cpu=Share(8_000)),
        },
    ),
    Row(
        "LowerPriority",
        "pods of lower priority in the gang's queue hold what its limit leaves",
        {
            "pod_groups": (pod_group(priority_class="urgent"), batch("team-llm")),
            "queues": queues(limit=64_000, allocated=64_000),
            **HALF,
        },
        "Queue team-llm: limit 64 GPUs, 64 used, 24 requested",
        "wait",
        {
            "pod_groups": (
                pod_group(priority_class="urgent", said=(Said("OverLimit", "w"),)),
                batch("team-llm"),
            ),
            "queues": queues(limit=64_000, allocated=64_000),
            **HALF,
        },
    ),
    Row(
        "QueueLimit",
        "pods of the same priority hold what the limit leaves",
        {
            "pod_groups": (pod_group(), batch("team-llm")),
            "queues": queues(limit=64_000, allocated=64_000),
            **HALF,
        },
        "Queue team-llm: limit 64 GPUs, 64 used, 24 requested",
        "you",
        {
            "pod_groups": (pod_group(priority_class="urgent"), batch("team-llm")),
            "queues": queues(limit=64_000, allocated=64_000),
            **HALF,
        },
    ),
    Row(
        "QueueQuota",
        "KAI reclaims nothing for a gang above its quota",
        {
            "pod_groups": (pod_group(preemptibility=FIXED), batch("team-b")),
            "queues": (
                Queue("root"),
                Queue("team-llm", "root", 16_000),
                Queue("team-b", "root", 0),
            ),
            "pods": (*pods(), *FULL),
        },
        "The workload is not preemptible (spec.preemptibility of its PodGroup is non-preemptible), so it must fit in the quota of queue team-llm: 16 GPUs, 0 used by non-preemptible pods, 24 requested",
        "you",
        {
            "pod_groups": (pod_group(), batch("team-b")),
            "queues": (
                Queue("root"),
                Queue("team-llm", "root", 16_000),
                Queue("team-b", "root", 0),
            ),
            "pods": (*pods(), *FULL),
        },
        also=("NoDomainFits",),
    ),
    Row(
        "QueueLimit",
        "pods of lower priority are not preemptible",
        {
            "pod_groups": (pod_group(priority_class="urgent"), batch("team-llm", FIXED)),
            "queues": queues(limit=64_000, allocated=64_000),
            **HALF,
        },
        "Queue team-llm: limit 64 GPUs, 64 used, 24 requested",
        "you",
        {
            "pod_groups": (pod_group(priority_class="urgent"), batch("team-llm")),
            "queues": queues(limit=64_000, allocated=64_000),
            **HALF,
        },
    ),
    Row(
        "FairShare",
        "a sibling holds more than its fair share of all nodes",
        {
            "pod_groups": (pod_group(), batch("team-b")),
            "queues": (Queue("root"), *SHARED[1:]),
            "pods": (*pods(), *FULL),
        },
        "Queue team-b uses 24 GPUs more than its fair share",
        "wait",
        {
            "pod_groups": (pod_group(), batch("team-b", FIXED)),
            "queues": (Queue("root"), *SHARED[1:]),
            "pods": (*pods(), *FULL),
        },
        also=("NoDomainFits",),
    ),
    Row(
        "FairShare",
        "a sibling holds what the limit of the queue above leaves",
        {"pod_groups": (pod_group(), batch("team-b")), "queues": SHARED, **HALF},
        "Queue team-b uses 24 GPUs more than its fair share",
        "wait",
        {
            "pod_groups": (pod_group(said=(Said("OverLimit", "w"),)), batch("team-b")),
            "queues": SHARED,
            **HALF,
        },
    ),
    Row(
        "QueueLimit",
        "the limit of the queue above, and what a sibling holds is not preemptible",
        {"pod_groups": (pod_group(), batch("team-b", FIXED)), "queues": SHARED, **HALF},
        "Queue root: limit 64 GPUs, 64 used, 24 requested",
        "you",
        {"pod_groups": (pod_group(), batch("team-b")), "queues": SHARED, **HALF},
    ),
    Row(
        "QueueLimit",
        "the limit of the queue above, and too few pods of a sibling are preemptible",
        parted(2),
        "Queue root: limit 64 GPUs, 64 used, 24 requested",
        "you",
        parted(3),
    ),
    Row(
        "QueueLimit",
        "the limit of the queue above, and the gang's queue has all of its fair share",
        {
            "pod_groups": (pod_group(), batch("team-b")),
            "queues": (*SHARED[:1], Queue("team-llm", "root", 16_000, weight=0), *SHARED[2:]),
            **HALF,
        },
        "Queue root: limit 64 GPUs, 64 used, 24 requested",
        "you",
        {"pod_groups": (pod_group(), batch("team-b")), "queues": SHARED, **HALF},
    ),
    Row(
        "PreemptionDelay",
        "KAI waits before it pushes others out",
        {"pod_groups": (pod_group(said=(Said("PreemptionDelayNotElapsed", "w"),), delay=1800.0),)},
        "The gang may not preempt other workloads for another 16 minutes",
        "wait",
        {"pod_groups": (pod_group(said=(Said("PreemptionDelayNotElapsed", "w"),), delay=60.0),)},
    ),
    Row(
        "PreemptionDelay",
        "KAI waits, and the time is not known",
        said("PreemptionDelayNotElapsed"),
        "The gang may not preempt other workloads yet",
        "wait",
        said("Other"),
    ),
    Row(
        "OutsidePool",
        "the gang is in no pool, and so on no node that is in one",
        {
            "nodes": labelled(tuple(n.name for n in nodes()[:14]), pool="h100"),
            "queues": (
                *ROOT_AND_TEAM,
                Queue("h100-root", pool="h100"),
                Queue("h100-a", "h100-root", pool="h100"),
                Queue("h100-b", "h100-root", pool="h100"),
            ),
        },
        'The gang is in no node pool, and the 2 nodes without a pool have no room for it; nodes elsewhere: 14 in pool "h100"',
        "platform",
        {"nodes": labelled(tuple(n.name for n in nodes()[:12]), pool="h100")},
    ),
    Row(
        "OutsidePool",
        "the gang is bound to a pool without nodes",
        {
            "pod_groups": (pod_group(pool="h100"),),
            "queues": (*OF_POOL, Queue("open-root"), Queue("open", "open-root")),
            "nodes": labelled(("gpu-00",), pool="h100"),
        },
        'The gang\'s node pool "h100" has 1 node and no room for the gang; nodes elsewhere: 15 without a pool',
        "platform",
        {
            "pod_groups": (pod_group(pool="h100"),),
            "queues": OF_POOL,
            "nodes": labelled(("gpu-00", "gpu-01", "gpu-02", "gpu-03"), pool="h100"),
        },
    ),
    Row(
        "OutsidePool",
        "the gang is bound to a pool that no node is in",
        {
            "pod_groups": (pod_group(pool="h100"),),
            "queues": (*OF_POOL, Queue("open-root"), Queue("open", "open-root")),
        },
        'The gang\'s node pool "h100" has no nodes; nodes elsewhere: 16 without a pool',
        "platform",
        {
            "pod_groups": (pod_group(pool="h100"),),
            "queues": OF_POOL,
            "nodes": labelled(("gpu-00", "gpu-01", "gpu-02", "gpu-03"), pool="h100"),
        },
    ),
    Row(
        "NoDomainFits",
        "the nodes without a pool are full, and another pool has room: that is no reason by itself",
        {
            "nodes": labelled(POOLED, pool="h100"),
            "pods": (*pods(), *fill("rack-a1", "rack-a2", "rack-b1")),
        },
        "No rack has room for any of 3 pods of 8 GPUs",
        "you",
        {"nodes": labelled(POOLED, pool="h100"), "pods": (*pods(), *fill("rack-a1", "rack-a2"))},
    ),
    Row(
        "NodesUnfit",
        "the nodes without a pool are cordoned, and another pool has room",
        {
            "nodes": tuple(
                replace(node, unschedulable=node.name not in POOLED)
                for node in labelled(POOLED, pool="h100")
            )
        },
        "4 of 4 nodes of zone-a/rack-a1 are closed: 4 cordoned",
        "platform",
        {"nodes": labelled(POOLED, pool="h100")},
    ),
)

"""What is said of limits, quotas and fair shares of queues, and of KAI's waits.

Tests `app/explain/reasons/queue.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.facts.kai.podgroup import KaiPodGroup, Said
from app.facts.kai.queue import Queue, Share
from app.facts.kubernetes.workload import PriorityClass
from tests.explain.fleet import (
    NOW,
    RACKS,
    WORKERS,
    facts,
    fill,
    nodes,
    occupant,
    placed,
    pod,
    pod_group,
    pods,
    shape,
)
from tests.explain.table.queues import FIXED, batch, shared
from tests.explain.table.recorded import Asking
from tests.explain.table.row import FULL, Changes, part_of, queues, using

CLASSES = (PriorityClass("train", 50), PriorityClass("build", 100))
DELAYED = (Said("PreemptionDelayNotElapsed", "w"),)


def delayed(**changes: Any) -> Changes:
    return {"pod_groups": (pod_group(said=DELAYED, **changes),)}


def of_class(name: str, *known: PriorityClass) -> Changes:
    """The gang is not preemptible because of its PriorityClass, and its quota is too small."""
    return {
        "pod_groups": (pod_group(priority_class=name),),
        "priorities": (PriorityClass(name, 125), *known),
        "queues": queues(quota=16_000),
    }


def partly(limit: int) -> Changes:
    """Two of three workers run in a queue with a limit."""
    return {
        "queues": queues(limit=limit),
        "pods": (*placed("gpu-00", "gpu-01", "gpu-02"), pod(WORKERS, 2)),
    }


def holding(*names: str) -> Changes:
    """PodGroups in the gang's queue use 14 GPUs each, of 64 that the queue may use."""
    held = [
        replace(occupant(f"gpu-1{at}", gpus=14, group=name), name=name, uid=name)
        for at, name in enumerate(names)
    ]
    groups = (KaiPodGroup("research", name, queue="team-llm") for name in names)
    return {
        "queues": queues(limit=64_000),
        "pods": (*pods(), *held),
        "pod_groups": (pod_group(), *groups),
    }


def promised(of_team: int | None, of_other: int | None, *busy: Any, **more: Any) -> Changes:
    """Queue team-b uses GPUs within its quota, and the gang is within that of its own."""
    return {
        "pod_groups": (pod_group(), batch("team-b")),
        "queues": (
            Queue("root"),
            Queue("team-llm", "root", of_team),
            Queue("team-b", "root", of_other),
        ),
        "pods": (*pods(), *busy),
        **more,
    }


HALVES = tuple(occupant(n.name, gpus=4) for n in nodes())
"""64 GPUs in use, and no node has 8 free."""
EXACT = shared(quota=300)
NOT_ALIVE = tuple(replace(pod, phase="Succeeded") for pod in using(41)["pods"][4:])
ABOVE = (
    Queue("root"),
    Queue("team-llm", "root", 32_000),
    Queue("team-b", "root", 16_000, weight=0),
    Queue("team-c", "root", 16_000, weight=0),
)
CASES: dict[str, tuple[Changes, str]] = {
    "pods of the gang use a part of the limit": (
        partly(20_000),
        "Queue team-llm: limit 20 GPUs, 16 used, 8 requested",
    ),
    "pods of the gang use all of the limit": (
        partly(16_000),
        "Queue team-llm: limit 16 GPUs, 16 used, 8 requested",
    ),
    "four other PodGroups use what the gang asks for": (
        holding("d", "a", "c", "b"),
        "Queue team-llm: limit 64 GPUs, 56 used, 24 requested",
    ),
    "one of two PodGroups of the queue uses GPUs": (
        {
            **using(41),
            "queues": queues(limit=64_000),
            "pod_groups": (*using(41)["pod_groups"], KaiPodGroup("research", "idle", queue="team-llm")),
        },
        "Queue team-llm: limit 64 GPUs, 41 used, 24 requested",
    ),
    "parts of GPUs that fit exactly in a limit": (
        {**EXACT, "queues": queues(limit=300)},
        "Queue team-llm: limit 0.3 GPUs, 0.1 used, 0.2 requested",
    ),
    "limits of two resources": (
        {"queues": queues(limit=16_000, cpu=Share(None, 3_000))},
        "Queue team-llm: limit 3 CPUs, 0 used, 4 requested",
    ),
    "a limit of two queues": (
        {
            "queues": (Queue("root", "", None, 8_000), Queue("team-llm", "root", None, 16_000)),
        },
        "Queue root: limit 8 GPUs, 0 used, 24 requested",
    ),
    "a quota that is not set, of two resources": (
        {
            "queues": queues(quota=0, unset=("quota",), cpu=Share(0, None, weight=0, unset=("quota",))),
            "pod_groups": (pod_group(preemptibility=FIXED),),
        },
        "Queue team-llm sets no quota of gpu and cpu, which KAI reads as a quota of 0; the gang requests 24 GPUs and 4 CPUs",
    ),
    "a class at which KAI evicts nothing, and one below": (
        of_class("inference", *CLASSES),
        "The workload is not preemptible (PriorityClass inference has the value 125; it must be below 100 to be preemptible), so it must fit in the quota of queue team-llm: 16 GPUs, 0 used by non-preemptible pods, 24 requested",
    ),
    "classes below that are not KAI's": (
        of_class("inference", PriorityClass("mid", 60), PriorityClass("low", 0), PriorityClass("off", -1), PriorityClass("top", 100)),
        "The workload is not preemptible (PriorityClass inference has the value 125; it must be below 100 to be preemptible), so it must fit in the quota of queue team-llm: 16 GPUs, 0 used by non-preemptible pods, 24 requested",
    ),
    "no class below": (
        of_class("inference", PriorityClass("off", -1), PriorityClass("top", 100)),
        "The workload is not preemptible (PriorityClass inference has the value 125; it must be below 100 to be preemptible), so it must fit in the quota of queue team-llm: 16 GPUs, 0 used by non-preemptible pods, 24 requested",
    ),
    "two siblings are above their fair shares": (
        {
            "pod_groups": (pod_group(), batch("team-b"), replace(batch("team-c"), name="more")),
            "queues": ABOVE,
            "pods": (
                *pods(),
                *fill("rack-a1", "rack-a2"),
                *(replace(each, group="more") for each in fill("rack-b1", "rack-b2")),
            ),
        },
        "Queue team-b uses 48 GPUs more than its fair share and queue team-c uses 48 GPUs more than its fair share",
    ),
    "quotas of as many GPUs as the nodes have": (
        promised(32_000, 96_000, *HALVES),
        "KAI reclaims nothing for this gang: queue team-b uses 64 GPUs, within its quota of 96 GPUs",
    ),
    "quotas of more GPUs than the nodes have": (
        promised(32_000, 97_000, *HALVES),
        "KAI reclaims nothing for this gang: queue team-b uses 64 GPUs, within its quota of 97 GPUs. The quotas of all queues add up to 129 GPUs, more than the 128 GPUs of the nodes",
    ),
    "a quota without an end": (
        promised(32_000, None, *HALVES),
        "KAI reclaims nothing for this gang: queue team-b uses 64 GPUs, within its unlimited quota",
    ),
    "a quota that is just enough for the gang": (
        promised(24_000, 64_000, *HALVES),
        "KAI reclaims nothing for this gang: queue team-b uses 64 GPUs, within its quota of 64 GPUs",
    ),
    "the delay began with the last eviction": (
        delayed(delay=200.0, evicted=NOW - 100),
        "The gang may not preempt other workloads for another 100 seconds",
    ),
    "the delay began with the PodGroup": (
        delayed(delay=841.0, evicted=NOW - 9000),
        "The gang may not preempt other workloads for another 1 second",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "text"), CASES.values(), ids=CASES)
def test_bounds_of_queues(changes: Changes, text: str, answered: Asking) -> None:
    assert text in [reason.text for reason in answered(facts(**changes)).reasons]


NONE: dict[str, tuple[Changes, str]] = {
    "a delay that is over": (delayed(delay=840.0), "PreemptionDelay"),
    "the pods that use the limit have ended": (
        {"queues": queues(limit=64_000), **using(41), "pods": (*pods(), *NOT_ALIVE)},
        "QueueLimit",
    ),
    "the quota is not enough for the gang": (promised(23_000, 96_000, *HALVES), "WithinQuota"),
    "the gang has no quota of its own": (promised(None, 96_000, *HALVES), "WithinQuota"),
    "the other queue is above its quota": (promised(32_000, 63_000, *HALVES), "WithinQuota"),
    "the gang fits": (promised(32_000, 96_000, *fill("rack-a1")), "WithinQuota"),
    "nobody else uses GPUs": (
        promised(32_000, 96_000, nodes=tuple(replace(n, unschedulable=True) for n in nodes())),
        "WithinQuota",
    ),
    "a part of the gang runs": (
        {
            **promised(64_000, 96_000),
            "pods": (*placed("gpu-00", "gpu-00"), *pods()[2:], *fill(*RACKS, but=("gpu-00",))),
        },
        "WithinQuota",
    ),
    "the gang requests no GPUs": (
        {**promised(32_000, 128_000, *FULL), "pods": (*pods(shape=shape(0, cpu=60)), *FULL)},
        "WithinQuota",
    ),
    "parts of GPUs that fit in a limit": (
        {"queues": queues(limit=310), "pods": pods(shape=part_of(0.05))},
        "QueueLimit",
    ),
}


@pytest.mark.parametrize(("changes", "id"), NONE.values(), ids=NONE)
def test_a_bound_that_keeps_nobody(changes: Changes, id: str, answered: Asking) -> None:
    assert id not in {reason.id for reason in answered(facts(**changes)).reasons}

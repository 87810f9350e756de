"""Queues of KAI without limits, which KAI reads as limits of 0.

Tests `app/doctor/kai.py`.
"""

from typing import Any

from app.doctor.kai import check_queues
from app.facts.kinds import QUEUE
from tests.kube.memory.client import EVERYTHING, MemoryClient

UNLIMITED = {"quota": 0, "limit": -1}


def queue(name: str, **resources: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"resources": resources},
    }


async def test_each_set_of_limits_that_queues_lack_is_a_warning() -> None:
    client = MemoryClient(
        [
            queue("whole", gpu=UNLIMITED, cpu=UNLIMITED, memory=UNLIMITED),
            queue("zero", gpu={"limit": 0}, cpu=UNLIMITED, memory=UNLIMITED),
            queue("gpus", gpu=UNLIMITED),
            queue("more", gpu=UNLIMITED),
            queue("nothing"),
        ]
    )
    checks = await check_queues(client)
    assert [(check.status, check.message, check.remedy) for check in checks] == [
        (
            "warning",
            "2 queues set no limit for cpu and memory (gpus, more): KAI reads a missing limit as 0, and"
            " places no pod there that requests cpu or memory",
            'Set the limits, for example to -1 ("unlimited"): kubectl patch'
            " queues.scheduling.run.ai gpus --type merge -p"
            """ '{"spec":{"resources":{"cpu":{"limit":-1},"memory":{"limit":-1}}}}'""",
        ),
        (
            "warning",
            "1 queue sets no limit for gpu and cpu and memory (nothing): KAI reads a missing limit as"
            " 0, and places no pod there that requests gpu or cpu or memory",
            'Set the limits, for example to -1 ("unlimited"): kubectl patch'
            " queues.scheduling.run.ai nothing --type merge -p"
            """ '{"spec":{"resources":{"gpu":{"limit":-1},"cpu":{"limit":-1},"memory":{"limit":-1}}}}'""",
        ),
    ]


async def test_nothing_is_said_without_kai() -> None:
    served = {resource: version for resource, version in EVERYTHING.items() if resource != QUEUE}
    assert await check_queues(MemoryClient([], served=served)) == []

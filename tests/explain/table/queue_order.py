"""Reasons in the line of what waits."""

from typing import Any

from msgspec.structs import replace

from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kai.queue import Queue
from app.facts.kubernetes.pod import Pod
from tests.explain.fleet import NAMESPACE, NOW, fill, pod_group, pods, shape
from tests.explain.table.row import Row, event

RIVAL = "rival"


def rival(age: float, *, queue: str = "team-llm", rack: bool = True) -> dict[str, Any]:
    """Another gang that waits, of two pods of 8 GPUs, and room for one of both in one rack."""
    group = KaiPodGroup(NAMESPACE, RIVAL, "uid-rival", minimum=2, queue=queue, created=NOW - age)
    own = (
        Pod(
            NAMESPACE,
            f"{RIVAL}-{number}",
            uid=f"uid-rival-{number}",
            scheduler="kai-scheduler",
            shape=shape(8),
            group=RIVAL,
            created=NOW - age,
        )
        for number in range(2)
    )
    full = fill("rack-a1", "rack-a2", "rack-b2") if rack else ()
    return {"pods": (*pods(), *own, *full), "pod_groups": (pod_group(), group)}


def limited(age: float) -> dict[str, Any]:
    """Beside the rival, the queue above both has a limit that only one of them keeps."""
    above = Queue("root", limit=24_000)
    below = (replace(Queue(name, "root"), quota=0) for name in ("team-llm", "research"))
    return {**rival(age, rack=False), "queues": (above, *below)}


REFUSED = event("uid-rival-0", "BindingError", "a policy denied it", "binder")

LINE = (
    Row(
        "AfterOthers",
        "the binding of the older gang is refused each time",
        {**rival(3600), "events": (REFUSED,)},
        "The gang would fit by itself, but not after the gangs ahead of it: rival takes zone-b/rack-b1. KAI cannot bind rival: a policy denied it (10 seconds ago)",
        "you",
        {**rival(60), "events": (REFUSED,)},
    ),
    Row(
        "AfterOthers",
        "an older gang in the same queue takes room in the only rack",
        rival(3600),
        "The gang would fit by itself, but not after the gangs ahead of it: rival takes zone-b/rack-b1",
        "wait",
        rival(60),
    ),
    Row(
        "AfterOthers",
        "an older gang fills the queue above both",
        limited(3600),
        "The gang would fit by itself, but not after the gangs ahead of it: rival leaves too little of the limit or quota of queue root",
        "wait",
        limited(60),
    ),
)

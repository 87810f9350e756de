"""From which queues KAI may reclaim for a gang that gets no place in the next cycle."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from app.explain.queue_order.cycle import line_of
from app.facts.kai.queue import Queue, Share
from tests.explain.queue_order.test_cycle import Gangs, node

ROOT = Queue("root", limit=8000)
A = Queue("a", "root", quota=4000, weight=0)
B = Queue("b", "root", quota=0)
Above = dict[str, tuple[str, int]]
GPU = "nvidia.com/gpu"


class Case(NamedTuple):
    title: str
    holds: tuple[int, ...]
    """The GPUs of each pod that runs in queue b."""
    asks: tuple[int, ...]
    above: Above
    queues: tuple[Queue, ...] = (ROOT, A, B)
    more: Mapping[str, Any] = MappingProxyType({})
    after: tuple[int, ...] = ()
    """Those of a gang in queue a that comes after it."""
    fixed: tuple[int, ...] = ()
    """Those of each pod that runs in queue b and is not preemptible."""
    elsewhere: tuple[tuple[str, int], ...] = ()
    """The queue of each pod that runs in another one, and its GPUs."""


CASES = (
    Case("the limit above both is reached", (4, 4), (4,), {"b": (GPU, 4000)}),
    Case("one of them is more than the limit needs", (8,), (2,), {"b": (GPU, 2000)}),
    Case("without a limit, and the nodes are full", (8, 8), (2,), {"b": (GPU, 2000)}, (Queue("root"), A, B)),
    Case("the queue of the gang would have more than its fair share", (4, 4), (6,), {}),
    Case("those that come after it take what its queue may have", (6,), (4,), {}, after=(2,)),
    Case("the same without them", (6,), (4,), {"b": (GPU, 2000)}),
    Case("what the sibling has is not preemptible", (4, 4), (2,), {}, more={"priority_class": "fixed"}),
    Case("enough of what the sibling has is preemptible", (2,), (4,), {"b": (GPU, 2000)}, fixed=(4,)),
    Case("too little of what the sibling has is preemptible for the limit", (1,), (4,), {}, fixed=(5,)),
    Case("what its own queue has does not count", (1,), (3,), {}, fixed=(5,), elsewhere=(("a", 1),)),
    Case(
        "what two siblings have is enough together",
        (2,),
        (4,),
        {"b": (GPU, 2000), "c": (GPU, 2000)},
        (ROOT, A, B, Queue("c", "root", quota=0, weight=0)),
        fixed=(4,),
        elsewhere=(("c", 2),),
    ),
    Case(
        "what one of them has is its fair share, and above its quota",
        (2,),
        (4,),
        {"b": (GPU, 4000), "c": (GPU, 2000)},
        (ROOT, A, B, Queue("c", "root", quota=0)),
        fixed=(4,),
        elsewhere=(("c", 2),),
    ),
    Case(
        "what one of them has is its quota",
        (2,),
        (4,),
        {},
        (ROOT, A, B, Queue("c", "root", quota=2000)),
        fixed=(4,),
        elsewhere=(("c", 2),),
    ),
    Case(
        "the limit was lowered below what runs",
        (2,),
        (2,),
        {},
        (Queue("root", limit=8000, cpu=Share(limit=1500)), A, B),
        fixed=(6,),
    ),
    Case(
        "what the sibling has is preemptible beyond a minimum",
        (4, 4),
        (4,),
        {"b": (GPU, 4000)},
        more={"preemptibility": "semi-preemptible", "minimum": 0},
    ),
    Case(
        "what the sibling has is the minimum of semi-preemptible gangs",
        (4, 4),
        (4,),
        {},
        more={"preemptibility": "semi-preemptible"},
    ),
    Case(
        "what the sibling has is within its quota",
        (4, 4),
        (2,),
        {},
        (ROOT, A, Queue("b", "root", quota=8000)),
    ),
    Case(
        "the limit of the gang's own queue",
        (4, 4),
        (2,),
        {},
        (Queue("root"), Queue("a", "root", 4000, 1000), B),
    ),
    Case(
        "a queue beside the one above both",
        (8, 8),
        (2,),
        {"other": (GPU, 2000)},
        (Queue("root"), A, Queue("other", quota=0), Queue("b", "other", quota=0)),
    ),
    Case(
        "it has nothing below the limit",
        (8, 8),
        (2,),
        {},
        (Queue("root", limit=1000), A, Queue("other", quota=0), Queue("b", "other", quota=0)),
    ),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_what_kai_may_reclaim(case: Case) -> None:
    gangs = Gangs()
    for number, gpus in enumerate(case.holds):
        nodes = (f"n{1 + number % 2}",)
        gangs.add(f"runs-{number}", gpus, queue="b", nodes=nodes, **case.more)
    for number, gpus in enumerate(case.fixed):
        nodes = (f"n{2 - number % 2}",)
        gangs.add(f"fixed-{number}", gpus, queue="b", nodes=nodes, priority_class="fixed")
    for queue, gpus in case.elsewhere:
        gangs.add(f"runs-{queue}", gpus, queue=queue, nodes=("n1",))
    gangs.add("gang", *case.asks)
    if case.after:
        gangs.add("after", *case.after)
    line = line_of(gangs.index(node("n1"), node("n2"), queues=case.queues))
    turn = next(turn for ref, turn in line.items() if ref.name == "gang")
    assert not turn.used
    assert {queue.name: above.excesses[0] for queue, above in turn.above.items()} == case.above

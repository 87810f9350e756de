"""What keeps a gang from fitting: all barriers of a state, and none that another one explains.

Tests `app/explain/reasons/obstacle.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.gangs.assembly import gangs_of_set
from app.explain.reasons.obstacle import Barrier, obstacle_of, selector_words
from app.explain.state.index import Index
from app.facts.constraint import UNBOUND
from app.facts.grove.podgang import GangPart
from app.facts.kai.podgroup import SubGroup
from app.facts.kubernetes.gpu_sharing import GpuPart
from app.facts.kubernetes.selectors import Requirement
from app.facts.labels import NODE_POOL
from tests.explain.fleet import (
    NAMESPACE,
    RACKS,
    ROUTER,
    SET,
    WORKERS,
    cliques,
    facts,
    fill,
    gang,
    nodes,
    occupant,
    placed,
    pod_group,
    pods,
    shape,
)

pytestmark = pytest.mark.untraced

H100 = (Requirement("gpu", "In", ("h100",)),)
FULL = fill(*RACKS)


def sized(gpus: int, **changes: Any) -> dict[str, Any]:
    """Workers with so many GPUs each."""
    asked = replace(shape(gpus), **changes)
    waiting = tuple(replace(pod, shape=asked) if "workers" in pod.name else pod for pod in pods())
    return {"pods": waiting, "cliques": cliques(shape=asked)}


def beside(*others: Any, **asked: Any) -> dict[str, Any]:
    made = sized(8) | asked
    return made | {"pods": (*made["pods"], *others)}


def in_pool(name: str, *labelled: str) -> dict[str, Any]:
    """The gang is in a node pool, which has these nodes."""
    labels = {n.name: dict(n.labels) for n in nodes()}
    for node in labelled:
        labels[node][NODE_POOL] = name
    return {
        "pod_groups": (pod_group(pool=name),),
        "nodes": tuple(replace(n, labels=labels[n.name]) for n in nodes()),
    }


def running(*names: str, rest: int = 1) -> tuple[Any, ...]:
    """The router and workers on these nodes; the rest waits."""
    there = placed(*names)
    return (*there, *pods()[len(there) :])


def larger(gpus: int, **changes: Any) -> tuple[Any, ...]:
    """The last two workers, with so many GPUs each."""
    return sized(gpus, **changes)["pods"][2:]  # type: ignore[no-any-return]


PARTS = (GangPart(ROUTER, 1, frozenset({f"{ROUTER}-0"})), GangPart(WORKERS, 1))
FREE: dict[str, Any] = {
    "gangs": (gang(told=UNBOUND, parts=PARTS, groups=()),),
    "pod_groups": (pod_group(told=UNBOUND, topology="", subgroups=()),),
}
SATISFIED: dict[str, Any] = {
    "gangs": (gang(told=UNBOUND, parts=PARTS, groups=()),),
    "pod_groups": (
        pod_group(
            minimum=2,
            told=UNBOUND,
            topology="",
            subgroups=(SubGroup(ROUTER, minimum=1), SubGroup(WORKERS, minimum=1)),
        ),
    ),
}
closed = tuple(replace(n, unschedulable=True) for n in nodes())
hungry = tuple(
    occupant(n.name, gpus=0, shape=replace(shape(0), requests=(("cpu", 64_000), ("pods", 1000))))
    for n in nodes()
)

CASES: dict[str, tuple[dict[str, Any], set[Barrier]]] = {
    "other pods hold all nodes": (beside(*FULL), {Barrier.OTHER_PODS}),
    "all nodes are cordoned": ({"nodes": closed}, {Barrier.CLOSED_NODES}),
    "other pods hold the CPUs": (beside(*hungry), {Barrier.OTHER_RESOURCE}),
    "no node has as many GPUs": (sized(16), {Barrier.TOO_LARGE}),
    "no node has the label": (sized(8, selector=H100), {Barrier.NO_NODE_MATCHES}),
    "the pool has no node": (in_pool("blue"), {Barrier.OTHER_POOL}),
    "the pool has one node": (in_pool("blue", "gpu-00"), {Barrier.OTHER_POOL}),
    "a part of a GPU by memory": (
        sized(1, part=GpuPart(0.0, 1000)),
        {Barrier.GPU_MEMORY_UNKNOWN},
    ),
    "part of it runs in a full rack": (
        beside(*fill("rack-a1", but=("gpu-00", "gpu-01")), pods=running("gpu-00", "gpu-00")),
        {Barrier.BOUND},
    ),
    "a part of it runs in a pool that is too small": (
        in_pool("blue", "gpu-00") | {"pods": running("gpu-00", "gpu-00")},
        {Barrier.OTHER_POOL},
    ),
    "a part of it runs outside of its pool": (
        in_pool("blue", "gpu-00") | {"pods": running("gpu-04", "gpu-04")},
        {Barrier.OTHER_POOL},
    ),
    "no level is required, and a part of it runs": (
        FREE | beside(*fill(*RACKS, but=("gpu-00",)), pods=running("gpu-00", "gpu-00")),
        {Barrier.OTHER_PODS},
    ),
    "its minimum runs, and the rest is too large": (
        SATISFIED | {"pods": (*running("gpu-00", "gpu-01")[:2], *larger(16))},
        {Barrier.REST},
    ),
    "its minimum runs, and the rest selects no node": (
        SATISFIED | {"pods": (*running("gpu-00", "gpu-01")[:2], *larger(8, selector=H100))},
        {Barrier.NO_NODE_MATCHES},
    ),
}


@pytest.mark.parametrize(("changes", "barriers"), CASES.values(), ids=CASES)
def test_what_keeps_a_gang_out(changes: dict[str, Any], barriers: set[Barrier]) -> None:
    index = Index(facts(**changes))
    (made,) = gangs_of_set(index, index.sets[NAMESPACE, SET])
    obstacle = obstacle_of(made)
    assert (set() if obstacle is None else obstacle.barriers) == barriers


def test_the_words_of_a_selector_are_bounded() -> None:
    """A Pod can have thousands of terms and values, which would hide the reasons of others."""
    many = tuple(map(str, range(100)))
    terms = tuple((Requirement(f"k{number}", "In", many),) for number in range(100))
    words = selector_words(replace(shape(8), affinity=terms))
    assert words.startswith("k0 in (0, 1, 2")
    assert "80 more" in words
    assert len(words) < 1000

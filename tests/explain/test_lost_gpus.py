"""Nodes that offer fewer GPUs than they have according to their labels.

Tests `app/explain/reasons/lost_gpus.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Shape
from app.facts.labels import GPU_COUNT, PLUGIN_DEPLOYED
from tests.explain.fleet import facts, nodes, pods, shape
from tests.explain.small import node, pod, pod_group, queues, told
from tests.explain.table.recorded import Asking

DRIVER = "paused-for-driver-upgrade"
MIG = "paused-for-mig-change"
CHECK = "Ask the platform team to check the GPUs and the device plugin (GPU Operator) on n1"


def small(gpus: int = 0, **labels: str) -> list[Any]:
    """A gang of two pods, a node with eight GPUs, and another that should have some."""
    return [
        node("n0"),
        node("n1", gpus, labels=labels),
        *queues(),
        pod_group("g", 2),
        *(pod(f"g-{number}", "g", 8) for number in range(2)),
    ]


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        pytest.param({GPU_COUNT: "8"}, CHECK, id="no label says why"),
        pytest.param(
            {GPU_COUNT: "8", PLUGIN_DEPLOYED: DRIVER},
            "Ask the platform team to read the log of the driver manager",
            id="the driver is upgraded",
        ),
        pytest.param(
            {GPU_COUNT: "16", PLUGIN_DEPLOYED: MIG},
            "Ask the platform team to read the log of the MIG manager",
            id="MIG devices are changed",
        ),
        pytest.param({GPU_COUNT: "4"}, "", id="its GPUs would be too few"),
        pytest.param({GPU_COUNT: "many"}, "", id="no number"),
        pytest.param({"gpus": 7, GPU_COUNT: "8"}, CHECK, id="one is not healthy"),
        pytest.param({"gpus": 4, GPU_COUNT: "4"}, "", id="it offers all of them"),
        pytest.param({GPU_COUNT: "9" * 5000}, "", id="too many digits"),
        pytest.param({}, "", id="a node without GPUs"),
    ],
)
def test_a_node_that_has_lost_gpus_is_named(changes: dict[str, Any], remedy: str) -> None:
    first = told(small(**changes), "PodGroup", "g").reasons[0]
    assert first.id == "NeverFits"
    number = f"n1 ({changes.get('gpus', 0)} of {changes.get(GPU_COUNT)}) offers fewer GPUs than its"
    assert (number in first.text) is bool(remedy)
    assert first.remedy.startswith(remedy)
    assert (first.who == "platform") is bool(remedy)


@pytest.mark.parametrize("value", [DRIVER, MIG])
@pytest.mark.parametrize("number", [1, 16])
def test_paused_device_plugins_are_named_where_no_node_offers_gpus(
    value: str, number: int, answered: Asking
) -> None:
    def lost(known: Node) -> Node:
        labels = {**known.labels, GPU_COUNT: "8", PLUGIN_DEPLOYED: value}
        return replace(known, labels=labels, allocatable={"cpu": 64_000, "pods": 110_000})

    asked: Shape = shape(8)
    state = facts(nodes=tuple(map(lost, nodes()[:number])), pods=pods(shape=asked))
    first = answered(state).reasons[0]
    assert first.id == "NeverFits"
    assert f"{PLUGIN_DEPLOYED}={value}" in first.text
    assert first.remedy.endswith("it ends the pause")


@pytest.mark.parametrize("other", ["nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "gpu.x/gpu"])
def test_a_node_that_offers_its_gpus_in_another_way_has_not_lost_them(
    other: str, answered: Asking
) -> None:
    labels = {GPU_COUNT: "16"}
    allocatable = {"cpu": 64_000, "pods": 110_000, "nvidia.com/gpu": 8000, other: 7000}
    known = tuple(
        replace(n, labels={**n.labels, **labels}, allocatable=allocatable) for n in nodes()
    )
    first = answered(facts(nodes=known, pods=pods(shape=shape(16)))).reasons[0]
    assert first.id == "NeverFits"
    assert "fewer GPUs" not in first.text


@pytest.mark.parametrize(
    ("offered", "count", "is_named"), [(7, "8", True), (3, "8", True), (7, "7", False)]
)
def test_the_only_node_may_have_lost_a_gpu(offered: int, count: str, is_named: bool) -> None:
    state = [
        node("n1", offered, labels={GPU_COUNT: count}),
        *queues(),
        pod_group("g", 1),
        pod("g-0", "g", 8),
    ]
    first = told(state, "PodGroup", "g").reasons[0]
    assert first.text.startswith(
        f"No node has 8 GPUs, which a pod requests; the largest has {offered}"
    )
    assert (f"n1 ({offered} of {count}) offers fewer GPUs" in first.text) is is_named
    assert first.remedy.startswith(CHECK) is is_named

"""Parts of GPUs, by annotations of pods and labels of nodes."""

from typing import Any

import pytest

from app.facts.kubernetes.gpu_sharing import GpuPart, groups_of, memory_of_gpus, read_part
from app.facts.kubernetes.pod import read_pod


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, None),
        ({"gpu-fraction": "0.5"}, GpuPart(0.5)),
        ({"gpu-fraction": "0.6", "gpu-fraction-num-devices": "2"}, GpuPart(0.6, 0, 2)),
        ({"gpu-memory": "4096"}, GpuPart(0.0, 4096)),
        ({"gpu-memory": "4096", "gpu-fraction-num-devices": "3"}, GpuPart(0.0, 4096, 3)),
        ({"gpu-memory": "-1"}, None),
        ({"gpu-fraction": "half"}, None),
        ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "two"}, GpuPart(0.5)),
    ],
)
def test_the_part_that_a_pod_asks_for(annotations: Any, expected: GpuPart | None) -> None:
    assert read_part(annotations) == expected


def test_a_pod_that_asks_for_memory_counts_no_gpus() -> None:
    pod = read_pod(
        {
            "metadata": {"name": "a", "namespace": "b", "annotations": {"gpu-memory": "4096"}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        }
    )
    assert pod.shape.part == GpuPart(0.0, 4096)
    assert dict(pod.shape.requests) == {"cpu": 1000, "pods": 1000}


@pytest.mark.parametrize(
    ("labels", "groups"),
    [
        ({}, ()),
        ({"runai-gpu-group": "g1"}, ("g1",)),
        ({"runai-gpu-group/b": "g2", "runai-gpu-group/a": "g1"}, ("g1", "g2")),
        ({"runai-gpu-group": "g1", "runai-gpu-group/a": "g1", "runai-gpu-group/b": ""}, ("g1",)),
    ],
)
def test_the_shared_gpus_of_a_pod(labels: Any, groups: tuple[str, ...]) -> None:
    assert groups_of(labels) == groups


@pytest.mark.parametrize(
    ("text", "memory"),
    [
        ("", None),
        ("much", None),
        ("81559", 81500),
        ("85899345920", 81900),
    ],
)
def test_the_memory_of_each_gpu_of_a_node(text: str, memory: int | None) -> None:
    assert memory_of_gpus({"nvidia.com/gpu.memory": text} if text else {}) == memory

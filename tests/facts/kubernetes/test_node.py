"""Tests of facts about nodes."""

from collections.abc import Mapping

import pytest

from app.facts.kubernetes.node import GPU_OPERATOR, NVSENTINEL, RESOURCE_MANAGEMENT, read_node

UPGRADE = "nvidia.com/gpu-driver-upgrade-state"


@pytest.mark.parametrize(
    ("labels", "by"),
    [
        ({}, ""),
        ({"kai.scheduler/unschedulable": ""}, RESOURCE_MANAGEMENT),
        ({"kai.scheduler/to-exclude": "true"}, RESOURCE_MANAGEMENT),
        ({"k8saas.nvidia.com/cordon-by": "NVSentinel"}, NVSENTINEL),
        ({UPGRADE: "drain-required"}, GPU_OPERATOR),
        ({"nvidia.com/vgpu-driver-upgrade-state": "upgrade-failed"}, GPU_OPERATOR),
        ({UPGRADE: "cordon-required"}, ""),
        ({UPGRADE: "upgrade-done"}, ""),
    ],
    ids=str,
)
def test_the_labels_of_a_cordoned_node_say_who_cordoned_it(
    labels: Mapping[str, str], by: str
) -> None:
    metadata = {"name": "n", "labels": labels}
    assert read_node({"metadata": metadata, "spec": {"unschedulable": True}}).cordoned_by == by
    assert read_node({"metadata": metadata, "spec": {}}).cordoned_by == ""

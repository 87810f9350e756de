"""GPUs in ResourceSlices.

Tests `app/facts/kubernetes/claim.py`.
"""

import pytest

from app.facts.kubernetes.claim import SliceGpus, gpus_in, read_device_class
from app.objects.shape import JsonMap


@pytest.mark.parametrize(
    ("slices", "gpus"),
    [
        pytest.param([], 0, id="none"),
        pytest.param([("a", 1, 4), ("a", 1, 4)], 8, id="two slices of a pool"),
        pytest.param([("a", 1, 8), ("a", 2, 4)], 4, id="an older generation"),
        pytest.param([("a", 2, 4), ("b", 1, 4)], 8, id="two pools, each with its generation"),
    ],
)
def test_the_gpus_of_a_node(slices: list[tuple[str, int, int]], gpus: int) -> None:
    assert gpus_in([SliceGpus("n1", *each) for each in slices]) == gpus


@pytest.mark.parametrize(("spec", "name"), [({"extendedResourceName": "x/gpu"}, "x/gpu"), ({}, "")])
def test_a_class_may_name_a_resource(spec: JsonMap, name: str) -> None:
    assert read_device_class({"metadata": {"name": "c"}, "spec": spec}).extended == name

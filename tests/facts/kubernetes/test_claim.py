"""GPUs in ResourceSlices.

Tests `app/facts/kubernetes/claim.py`.
"""

import pytest

from app.facts.kubernetes.claim import (
    SliceGpus,
    gpus_in,
    read_claim_template,
    read_device_class,
    read_resource_claim,
)
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


@pytest.mark.parametrize(
    ("expressions", "selectors"),
    [
        (["a ==\n  b", "a == b"], ("a == b",)),
        (["x" * 300], ("x" * 200 + " ...",)),
        ([f"a{number}" for number in range(9)], ("a0", "a1", "a2", "a3")),
        ([""], ()),
        ([], ()),
    ],
)
def test_the_selectors_of_a_claim_are_kept_short(
    expressions: list[str], selectors: tuple[str, ...]
) -> None:
    cel = [{"cel": {"expression": expression}} for expression in expressions]
    devices = {"requests": [{"exactly": {"deviceClassName": "gpu", "selectors": cel}}]}
    metadata = {"namespace": "ns", "name": "c"}
    claim = read_resource_claim({"metadata": metadata, "spec": {"devices": devices}})
    template = read_claim_template({"metadata": metadata, "spec": {"spec": {"devices": devices}}})
    assert claim.selectors == template.selectors == selectors

"""What is read of a ComputeDomain in each version of its API.

Tests `app/facts/nvidia/computedomain.py`.
"""

from typing import Any

import pytest

from app.facts.nvidia.computedomain import read_compute_domain

KEPT = "resource.nvidia.com/computedomain-num-nodes"


@pytest.mark.parametrize(
    ("spec", "annotations", "number"),
    [
        pytest.param({"numNodes": 4}, {}, 4, id="v1beta1"),
        pytest.param({}, {KEPT: "4"}, 4, id="v1beta2, which has no such field"),
        pytest.param({"numNodes": 2}, {KEPT: "4"}, 2, id="the field counts where it is served"),
        pytest.param({}, {}, 0, id="neither"),
        pytest.param({}, {KEPT: "-1"}, 0, id="not a number of nodes"),
        pytest.param({}, {KEPT: "9" * 5000}, 0, id="more digits than Python reads"),
        pytest.param({}, {KEPT: 4}, 0, id="not a text"),
    ],
)
def test_the_number_of_nodes(spec: dict[str, Any], annotations: Any, number: int) -> None:
    obj = {"metadata": {"name": "d", "namespace": "ns", "annotations": annotations}, "spec": spec}
    assert read_compute_domain(obj).number == number

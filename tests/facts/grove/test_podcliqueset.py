"""What is kept of a PodCliqueSet.

Tests `app/facts/grove/constraint.py` and `app/facts/constraint.py`.
"""

from typing import Any

import pytest

from app.facts.grove.constraint import StoredConstraint
from app.facts.grove.podcliqueset import Clique, PodCliqueSet, ScalingGroup, read_pod_clique_set
from app.objects.conditions import Condition

GPU_CONTAINER = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}


def test_a_set_is_read_whole() -> None:
    obj = {
        "metadata": {
            "name": "a",
            "namespace": "ns",
            "uid": "u",
            "generation": 3,
            "deletionTimestamp": "t",
        },
        "spec": {
            "template": {
                "topologyConstraint": {"packDomain": "zone"},
                "cliques": [
                    {
                        "name": "w",
                        "spec": {"replicas": 4, "podSpec": {"containers": [GPU_CONTAINER]}},
                        "topologyConstraint": {"packDomain": "host"},
                    }
                ],
                "podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["w", 3]}],
            }
        },
        "status": {
            "conditions": [
                {"type": "Other"},
                {"type": "TopologyConstraintSatisfied", "status": "True", "observedGeneration": 2},
            ]
        },
    }
    pcs = read_pod_clique_set(obj)
    requests = (("nvidia.com/gpu", 8000), ("pods", 1000))
    cliques = (Clique("w", 4, StoredConstraint("host"), requests=requests, minimum=4),)
    groups = (ScalingGroup("g", ("w",)),)
    condition = Condition("TopologyConstraintSatisfied", "True", "", "", 2)
    assert pcs == PodCliqueSet(
        "ns", "a", "u", 3, True, StoredConstraint("zone"), cliques, groups, condition
    )
    assert pcs.domains == {"zone", "host"}
    assert pcs.group_of("x") is None


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"metadata": [], "spec": 1, "status": "x"},
        {
            "spec": {
                "template": {
                    "cliques": {},
                    "podCliqueScalingGroups": [1, {"name": 2}],
                    "topologyConstraint": "x",
                }
            }
        },
        {
            "metadata": {"generation": True},
            "spec": {"template": {"topologyConstraint": {"packDomain": 1}}},
        },
        {"status": {"conditions": [1, {"type": "Other"}]}},
    ],
)
def test_what_has_another_shape_counts_as_absent(obj: Any) -> None:
    assert read_pod_clique_set(obj) == PodCliqueSet()

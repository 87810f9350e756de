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


@pytest.mark.parametrize(
    ("constraint", "names"),
    [
        ({"packDomain": "rack"}, False),
        ({"packDomian": "rack"}, False),
        ({"topologyName": "gb200"}, True),
        ({"pack": {"required": "rack"}}, True),
        ({"packDomain": "rack", "pack": {"required": "rack"}}, True),
        ({"packDomain": "rack", "pack": {"preferred": "rack"}}, True),
    ],
)
def test_a_set_with_a_field_of_bindings_is_one_of_theirs(constraint: Any, names: bool) -> None:
    clique = {"name": "w", "topologyConstraint": constraint}
    obj = {"metadata": {"name": "a"}, "spec": {"template": {"cliques": [clique]}}}
    assert read_pod_clique_set(obj).names_pack is names


ASKED = [
    ({"packDomain": "rack"}, [("packDomain", "rack", True)]),
    (
        {"packDomain": "zone", "pack": {"required": "rack"}},
        [("pack.required", "rack", True)],
    ),
    # the CRD allows both, and Grove's RequiredDomain falls back to packDomain
    (
        {"packDomain": "zone", "pack": {"preferred": "rack"}},
        [("packDomain", "zone", True), ("pack.preferred", "rack", False)],
    ),
    ({"pack": {"preferred": "rack"}}, [("pack.preferred", "rack", False)]),
]


@pytest.mark.parametrize(("constraint", "asked"), ASKED)
def test_a_required_domain_is_read_as_grove_reads_it(constraint: Any, asked: Any) -> None:
    template = {"topologyConstraint": constraint}
    pcs = read_pod_clique_set({"metadata": {"name": "a"}, "spec": {"template": template}})
    assert pcs.asked.constraints == asked
    assert pcs.asked.required == pcs.constraint.required

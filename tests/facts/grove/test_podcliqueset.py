"""What is kept of a PodCliqueSet, a Binding's labels, and who may write the managed
ClusterTopology.
"""

from typing import Any

import pytest
from jsonpatch import apply_patch

from app.facts.grove.podcliqueset import Clique, PodCliqueSet, ScalingGroup, read_pod_clique_set
from app.facts.kinds import POD_CLIQUE
from app.objects.edits import operations
from app.objects.resource import NODE
from app.rules.topology.levels import refusal_to_write
from app.rules.topology.node_labels import binding_changes

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
    cliques = (Clique("w", 4, "host", requests=requests, minimum=4),)
    groups = (ScalingGroup("g", ("w",), None),)
    assert pcs == PodCliqueSet(
        "ns", "a", "u", 3, True, "zone", cliques, groups, ("True", "", "", 2)
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
    assert read_pod_clique_set(obj) == PodCliqueSet("", "", "", 0, False, None, (), ())


RACK = "topology.kubernetes.io/rack"
ZONE = "topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("labels", "node", "result"),
    [
        pytest.param(None, {RACK: "r1"}, {RACK: "r1"}, id="added where there are none"),
        pytest.param(
            {RACK: "fake", "a": "b"},
            {RACK: "r1"},
            {RACK: "r1", "a": "b"},
            id="a fake is overwritten",
        ),
        pytest.param(
            {RACK: "fake", "a": "b"}, {}, {"a": "b"}, id="a fake is removed where the node has none"
        ),
        pytest.param({RACK: "r1"}, {RACK: "r1"}, {RACK: "r1"}, id="what is right stays"),
        pytest.param(
            {"a": "b"}, {"a": "c", ZONE: ""}, {"a": "b", ZONE: ""}, id="other labels are not ours"
        ),
    ],
)
def test_the_node_is_the_authority_for_its_labels(
    labels: Any, node: dict[str, str], result: dict[str, str]
) -> None:
    binding = {"metadata": {"name": "p"} if labels is None else {"name": "p", "labels": labels}}
    after = apply_patch(binding, operations(binding, binding_changes(binding, node, [RACK, ZONE])))
    assert after["metadata"]["labels"] == result
    assert operations(after, binding_changes(after, node, [RACK, ZONE])) == []


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE", "CONNECT"])
@pytest.mark.parametrize(("user", "refused"), [("admin", True), ("operator", False), ("", True)])
def test_only_the_authorized_write_the_managed_topology(
    operation: str, user: str, refused: bool
) -> None:
    refusal = refusal_to_write("ClusterTopology", "managed", operation, user, ["operator"])
    assert (refusal is not None) is refused
    assert (
        refusal is None
        or f'user "{user}" cannot {operation.lower()} it; only these can: operator' in refusal
    )


def test_nobody_may_where_nobody_is_configured() -> None:
    refusal = refusal_to_write("ClusterTopology", "m", "CREATE", "x", [])
    assert refusal is not None
    assert "nobody (authorizedUsers is empty)" in refusal


def test_resources_say_their_name_and_version() -> None:
    assert (str(NODE), NODE.api_version()) == ("nodes", "v1")
    assert (str(POD_CLIQUE), POD_CLIQUE.api_version("v2")) == ("podcliques.grove.io", "grove.io/v2")

"""Labels of a Binding: the node is the authority for its own."""

from typing import Any

import pytest
from jsonpatch import apply_patch

from app.objects.edits import operations
from app.rules.topology.node_labels import binding_changes

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


REGION = "topology.kubernetes.io/region"
HOST = "kubernetes.io/hostname"
BLOCK = "topology.kubernetes.io/block"


@pytest.mark.parametrize(
    ("labels", "node", "result"),
    [
        pytest.param(
            {},
            {REGION: "eu", ZONE: "a", HOST: "n", BLOCK: "b"},
            {REGION: "eu", ZONE: "a", HOST: "n"},
            id="the standard labels are added and no others",
        ),
        pytest.param(
            {REGION: "fake", ZONE: "fake", HOST: "fake"}, {}, {}, id="fakes of them are removed"
        ),
        pytest.param(
            {BLOCK: "fake", "topology.kubernetes.io/other": "fake", "topology.k8s.io/zone": "mine"},
            {BLOCK: "b"},
            {BLOCK: "b", "topology.k8s.io/zone": "mine"},
            id="the node counts for the whole prefix",
        ),
    ],
)
@pytest.mark.statement(
    "5.1", "5.2", "5.3", "5.5", "5.6", "5.12", "5.14", "5.24", "5.28", "5.29", "5.37", "5.39"
)
def test_the_node_is_the_authority_for_standard_labels_without_any_level(
    labels: dict[str, str], node: dict[str, str], result: dict[str, str]
) -> None:
    binding = {"metadata": {"name": "p", "labels": labels}}
    after = apply_patch(binding, operations(binding, binding_changes(binding, node, [])))
    assert after["metadata"]["labels"] == result
    assert operations(after, binding_changes(after, node, [])) == []

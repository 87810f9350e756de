"""What `topology` prints first: never a zero for what can't be seen.

Tests `app/explain/answers/topology.py` and `app/explain/output/topology_text.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.topology import survey
from app.explain.output.json import survey_document
from app.explain.output.topology_text import survey_text
from app.explain.state.index import Index
from app.facts.grove.topology import Level
from tests.explain.fleet import HOST, RACK, ZONE, facts

NODES = {"nodes": "no permission to list"}
TOPOLOGIES = {"topologies": "no permission to list", "kai_topologies": "no permission to list"}
CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "all is seen": (
        {},
        [
            "ClusterTopology grove-topology: 16 nodes in 2 zones and 4 racks",
            "zone topology.kubernetes.io/zone 16 of 16 2",
        ],
    ),
    "no right to nodes": (
        {"nodes": (), "unseen": NODES},
        [
            "ClusterTopology grove-topology: zone and rack; number of nodes unknown",
            "zone topology.kubernetes.io/zone unknown unknown",
        ],
    ),
    "no right to topologies": (
        {"topologies": (), "kai_topologies": (), "unseen": TOPOLOGIES},
        ["16 nodes; topology unknown"],
    ),
    "no right to either": (
        {"nodes": (), "topologies": (), "kai_topologies": (), "unseen": NODES | TOPOLOGIES},
        ["number of nodes unknown; topology unknown"],
    ),
    "no topology among the files": (
        {
            "topologies": (),
            "kai_topologies": (),
            "skipped": frozenset({"topologies", "kai_topologies"}),
        },
        ["16 nodes; topology unknown"],
    ),
    "no topology": ({"topologies": (), "kai_topologies": ()}, ["16 nodes; no topology is defined"]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_title_and_the_levels(name: str) -> None:
    changes, expected = CASES[name]
    snapshot = facts(**changes)
    lines = [
        " ".join(line.split())
        for line in survey_text(survey(Index(snapshot)), snapshot).splitlines()
    ]
    assert [line for line in expected if line not in lines] == []
    assert lines[0] == expected[0]
    assert any(line.startswith("level label") for line in lines) is bool(
        survey(Index(snapshot)).levels
    )


def counts(**changes: Any) -> tuple[Any, list[tuple[Any, Any]]]:
    """What the JSON says: the nodes, and the nodes and domains of each level."""
    snapshot = facts(**changes)
    document = survey_document(survey(Index(snapshot)), snapshot, [])
    return document["nodes"], [(row["nodes"], row["domains"]) for row in document["levels"]]


def test_counts_in_json_are_null_if_they_are_not_known() -> None:
    assert counts() == (16, [(16, 2), (16, 4), (16, 16)])
    assert counts(nodes=(), unseen=NODES) == (None, [(None, None)] * 3)


AWS = "topology.k8s.aws/network-node-layer-"


def levels_text(files: dict[str, Any]) -> str:
    snapshot = facts(**files)
    return survey_text(survey(Index(snapshot)), snapshot)


def test_labels_of_a_cloud_are_ready_to_paste() -> None:
    cloud = tuple(
        replace(
            one,
            labels={
                "kubernetes.io/hostname": one.name,
                f"{AWS}1": one.labels[ZONE],
                f"{AWS}2": one.labels[RACK],
            },
        )
        for one in facts().nodes
    )
    text = levels_text({"nodes": cloud})
    assert (
        "Set the levels of ClusterTopology grove-topology to labels that nodes have: [{domain: block, key:"
        f" {AWS}1}}, {{domain: rack, key: {AWS}2}}, {{domain: host, key: kubernetes.io/hostname}}]"
    ) in text


def test_swapped_levels_are_called_so() -> None:
    exchanged = tuple(
        replace(one, labels={**one.labels, ZONE: one.labels[RACK], RACK: one.labels[ZONE]})
        for one in facts().nodes
    )
    text = levels_text({"nodes": exchanged})
    assert "The levels zone and rack are swapped" in text
    assert f"[{{domain: zone, key: {RACK}}}, {{domain: rack, key: {ZONE}}}, " in text
    assert "move the labels" not in text


def test_a_kind_that_is_not_among_the_files_is_not_known() -> None:
    text = levels_text({"kai_topologies": (), "skipped": frozenset({"kai_topologies"})})
    assert "KAI has no Topology" not in text
    assert "could not read: KAI's Topologies (missing from the files)" in text
    assert "not ruled out: TopologyDiffers" in text


def test_nodes_that_are_not_among_the_files_are_not_counted() -> None:
    text = levels_text({"nodes": (), "skipped": frozenset({"nodes"})})
    assert "number of nodes unknown" in text
    assert "0 of 0" not in text
    assert "could not read: nodes (missing from the files)" in text
    assert "not ruled out: LevelLabelMissing and NotATree" in text


def test_a_misspelt_key_is_told_with_the_label_that_nodes_have() -> None:
    nodes = tuple(
        replace(one, labels={**one.labels, f"{RACK}s": one.labels[RACK]}) for one in facts().nodes
    )
    without = tuple(
        replace(one, labels={key: value for key, value in one.labels.items() if key != RACK})
        for one in nodes
    )
    text = levels_text({"nodes": without})
    assert (
        f"Set the key of level rack in ClusterTopology grove-topology to {RACK}s, a label that"
        in text
    )


def test_a_name_in_the_domain_of_other_labels_is_not_taken_for_them() -> None:
    """All names there begin alike, so only what follows is compared; and no level is meant."""
    zoned = tuple(
        replace(one, labels={HOST: one.name, "topology.kubernetes.io/zone": "z"})
        for one in facts().nodes
    )
    for key in ("topology.kubernetes.io/block", "topology.kubernetes.io/rack"):
        levels = (Level("zone", "topology.kubernetes.io/zone"), Level("rack", key))
        topology = replace(facts().topologies[0], levels=levels)
        text = levels_text({"nodes": zoned, "topologies": (topology,), "kai_topologies": ()})
        assert f"No node has the label {key}" in text
        assert "a label that nodes have" not in text


@pytest.mark.parametrize(
    ("present", "absent"),
    [("layer-1", "layer-2"), ("a.example.com/leaf", "b.example.com/leaf")],
)
def test_the_label_of_another_level_is_never_meant(present: str, absent: str) -> None:
    nodes = tuple(replace(one, labels={HOST: one.name, present: "z"}) for one in facts().nodes)
    levels = (Level("zone", present), Level("rack", absent))
    topology = replace(facts().topologies[0], levels=levels)
    text = levels_text({"nodes": nodes, "topologies": (topology,), "kai_topologies": ()})
    assert f"No node has the label {absent}" in text
    assert "a label that nodes have" not in text


@pytest.mark.parametrize(
    ("changes", "topology", "kai"),
    [
        pytest.param(
            {}, {"kind": "ClusterTopology", "name": "grove-topology"}, "grove-topology", id="both"
        ),
        pytest.param({"topologies": ()}, None, None, id="KAI's alone"),
        pytest.param({"topologies": (), "kai_topologies": ()}, None, None, id="none"),
    ],
)
def test_topologies_in_json(changes: dict[str, Any], topology: Any, kai: str | None) -> None:
    snapshot = facts(**changes)
    document = survey_document(survey(Index(snapshot)), snapshot, ())
    assert (document["topology"], document["kaiTopology"]) == (topology, kai)
    assert (document["nodes"], document["unseen"], document["domains"]) == (16, {}, [])

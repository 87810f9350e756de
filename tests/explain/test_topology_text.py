"""What `topology` prints first: never a zero for what can't be seen."""

from typing import Any

import pytest

from app.explain.answers.survey import survey
from app.explain.known.index import Index
from app.explain.shown.json import survey_document
from app.explain.shown.topology_text import survey_text
from tests.explain.fleet import facts

NODES = {"nodes": "no right to list"}
TOPOLOGIES = {"topologies": "no right to list", "kai_topologies": "no right to list"}
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
            "ClusterTopology grove-topology: zone and rack; nodes: not known",
            "zone topology.kubernetes.io/zone not known not known",
        ],
    ),
    "no right to topologies": (
        {"topologies": (), "kai_topologies": (), "unseen": TOPOLOGIES},
        ["16 nodes; the topology is not known"],
    ),
    "no right to either": (
        {"nodes": (), "topologies": (), "kai_topologies": (), "unseen": NODES | TOPOLOGIES},
        ["nodes: not known; the topology is not known"],
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

"""Missing labels that nodes before and after a node make likely.

Tests `app/explain/state/label_guesses.py`.
"""

import pytest

from app.explain.state.index import Index
from app.explain.state.label_guesses import guessed_labels
from app.explain.state.levels import topology_of
from app.facts.kubernetes.node import Node
from app.facts.labels import NODE_POOL
from tests.explain.fleet import HOST, RACK, ZONE, facts


def node(text: str) -> Node:
    """A node that is written as `NAME ZONE RACK`, and its node pool if there is one; - is none."""
    name, *values = text.split()
    keys = (ZONE, RACK, NODE_POOL)
    labels = {key: value for key, value in zip(keys, values, strict=False) if value != "-"}
    return Node(name, {HOST: name, **labels})


@pytest.mark.parametrize(
    ("nodes", "guesses"),
    [
        pytest.param(["n1 z r1", "n2 z -", "n3 z r1"], {"n2": {RACK: "r1"}}, id="between two"),
        pytest.param(["n1 z r1", "n2 - r1", "n3 z r1"], {"n2": {ZONE: "z"}}, id="another level"),
        pytest.param(
            ["n1 z r1", "n2 z -", "n3 z -", "n4 z r1"],
            {"n2": {RACK: "r1"}, "n3": {RACK: "r1"}},
            id="two in a row",
        ),
        pytest.param(["n1 z r1", "n2 z -", "n3 z r2"], {}, id="at the border of two"),
        pytest.param(["n2 z -", "n3 z r1", "n4 z r1"], {}, id="the first one"),
        pytest.param(["n1 z r1", "n2 z r1", "n3 z -"], {}, id="the last one"),
        pytest.param(["n1 z r1", "n2 - -", "n3 z r1"], {}, id="two labels are missing"),
        pytest.param(["n1 z r1", "n2 y -", "n3 z r1"], {}, id="in another zone"),
        pytest.param(["n1 z r1", "n2 z -", "n3 y r1"], {}, id="the one after is in another zone"),
        pytest.param(["n1 y r1", "n2 z -", "n3 z r1"], {}, id="the one before is in another zone"),
        pytest.param(["n1 z r1 p", "n2 z - q", "n3 z r1 p"], {}, id="in another node pool"),
        pytest.param(["n1 z r1 p", "n2 z -", "n3 z r1 p"], {}, id="in no node pool"),
        pytest.param(
            ["n1 z r1", "n2 - r1", "n3 z -", "n4 - r2", "n5 z r1"],
            {"n2": {ZONE: "z"}, "n3": {RACK: "r1"}},
            id="nodes that lack a label tell nothing of others",
        ),
        pytest.param(
            ["n100 z r2", "n11 z r1", "n10 z -", "n9 z r1"],
            {"n10": {RACK: "r1"}},
            id="by number",
        ),
        pytest.param(["a1 z r1", "b2 z -", "a3 z r1"], {}, id="nodes with other names"),
        pytest.param(["na z r1", "nb z -", "nc z r1"], {}, id="names without a number"),
        pytest.param(["1 z r1", "2 z -", "3 z r1"], {"2": {RACK: "r1"}}, id="only a number"),
        pytest.param(
            ["n01 z r1", "n1 z -", "n2 z r1"], {"n1": {RACK: "r1"}}, id="equal numbers, by name"
        ),
    ],
)
def test_guesses(nodes: list[str], guesses: dict[str, dict[str, str]]) -> None:
    topology = topology_of(Index(facts(nodes=tuple(map(node, nodes)))), "")
    assert guessed_labels(topology) == guesses

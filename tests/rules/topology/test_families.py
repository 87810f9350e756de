"""Which known labels nodes have, where none has that of a level."""

import pytest

from app.facts.grove.topology import Level
from app.rules.topology.coverage import Nodes, coverage_problems
from app.rules.topology.levels import instead

TIER = "fabric.topograph.run/tier-"
DOMAIN = "accelerator.topograph.run/domain"
CLIQUE = "nvidia.com/gpu.clique"
LEAF = "network.topology.nvidia.com/leaf"
CLOSEST = "(tier-0 is the switch closest to a node)"


@pytest.mark.parametrize(
    ("key", "present", "words"),
    [
        pytest.param(LEAF, [], "", id="no labels"),
        pytest.param(LEAF, ["k/rack"], "", id="no known ones"),
        pytest.param(
            LEAF,
            [f"{TIER}1", f"{TIER}0", DOMAIN],
            f"; nodes have {TIER}0, {TIER}1, {DOMAIN} {CLOSEST}",
            id="the keys of Topograph 1.0, the closest first",
        ),
        pytest.param(f"{TIER}0", [LEAF], f"; nodes have {LEAF}", id="those before"),
        pytest.param(
            DOMAIN,
            [CLIQUE],
            f"; nodes have {CLIQUE}, and Topograph may leave {DOMAIN} out where {CLIQUE} is",
            id="the NVLink clique in place of the domain",
        ),
    ],
)
def test_known_labels(key: str, present: list[str], words: str) -> None:
    assert instead(key, present) == words


def test_the_problem_of_a_level_names_them() -> None:
    nodes = Nodes([({f"{TIER}0": "s1"}, 2), ({}, 1)])
    (problem,) = coverage_problems([Level("rack", LEAF)], lambda keys: nodes)
    assert problem.text == (
        f'level "rack": no node has the label {LEAF}, so a required constraint on it is never met;'
        f" nodes have {TIER}0 {CLOSEST}"
    )

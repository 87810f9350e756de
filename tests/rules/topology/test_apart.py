"""A domain of the whole set holds for each of its PodGangs alone."""

from typing import Any

import pytest

from app.facts.grove.template import read_template
from app.rules.topology.capacity import apart_warnings
from app.rules.topology.coverage import Nodes
from tests.rules.mnnvl.test_grove_groups import clique, pcs
from tests.rules.topology.test_capacity import LEVELS, OF_SET, node

RACK = {OF_SET: "rack"}
TWO_ZONES = [node(2, "z1", "r1"), node(2, "z2", "r2")]
TWO_RACKS = [node(2, "z1", "r1"), node(2, "z1", "r2")]


def group(name: str, replicas: int, least: int = 1) -> dict[str, Any]:
    return {"name": name, "cliqueNames": [name], "replicas": replicas, "minAvailable": least}


def text(groups: str, common: str) -> str:
    return (
        f'the constraint "rack" of the PodCliqueSet applies per PodGang. Replicas of {groups} above'
        f" minAvailable form their own PodGangs and may be placed in another rack{common}."
        " Set minAvailable = replicas at creation to keep all pods together"
    )


@pytest.mark.parametrize(
    ("groups", "required", "nodes", "warnings"),
    [
        pytest.param(
            [group("a", 3)],
            RACK,
            TWO_ZONES,
            [text('scaling group "a"', "")],
            id="no level that all nodes share",
        ),
        pytest.param(
            [group("a", 3)],
            RACK,
            TWO_RACKS,
            [text('scaling group "a"', " (all labelled nodes are in one zone)")],
            id="all nodes are in one zone",
        ),
        pytest.param([group("a", 3)], RACK, TWO_RACKS[:1], [], id="all nodes are in one rack"),
        pytest.param([group("a", 3, 3)], RACK, TWO_RACKS, [], id="one PodGang"),
        pytest.param([], RACK, TWO_RACKS, [], id="no scaling group"),
        pytest.param([group("a", 3)], {}, TWO_RACKS, [], id="nothing required"),
        pytest.param(
            [group("a", 3)], {("group", "a"): "rack"}, TWO_RACKS, [], id="required by the group"
        ),
        pytest.param([group("a", 3)], {OF_SET: "galaxy"}, TWO_RACKS, [], id="an unknown level"),
        pytest.param(
            [group("a", 3), group("b", 2), group("c", 2, 2), group("d", 4, 2)],
            RACK,
            TWO_ZONES,
            [text('scaling group "a", scaling group "b" and 1 more', "")],
            id="one warning for all groups",
        ),
    ],
)
def test_apart(groups: list[Any], required: Any, nodes: Any, warnings: list[str]) -> None:
    names = ["w", *(item["name"] for item in groups)]
    template = read_template(pcs(*map(clique, names), groups=groups))
    assert (
        apart_warnings(template, required, LEVELS, lambda keys: Nodes(nodes), Nodes()) == warnings
    )


@pytest.mark.parametrize(
    ("nodes", "end"),
    [
        (2, "Set minAvailable = replicas at creation to keep all pods together"),
        (1, "No rack has room for all pods together"),
    ],
)
def test_pods_are_only_kept_together_where_all_fit(nodes: int, end: str) -> None:
    racks = [node(nodes, "z1", "r1", count="8"), node(nodes, "z1", "r2", count="8")]
    template = read_template(pcs(clique("a", replicas=1, gpus=8), groups=[group("a", 2)]))
    (text,) = apart_warnings(template, RACK, LEVELS, lambda keys: Nodes(racks), Nodes(racks))
    assert text.endswith(f". {end}")


def test_kai_counts_each_pod_of_one_podgang_like_the_largest() -> None:
    """All replicas together request 12 of 16 GPUs, and KAI looks for 6 x 4 GPUs."""
    racks = [node(2, "z1", f"r{number}", count="8") for number in (1, 2)]
    large, small = clique("a", replicas=1, gpus=4), clique("b", replicas=2, gpus=1)
    groups = [{**group("a", 2), "cliqueNames": ["a", "b"]}]
    template = read_template(pcs(large, small, groups=groups))
    (text,) = apart_warnings(template, RACK, LEVELS, lambda keys: Nodes(racks), Nodes(racks))
    assert text.endswith(". No rack has room for all pods together")


def in_kueue(*names: str, groups: Any = (), scheduler: str = "kueue") -> Any:
    cliques = [clique(name, replicas=2) for name in names]
    for each in cliques:
        each["spec"]["podSpec"]["schedulerName"] = scheduler
    return read_template(pcs(*cliques, groups=list(groups)))


@pytest.mark.parametrize(
    ("template", "required", "nodes", "owners"),
    [
        pytest.param(in_kueue("a", "b"), RACK, TWO_RACKS, ["the PodCliqueSet"], id="of the set"),
        pytest.param(
            in_kueue("a", "b", groups=[group("g", 3) | {"cliqueNames": ["a", "b"]}]),
            {("group", "g"): "rack"},
            TWO_RACKS,
            ['scaling group "g"'],
            id="of a scaling group",
        ),
        pytest.param(in_kueue("a"), RACK, TWO_RACKS, [], id="a single clique"),
        pytest.param(in_kueue("a", "b"), RACK, TWO_RACKS[:1], [], id="all nodes are in one rack"),
        pytest.param(
            in_kueue("a", "b"), {("clique", "a"): "rack"}, TWO_RACKS, [], id="of a clique"
        ),
        pytest.param(in_kueue("a", "b", scheduler=""), RACK, TWO_RACKS, [], id="KAI places them"),
    ],
)
def test_kueue_keeps_each_clique_within_a_domain_and_not_all_of_them(
    template: Any, required: Any, nodes: Any, owners: list[str]
) -> None:
    assert apart_warnings(template, required, LEVELS, lambda keys: Nodes(nodes), Nodes()) == [
        f'the constraint "rack" of {owner} applies per clique, because Kueue places its pods: the cliques'
        ' "a", "b" may be placed in different domains. Put pods that must stay together into one clique'
        for owner in owners
    ]

"""What an edit of a topology's levels does to the constraints of PodCliqueSets.

Tests `app/explain/answers/topology.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.topology import preview
from app.explain.output.topology_text import preview_text
from app.explain.state.index import Index
from app.facts.grove.constraint import StoredConstraint
from app.facts.grove.podcliqueset import Clique, ScalingGroup
from app.facts.grove.topology import ClusterTopology, Level
from tests.explain.fleet import HOST, RACK, ZONE, facts, pcs

LEVEL = {"zone": Level("zone", ZONE), "rack": Level("rack", RACK), "host": Level("host", HOST)}
GROUP = "spec.template.podCliqueScalingGroups[0].topologyConstraint.packDomain"
SET = "spec.template.topologyConstraint.packDomain"


def levels(*names: str, **other: str) -> ClusterTopology:
    """The managed topology with these levels, some with other labels."""
    chosen = tuple(replace(LEVEL[name], key=other.get(name, LEVEL[name].key)) for name in names)
    return ClusterTopology("ClusterTopology", "grove-topology", "uid-ct", chosen, "grove-topology")


def previewed(before: ClusterTopology, after: ClusterTopology, **changes: Any) -> list[Any]:
    index = Index(facts(topologies=(before,), **changes))
    return [(change.field, change.text, change.severe) for change in preview(index, after).effects]


LOST = "loses required rack of scaling group pool, because that level is removed"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(levels("zone", "rack", "host"), levels("zone", "rack"), [], id="of no use"),
        pytest.param(
            levels("zone", "rack"), levels("zone", "host"), [(GROUP, LOST, True)], id="removed"
        ),
        pytest.param(
            levels("zone", "host"),
            levels("zone"),
            [
                (
                    GROUP,
                    "required rack of scaling group pool still names a level that does not exist",
                    True,
                )
            ],
            id="still missing",
        ),
        pytest.param(
            levels("zone", "host"),
            levels("zone", "rack", "host"),
            [
                (
                    GROUP,
                    "gains required rack of scaling group pool, because that level is added",
                    False,
                )
            ],
            id="added",
        ),
        pytest.param(
            levels("zone", "rack"),
            levels("zone", "rack", zone="example.com/zone"),
            [
                (
                    SET,
                    f"required zone means example.com/zone instead of {ZONE}; running gangs are not moved",
                    False,
                )
            ],
            id="another label",
        ),
        pytest.param(
            levels("zone", "rack"),
            levels("rack", "zone"),
            [
                (
                    GROUP,
                    "scaling group pool requires rack, which becomes broader than the PodCliqueSet's zone, so updates of the PodCliqueSet are rejected",
                    True,
                )
            ],
            id="in another order",
        ),
        pytest.param(levels("rack", "zone"), levels("rack", "zone", "host"), [], id="was broader"),
    ],
)
def test_effects(before: ClusterTopology, after: ClusterTopology, expected: list[Any]) -> None:
    assert previewed(before, after) == expected


def test_a_preferred_level_may_go() -> None:
    preferred = StoredConstraint("", "grove-topology", "zone", "rack", is_later=True)
    sets = (pcs(constraint=preferred, groups=(), cliques=(Clique("router", 1),)),)
    before = replace(levels("zone", "rack"), kind="ClusterTopologyBinding")
    after = replace(levels("zone"), kind="ClusterTopologyBinding")
    assert previewed(before, after, sets=sets) == [
        (
            "spec.template.topologyConstraint.pack.preferred",
            "loses preferred rack, because that level is removed",
            False,
        )
    ]


def test_sets_are_in_the_order_of_their_names_and_those_of_other_topologies_are_left_out() -> None:
    other = StoredConstraint("", "theirs", "zone", is_later=True)
    names = ("b", "a")
    sets = [pcs(name=name, uid=f"uid-{name}") for name in names]
    sets.append(pcs(name="c", uid="uid-c", constraint=other, groups=()))
    theirs = replace(levels("zone", "rack"), name="theirs", uid="uid-theirs")
    index = Index(facts(topologies=(levels("zone", "rack"), theirs), sets=tuple(sets)))
    effects = preview(index, levels("zone")).effects
    assert [effect.ref.name for effect in effects] == ["a", "b"]


def test_sets_of_another_missing_topology_are_left_out_of_the_preview_of_a_new_one() -> None:
    sets = [
        pcs(
            name=name,
            uid=f"uid-{name}",
            constraint=StoredConstraint("", topology, "zone", is_later=True),
            groups=(),
        )
        for name, topology in (("a", "new"), ("b", "missing"), ("c", ""))
    ]
    after = replace(levels("zone"), name="new", kind="ClusterTopologyBinding")
    for topologies, names in (((), ["a", "c"]), ((levels("zone"),), ["a"])):
        index = Index(facts(topologies=topologies, sets=tuple(sets)))
        assert [effect.ref.name for effect in preview(index, after).effects] == names


def test_new_levels_that_no_node_has_are_named() -> None:
    index = Index(facts())
    shown = preview(index, levels("zone", "rack", "host", rack="example.com/row"))
    assert (shown.absent, shown.is_severe) == (("example.com/row",), True)
    kept = preview(index, levels("zone", "rack", "host"))
    assert (kept.absent, kept.reasons, kept.is_severe) == ((), (), False)


def test_a_group_within_its_clique_is_a_part_of_its_own() -> None:
    sets = (
        pcs(
            cliques=(Clique("router", 1, constraint=StoredConstraint("host")),),
            groups=(ScalingGroup("pool", ("workers",), StoredConstraint("rack")),),
        ),
    )
    assert [
        text for _, text, _ in previewed(levels("zone", "rack", "host"), levels("zone"), sets=sets)
    ] == [
        LOST,
        "loses required host of clique router, because that level is removed",
    ]


def test_a_preview_as_text() -> None:
    index = Index(facts(topologies=(levels("zone", "rack"),)))
    lines = preview_text(
        preview(index, levels("zone", "host", zone="example.com/zone"))
    ).splitlines()
    assert lines[:4] == [
        "! No node has the label example.com/zone, so no gang with a constraint would be placed",
        "with the levels zone and host: 1 PodCliqueSet affected",
        f"  inference/llm  required zone means example.com/zone instead of {ZONE}; running gangs are not moved  ({SET})",
        f"! inference/llm  {LOST}  ({GROUP})",
    ]

"""Warnings about MNNVL that would not work as it is meant, in both vocabularies."""

from typing import Any

import pytest

from app.facts.grove.template import read_template
from app.rules.mnnvl.warnings import NvlinkDomains, preflight_warnings, required_levels
from app.rules.topology.capacity import capacity_warnings
from app.rules.topology.coverage import Nodes
from tests.rules.mnnvl.test_grove_groups import clique, pcs
from tests.rules.topology.test_capacity import LEVELS, OF_SET, POOLED, RACK, node
from tests.steps import steps


def warned(obj: Any, required: dict[tuple[str, str], str], nodes: Any) -> list[str]:
    template = read_template(obj)
    return preflight_warnings(template, required, LEVELS, Nodes(nodes))


LOOSE = 'MNNVL of a replica of the PodCliqueSet: no required topology constraint keeps the pods of "w" within one NVLink domain (node label nvidia.com/gpu.clique): pods in different domains have no NVLink between them'


def loose(kind: str, name: str) -> str:
    return LOOSE.replace("a replica of the PodCliqueSet", f'{kind} "{name}"').replace(
        '"w"', f'"{name}"'
    )


LARGER = "Make the ComputeDomains so large that no two fit into one NVLink domain"
APART = "Keep the pods of each ComputeDomain within one NVLink domain"


def several(domains: int, remedy: str = "Use grove.io/mnnvl-scope: replica for all cliques") -> str:
    return f"a replica of the PodCliqueSet gets {domains} ComputeDomains: if two share an NVLink domain, CUDA may fail with CUDA_ERROR_NOT_SUPPORTED (NVIDIA's DRA driver, issue 892). {remedy}"


@pytest.mark.parametrize(
    ("obj", "required", "nodes", "warnings"),
    [
        pytest.param(pcs(clique("w")), {}, [], [], id="no MNNVL"),
        pytest.param(pcs(clique("w", gpus=0), enabled="true"), {}, [], [], id="no GPUs"),
        pytest.param(pcs(clique("w", replicas=1), enabled="true"), {}, [], [], id="one pod"),
        pytest.param(
            pcs(clique("w"), enabled="true"),
            RACK,
            [],
            [],
            id="one rack, which may be an NVLink domain",
        ),
        pytest.param(pcs(clique("w"), enabled="true"), {}, [], [LOOSE], id="anywhere"),
        pytest.param(
            pcs(clique("w"), enabled="true"),
            RACK,
            [node(2, clique="a"), node(2, clique="b")],
            [LOOSE],
            id="a rack with two NVLink domains",
        ),
        pytest.param(
            pcs(clique("w"), enabled="true"),
            {OF_SET: "zone"},
            [node(2, rack="r", clique="a"), node(2, rack="s", clique="b")],
            [f'{LOOSE}. Require "rack" in the topologyConstraint of clique "w"'],
            id="a level above the NVLink domain",
        ),
        pytest.param(
            pcs(clique("w", replicas=3), enabled="true"),
            {OF_SET: "zone"},
            [node(2, rack=rack, clique=nvlink) for rack, nvlink in zip("rst", "aab", strict=True)],
            [LOOSE],
            id="a level above the NVLink domain, and the next one is too small",
        ),
        pytest.param(
            pcs(clique("w"), enabled="true"),
            RACK,
            [node(4, clique="a")],
            [],
            id="a rack within one NVLink domain",
        ),
        pytest.param(
            pcs(clique("w"), enabled="true"),
            {("clique", "w"): "host"},
            [],
            [
                'clique "w": its 2 pods must run on one node ("host"), but only one pod per node can hold an NVLink channel: the other pods will stay pending'
            ],
            id="one node",
        ),
        pytest.param(
            pcs(clique("w", gpus=4), group="train"),
            RACK,
            [node(4, clique="a", count="8")],
            [
                'clique "w": each pod requests 4 of a node\'s 8 GPUs, but only one pod per node can hold an NVLink channel, so these pods cannot use the other 4 GPUs'
            ],
            id="half a node",
        ),
        pytest.param(
            pcs(clique("w", gpus=1), group="train"),
            RACK,
            [node(4, clique="a", count="2")],
            [
                'clique "w": each pod requests 1 of a node\'s 2 GPUs, but only one pod per node can hold an NVLink channel, so these pods cannot use the other GPU'
            ],
            id="one of two GPUs",
        ),
        pytest.param(
            pcs(clique("w", gpus=1), group="train"),
            RACK,
            [],
            [
                'clique "w": each of its 2 pods requests one GPU and needs its own node, because only one pod per node can hold an NVLink channel. Request all GPUs of a node in one pod'
            ],
            id="single GPUs",
        ),
        pytest.param(
            pcs(clique("w", gpus=1), group="train"),
            RACK,
            [node(4, clique="a", count="1")],
            [],
            id="single GPUs on nodes that have one GPU each",
        ),
        pytest.param(
            pcs(clique("w", replicas=19), enabled="true", scope="clique"),
            RACK,
            [],
            [
                'MNNVL of clique "w": 19 pods need 19 nodes, one NVLink channel each, but an NVLink domain (mnnvl.domainNodes) has at most 18'
            ],
            id="more than an NVLink domain can have",
        ),
        pytest.param(
            pcs(
                clique("a", replicas=10, scope="clique"),
                clique("b", replicas=10, scope="clique"),
                enabled="true",
            ),
            RACK,
            [],
            [],
            id="each clique has its own NVLink domain, by scopes below the annotation that enables MNNVL",
        ),
        pytest.param(
            pcs(
                clique("l", replicas=2),
                groups=[{"name": "pool", "cliqueNames": ["l"], "replicas": 3}],
                group="train",
            ),
            RACK,
            [node(4, clique="a")],
            [
                'MNNVL of grove.io/mnnvl-group "train": 6 pods need 6 nodes, one NVLink channel each, but an NVLink domain in this cluster has at most 4'
            ],
            id="all replicas of a scaling group share Grove's ComputeDomain",
        ),
        pytest.param(
            pcs(
                clique("l", replicas=2),
                groups=[{"name": "pool", "cliqueNames": ["l"], "replicas": 3}],
                enabled="true",
                scope="scalingGroupReplica",
            ),
            RACK,
            [node(4, clique="a")],
            [several(3, LARGER)],
            id="each replica of a scaling group has its own",
        ),
        pytest.param(
            pcs(clique("a"), clique("b"), enabled="true", scope="clique"),
            {},
            [node(3, clique="a")],
            [
                several(2, APART),
                f'{loose("clique", "a")}. Require "zone" in the topologyConstraint of clique "a"',
                f'{loose("clique", "b")}. Require "zone" in the topologyConstraint of clique "b"',
            ],
            id="no two fit into an NVLink domain, but they may be in several",
        ),
        pytest.param(
            pcs(clique("a"), clique("b"), enabled="true", scope="clique"),
            RACK,
            [node(3, clique="a")],
            [],
            id="no two fit into an NVLink domain, and they stay in one",
        ),
        pytest.param(
            pcs(
                clique("a", replicas=2),
                clique("b", replicas=1),
                clique("c", replicas=1),
                enabled="true",
                scope="clique",
            ),
            RACK,
            [node(2, clique="a")],
            [several(3, LARGER)],
            id="only the two smallest fit into an NVLink domain",
        ),
        pytest.param(
            pcs(clique("a", group="x"), clique("b", group="y")),
            RACK,
            [node(4, clique="a")],
            [several(2, "Use one grove.io/mnnvl-group for all cliques")],
            id="several groups of Grove",
        ),
        pytest.param(
            pcs(clique("a", group="x"), clique("b", enabled="true")),
            RACK,
            [node(4, clique="a")],
            [
                several(
                    2,
                    "Use grove.io/mnnvl-scope: replica or one grove.io/mnnvl-group for all cliques",
                )
            ],
            id="a group of Grove next to a clique with our annotation",
        ),
        pytest.param(
            pcs(clique("a"), clique("b"), group="x"),
            RACK,
            [node(4, clique="a")],
            [],
            id="one group of Grove",
        ),
    ],
)
def test_preflight(obj: Any, required: Any, nodes: Nodes, warnings: list[str]) -> None:
    assert warned(obj, required, nodes) == warnings


TWO = [clique("a"), clique("b")]
OF_TWO = LOOSE.replace('"w"', '"a", "b"')
OF_EACH = {("clique", "a"): "rack", ("clique", "b"): "rack"}
ONE_POOL = [{"name": "pool", "cliqueNames": ["a", "b"], "replicas": 1}]
TWO_POOLS = [{"name": "pool", "cliqueNames": ["a", "b"], "replicas": 2}]
OF_POOL = {("group", "pool"): "rack"}
RACKS = [node(9, rack="r", clique="r"), node(9, rack="s", clique="s")]


@pytest.mark.parametrize(
    ("obj", "required", "owner"),
    [
        pytest.param(pcs(*TWO, enabled="true"), OF_EACH, "the PodCliqueSet", id="of each clique"),
        pytest.param(pcs(*TWO, enabled="true"), RACK, "", id="of the set"),
        pytest.param(pcs(*TWO, groups=ONE_POOL, enabled="true"), OF_POOL, "", id="of the group"),
        pytest.param(
            pcs(*TWO, groups=ONE_POOL, enabled="true"),
            OF_EACH,
            'scaling group "pool"',
            id="of each clique of a group",
        ),
        pytest.param(
            pcs(*TWO, groups=TWO_POOLS, enabled="true"),
            OF_POOL,
            "the PodCliqueSet",
            id="of each replica of a group",
        ),
        pytest.param(
            pcs(*TWO, groups=TWO_POOLS, enabled="true"), RACK, "", id="of the set, with a group"
        ),
    ],
)
def test_one_constraint_keeps_all_pods_of_a_compute_domain_together(
    obj: Any, required: Any, owner: str
) -> None:
    remedy = f'Require "rack" in the topologyConstraint of {owner}'
    assert warned(obj, required, RACKS) == ([f"{OF_TWO}. {remedy}"] if owner else [])


def test_no_level_is_suggested_that_is_narrower_than_an_enclosed_one() -> None:
    """The webhook would reject the PodCliqueSet."""
    obj = pcs(*TWO, enabled="true")
    assert warned(obj, {("clique", "a"): "zone"}, RACKS) == [OF_TWO]


def test_no_level_is_suggested_that_is_too_small_for_other_pods_of_the_set() -> None:
    """The scaling group has ComputeDomains of its own, but would have to be in the same rack."""
    groups = [{"name": "pool", "cliqueNames": ["p"], "replicas": 1}]
    cliques = [clique("p", replicas=pods) for pods in (4, 5)]
    racks = [node(8, rack=name, clique=name, count="8") for name in "rs"]
    for own, is_suggested in zip(cliques, (True, False), strict=True):
        obj = pcs(*TWO, own, groups=groups, enabled="true", scope="scalingGroupReplica")
        (text,) = [each for each in warned(obj, OF_POOL, racks) if '"a", "b"' in each]
        assert ('Require "rack" in' in text) is is_suggested


def test_no_level_is_suggested_for_more_pods_than_an_nvlink_domain_has_nodes() -> None:
    obj = pcs(clique("a", replicas=5), clique("b", replicas=5), enabled="true")
    assert warned(obj, {}, RACKS)[0] == OF_TWO


def test_the_narrowest_required_level_of_each_clique() -> None:
    required = {OF_SET: "zone", ("group", "pool"): "rack", ("clique", "w"): "galaxy"}
    assert required_levels(read_template(POOLED), required, LEVELS) == {
        "w": LEVELS[0],
        "l": LEVELS[1],
    }
    assert required_levels(read_template(POOLED), {}, LEVELS) == {}


def warn(number: int) -> int:
    """Ask for the warnings of so many cliques, each in its own group, and return the steps."""
    names = [f"w{position}" for position in range(number)]
    groups = [{"name": name, "cliqueNames": [name]} for name in names]
    obj = pcs(*(clique(name) for name in names), groups=groups, enabled="true", scope="clique")
    required = {(kind, name): "rack" for name in names for kind in ("group", "clique")}
    template = read_template(obj)

    def ask() -> None:
        assert preflight_warnings(template, required, LEVELS, Nodes()) == [several(number, LARGER)]
        assert capacity_warnings(template, required, [], LEVELS, Nodes()) == []

    return steps(ask)


@pytest.mark.untraced
def test_the_work_for_cliques_and_groups_grows_with_their_number() -> None:
    """Not with its square: four times as many take four times as many steps, and not sixteen."""
    assert warn(2000) < 5 * warn(500)


RACK_OF_18 = [node(18, clique="a")]


@pytest.mark.parametrize(
    ("pods", "nodes", "nvlink", "said"),
    [
        pytest.param(18, RACK_OF_18, NvlinkDomains(), "", id="no spare nodes are asked for"),
        pytest.param(16, RACK_OF_18, NvlinkDomains(spare=2), "", id="two are left"),
        pytest.param(
            17,
            RACK_OF_18,
            NvlinkDomains(spare=2),
            "17 pods that must be scheduled together need 17 of the 18 nodes of an NVLink domain in this cluster: with 2 of"
            " these nodes down, the pods cannot start. mnnvl.spareNodes: 2 leaves 16 nodes for such pods",
            id="one is left",
        ),
        pytest.param(
            18,
            [],
            NvlinkDomains(spare=2),
            "18 pods that must be scheduled together need 18 of the 18 nodes of an NVLink domain (mnnvl.domainNodes): with 1 of"
            " these nodes down, the pods cannot start. mnnvl.spareNodes: 2 leaves 16 nodes for such pods",
            id="nodes tell nothing",
        ),
        pytest.param(
            19,
            RACK_OF_18,
            NvlinkDomains(spare=2),
            "19 pods need 19 nodes, one NVLink channel each, but an NVLink domain in this cluster"
            " has at most 18",
            id="more than all nodes",
        ),
        pytest.param(
            100, [node(144, clique="a")], NvlinkDomains(), "", id="144 nodes in one NVLink domain"
        ),
        pytest.param(100, [], NvlinkDomains(nodes=144), "", id="144 nodes by the configuration"),
        pytest.param(
            145,
            [],
            NvlinkDomains(nodes=144),
            "145 pods need 145 nodes, one NVLink channel each, but an NVLink domain"
            " (mnnvl.domainNodes) has at most 144",
            id="more than is configured",
        ),
    ],
)
def test_how_much_of_an_nvlink_domain_is_needed(
    pods: int, nodes: Any, nvlink: NvlinkDomains, said: str
) -> None:
    template = read_template(pcs(clique("w", replicas=pods), enabled="true", scope="clique"))
    found = preflight_warnings(template, RACK, LEVELS, Nodes(nodes), nvlink)
    assert found == ([f'MNNVL of clique "w": {said}'] if said else [])


@pytest.mark.parametrize(
    ("groups", "pods", "least", "said"),
    [
        pytest.param((), 18, 16, "", id="so many start together as fit"),
        pytest.param(
            (),
            18,
            17,
            "17 pods that must be scheduled together need 17 of the 18 nodes of an NVLink domain"
            " in this cluster: with 2 of these nodes down, the pods cannot start. mnnvl.spareNodes: 2"
            " leaves 16 nodes for such pods",
            id="more start together",
        ),
        pytest.param((2, 1), 9, 9, "", id="one replica of a group starts alone"),
        pytest.param(
            (2, 2),
            9,
            9,
            "18 pods that must be scheduled together need 18 of the 18 nodes of an NVLink domain in this cluster: with 1 of"
            " these nodes down, the pods cannot start. mnnvl.spareNodes: 2 leaves 16 nodes for such pods",
            id="both replicas of a group start together",
        ),
    ],
)
def test_nodes_that_are_down_matter_to_what_must_start_together(
    groups: tuple[int, ...], pods: int, least: int, said: str
) -> None:
    worker = clique("w", replicas=pods)
    worker["spec"]["minAvailable"] = least
    found = [
        {"name": "g", "cliqueNames": ["w"], "replicas": replicas, "minAvailable": minimum}
        for replicas, minimum in [groups][: len(groups)]
    ]
    template = read_template(pcs(worker, groups=found, enabled="true"))
    warnings = preflight_warnings(template, RACK, LEVELS, Nodes(RACK_OF_18), NvlinkDomains(spare=2))
    assert [text for text in warnings if "spareNodes" in text] == (
        [f"MNNVL of a replica of the PodCliqueSet: {said}"] if said else []
    )


@pytest.mark.parametrize(
    ("names", "scheduler", "is_loose"),
    [
        (("w", "l"), "kueue", True),
        (("w", "l"), "kai-scheduler", False),
        (("w",), "kueue", False),
    ],
)
def test_kueue_keeps_no_cliques_together(
    names: tuple[str, ...], scheduler: str, is_loose: bool
) -> None:
    """A constraint of the set holds for each PodClique there."""
    obj = pcs(*map(clique, names), enabled="true")
    for each in obj["spec"]["template"]["cliques"]:
        each["spec"]["podSpec"]["schedulerName"] = scheduler
    expected = [LOOSE.replace('"w"', '"w", "l"')] if is_loose else []
    assert warned(obj, RACK, [node(9, clique="a")]) == expected


@pytest.mark.parametrize(
    ("replicas", "number"), [(2**31 - 1, 2**31 - 1), (2**62, 2**62), (-3, None), (0, None)]
)
def test_the_replicas_of_a_group_are_counted_and_not_listed(
    replicas: int, number: int | None
) -> None:
    """A list of 100 million replicas takes 800 MB, and a dry run with them costs a tenant nothing."""
    annotations = {"grove.io/mnnvl-enabled": "true", "grove.io/mnnvl-scope": "scalingGroupReplica"}
    group = {"name": "g", "replicas": replicas, "cliqueNames": ["a", "b"]}
    cliques = [clique(name, **{}) | {"annotations": annotations} for name in ("a", "b")]
    template = {"cliques": cliques, "podCliqueScalingGroups": [group]}
    obj = {"metadata": {"name": "s"}, "spec": {"template": template}}
    told = [text for text in warned(obj, {}, []) if "gets" in text]
    assert told == ([] if number is None else [several(number, LARGER)])

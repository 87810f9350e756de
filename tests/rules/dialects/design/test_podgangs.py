"""The three levels of constraints in a PodGang.

Tests `app/rules/topology/members.py`.
"""

import copy
from typing import Any

import pytest
from jsonpatch import apply_patch

from app.facts.grove.podcliqueset import PodCliqueSet, read_pod_clique_set
from app.facts.grove.topology import ClusterTopology, Level
from app.objects.edits import operations
from app.rules.dialects.design.podgangs import constraint_changes
from app.rules.topology.members import PodGroupClique, PodGroupCliques
from tests.builders import managed
from tests.steps import steps

HOST = "kubernetes.io/hostname"
FULL = managed(
    "t",
    enabled=True,
    levels=(Level("zone", "k/zone"), Level("rack", "k/rack"), Level("host", HOST)),
)
NARROWER = managed("t", levels=(*FULL.levels[:2], Level("host", "k/host"), Level("numa", "k/numa")))
BELOW_HOST = managed("t", levels=(*FULL.levels, Level("numa", "k/numa")))
WITHOUT_RACK = managed("t", levels=(Level("zone", "k/zone"), Level("host", HOST)))
OFF = managed("t", enabled=False)

SET = {
    "metadata": {"name": "pcs", "namespace": "ns", "uid": "u"},
    "spec": {
        "template": {
            "topologyConstraint": {"packDomain": "zone"},
            "cliques": [
                {"name": "router"},
                {"name": "worker", "topologyConstraint": {"packDomain": "host"}},
                {"name": "leader"},
            ],
            "podCliqueScalingGroups": [
                {
                    "name": "pool",
                    "cliqueNames": ["worker", "leader"],
                    "topologyConstraint": {"packDomain": "rack"},
                },
                {"name": "free", "cliqueNames": ["leader"]},
            ],
        }
    },
}
PCS = read_pod_clique_set(SET)
ROUTER, WORKER = PCS.cliques[:2]
POOL = PCS.groups[0]


def gang(*podgroups: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "pcs-0"},
        "spec": {"podgroups": [{"name": name} for name in podgroups], **spec},
    }


def pack(required: str | None, preferred: str = HOST) -> dict[str, Any]:
    requirement = {"required": required} if required else {}
    return {"packConstraint": {**requirement, "preferred": preferred}}


def clique(name: str, domain: str = "", **requests: str) -> dict[str, Any]:
    """A clique whose pods ask for these resources, and for GPUs as `gpus`."""
    limits = {"nvidia.com/gpu" if name == "gpus" else name: n for name, n in requests.items()}
    pod_spec = {"containers": [{"name": "c", "resources": {"limits": limits}}]}
    constraint = {"topologyConstraint": {"packDomain": domain}} if domain else {}
    return {"name": name, "spec": {"podSpec": pod_spec}, **constraint}


def of_cliques(*cliques: dict[str, Any], domain: str = "", **template: Any) -> PodCliqueSet:
    constraint = {"topologyConstraint": {"packDomain": domain}} if domain else {}
    spec = {"template": {"cliques": list(cliques), **constraint, **template}}
    return read_pod_clique_set({"metadata": {"name": "pcs"}, "spec": spec})


def after(obj: dict[str, Any], topology: ClusterTopology = FULL, pcs: Any = PCS) -> dict[str, Any]:
    """`obj` with the rule's changes; a second pass must have nothing to say."""
    before = copy.deepcopy(obj)
    result = apply_patch(obj, operations(obj, constraint_changes(obj, pcs, topology)))
    assert obj == before
    assert operations(result, constraint_changes(result, pcs, topology)) == []
    patched: dict[str, Any] = result
    return patched


BOTH = ("pcs-0-pool-0-worker", "pcs-0-pool-0-leader", "pcs-0-pool-1-worker")


@pytest.mark.statement(
    "1.5", "1.111", "1.136", "1.138", "1.139", "1.140", "1.141", "1.142", "1.147", "1.151", "1.155"
)
def test_a_base_gang_with_two_replicas_of_a_group() -> None:
    result = after(gang("pcs-0-router", *BOTH, "pcs-0-free-0-leader"))
    assert result["metadata"]["annotations"] == {"grove.io/topology-name": "t"}
    assert result["spec"] == {
        "topologyConstraint": pack("k/zone"),
        "podgroups": [
            {"name": "pcs-0-router", "topologyConstraint": pack(None)},
            {"name": "pcs-0-pool-0-worker", "topologyConstraint": pack(HOST)},
            {"name": "pcs-0-pool-0-leader", "topologyConstraint": pack(None)},
            {"name": "pcs-0-pool-1-worker", "topologyConstraint": pack(HOST)},
            {"name": "pcs-0-free-0-leader", "topologyConstraint": pack(None)},
        ],
        "topologyConstraintGroupConfigs": [
            {
                "name": "pcs-0-pool-0",
                "podGroupNames": list(BOTH[:2]),
                "topologyConstraint": pack("k/rack"),
            },
            {
                "name": "pcs-0-pool-1",
                "podGroupNames": [BOTH[2]],
                "topologyConstraint": pack("k/rack"),
            },
        ],
    }


@pytest.mark.statement("1.156")
def test_a_scaled_gang_of_another_replica_is_read_from_the_names_of_its_podgroups() -> None:
    result = after(gang("pcs-3-pool-2-worker", "pcs-3-pool-2-leader"))
    assert result["spec"]["podgroups"] == [
        {"name": "pcs-3-pool-2-worker", "topologyConstraint": pack(HOST)},
        {"name": "pcs-3-pool-2-leader", "topologyConstraint": pack(None)},
    ]
    assert result["spec"]["topologyConstraintGroupConfigs"] == [
        {
            "name": "pcs-3-pool-2",
            "podGroupNames": ["pcs-3-pool-2-worker", "pcs-3-pool-2-leader"],
            "topologyConstraint": pack("k/rack"),
        }
    ]


@pytest.mark.statement("1.100")
def test_a_level_that_is_gone_loses_required_and_keeps_preferred() -> None:
    result = after(after(gang(*BOTH)), WITHOUT_RACK)
    configs = result["spec"]["topologyConstraintGroupConfigs"]
    assert [config["topologyConstraint"] for config in configs] == [pack(None), pack(None)]


@pytest.mark.statement("1.101", "1.150", "1.153")
def test_a_new_strictest_level_is_preferred_everywhere() -> None:
    result = after(after(gang(*BOTH)), NARROWER)["spec"]
    constrained = [result, *result["podgroups"], *result["topologyConstraintGroupConfigs"]]
    assert {part["topologyConstraint"]["packConstraint"]["preferred"] for part in constrained} == {
        "k/numa"
    }
    assert result["topologyConstraint"] == pack("k/zone", "k/numa")


@pytest.mark.statement("1.153")
def test_kai_is_told_the_hostname_instead_of_a_level_below_it() -> None:
    pcs = of_cliques(clique("one", domain="numa"), domain="host")
    result = after(gang("pcs-0-one"), BELOW_HOST, pcs)["spec"]
    assert result["topologyConstraint"] == pack(HOST)
    assert [part["topologyConstraint"] for part in result["podgroups"]] == [pack(HOST)]


@pytest.mark.statement("1.96", "1.143")
def test_disabled_topology_leaves_nothing() -> None:
    obj = after(gang(*BOTH))
    assert after(obj, OFF) == {**gang(*BOTH), "metadata": {"name": "pcs-0", "annotations": {}}}
    assert after(gang(*BOTH), OFF) == gang(*BOTH)
    assert after({"spec": {"podgroups": None}}, OFF) == {"spec": {"podgroups": None}}


@pytest.mark.statement("1.152")
def test_an_unknown_set_gets_preferred_only_and_keeps_what_it_has() -> None:
    obj = gang("pcs-0-router", "pcs-0-worker", topologyConstraint=pack("k/zone", "old"))
    result = after(obj, pcs=None)["spec"]
    assert result["topologyConstraint"] == pack("k/zone")
    assert result["podgroups"][0]["topologyConstraint"] == pack(None)
    assert "topologyConstraintGroupConfigs" not in result


@pytest.mark.parametrize(
    ("podgroups", "whole"),
    [
        pytest.param(["pcs-0-router"], pack(None), id="pods of one PodGroup are equal"),
        pytest.param(["pcs-0-router", "pcs-0-worker"], None, id="those of two may differ"),
    ],
)
def test_of_an_unknown_set_only_what_can_be_placed_is_preferred(
    podgroups: list[str], whole: dict[str, Any] | None
) -> None:
    result = after(gang(*podgroups), pcs=None)["spec"]
    assert result.get("topologyConstraint") == whole
    assert [podgroup["topologyConstraint"] for podgroup in result["podgroups"]] == [
        pack(None)
    ] * len(podgroups)


GPUS = {"gpus": "8"}
FEW = {"gpus": "1"}


@pytest.mark.parametrize(
    ("pcs", "whole"),
    [
        pytest.param(
            of_cliques(clique("a", **GPUS), clique("b", **FEW)),
            None,
            id="d2-webhook-preferred: nothing is required, and GPUs differ",
        ),
        pytest.param(
            of_cliques(clique("a", **GPUS), clique("b", "host", **FEW)),
            None,
            id="the whole requires nothing, whatever a clique requires",
        ),
        pytest.param(
            of_cliques(clique("a", cpu="2", **GPUS), clique("b", cpu="1", **GPUS)),
            None,
            id="CPUs differ",
        ),
        pytest.param(
            of_cliques(clique("a", **GPUS), clique("b", **GPUS)),
            pack(None),
            id="podgang-025a: equal pods",
        ),
        pytest.param(
            of_cliques(clique("a", cpu="2"), clique("b", **GPUS)),
            pack(None),
            id="podgang-023a: some have no GPUs, and KAI adds up",
        ),
        pytest.param(
            of_cliques(clique("a", **GPUS), clique("b", **FEW), domain="zone"),
            pack("k/zone"),
            id="d5-one-rack-preferred: with a required level it only helps",
        ),
        pytest.param(
            of_cliques(clique("a", **GPUS), clique("b", **FEW), domain="galaxy"),
            None,
            id="the required level is gone",
        ),
        pytest.param(
            of_cliques(clique("a", **GPUS)), None, id="a PodGroup that is no clique of the set"
        ),
    ],
)
@pytest.mark.statement("1.148", "1.149")
def test_what_the_whole_prefers(pcs: PodCliqueSet, whole: dict[str, Any] | None) -> None:
    obj = gang("pcs-0-a", "pcs-0-b")
    result = after(obj, pcs=pcs)["spec"]
    assert result.get("topologyConstraint") == whole
    assert [
        podgroup["topologyConstraint"]["packConstraint"]["preferred"]
        for podgroup in result["podgroups"]
    ] == [HOST, HOST]


@pytest.mark.statement("1.149")
def test_a_stored_preferred_level_that_hinders_is_removed() -> None:
    pcs = of_cliques(clique("a", **GPUS), clique("b", **FEW))
    desired = after(gang("pcs-0-a", "pcs-0-b"), pcs=pcs)

    stored = copy.deepcopy(desired)
    stored["spec"]["topologyConstraint"] = pack(None)
    assert after(stored, pcs=pcs) == desired

    stored["spec"]["topologyConstraint"] = {"packConstraint": {"preferred": HOST, "theirs": 1}}
    theirs = {"packConstraint": {"theirs": 1}}
    assert after(stored, pcs=pcs)["spec"]["topologyConstraint"] == theirs

    for foreign in (theirs, {}, None):
        stored["spec"]["topologyConstraint"] = foreign
        assert after(stored, pcs=pcs)["spec"]["topologyConstraint"] == foreign


def test_a_group_whose_level_is_gone_prefers_one_only_if_its_pods_are_counted_exactly() -> None:
    pool = {"name": "pool", "topologyConstraint": {"packDomain": "rack"}, "cliqueNames": ["a", "b"]}
    podgroups = ("pcs-0-pool-0-a", "pcs-0-pool-0-b")
    entry = {"name": "pcs-0-pool-0", "podGroupNames": list(podgroups)}
    equal = of_cliques(clique("a", **GPUS), clique("b", **GPUS), podCliqueScalingGroups=[pool])
    mixed = of_cliques(clique("a", **GPUS), clique("b", **FEW), podCliqueScalingGroups=[pool])

    of_equal = after(after(gang(*podgroups), pcs=equal), WITHOUT_RACK, pcs=equal)["spec"]
    assert of_equal["topologyConstraintGroupConfigs"] == [
        {**entry, "topologyConstraint": pack(None)}
    ]

    stored = after(gang(*podgroups), pcs=mixed)
    assert stored["spec"]["topologyConstraintGroupConfigs"] == [
        {**entry, "topologyConstraint": pack("k/rack")}
    ]
    of_mixed = after(stored, WITHOUT_RACK, pcs=mixed)["spec"]
    assert "topologyConstraintGroupConfigs" not in of_mixed

    stored["spec"]["topologyConstraintGroupConfigs"][0]["topologyConstraint"]["theirs"] = 1
    of_mixed = after(stored, WITHOUT_RACK, pcs=mixed)["spec"]
    assert of_mixed["topologyConstraintGroupConfigs"] == [
        {**entry, "topologyConstraint": {"packConstraint": {}, "theirs": 1}}
    ]


def test_a_podgroup_that_is_no_clique_of_the_set_is_preferred_only() -> None:
    result = after(gang("somebody-else"))
    assert result["spec"]["podgroups"] == [
        {"name": "somebody-else", "topologyConstraint": pack(None)}
    ]


@pytest.mark.statement("1.155")
def test_configs_of_groups_without_a_constraint_go() -> None:
    stale = [
        {
            "name": "pcs-0-free-0",
            "podGroupNames": ["pcs-0-free-0-leader"],
            "topologyConstraint": pack("k/rack"),
        }
    ]
    result = after(gang("pcs-0-free-0-leader", topologyConstraintGroupConfigs=stale))
    assert "topologyConstraintGroupConfigs" not in result["spec"]


@pytest.mark.parametrize("empty", [None, []])
def test_an_empty_list_of_configs_is_left_alone(empty: Any) -> None:
    result = after(gang("pcs-0-router", topologyConstraintGroupConfigs=empty))
    assert result["spec"]["topologyConstraintGroupConfigs"] == empty


def test_unknown_fields_survive_at_every_level() -> None:
    obj = after(gang(*BOTH))
    spec = obj["spec"]
    for part in (spec, spec["podgroups"][0], spec["topologyConstraintGroupConfigs"][0]):
        part["unknown"] = 1
        part["topologyConstraint"]["unknown"] = 2
        part["topologyConstraint"]["packConstraint"]["unknown"] = 3
    spec = after(obj, NARROWER)["spec"]
    for part in (spec, spec["podgroups"][0], spec["topologyConstraintGroupConfigs"][0]):
        assert part["unknown"] == 1
        assert part["topologyConstraint"]["unknown"] == 2
        assert part["topologyConstraint"]["packConstraint"]["unknown"] == 3
        assert part["topologyConstraint"]["packConstraint"]["preferred"] == "k/numa"


def test_configs_that_are_null_inside_are_filled() -> None:
    stored = [{"name": "pcs-0-pool-0", "podGroupNames": None, "topologyConstraint": None}]
    result = after(gang("pcs-0-pool-0-worker", topologyConstraintGroupConfigs=stored))
    assert result["spec"]["topologyConstraintGroupConfigs"] == [
        {
            "name": "pcs-0-pool-0",
            "podGroupNames": ["pcs-0-pool-0-worker"],
            "topologyConstraint": pack("k/rack"),
        }
    ]


@pytest.mark.parametrize(
    ("podgroup", "member"),
    [
        ("pcs-0-router", PodGroupClique(ROUTER, "0")),
        ("pcs-12-router", PodGroupClique(ROUTER, "12")),
        ("pcs-0-pool-3-worker", PodGroupClique(WORKER, "0", POOL, "pcs-0-pool-3")),
        ("pcs-0-pool-3-router", None),
        ("pcs-0-pool-x-worker", None),
        ("pcs-0-pool", None),
        ("pcs-0-poolx3-worker", None),
        ("pcs-x-router", None),
        ("pcs-router", None),
        ("other-0-router", None),
        ("router", None),
        ("pcs-0", None),
        ("", None),
    ],
)
def test_members_are_found_by_name(podgroup: str, member: PodGroupClique | None) -> None:
    assert PodGroupCliques(PCS).find(podgroup) == member


@pytest.mark.untraced
def test_members_of_a_thousand_groups_whose_names_have_dashes() -> None:
    names = [f"pool-{number}" for number in range(1000)]
    template = {
        "cliques": [
            {"name": f"{name}-worker", "topologyConstraint": {"packDomain": "host"}}
            for name in names
        ],
        "podCliqueScalingGroups": [
            {"name": name, "cliqueNames": [f"{name}-worker"]} for name in names
        ],
    }
    pcs = read_pod_clique_set({"metadata": {"name": "pcs"}, "spec": {"template": template}})
    podgroups = [f"pcs-0-{name}-1-{name}-worker" for name in names]
    result = after(gang(*podgroups), pcs=pcs)
    assert result["spec"]["podgroups"] == [
        {"name": podgroup, "topologyConstraint": pack(HOST)} for podgroup in podgroups
    ]
    assert [
        member and (member.group, member.group_replica)
        for member in map(PodGroupCliques(pcs).find, podgroups)
    ] == [(group, f"pcs-0-{group.name}-1") for group in pcs.groups]


def test_the_work_for_the_name_of_a_podgroup_does_not_grow_with_its_dashes() -> None:
    def find(number: int) -> None:
        assert PodGroupCliques(PCS).find(f"pcs-0-{'0-' * number}worker") is None

    assert steps(lambda: find(500_000)) <= steps(lambda: find(50))

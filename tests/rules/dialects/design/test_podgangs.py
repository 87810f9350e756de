"""The three levels of constraints in a PodGang."""

import copy
import time
from typing import Any

import pytest
from jsonpatch import apply_patch

from app.objects.edits import operations
from app.rules.dialects.design.podgangs import constraint_changes
from app.rules.podcliqueset import read_pod_clique_set
from app.rules.topology.levels import Level, Topology
from app.rules.topology.members import Member, Members

HOST = "kubernetes.io/hostname"
FULL = Topology(
    "t",
    enabled=True,
    levels=(Level("zone", "k/zone"), Level("rack", "k/rack"), Level("host", HOST)),
)
NARROWER = Topology("t", enabled=True, levels=(*FULL.levels, Level("numa", "k/numa")))
WITHOUT_RACK = Topology("t", enabled=True, levels=(Level("zone", "k/zone"), Level("host", HOST)))
OFF = Topology("t", enabled=False)

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
    held = {"required": required} if required else {}
    return {"packConstraint": {**held, "preferred": preferred}}


def after(obj: dict[str, Any], topology: Topology = FULL, pcs: Any = PCS) -> dict[str, Any]:
    """`obj` with the rule's changes; a second pass must have nothing to say."""
    before = copy.deepcopy(obj)
    result = apply_patch(obj, operations(obj, constraint_changes(obj, pcs, topology)))
    assert obj == before
    assert operations(result, constraint_changes(result, pcs, topology)) == []
    patched: dict[str, Any] = result
    return patched


BOTH = ("pcs-0-pool-0-worker", "pcs-0-pool-0-leader", "pcs-0-pool-1-worker")


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


def test_a_level_that_is_gone_loses_required_and_keeps_preferred() -> None:
    result = after(after(gang(*BOTH)), WITHOUT_RACK)
    configs = result["spec"]["topologyConstraintGroupConfigs"]
    assert [one["topologyConstraint"] for one in configs] == [pack(None), pack(None)]


def test_a_new_strictest_level_is_preferred_everywhere() -> None:
    result = after(after(gang(*BOTH)), NARROWER)["spec"]
    held = [result, *result["podgroups"], *result["topologyConstraintGroupConfigs"]]
    assert {one["topologyConstraint"]["packConstraint"]["preferred"] for one in held} == {"k/numa"}
    assert result["topologyConstraint"] == pack("k/zone", "k/numa")


def test_disabled_topology_leaves_nothing() -> None:
    obj = after(gang(*BOTH))
    assert after(obj, OFF) == {**gang(*BOTH), "metadata": {"name": "pcs-0", "annotations": {}}}
    assert after(gang(*BOTH), OFF) == gang(*BOTH)
    assert after({"spec": {"podgroups": None}}, OFF) == {"spec": {"podgroups": None}}


def test_an_unknown_set_gets_preferred_only_and_keeps_what_it_has() -> None:
    obj = gang("pcs-0-router", topologyConstraint=pack("k/zone", "old"))
    result = after(obj, pcs=None)["spec"]
    assert result["topologyConstraint"] == pack("k/zone")
    assert result["podgroups"][0]["topologyConstraint"] == pack(None)
    assert "topologyConstraintGroupConfigs" not in result


def test_a_podgroup_that_is_no_clique_of_the_set_is_preferred_only() -> None:
    result = after(gang("somebody-else"))
    assert result["spec"]["podgroups"] == [
        {"name": "somebody-else", "topologyConstraint": pack(None)}
    ]


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
    for one in (spec, spec["podgroups"][0], spec["topologyConstraintGroupConfigs"][0]):
        one["unknown"] = 1
        one["topologyConstraint"]["unknown"] = 2
        one["topologyConstraint"]["packConstraint"]["unknown"] = 3
    spec = after(obj, NARROWER)["spec"]
    for one in (spec, spec["podgroups"][0], spec["topologyConstraintGroupConfigs"][0]):
        assert one["unknown"] == 1
        assert one["topologyConstraint"]["unknown"] == 2
        assert one["topologyConstraint"]["packConstraint"]["unknown"] == 3
        assert one["topologyConstraint"]["packConstraint"]["preferred"] == "k/numa"


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
        ("pcs-0-router", Member(ROUTER, "0")),
        ("pcs-12-router", Member(ROUTER, "12")),
        ("pcs-0-pool-3-worker", Member(WORKER, "0", POOL, "3")),
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
def test_members_are_found_by_name(podgroup: str, member: Member | None) -> None:
    assert Members(PCS).find(podgroup) == member


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
        member and (member.group, member.index) for member in map(Members(pcs).find, podgroups)
    ] == [(group, "1") for group in pcs.groups]


def test_a_podgroup_with_a_name_of_a_megabyte_is_read_at_once() -> None:
    begin = time.process_time()
    assert Members(PCS).find(f"pcs-0-{'0-' * 500_000}worker") is None
    assert time.process_time() - begin < 1

"""What a stored set asks for, in every scope, and near misses of it."""

from typing import Any

import pytest
from msgspec.structs import replace

from app.facts.grove.podcliqueset import read_pod_clique_set
from app.rules.mnnvl.plan import Plan, asks_for
from tests.builders import Object, injection_into, labels, pod_clique, pod_spec


def pod_clique_set() -> Object:
    """A clique alone and one in a scaling group of 3, with a minAvailable of 2.

    The set has 2 replicas, and one clique that asks for nothing.
    """
    return {
        "kind": "PodCliqueSet",
        "metadata": {"name": "set", "annotations": {"grove.io/mnnvl-enabled": "true"}},
        "spec": {
            "replicas": 2,
            "template": {
                "cliques": [
                    {"name": "alone", "spec": {"podSpec": pod_spec()}},
                    {"name": "member", "spec": {"podSpec": pod_spec()}},
                    {"name": "cpu", "spec": {"podSpec": pod_spec(cpu=1)}},
                    {
                        "name": "none",
                        "annotations": {"grove.io/mnnvl-enabled": "false"},
                        "spec": {"podSpec": pod_spec()},
                    },
                ],
                "podCliqueScalingGroups": [
                    {"name": "group", "cliqueNames": ["member"], "replicas": 3, "minAvailable": 2}
                ],
            },
        },
    }


def asking(**annotations: str) -> Object:
    obj = pod_clique_set()
    named = {f"grove.io/mnnvl-{name.replace('_', '-')}": text for name, text in annotations.items()}
    obj["metadata"]["annotations"] |= named
    return obj


def plan_of(name: str, place: dict[str, str], scope: str = "replica", **more: Any) -> Plan:
    obj = pod_clique(name, place | more.pop("labels", {}), scope=scope)
    obj["metadata"]["annotations"] |= more
    plan = injection_into(obj, "ns", "shared").plan
    assert plan is not None
    return plan


def of_replica(plan: Plan, replica: str) -> Plan:
    place = replace(plan.member.place, replica=replica)
    return replace(plan, member=replace(plan.member, place=place))


ALONE = plan_of("set-1-alone", labels("set", 1, "set-1"))
CASES: dict[str, tuple[Object, Plan]] = {
    "a clique alone": (asking(), ALONE),
    "the labels of Grove": (
        asking(),
        plan_of("set-1-alone", labels("set", 1, "set-1", grove=True)),
    ),
    "a group replica in the base PodGang": (
        asking(scope="scalingGroupReplica"),
        plan_of(
            "set-0-group-1-member", labels("set", 0, "set-0", "group", 1), "scalingGroupReplica"
        ),
    ),
    "a group replica in a scaled PodGang": (
        asking(scope="scalingGroupReplica"),
        plan_of(
            "set-0-group-2-member",
            labels("set", 0, "set-0-group-0", "group", 2),
            "scalingGroupReplica",
        ),
    ),
    "a scaled group replica that shares with its replica": (
        asking(),
        plan_of(
            "set-0-group-2-member",
            labels("set", 0, "set-0-group-0", "group", 2),
        ),
    ),
    "a clique of a group for itself": (
        asking(scope="clique"),
        plan_of("set-0-group-0-member", labels("set", 0, "set-0", "group", 0), "clique"),
    ),
    "a DeviceClass": (
        asking(device_class="example.com"),
        plan_of(
            "set-1-alone",
            labels("set", 1, "set-1"),
            **{"grove.io/mnnvl-device-class": "example.com"},
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_template_asks_for_this(name: str) -> None:
    obj, plan = CASES[name]
    assert asks_for(read_pod_clique_set(obj), plan)


MISSES: dict[str, tuple[Object, Plan]] = {
    "another set": (asking(), plan_of("other-1-alone", labels("other", 1, "other-1"))),
    "a replica beyond the set": (asking(), plan_of("set-2-alone", labels("set", 2, "set-2"))),
    "a replica that is written otherwise": (
        asking(),
        plan_of("set-01-alone", labels("set", 0, "set-01") | {"grove.io/pcs-replica-index": "01"}),
    ),
    "a replica that is no number": (
        asking(),
        of_replica(ALONE, "x"),
    ),
    "a replica with too many digits": (
        asking(),
        of_replica(ALONE, "1" * 5000),
    ),
    "a group replica beyond the group": (
        asking(scope="scalingGroupReplica"),
        plan_of(
            "set-0-group-3-member",
            labels("set", 0, "set-0-group-1", "group", 3),
            "scalingGroupReplica",
        ),
    ),
    "a clique that is not in the set": (
        asking(scope="clique"),
        plan_of("set-0-other", labels("set", 0, "set-0"), "clique"),
    ),
    "a clique without GPUs": (
        asking(scope="clique"),
        plan_of("set-0-cpu", labels("set", 0, "set-0"), "clique"),
    ),
    "a clique that opts out": (
        asking(scope="clique"),
        plan_of("set-0-none", labels("set", 0, "set-0"), "clique"),
    ),
    "another scope": (asking(scope="clique"), ALONE),
    "a scope that there is not": (asking(scope="unknown"), ALONE),
    "another DeviceClass": (asking(device_class="example.com"), ALONE),
    "MNNVL is not enabled": (asking(enabled="false"), ALONE),
}


@pytest.mark.parametrize("name", MISSES)
def test_the_template_does_not_ask_for_this(name: str) -> None:
    obj, plan = MISSES[name]
    assert not asks_for(read_pod_clique_set(obj), plan)

"""The labels of MNNVL resources, and whether a resource with such labels is that of a plan."""

import pytest
from msgspec.structs import replace

from app.facts.grove.unit_member import UnitMember
from app.facts.identity import Place, read_place
from app.rules.mnnvl.plan import DEFAULT_DEVICE_CLASS, Plan
from app.rules.mnnvl.unit import Scope

ALONE = Place("set", "0")
IN_GROUP = Place("set", "0", "group", "1")
LONG = Place("set", "0", "g" * 64, "1")


def plan_at(place: Place, scope: Scope) -> Plan:
    return Plan(UnitMember("ns", "set-0-worker", place), scope, DEFAULT_DEVICE_CLASS)


PLANS = {
    "a replica of the set": plan_at(ALONE, "replica"),
    "a replica of the set, from a scaling group": plan_at(IN_GROUP, "replica"),
    "a clique in no scaling group": plan_at(ALONE, "clique"),
    "a clique in a scaling group": plan_at(IN_GROUP, "clique"),
    "a replica of a scaling group": plan_at(IN_GROUP, "scalingGroupReplica"),
    "a scaling group whose name is too long for a label": plan_at(LONG, "clique"),
}


@pytest.mark.parametrize("name", PLANS)
def test_the_resources_of_a_plan_are_at_its_place(name: str) -> None:
    plan = PLANS[name]
    made_at = read_place(plan.labels)
    others = [
        replace(made_at, pcs="other"),
        replace(made_at, replica="7"),
        replace(made_at, group="other", group_replica="1"),
        replace(made_at, group=made_at.group or "other"),
        replace(made_at, group_replica="7"),
    ]

    assert plan.is_at(made_at)
    assert not any(plan.is_at(other) for other in others if other != made_at)

"""The labels of MNNVL resources, and whether a resource with such labels is that of a plan."""

import pytest
from msgspec.structs import replace

from app.facts.grove.podcliqueset import MnnvlAnnotations
from app.facts.grove.unit_member import UnitMember
from app.facts.identity import Place, read_place
from app.rules.mnnvl.plan import DEFAULT_DEVICE_CLASS, Plan, read_plan
from app.rules.mnnvl.unit import Scope
from tests.said import Said

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


LABEL = "metadata.labels[grove.io/{}]".format
PCS = LABEL("pcs-name")
REPLICA = LABEL("pcs-replica-index")


@pytest.mark.parametrize(
    ("place", "name", "scope", "findings"),
    [
        pytest.param(ALONE, "set-0-worker", "replica", [], id="all labels"),
        pytest.param(IN_GROUP, "set-0-worker", "scalingGroupReplica", [], id="all of a group"),
        pytest.param(Place(), "set-0-worker", "replica", [PCS, REPLICA], id="no labels"),
        pytest.param(
            Place("s" * 63, "0"), f"{'s' * 63}-0-w", "replica", [], id="the longest label"
        ),
        pytest.param(Place("s" * 64, "0"), f"{'s' * 64}-0-w", "replica", [PCS], id="a long label"),
        pytest.param(Place("set", "x"), "set-x-worker", "replica", [REPLICA], id="no index"),
        pytest.param(Place("set", "²"), "set-²-worker", "replica", [REPLICA], id="an odd digit"),
        pytest.param(
            Place("set", "x" * 64),
            "set-0-worker",
            "replica",
            [REPLICA, REPLICA],
            id="a long label that is no index",
        ),
        pytest.param(ALONE, "", "replica", ["metadata.name"], id="no name"),
        pytest.param(ALONE, "set-1-worker", "replica", ["metadata.name"], id="another replica"),
        pytest.param(ALONE, f"set-0-{'w' * 250}", "clique", ["metadata.name"], id="a long name"),
    ],
)
def test_labels_and_the_name_of_a_podclique_fit_its_unit(
    place: Place, name: str, scope: Scope, findings: list[str], said: Said
) -> None:
    annotations = MnnvlAnnotations(scope=scope)
    plan, found = read_plan(UnitMember("ns", name, place), annotations)
    assert (plan.scope, [finding.field for finding in found]) == (scope, findings)
    said(found)

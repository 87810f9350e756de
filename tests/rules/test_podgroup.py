"""Constraints of KAI PodGroups that KAI ignores or never satisfies.

Tests `app/rules/topology/unsatisfiable.py`.
"""

from typing import Any

import pytest

from app.facts.kai.topology import KaiTopology
from app.rules.podgroup import constraint_warnings

TOPOLOGIES = {
    "t": KaiTopology("t", ("zone", "rack", "host"), aliases=(("z", "zone"), ("r", "rack"))),
    "u": KaiTopology("u", ("zone", "rack", "host")),
}
NEVER = "KAI never places these pods"
OF_WHOLE = "spec.topologyConstraint"
OF_FIRST = "spec.subGroups[0].topologyConstraint"
OF_SECOND = "spec.subGroups[1].topologyConstraint"


def c(required: str = "", preferred: str = "", topology: str = "t") -> dict[str, Any]:
    fields = {
        "topology": topology,
        "requiredTopologyLevel": required,
        "preferredTopologyLevel": preferred,
    }
    return {"topologyConstraint": {key: value for key, value in fields.items() if value}}


def group(whole: dict[str, Any], *subgroups: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {**whole, "subGroups": list(subgroups)}}


def broader(at: str, preferred: str, required: str) -> str:
    return f'{at}.preferredTopologyLevel "{preferred}" is broader than the required level "{required}": {NEVER}. Remove the preferred level, or use a narrower one'


def below(at: str, required: str, above: str) -> str:
    return f'{at}.requiredTopologyLevel "{required}" is broader than "{above}", which the enclosing group requires: {NEVER}. Require "{above}" or a narrower level'


def unnamed(at: str, level: str) -> str:
    return f'{at} "{level}" is ignored by KAI, because no topology is named for it'


@pytest.mark.parametrize(
    ("obj", "warnings"),
    [
        pytest.param({}, [], id="no spec"),
        pytest.param(group({}), [], id="no constraint"),
        pytest.param(group(c("rack")), [], id="a required level"),
        pytest.param(group(c("rack", "host")), [], id="preferred is narrower"),
        pytest.param(group(c("rack", "rack")), [], id="preferred is equal"),
        pytest.param(group(c("", "zone")), [], id="nothing is required"),
        pytest.param(
            group(c("host", "rack")), [broader(OF_WHOLE, "rack", "host")], id="d3-host-rack"
        ),
        pytest.param(group(c("r", "z")), [broader(OF_WHOLE, "z", "r")], id="aliases"),
        pytest.param(
            group({}, {"name": "s", **c("host", "rack")}),
            [broader(OF_FIRST, "rack", "host")],
            id="d3-subgroup",
        ),
        pytest.param(
            group(c("rack"), {"name": "s", **c("zone")}),
            [below(OF_FIRST, "zone", "rack")],
            id="d5-subgroup-broader",
        ),
        pytest.param(
            group(c("rack"), {"name": "s", **c("zone", "host")}),
            [],
            id="a preferred level makes the broader one possible",
        ),
        pytest.param(
            group(c("rack"), {"name": "s", **c("zone", topology="u")}), [], id="another topology"
        ),
        pytest.param(
            group({}, {"name": "b", "parent": "a", **c("zone")}, {"name": "a", **c("rack")}),
            [below(OF_FIRST, "zone", "rack")],
            id="the part above comes later",
        ),
        pytest.param(
            group(c("rack"), {"name": "a"}, {"name": "b", "parent": "a", **c("zone")}),
            [below(OF_SECOND, "zone", "rack")],
            id="the part above requires nothing, the one above that does",
        ),
        pytest.param(
            group(c("rack"), {"name": "a", **c("zone")}, {"name": "b", "parent": "a", **c("zone")}),
            [below(OF_FIRST, "zone", "rack"), below(OF_SECOND, "zone", "rack")],
            id="the narrowest above counts",
        ),
        pytest.param(
            group(c("rack", "", "")),
            [unnamed(f"{OF_WHOLE}.requiredTopologyLevel", "rack")],
            id="d10-no-topology-host",
        ),
        pytest.param(
            group(c("rack"), {"name": "s", **c("host", "host", "")}),
            [
                unnamed(f"{OF_FIRST}.requiredTopologyLevel", "host"),
                unnamed(f"{OF_FIRST}.preferredTopologyLevel", "host"),
            ],
            id="a SubGroup without a topology",
        ),
        pytest.param(
            group(c("row", "column")),
            [
                f'{OF_WHOLE}.{field}TopologyLevel "{level}" is not a level of KAI Topology "t", so {NEVER}; its levels: zone, rack, host'
                for field, level in (("required", "row"), ("preferred", "column"))
            ],
            id="unknown levels",
        ),
        pytest.param(group(c("host", "rack", "v")), [], id="an unknown topology"),
        pytest.param(group({"topologyConstraint": {"topology": "t"}}), [], id="no level"),
        pytest.param(
            {"spec": {"topologyConstraint": [3], "subGroups": [3, {"topologyConstraint": 4}]}},
            [],
            id="wrong shapes",
        ),
    ],
)
def test_warnings(obj: dict[str, Any], warnings: list[str]) -> None:
    assert constraint_warnings(obj, TOPOLOGIES.get) == warnings


@pytest.mark.untraced
def test_a_long_chain_of_subgroups_takes_one_pass() -> None:
    chain = [{"name": str(n), "parent": str(n + 1), **c("zone")} for n in range(9_000)]
    warnings = constraint_warnings(group(c("rack"), *chain, {"name": "9000"}), TOPOLOGIES.get)
    assert len(warnings) == 9_000

"""Levels of a ClusterTopology."""

from typing import Any

import pytest
from msgspec.structs import replace

from app.facts.grove.topology import DOMAINS, Level, levels_of_cluster_topology
from app.rules.dialects.design import DESIGN
from app.rules.dialects.design.levels import validate_cluster_topology
from tests.builders import managed
from tests.rules.dialects.around import Around
from tests.said import Said

RACK = {"domain": "rack", "key": "topology.kubernetes.io/rack"}
HOST = {"domain": "host", "key": "kubernetes.io/hostname"}


def topology(*levels: Any) -> dict[str, Any]:
    return {"spec": {"levels": list(levels)}}


CASES: list[Any] = [
    pytest.param(topology(HOST), [], id="one level"),
    pytest.param(topology(HOST, RACK), [], id="levels in any order"),
    pytest.param(
        topology(RACK, {**RACK, "key": "a"}),
        [("spec.levels[1].domain", 'Duplicate value: "rack"')],
        id="domain",
    ),
    pytest.param(
        topology(RACK, {**HOST, "key": RACK["key"]}),
        [("spec.levels[1].key", "Duplicate value")],
        id="key",
    ),
    pytest.param(
        topology({"domain": "galaxy", "key": "-"}, {"domain": None, "key": ""}),
        [
            ("spec.levels[0].domain", 'Unsupported value: "galaxy"'),
            ("spec.levels[0].key", "must be a qualified label name"),
            ("spec.levels[1].domain", "Required value"),
            ("spec.levels[1].key", "Required value"),
        ],
        id="everything at once, in list order",
    ),
    pytest.param(
        topology({"domain": 1, "key": 2}),
        [("spec.levels[0].domain", "must be a string"), ("spec.levels[0].key", "must be a string")],
        id="numbers where strings belong",
    ),
    pytest.param(
        topology({**RACK, "key": "rack\n"}),
        [("spec.levels[0].key", r"rack\n")],
        id="a trailing newline",
    ),
    pytest.param(
        topology({**RACK, "domain": "rack\n"}),
        [("spec.levels[0].domain", "Unsupported")],
        id="domain newline",
    ),
    pytest.param(
        topology({**RACK, "key": "a" * 64}),
        [
            (
                "spec.levels[0].key",
                f'Invalid value: "{"a" * 64}": must be no more than 63 characters$',
            )
        ],
        id="a long key",
    ),
    pytest.param(
        topology({**RACK, "key": "UP.per/x"}),
        [("spec.levels[0].key", "prefix must be")],
        id="a bad prefix",
    ),
    pytest.param(
        topology({**RACK, "key": "/x"}),
        [("spec.levels[0].key", "prefix must be")],
        id="an empty prefix",
    ),
    pytest.param(
        topology("rack"), [("spec.levels[0]", "must be a map")], id="a level that is no map"
    ),
    pytest.param(topology(), [("spec.levels", "at least one level")], id="no level"),
    pytest.param({}, [("spec.levels", "at least one level")], id="no spec"),
    pytest.param({"spec": []}, [("spec", "must be a map")], id="spec is a list"),
    pytest.param(
        {"spec": {"levels": {}}}, [("spec.levels", "must be a list")], id="levels is a map"
    ),
]


@pytest.mark.parametrize(("obj", "expected"), CASES)
@pytest.mark.statement(
    "1.15",
    "1.16",
    "1.17",
    "1.19",
    "1.25",
    "1.26",
    "1.27",
    "1.49",
    "1.87",
    "1.164",
    "1.165",
    "1.166",
    "1.167",
    "1.168",
    "1.169",
    "1.170",
)
def test_validation(obj: Any, expected: list[tuple[str, str]], said: Said) -> None:
    findings = validate_cluster_topology(obj)
    assert [finding.field for finding in findings] == [field for field, _ in expected]
    for finding, (_, text) in zip(findings, expected, strict=True):
        assert text in f"{finding}$"
    said(findings)


@pytest.mark.statement("1.21")
def test_more_levels_than_there_are_domains() -> None:
    levels = [{"domain": "rack", "key": f"key-{index}"} for index in range(8)]
    findings = validate_cluster_topology(topology(*levels))
    assert str(findings[0]) == "spec.levels: Invalid value: 8: must have at most 7 levels"
    assert len(findings) == 8


@pytest.mark.statement("1.13", "1.49", "1.129")
def test_stored_levels_are_read_broadest_first() -> None:
    stored = [
        HOST,
        "x",
        {"domain": "galaxy", "key": "k"},
        {"domain": "numa"},
        {"domain": ["rack"], "key": "k"},
        RACK,
    ]
    levels = levels_of_cluster_topology({"spec": {"levels": stored}})
    assert levels == (Level("rack", RACK["key"]), Level("host", HOST["key"]))
    assert levels_of_cluster_topology({"spec": {"levels": {"a": 1}}}) == ()
    known = managed("t", levels=levels)
    assert (known.strictest_key, known.key_of("rack"), known.key_of("zone")) == (
        HOST["key"],
        RACK["key"],
        None,
    )
    assert known.keys == (RACK["key"], HOST["key"])
    assert managed("t").strictest_key is None


def test_pods_are_placed_by_no_level_below_the_hostname() -> None:
    host, numa = Level("host", "kubernetes.io/hostname"), Level("numa", "k/numa")
    known = managed("t", levels=(Level("rack", "k/rack"), host, numa))
    assert (known.strictest_key, known.key_of("numa"), known.key_of("zone")) == (
        host.key,
        host.key,
        None,
    )
    assert known.domains == {"rack", "host", "numa"}
    binding = replace(known, kind="ClusterTopologyBinding")
    assert (binding.strictest_key, binding.key_of("numa")) == (numa.key, numa.key)


@pytest.mark.statement("1.14", "1.128")
def test_the_semantic_order() -> None:
    assert DOMAINS == ("region", "zone", "datacenter", "block", "rack", "host", "numa")


def test_levels_below_the_host_are_a_warning_for_the_managed_topology_only(said: Said) -> None:
    numa = {"domain": "numa", "key": "example.com/numa"}
    warnings = [
        DESIGN.validate_levels(topology(HOST, numa), None, "CREATE", Around(), is_managed).warnings
        for is_managed in (True, False)
    ]
    assert [any("numa" in warning for warning in each) for each in warnings] == [True, False]
    said(*warnings)

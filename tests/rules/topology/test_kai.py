"""The KAI Topology of a ClusterTopology.

Tests `app/facts/kai/topology.py`.
"""

from typing import Any

import pytest

from app.facts.grove.topology import Level
from app.rules.topology.kai import (
    desired_kai_topology,
    is_orphan,
    is_owned,
    last_errors,
    ready_condition,
)
from app.rules.topology.levels import levels_below_host

NOW = "2026-11-21T12:00:00Z"
BEFORE = "2026-01-01T00:00:00Z"
RACK = Level("rack", "k/rack")
HOST = Level("host", "kubernetes.io/hostname")
NUMA = Level("numa", "k/numa")


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1", "v9"])
@pytest.mark.statement("1.60", "1.63", "1.161")
def test_it_has_the_levels_broadest_first_and_its_owner(version: str) -> None:
    """The owner has the version in which it was read, which is served."""
    api_version = f"grove.io/{version}"
    metadata = {"name": "grove-topology", "uid": "u1"}
    stored = {"apiVersion": api_version, "metadata": metadata, "spec": {}}
    assert desired_kai_topology(stored, [RACK, HOST]) == {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {
            "name": "grove-topology",
            "ownerReferences": [
                {
                    "apiVersion": api_version,
                    "kind": "ClusterTopology",
                    "name": "grove-topology",
                    "uid": "u1",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {"levels": [{"nodeLabel": "k/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]},
    }


@pytest.mark.parametrize(
    ("levels", "usable", "warning"),
    [
        pytest.param([RACK, HOST], [RACK, HOST], "", id="host last"),
        pytest.param([RACK, NUMA], [RACK, NUMA], "", id="no host"),
        pytest.param(
            [RACK, HOST, NUMA],
            [RACK, HOST],
            "KAI cannot use levels below kubernetes.io/hostname:"
            ' constraints on "numa" are written as "host"',
            id="numa below host",
        ),
        pytest.param(
            [Level("host", "k/host"), NUMA], [Level("host", "k/host"), NUMA], "", id="key"
        ),
        pytest.param([], [], "", id="nothing"),
    ],
)
@pytest.mark.statement("1.37", "1.41")
def test_kai_gets_no_level_below_the_hostname(
    levels: list[Level], usable: list[Level], warning: str
) -> None:
    stored = {"apiVersion": "grove.io/v1alpha1", "metadata": {"name": "t", "uid": "u"}}
    assert desired_kai_topology(stored, levels)["spec"]["levels"] == [
        {"nodeLabel": level.key} for level in usable
    ]
    assert levels_below_host(levels) == warning
    assert ready_condition(None, 1, remark=warning).message == (
        f"KAI Topology matches the ClusterTopology{warning and '. '}{warning}"
    )


OURS = {"kind": "ClusterTopology", "name": "grove-topology", "uid": "u1", "controller": True}


@pytest.mark.parametrize(
    ("owners", "owned", "orphan"),
    [
        pytest.param(None, False, False, id="nobody's"),
        pytest.param([OURS], True, False, id="ours"),
        pytest.param([{**OURS, "controller": False}], False, False, id="ours, but not controlled"),
        pytest.param([{**OURS, "uid": "u0"}], False, True, id="a former one's"),
        pytest.param(
            [{**OURS, "name": "other", "uid": "u2"}], False, False, id="another topology's"
        ),
        pytest.param([{**OURS, "kind": "Other", "uid": "u2"}], False, False, id="another kind's"),
    ],
)
def test_whose_it_is(owners: Any, owned: bool, orphan: bool) -> None:
    kai = {"metadata": {"name": "grove-topology", "ownerReferences": owners}}
    assert (is_owned(kai, "u1"), is_orphan(kai, "grove-topology", "u1")) == (owned, orphan)


@pytest.mark.statement("1.31", "1.32", "1.33", "1.190")
def test_the_ready_condition_has_the_designs_reasons() -> None:
    assert [
        (condition.status, condition.reason)
        for condition in (ready_condition(None, 1), ready_condition("x", 1))
    ] == [
        ("True", "TopologyReady"),
        ("False", "TopologyCreationOrUpdateFailed"),
    ]
    assert ready_condition("x", 1, pending=True).status == "Unknown"


def test_last_errors_keep_the_time_they_were_first_seen() -> None:
    failed = ready_condition("broken", 1)
    error = {"code": "KAI_TOPOLOGY_CREATE_ERROR", "description": "broken", "observedAt": BEFORE}
    assert last_errors(failed, None, NOW) == [{**error, "observedAt": NOW}]
    assert last_errors(failed, ["nonsense", error], NOW) == [error]
    assert last_errors(failed, [{**error, "description": "other"}], NOW) == [
        {**error, "observedAt": NOW}
    ]
    assert last_errors(ready_condition(None, 1), [error], NOW) == []
    assert last_errors(ready_condition("waits", 1, pending=True), [error], NOW) == []

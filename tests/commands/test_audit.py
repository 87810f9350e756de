"""The command `audit`: its report as text and JSON."""

import json
from typing import Any

import pytest

from app.commands.audit import audit, need_namespace
from app.facts import kinds
from app.kube.api import NotFound, Rejected
from app.objects.resource import NAMESPACE
from tests import builders
from tests.audit.test_audit import CONFIGURED, TOPOLOGY
from tests.kube.memory.client import MemoryClient


async def test_the_report_in_json_is_a_line_for_each_finding_and_the_summary(capsys: Any) -> None:
    client = MemoryClient([TOPOLOGY, builders.pod_group("bad", {"name": "Workers"})])
    assert await audit(client, CONFIGURED, None, "json") == 1
    finding, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert {key: finding[key] for key in ("kind", "namespace", "name", "code", "outcome")} == {
        "kind": "PodGroup",
        "namespace": "default",
        "name": "bad",
        "code": 422,
        "outcome": "refused",
    }
    assert summary["summary"]["counts"]["PodGroup"] == {
        "lookedAt": 1,
        "found": 1,
        "refused": 1,
        "undecided": 0,
    }
    assert (summary["summary"]["unread"], summary["summary"]["notInstalled"]) == ({}, [])


async def test_a_namespace_that_is_not_there_is_no_cluster_where_all_is_well() -> None:
    client = MemoryClient([TOPOLOGY])
    with pytest.raises(NotFound):
        await need_namespace(client, "typo")
    client.fail_next("get", NAMESPACE, Rejected("not yours to read"))
    await need_namespace(client, "typo")


async def test_the_report_as_text_ends_with_counts(capsys: Any) -> None:
    client = MemoryClient([TOPOLOGY, builders.pod_group("bad", {"name": "Workers"})])
    client.served.pop(kinds.RESOURCE_CLAIM)
    assert await audit(client, CONFIGURED, None, "text") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "refused   PodGroup default/bad"
    assert lines[3:] == [
        "ClusterTopology: 1 checked, 0 refused, 0 warnings",
        "PodCliqueSet: 0 checked, 0 refused, 0 warnings",
        "PodGroup: 1 checked, 1 refused, 0 warnings",
        "PodClique: 0 checked, 0 refused, 0 warnings",
        "PodGang: 0 checked, 0 refused, 0 warnings",
        "Pod: 0 checked, 0 refused, 0 warnings",
        "Queue: 0 checked, 0 refused, 0 warnings",
        "ComputeDomain: 0 checked, 0 refused, 0 warnings",
        "not installed in this cluster: resourceclaims.resource.k8s.io",
    ]

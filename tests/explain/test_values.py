"""Quantities, times and requests as Kubernetes has them."""

from typing import Any

import pytest

from app.explain.facts.fields import reader
from app.explain.facts.kai import WorkloadGroup
from app.explain.facts.nodes import Node
from app.explain.facts.pods import Pod, pod_requests
from app.explain.facts.values import amounts, duration, seconds_since_1970, thousandths
from app.explain.words import ago, amount, clock, counted, listed, plain

MOST = (2**63 - 1) * 1000
"""The largest quantity, in thousandths."""


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        ("8", 8000),
        (8, 8000),
        (0.5, 500),
        ("100m", 100),
        ("1.5", 1500),
        (".5", 500),
        ("1Ki", 1_024_000),
        ("900Gi", 900 * 2**30 * 1000),
        ("1k", 1_000_000),
        ("2e3", 2_000_000),
        ("1E", 10**21),
        ("1500u", 2),
        ("-1", -1000),
        ("", 0),
        ("many", 0),
        (".", 0),
        ("1..2", 0),
        ("9" * 5000, 0),
        ("9" * 64, MOST),
        ("-" + "9" * 63, -MOST),
        ("1e99", MOST),
        (1e300, MOST),
        (float("inf"), 0),
        (float("nan"), 0),
        ("٣", 0),
    ],
)
def test_quantities_in_thousandths(quantity: str | int | float, expected: int) -> None:
    assert thousandths(quantity) == expected


def test_what_is_no_quantity_is_left_out() -> None:
    assert amounts({"cpu": "1", "memory": None, "x": {}, "y": []}) == {"cpu": 1000}
    assert amounts(None) == {}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1970-01-02T00:00:01Z", 86401.0),
        ("1970-01-02T00:00:01.999999Z", 86401.0),
        ("1970-01-02T02:00:01+02:00", 86401.0),
        ("1970-01-01T23:30:01-00:30", 86401.0),
        ("9999-12-31T23:59:60Z", 253402300800.0),
        ("1970-01-02T00:00:01", None),
        ("2026-99-99T00:00:00Z", None),
        ("0000-01-01T00:00:00Z", None),
        ("2026-02-29T00:00:00Z", None),
        ("2026-01-00T00:00:00Z", None),
        ("2026-01-01T24:00:00Z", None),
        ("2026-01-01T00:60:00Z", None),
        ("2026-01-01T00:00:61Z", None),
        ("٢٠٢٦-01-01T00:00:00Z", None),
        ("yesterday", None),
        (None, None),
        (0, None),
    ],
)
def test_times(value: object, expected: float | None) -> None:
    assert seconds_since_1970(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1h30m", 5400.0),
        ("90s", 90.0),
        ("250ms", 0.25),
        ("2us", 2e-6),
        ("1.5h", 5400.0),
        ("1.2.3s", 0.0),
        (".s", 0.0),
        ("in 5s", 0.0),
        ("5s ", 0.0),
        ("", 0.0),
        ("9" * 60 + "h", 2.0**63 / 1e9),
        ("1" * 100_000 + "s", 0.0),
        (None, 0.0),
        (5, 0.0),
    ],
)
def test_durations(value: object, expected: float) -> None:
    assert duration(value) == expected


def container(cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        ({"containers": [container("1"), container("2")]}, 3000),
        (
            {"containers": [container("1")], "initContainers": [container("4"), container("2")]},
            4000,
        ),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("1", restartPolicy="Always")],
            },
            2000,
        ),
        (
            {
                "containers": [container("1")],
                "initContainers": [container("1", restartPolicy="Always"), container("3")],
            },
            4000,
        ),
        ({"containers": [container("1")], "overhead": {"cpu": "250m"}}, 1250),
        ({"containers": [container("1")], "resources": {"requests": {"cpu": "5"}}}, 5000),
        ({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}, 2000),
    ],
)
def test_requests_of_a_pod_are_counted_as_the_scheduler_does(
    spec: dict[str, Any], cpu: int
) -> None:
    assert pod_requests(spec) == {"cpu": cpu, "pods": 1000}


def test_of_a_pod_only_what_decides_on_placement_is_kept() -> None:
    secret = {"env": [{"name": "TOKEN", "value": "secret"}], "args": ["--password=secret"]}
    obj = {
        "metadata": {
            "name": "p",
            "annotations": {"note": "secret"},
            "managedFields": [{"manager": "secret"}],
        },
        "spec": {"containers": [container("1", **secret)]},
        "status": {
            "conditions": [{"type": "PodScheduled", "status": "False", "message": "no room"}]
        },
    }
    kept = reader(Pod)(obj)
    assert "secret" not in repr(kept)
    assert (kept.unscheduled, kept.scheduler, kept.phase) == (
        "no room",
        "default-scheduler",
        "Pending",
    )


def test_objects_of_another_form_are_read_without_trust() -> None:
    odd: dict[str, Any] = {
        "metadata": None,
        "spec": [],
        "status": {"conditions": "none", "allocatable": 3},
    }
    assert reader(Pod)(odd).name == ""
    assert (
        reader(Node)({"metadata": {"name": "n", "labels": {}}, "status": odd["status"]}).allocatable
        == {}
    )


def test_words() -> None:
    assert (counted(1, "node"), counted(2_000, "node"), counted(2, "queue entry")) == (
        "1 node",
        "2,000 nodes",
        "2 queue entries",
    )
    assert (listed([]), listed(["a"]), listed("ab"), listed("abcdef")) == (
        "",
        "a",
        "a and b",
        "a, b, c, d and 2 more",
    )
    assert (plain(8000), plain(1_500), plain(1_000_000)) == ("8", "1.5", "1,000")
    assert [
        amount("memory", 512_000),
        amount("memory", 900 * 2**30 * 1000),
        amount("memory", 3000 * 2**40 * 1000),
    ] == [
        "512 B",
        "900 GiB",
        "3,000 TiB",
    ]
    assert [
        amount("nvidia.com/gpu", 1000),
        amount("cpu", 2500),
        amount("pods", 1000),
        amount("vendor/x", 2000),
    ] == [
        "1 GPU",
        "2.5 CPUs",
        "1 pod",
        "2 vendor/x",
    ]
    assert [ago(5), ago(119), ago(840), ago(7200), ago(200_000)] == [
        "5 seconds",
        "119 seconds",
        "14 minutes",
        "2 hours",
        "2 days",
    ]
    assert clock(15 * 3600 + 42 * 60) == "15:42 UTC"


@pytest.mark.parametrize(
    "reference",
    [
        {
            "podGroupTemplateRef": {
                "workload": {"workloadName": "train", "podGroupTemplateName": "workers"}
            }
        },
        {"podGroupTemplateRef": {"workloadName": "train", "podGroupTemplateName": "workers"}},
        {"workloadRef": {"workloadName": "train", "templateName": "workers"}},
    ],
    ids=["Kubernetes 1.36", "Kubernetes 1.36, flat", "Kubernetes 1.37"],
)
def test_a_pod_group_names_the_workload_that_it_is_made_from(reference: dict[str, Any]) -> None:
    obj = {"metadata": {"namespace": "research", "name": "train-workers"}, "spec": reference}
    assert reader(WorkloadGroup)(obj) == WorkloadGroup("research", "train-workers", "train")

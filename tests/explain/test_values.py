"""Times and words, and objects of another form."""

from typing import Any

import pytest

from app.explain.facts.fields import reader
from app.explain.facts.kai import WorkloadGroup
from app.explain.facts.nodes import Node
from app.explain.facts.pods import Pod
from app.explain.facts.values import duration, seconds_since_1970
from app.explain.words import ago, amount, clock, counted, listed, plain


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

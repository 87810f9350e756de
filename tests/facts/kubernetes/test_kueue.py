"""Kueue's Workloads, as they are stored."""

from typing import Any

import pytest

from app.facts.kubernetes.kueue import read_kueue_workload


def workload(**status: Any) -> Any:
    return {"metadata": {"name": "w", "namespace": "n"}, "spec": {}, "status": status}


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (None, (0, None)),
        ({"count": 3, "requeueAt": "2026-11-28T12:00:00Z"}, (3, 1795867200.0)),
        ({"count": 1, "requeueAt": None}, (1, None)),
        ({"count": "x", "requeueAt": 7}, (0, None)),
        ([], (0, None)),
    ],
)
def test_how_often_and_when_it_is_tried_again(state: Any, expected: Any) -> None:
    read = read_kueue_workload(workload(requeueState=state))
    assert (read.requeues, read.again) == expected


def test_conditions_are_read_with_their_times() -> None:
    condition = {
        "type": "Evicted",
        "status": "True",
        "reason": "Preempted",
        "message": "for another",
        "lastTransitionTime": "2026-11-28T12:00:00Z",
    }
    (read,) = read_kueue_workload(workload(conditions=[condition])).conditions
    assert (read.type, read.reason, read.message) == ("Evicted", "Preempted", "for another")

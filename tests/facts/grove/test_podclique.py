"""Tests `app/facts/grove/podclique.py`."""

from typing import Any

import pytest

from app.facts.grove.podclique import read_pod_clique

MADE = "2026-11-30T08:00:00Z"
LATER = "2026-11-30T12:00:00Z"


def condition(type: str, status: str, since: str = LATER) -> dict[str, Any]:
    return {"type": type, "status": status, "lastTransitionTime": since}


@pytest.mark.parametrize(
    ("conditions", "is_breached"),
    [
        pytest.param([], False, id="without conditions"),
        pytest.param(
            [condition("MinAvailableBreached", "True"), condition("PodCliqueScheduled", "True")],
            True,
            id="its pods have nodes, and are not available",
        ),
        pytest.param(
            [condition("MinAvailableBreached", "True"), condition("PodCliqueScheduled", "False")],
            True,
            id="its pods have lost their nodes",
        ),
        pytest.param(
            [
                condition("MinAvailableBreached", "True"),
                condition("PodCliqueScheduled", "False", MADE),
            ],
            False,
            id="its pods never had nodes",
        ),
        pytest.param(
            [condition("MinAvailableBreached", "True")], False, id="it is not known whether"
        ),
        pytest.param(
            [condition("MinAvailableBreached", "False"), condition("PodCliqueScheduled", "True")],
            False,
            id="it has enough pods",
        ),
        pytest.param(
            [condition("MinAvailableBreached", "Unknown"), condition("PodCliqueScheduled", "True")],
            False,
            id="an update is in progress",
        ),
    ],
)
def test_grove_counts_the_time_only_of_podcliques_that_were_scheduled(
    conditions: list[dict[str, Any]], is_breached: bool
) -> None:
    metadata = {"name": "a-0-w", "namespace": "ns", "creationTimestamp": MADE}
    clique = read_pod_clique({"metadata": metadata, "status": {"conditions": conditions}})
    assert (clique.breached is not None) is is_breached

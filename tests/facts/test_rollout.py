"""Updates of a template that have not ended."""

from typing import Any

import pytest

from app.facts.rollout import Rollout, read_rollout

PAUSED = "spec.paused: true"
ON_DELETE = "spec.updateStrategy.type: OnDelete"
STARTED, ENDED = "1970-01-01T00:01:00Z", "1970-01-01T00:02:00Z"
STS = "spec.updateStrategy.rollingUpdate.partition"
LWS = "spec.rolloutStrategy.rollingUpdateConfiguration.partition"


def progressing(reason: str, **times: str) -> dict[str, Any]:
    return {"conditions": [{"type": "Progressing", "reason": reason, **times}]}


def updating(status: str) -> dict[str, Any]:
    condition = {"type": "UpdateInProgress", "status": status, "lastTransitionTime": STARTED}
    return {"conditions": [condition]}


def partition(number: int, field: str) -> dict[str, Any]:
    if field == "updateStrategy":
        return {field: {"rollingUpdate": {"partition": number}}}
    return {field: {"rollingUpdateConfiguration": {"partition": number}}}


DEPLOYMENTS: list[Any] = [
    pytest.param({}, {"replicas": 2, "updatedReplicas": 2}, None, id="it has ended"),
    pytest.param({}, {"replicas": 1}, Rollout(1, 1), id="no new pod"),
    pytest.param(
        {"replicas": 2},
        {"replicas": 3, "updatedReplicas": 1}
        | progressing("ReplicaSetUpdated", lastUpdateTime=ENDED, lastTransitionTime=STARTED),
        Rollout(2, 3, 120.0),
        id="it makes progress",
    ),
    pytest.param(
        {},
        {"replicas": 2, "updatedReplicas": 1}
        | progressing("ProgressDeadlineExceeded", lastTransitionTime=STARTED),
        Rollout(1, 2, 60.0, is_late=True),
        id="it is late",
    ),
    pytest.param(
        {"paused": True},
        {"replicas": 2, "updatedReplicas": 1},
        Rollout(1, 2, held_by=PAUSED),
        id="it is paused",
    ),
]

_OLD = {"replicas": 3, "updateRevision": "b", "currentRevision": "a"}
STATEFUL_SETS: list[Any] = [
    pytest.param({}, {**_OLD, "updatedReplicas": 3}, None, id="it has ended"),
    pytest.param({}, {**_OLD, "currentRevision": "b"}, None, id="there is one revision"),
    pytest.param(
        {"replicas": 3}, {**_OLD, "updatedReplicas": 1}, Rollout(2, 3), id="it makes progress"
    ),
    pytest.param(
        {"replicas": 3, **partition(2, "updateStrategy")},
        {**_OLD, "updatedReplicas": 1},
        Rollout(2, 3, held_by=f"{STS}: 2"),
        id="up to the partition",
    ),
    pytest.param(
        {"replicas": 3, **partition(1, "updateStrategy")},
        {**_OLD, "updatedReplicas": 1},
        Rollout(2, 3),
        id="not up to the partition",
    ),
    pytest.param(
        {"replicas": 3, "updateStrategy": {"type": "OnDelete"}},
        _OLD,
        Rollout(3, 3, held_by=ON_DELETE),
        id="on deletion",
    ),
]

SETS: list[Any] = [
    pytest.param({"replicas": 2}, {"updatedReplicas": 2}, None, id="it has ended"),
    pytest.param({"replicas": 2}, {"updatedReplicas": 1}, None, id="its groups are created"),
    pytest.param({"replicas": 2}, updating("False") | {"updatedReplicas": 1}, None, id="no update"),
    pytest.param({"replicas": 2}, updating("True"), Rollout(2, 2, 60.0), id="it makes progress"),
    pytest.param(
        {"replicas": 2, **partition(1, "rolloutStrategy")},
        {"updatedReplicas": 1},
        Rollout(1, 2, held_by=f"{LWS}: 1"),
        id="up to the partition",
    ),
]

POD_CLIQUE_SETS: list[Any] = [
    pytest.param({}, {"updatedReplicas": 0}, None, id="no update"),
    pytest.param(
        {},
        {"updateProgress": {"updateStartedAt": STARTED}},
        Rollout(1, 1, 60.0),
        id="it makes progress",
    ),
    pytest.param(
        {"replicas": 2},
        {"rollingUpdateProgress": {"updateStartedAt": STARTED}, "updatedReplicas": 1},
        Rollout(1, 2, 60.0),
        id="the old name of the field",
    ),
    pytest.param(
        {},
        {"updateProgress": {"updateStartedAt": STARTED, "updateEndedAt": ENDED}},
        None,
        id="it has ended",
    ),
    pytest.param(
        {"replicas": 2, "updateStrategy": {"type": "OnDelete"}},
        {"updateProgress": {"updateStartedAt": STARTED, "updateEndedAt": STARTED}},
        Rollout(2, 2, 60.0, held_by=ON_DELETE),
        id="on deletion",
    ),
    pytest.param(
        {"replicas": 1, "updateStrategy": {"type": "OnDelete"}},
        {
            "updatedReplicas": 1,
            "updateProgress": {"updateStartedAt": STARTED, "updateEndedAt": STARTED},
        },
        None,
        id="all were deleted",
    ),
]


@pytest.mark.parametrize(("spec", "status", "expected"), DEPLOYMENTS)
def test_a_deployment(spec: Any, status: Any, expected: Rollout | None) -> None:
    assert read_rollout("Deployment", spec, status) == expected


@pytest.mark.parametrize(("spec", "status", "expected"), STATEFUL_SETS)
def test_a_stateful_set(spec: Any, status: Any, expected: Rollout | None) -> None:
    assert read_rollout("StatefulSet", spec, status) == expected


@pytest.mark.parametrize(("spec", "status", "expected"), SETS)
def test_a_leader_worker_set(spec: Any, status: Any, expected: Rollout | None) -> None:
    assert read_rollout("LeaderWorkerSet", spec, status) == expected


@pytest.mark.parametrize(("spec", "status", "expected"), POD_CLIQUE_SETS)
def test_a_pod_clique_set(spec: Any, status: Any, expected: Rollout | None) -> None:
    assert read_rollout("PodCliqueSet", spec, status) == expected


def test_other_kinds_are_not_updated() -> None:
    assert read_rollout("Job", {}, {"replicas": 2}) is None

"""The MutatingAdmissionPolicy for Pods of Workloads gives the mark that the webhook gives."""

import itertools
from typing import Any

import pytest

from app.config.schema import Configuration
from app.facts.labels import SKIP_PODGROUPER
from app.rules.workload.groups import admission_changes
from app.webhooks.policies import marking_policies
from scripts.apiserver.objects.scope import Scope

pytestmark = pytest.mark.untraced

POLICY = marking_policies(Configuration.model_validate({"workloads": {"enabled": True}}))[0]

GROUPS: dict[str, dict[str, Any]] = {
    "none": {},
    "a PodGroup": {"schedulingGroup": {"podGroupName": "g"}},
    "no name": {"schedulingGroup": {"podGroupName": ""}},
    "empty": {"schedulingGroup": {}},
    "a Workload": {"workloadRef": {"name": "w", "podGroup": "g"}},
    "a Workload without a group": {"workloadRef": {"name": "w"}},
}
ANNOTATIONS: dict[str, dict[str, str] | None] = {
    "none": None,
    "another": {"a": "b"},
    "marked": {SKIP_PODGROUPER: "true"},
    "marked otherwise": {SKIP_PODGROUPER: "false"},
    "opted out": {"kai.scheduler/ignore-workload-api": "true"},
    "not opted out": {"kai.scheduler/ignore-workload-api": "no"},
}


@pytest.mark.parametrize(
    ("group", "annotations", "scheduler"),
    list(itertools.product(GROUPS, ANNOTATIONS, ("kai-scheduler", "default-scheduler", ""))),
)
def test_a_pod_gets_the_mark_from_both(group: str, annotations: str, scheduler: str) -> None:
    metadata: dict[str, Any] = {"name": "p"}
    if ANNOTATIONS[annotations] is not None:
        metadata["annotations"] = ANNOTATIONS[annotations]
    spec = {**GROUPS[group], "containers": []}
    if scheduler:
        spec["schedulerName"] = scheduler
    pod = {"metadata": metadata, "spec": spec}

    scope = Scope({"object": pod}, lambda access: False)
    conditions = POLICY["spec"]["matchConditions"]
    marks = all(scope.value(condition["expression"]) for condition in conditions)

    assert marks is bool(admission_changes(pod, "kai-scheduler"))


def test_the_mark_is_that_of_the_webhook() -> None:
    mark = f'Object{{metadata: Object.metadata{{annotations: {{"{SKIP_PODGROUPER}": "true"}}}}}}'
    (mutation,) = POLICY["spec"]["mutations"]
    assert mutation["applyConfiguration"] == {"expression": mark}

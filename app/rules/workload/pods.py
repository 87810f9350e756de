"""The annotations of a Pod that names a Workload group: the name of its KAI
PodGroup, and the one that makes KAI's own podgrouper skip the Pod.

Source: https://github.com/kai-scheduler/KAI-Scheduler/blob/d5bc503a/docs/developer/pod-grouper.md
"""

from collections.abc import Mapping
from typing import Any

from app.objects.edits import Edit
from app.objects.metadata import annotations_of
from app.rules.workload.groups import group_ref

SKIP_PODGROUPER = "kai.scheduler/skip-podgrouper"
POD_GROUP_NAME = "pod-group-name"


def admission_changes(pod: Mapping[str, Any], scheduler_name: str) -> list[Edit]:
    """Returns the change that annotates a new Pod, so that KAI does not schedule it alone before its PodGroup exists.

    Returns no change if another scheduler than `scheduler_name` schedules the Pod, if the
    Pod names no Workload group or has opted out, or if it already has the annotation.
    """
    spec = pod.get("spec")
    if not isinstance(spec, dict) or spec.get("schedulerName") != scheduler_name or group_ref(pod) is None:
        return []
    if annotations_of(pod).get(SKIP_PODGROUPER) == "true":
        return []
    return [Edit(("metadata", "annotations", SKIP_PODGROUPER), "true")]

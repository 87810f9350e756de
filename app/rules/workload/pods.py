"""What a Pod that names a Workload group is told: its KAI PodGroup, and that KAI's own grouper is to leave it alone.

KAI reads both annotations: https://github.com/kai-scheduler/KAI-Scheduler/blob/d5bc503a/docs/developer/pod-grouper.md
"""

from collections.abc import Mapping
from typing import Any

from app.objects.edits import Change, Edit
from app.objects.metadata import annotations_of
from app.rules.workload.groups import group_ref

SKIP_PODGROUPER = "kai.scheduler/skip-podgrouper"
POD_GROUP_NAME = "pod-group-name"


def admission_changes(pod: Mapping[str, Any], scheduler_name: str) -> list[Change]:
    """The annotation with which KAI does not schedule a new Pod alone while its PodGroup does not exist yet. No change
    for a Pod of another scheduler, without a Workload group, that opted out, or that has the annotation already."""
    spec = pod.get("spec")
    if not isinstance(spec, dict) or spec.get("schedulerName") != scheduler_name or group_ref(pod) is None:
        return []
    if annotations_of(pod).get(SKIP_PODGROUPER) == "true":
        return []
    return [Edit(("metadata", "annotations", SKIP_PODGROUPER), "true")]

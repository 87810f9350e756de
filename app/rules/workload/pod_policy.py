"""The mark of a Pod that names a Workload group, in CEL: `admission_changes` of `groups`."""

from collections.abc import Mapping

from app.facts.labels import IGNORE_WORKLOADS, SKIP_PODGROUPER
from app.rules.policy import text, value_or

MARK = f'Object{{metadata: Object.metadata{{annotations: {{"{SKIP_PODGROUPER}": "true"}}}}}}'
"""The apply configuration of the mark."""


def conditions_of_mark(scheduler_name: str) -> Mapping[str, str]:
    """Return the conditions that a new Pod gets the mark, by name."""
    pod_group = value_or("object.spec.schedulingGroup.podGroupName", "''")
    workload = value_or("object.spec.workloadRef.name", "''")
    group = value_or("object.spec.workloadRef.podGroup", "''")
    return {
        "our-scheduler": (
            f"has(object.spec.schedulerName) && object.spec.schedulerName == {text(scheduler_name)}"
        ),
        "in-a-workload-group": f"{pod_group} != '' || ({workload} != '' && {group} != '')",
        "not-marked-yet": f"!({_is_true(SKIP_PODGROUPER)})",
        "not-opted-out": f"!({_is_true(IGNORE_WORKLOADS)})",
    }


def _is_true(annotation: str) -> str:
    annotations = "object.metadata.annotations"
    key = text(annotation)
    return f"has({annotations}) && {key} in {annotations} && {annotations}[{key}] == 'true'"

"""Workloads and PodGroups of scheduling.k8s.io/v1alpha2 (Kubernetes 1.36). Pods
name a PodGroup, which may have been made from a template in a Workload.

Source: https://github.com/kubernetes/api/blob/release-1.36/scheduling/v1alpha2/types.go
"""

from collections.abc import Mapping
from typing import Any

from app.rules.workload.groups import Group, group_of, named_groups


def groups_of_workload(workload: Mapping[str, Any]) -> dict[str, Group]:
    """Returns the groups for which the Workload has templates, by name."""
    return named_groups(workload, (workload.get("spec") or {}).get("podGroupTemplates"), "schedulingPolicy")


def group_of_pod_group(pod_group: Mapping[str, Any], workload: Mapping[str, Any] | None) -> Group:
    """Returns the group that a PodGroup defines, see `groups.group_of`."""
    template = ((pod_group.get("spec") or {}).get("podGroupTemplateRef") or {}).get("workload") or {}
    return group_of(pod_group, workload, (template.get("workloadName"), template.get("podGroupTemplateName")))

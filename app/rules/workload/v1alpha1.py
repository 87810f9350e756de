"""Workloads of scheduling.k8s.io/v1alpha1 (Kubernetes 1.35). A Workload defines groups, and Pods name them.

Source: https://github.com/kubernetes/api/blob/release-1.35/scheduling/v1alpha1/types.go
"""

from collections.abc import Mapping
from typing import Any

from app.rules.workload.groups import Group, named_groups


def groups_of_workload(workload: Mapping[str, Any]) -> dict[str, Group]:
    """Returns the groups that the Workload defines, by name."""
    return named_groups(workload, (workload.get("spec") or {}).get("podGroups"), "policy")

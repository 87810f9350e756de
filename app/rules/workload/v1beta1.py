"""PodGroups of scheduling.k8s.io/v1beta1 and v1alpha3 (Kubernetes 1.37). The two versions differ only in kinds that are
not read here, and their Workloads are read like those of v1alpha2. Templates inside of composite templates are ignored.

Unlike in v1alpha2, a PodGroup names its template in `workloadRef`, its `minCount` may change, and it may be part of a
CompositePodGroup. Source: https://github.com/kubernetes/api/blob/10b39a39/scheduling/v1beta1/types.go
"""

from collections.abc import Mapping
from typing import Any

from app.rules.workload.groups import Group, group_of


def group_of_pod_group(pod_group: Mapping[str, Any], workload: Mapping[str, Any] | None) -> Group:
    """Returns the group that a PodGroup defines, see `groups.group_of`."""
    template = (pod_group.get("spec") or {}).get("workloadRef") or {}
    return group_of(pod_group, workload, (template.get("workloadName"), template.get("templateName")))

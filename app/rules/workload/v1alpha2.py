"""Workloads and PodGroups of scheduling.k8s.io/v1alpha2 (Kubernetes 1.36): Pods name a PodGroup, which may have been
made from a template in a Workload.

Source: https://github.com/kubernetes/api/blob/release-1.36/scheduling/v1alpha2/types.go
"""

from collections.abc import Mapping
from typing import Any

from app.rules.workload.groups import Group, layer_of, minimum_of, named_groups, topology_key_of


def groups_of_workload(workload: Mapping[str, Any]) -> dict[str, Group]:
    """The groups that the Workload has templates of, by name."""
    return named_groups(workload, (workload.get("spec") or {}).get("podGroupTemplates"), "schedulingPolicy")


def group_of_pod_group(pod_group: Mapping[str, Any], workload: Mapping[str, Any] | None) -> Group:
    """The group that a PodGroup of scheduling.k8s.io is. Its policy is the PodGroup's own: a later change of the
    template does not apply to it. Its metadata are those of `workload`, or its own if that is None."""
    spec = pod_group.get("spec") or {}
    template = (spec.get("podGroupTemplateRef") or {}).get("workload") or {}
    return Group(
        workload=str(template.get("workloadName") or ""),
        name=str(template.get("podGroupTemplateName") or ""),
        minimum=minimum_of(spec.get("schedulingPolicy")),
        layer=layer_of(workload or pod_group),
        pod_group=pod_group["metadata"]["name"],
        priority_class=str(spec.get("priorityClassName") or ""),
        topology_key=topology_key_of(spec),
    )

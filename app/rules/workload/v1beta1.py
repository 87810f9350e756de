"""Workloads and PodGroups of scheduling.k8s.io/v1beta1 and v1alpha3 (Kubernetes 1.37), which are the same but for kinds
that are not read here.

Unlike in v1alpha2, a PodGroup names its template in `workloadRef`, its `minCount` may change, and it may be part of a
CompositePodGroup. Source: https://github.com/kubernetes/api/blob/10b39a39/scheduling/v1beta1/types.go
"""

from collections.abc import Mapping
from typing import Any

from app.rules.workload.groups import Group, layer_of, minimum_of, named_groups, topology_key_of


def groups_of_workload(workload: Mapping[str, Any]) -> dict[str, Group]:
    """The groups that the Workload has templates of, by name, without those inside of composite templates."""
    return named_groups(workload, (workload.get("spec") or {}).get("podGroupTemplates"), "schedulingPolicy")


def group_of_pod_group(pod_group: Mapping[str, Any], workload: Mapping[str, Any] | None) -> Group:
    """The group that a PodGroup of scheduling.k8s.io is. Its policy is the PodGroup's own: a later change of the
    template does not apply to it. Its metadata are those of `workload`, or its own if that is None."""
    spec = pod_group.get("spec") or {}
    template = spec.get("workloadRef") or {}
    return Group(
        workload=str(template.get("workloadName") or ""),
        name=str(template.get("templateName") or ""),
        minimum=minimum_of(spec.get("schedulingPolicy")),
        layer=layer_of(workload or pod_group),
        pod_group=pod_group["metadata"]["name"],
        priority_class=str(spec.get("priorityClassName") or ""),
        topology_key=topology_key_of(spec),
        composite=str(spec.get("parentCompositePodGroupName") or ""),
    )

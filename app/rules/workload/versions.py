"""Reads objects of scheduling.k8s.io by their apiVersion."""

from collections.abc import Callable, Mapping
from typing import Any

from app.rules.workload import v1alpha1, v1alpha2, v1beta1
from app.rules.workload.groups import Group

_WORKLOADS: dict[str, Callable[[Mapping[str, Any]], dict[str, Group]]] = {
    "scheduling.k8s.io/v1alpha1": v1alpha1.groups_of_workload,
    "scheduling.k8s.io/v1alpha2": v1alpha2.groups_of_workload,
    "scheduling.k8s.io/v1alpha3": v1alpha2.groups_of_workload,
    "scheduling.k8s.io/v1beta1": v1alpha2.groups_of_workload,
}
_POD_GROUPS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any] | None], Group]] = {
    "scheduling.k8s.io/v1alpha2": v1alpha2.group_of_pod_group,
    "scheduling.k8s.io/v1alpha3": v1beta1.group_of_pod_group,
    "scheduling.k8s.io/v1beta1": v1beta1.group_of_pod_group,
}


def groups_of_workload(workload: Mapping[str, Any]) -> dict[str, Group]:
    """Returns the groups that a Workload defines, by name. KeyError for any other apiVersion."""
    if "podGroups" in (workload.get("spec") or {}):  # stored as v1alpha1, and served unchanged in a later version
        return v1alpha1.groups_of_workload(workload)
    return _WORKLOADS[workload["apiVersion"]](workload)


def group_of_pod_group(pod_group: Mapping[str, Any], workload: Mapping[str, Any] | None) -> Group:
    """Returns the group that a PodGroup of scheduling.k8s.io defines, with the labels and annotations of `workload`,
    or, if that is None, of the PodGroup. KeyError for any other apiVersion."""
    return _POD_GROUPS[pod_group["apiVersion"]](pod_group, workload)

"""Which file reads an object of scheduling.k8s.io, by its apiVersion."""

from collections.abc import Callable, Mapping
from typing import Any

from app.rules.workload import v1alpha1, v1alpha2, v1beta1
from app.rules.workload.groups import Group

_WORKLOADS: dict[str, Callable[[Mapping[str, Any]], dict[str, Group]]] = {
    "scheduling.k8s.io/v1alpha1": v1alpha1.groups_of_workload,
    "scheduling.k8s.io/v1alpha2": v1alpha2.groups_of_workload,
    "scheduling.k8s.io/v1alpha3": v1beta1.groups_of_workload,
    "scheduling.k8s.io/v1beta1": v1beta1.groups_of_workload,
}
_POD_GROUPS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any] | None], Group]] = {
    "scheduling.k8s.io/v1alpha2": v1alpha2.group_of_pod_group,
    "scheduling.k8s.io/v1alpha3": v1beta1.group_of_pod_group,
    "scheduling.k8s.io/v1beta1": v1beta1.group_of_pod_group,
}


def groups_of_workload(workload: Mapping[str, Any]) -> dict[str, Group]:
    """The groups that a Workload defines, by name. KeyError for an apiVersion that is not read here."""
    if "podGroups" in (workload.get("spec") or {}):  # of v1alpha1, whatever the version in which it is served
        return v1alpha1.groups_of_workload(workload)
    return _WORKLOADS[workload["apiVersion"]](workload)


def group_of_pod_group(pod_group: Mapping[str, Any], workload: Mapping[str, Any] | None) -> Group:
    """The group that a PodGroup of scheduling.k8s.io is, with the metadata of `workload`, or with its own if that is
    None. KeyError for an apiVersion that is not read here."""
    return _POD_GROUPS[pod_group["apiVersion"]](pod_group, workload)

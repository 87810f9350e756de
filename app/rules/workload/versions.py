"""Workloads and PodGroups of scheduling.k8s.io, in all versions of the API.

- v1alpha1 (Kubernetes 1.35): a Workload defines groups in `podGroups`, and Pods name them. Source:
  https://github.com/kubernetes/api/blob/release-1.35/scheduling/v1alpha1/types.go
- v1alpha2 (1.36): Pods name a PodGroup, which may have been made from a template in a Workload.
  Source: https://github.com/kubernetes/api/blob/release-1.36/scheduling/v1alpha2/types.go
- v1alpha3 and v1beta1 (1.37): a PodGroup names its template in `workloadRef`, its `minCount` may
  change, and it may be part of a CompositePodGroup. The two versions differ only in kinds that are
  not read here. Templates inside of composite templates are ignored. Source:
  https://github.com/kubernetes/api/blob/10b39a39/scheduling/v1beta1/types.go
- v1 (planned for 1.38): taken for v1beta1. No source was at hand.
"""

from typing import Any

from app.objects.shape import JsonMap, map_at, map_of, maps_at, maps_of, text_at, text_of
from app.rules.workload.groups import DefinedGroup, layer_of


def groups_of_workload(workload: JsonMap) -> dict[str, DefinedGroup]:
    """Return the groups that a Workload defines, or has templates for, by name."""
    spec = map_at(workload, "spec")
    if "podGroups" in spec:  # v1alpha1, also if it is served unchanged in a later version
        definitions = spec["podGroups"]
        policy = "policy"
    else:
        definitions = spec.get("podGroupTemplates")
        policy = "schedulingPolicy"

    name = workload["metadata"]["name"]
    layer = layer_of(workload)

    return {
        entry["name"]: DefinedGroup(name, entry["name"], _minimum(entry.get(policy)), layer)
        for entry in maps_of(definitions)
        if isinstance(entry.get("name"), str)
    }


def group_of_pod_group(pod_group: JsonMap, workload: JsonMap | None) -> DefinedGroup:
    """Return the group that a PodGroup of scheduling.k8s.io defines.

    It has the labels and annotations of `workload` or, if that is None, of the PodGroup. The policy
    is that of the PodGroup: a later change of the template does not apply to it.
    """
    spec = map_at(pod_group, "spec")
    former = map_at(spec, "podGroupTemplateRef", "workload")  # v1alpha2, also if served in a later
    template = former or map_at(spec, "workloadRef")
    name = "podGroupTemplateName" if former else "templateName"

    return DefinedGroup(
        workload=text_at(template, "workloadName"),
        name=text_of(template.get(name)),
        minimum=_minimum(spec.get("schedulingPolicy")),
        layer=layer_of(workload or pod_group),
        pod_group=pod_group["metadata"]["name"],
        priority_class=text_at(spec, "priorityClassName"),
        topology_key=_topology_key(spec),
        composite=text_at(spec, "parentCompositePodGroupName"),
    )


def _minimum(policy: Any) -> int | None:
    """Return the `minCount` of a gang, or None if `policy` is not that of a gang."""
    count = map_of(map_of(policy).get("gang")).get("minCount")
    return count if isinstance(count, int) and count >= 0 else None


def _topology_key(spec: JsonMap) -> str:
    """Return the node label of `schedulingConstraints.topology` (KEP-5732).

    All Pods of the group must be on nodes that have the same value of it.
    """
    constraints = maps_at(spec, "schedulingConstraints", "topology")
    return next((text_at(constraint, "key") for constraint in constraints), "")

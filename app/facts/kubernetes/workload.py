"""Read Workloads and PodGroups of scheduling.k8s.io in all versions, and PriorityClasses.

- v1alpha1 (Kubernetes 1.35): a Workload defines groups in `podGroups`, and Pods name them. Source:
  https://github.com/kubernetes/api/blob/release-1.35/scheduling/v1alpha1/types.go
- v1alpha2 (1.36): Pods name a PodGroup, which may have been made from a template in a Workload.
  Source: https://github.com/kubernetes/api/blob/release-1.36/scheduling/v1alpha2/types.go
- v1alpha3 and v1beta1 (1.37): a PodGroup names its template in `workloadRef`, its `minCount` may
  change, and it may be part of a CompositePodGroup. The two versions differ only in kinds that are
  not read here. Templates inside of composite templates are ignored. Source:
  https://github.com/kubernetes/api/blob/10b39a39/scheduling/v1beta1/types.go
- v1 (planned for 1.38): read like v1beta1. No source was available.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import field

from app.facts.identity import ClusterScoped, Namespaced, read_key, read_name
from app.objects.shape import JsonMap, int_of, map_at, map_of, maps_at, maps_of, text_at


class PriorityClass(ClusterScoped):
    """A PriorityClass of Kubernetes."""

    kind = "PriorityClass"
    value: int = 0
    """The priority of pods with this class."""
    is_default: bool = False
    """Whether the class is the global default of the cluster."""


def read_priority_class(obj: JsonMap) -> PriorityClass:
    """Read a PriorityClass."""
    is_default = obj.get("globalDefault") is True
    return PriorityClass(read_name(obj), int_of(obj.get("value")), is_default)


class Workload(Namespaced):
    """A Workload of scheduling.k8s.io, which defines groups of Pods or templates for them."""

    kind = "Workload"
    groups: Mapping[str, int | None] = field(default_factory=dict)
    """The `minCount` of each group or template, by its name.

    The `minCount` is None for a group with the basic policy, whose pods don't wait for each other.
    """
    uid: str = ""


def read_workload(obj: JsonMap) -> Workload:
    """Read a Workload of any version. Groups and templates without a name are left out."""
    spec = map_at(obj, "spec")
    if "podGroups" in spec:  # v1alpha1, also if it is served unchanged in a later version
        definitions, policy = spec["podGroups"], "policy"
    else:
        definitions, policy = spec.get("podGroupTemplates"), "schedulingPolicy"
    groups = {
        entry["name"]: _minimum(entry.get(policy))
        for entry in maps_of(definitions)
        if isinstance(entry.get("name"), str)
    }
    return Workload(*read_key(obj), groups=groups, uid=text_at(map_at(obj, "metadata"), "uid"))


class WorkloadGroup(Namespaced):
    """A PodGroup of scheduling.k8s.io.

    It has its own policy, because later changes of its template do not apply to it.
    """

    workload: str = ""
    """The Workload that the PodGroup was created from, or ""."""
    minimum: int | None = None
    """The `minCount` of a gang, or None with the basic policy."""
    template: str = ""
    """The name of the template in `workload`, or ""."""
    priority_class: str = ""
    """The name of the PriorityClass, or ""."""
    topology_key: str = ""
    """The node label of the required topology level (KEP-5732), or "".

    All Pods of the group must be on nodes with the same value of this label.
    """
    composite: str = ""
    """The CompositePodGroup that the PodGroup belongs to, or ""."""


def read_workload_group(obj: JsonMap) -> WorkloadGroup:
    """Read a PodGroup of scheduling.k8s.io, of any version."""
    spec = map_at(obj, "spec")
    # v1alpha2, also if it is served unchanged in a later version
    template_ref = map_at(spec, "podGroupTemplateRef")
    reference = map_at(template_ref, "workload") or template_ref or map_at(spec, "workloadRef")
    constraints = maps_at(spec, "schedulingConstraints", "topology")
    return WorkloadGroup(
        *read_key(obj),
        workload=text_at(reference, "workloadName"),
        minimum=_minimum(spec.get("schedulingPolicy")),
        template=text_at(reference, "podGroupTemplateName" if template_ref else "templateName"),
        priority_class=text_at(spec, "priorityClassName"),
        topology_key=next((text_at(constraint, "key") for constraint in constraints), ""),
        composite=text_at(spec, "parentCompositePodGroupName"),
    )


def _minimum(policy: Any) -> int | None:
    """Return the `minCount` of a gang policy, or None for another policy."""
    count = int_of(map_at(map_of(policy), "gang").get("minCount"), -1)
    return count if count >= 0 else None

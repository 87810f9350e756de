"""The Kubernetes Workload API, and PriorityClasses."""

from app.facts.identity import ClusterScoped, Namespaced, read_key, read_name
from app.objects.shape import JsonMap, int_of, map_at, maps_at, text_at


class PriorityClass(ClusterScoped):
    """A PriorityClass.

    `is_default` if it is that of PodGroups that name none, or one that doesn't exist.
    """

    kind = "PriorityClass"
    value: int = 0
    is_default: bool = False


def read_priority_class(obj: JsonMap) -> PriorityClass:
    is_default = obj.get("globalDefault") is True
    return PriorityClass(read_name(obj), int_of(obj.get("value")), is_default)


class Workload(Namespaced):
    """A Workload of scheduling.k8s.io and the names of its groups.

    `minimums` are the groups with how many pods each needs together, if it is a gang.
    """

    kind = "Workload"
    groups: tuple[str, ...] = ()
    minimums: tuple[tuple[str, int], ...] = ()


def read_workload(obj: JsonMap) -> Workload:
    """Read `podGroups` of Kubernetes 1.35, or `podGroupTemplates` since 1.36."""
    spec = map_at(obj, "spec")
    groups = maps_at(spec, "podGroupTemplates") or maps_at(spec, "podGroups")
    return Workload(
        *read_key(obj),
        groups=tuple(text_at(group, "name") for group in groups),
        minimums=tuple(
            (text_at(group, "name"), minimum) for group in groups if (minimum := _minimum(group))
        ),
    )


def _minimum(holder: JsonMap) -> int:
    """Return how many pods a group needs together, 0 if it is no gang.

    `policy` of Kubernetes 1.35, `schedulingPolicy` since 1.36.
    """
    policy = map_at(holder, "schedulingPolicy") or map_at(holder, "policy")
    return int_of(map_at(policy, "gang").get("minCount"))


class WorkloadGroup(Namespaced):
    """A PodGroup of scheduling.k8s.io.

    `workload` is "" if it has no template. `minimum` is how many pods it needs together, 0 if it is
    no gang.
    """

    workload: str = ""
    minimum: int = 0


def read_workload_group(obj: JsonMap) -> WorkloadGroup:
    """Read `podGroupTemplateRef` of Kubernetes 1.36, or `workloadRef` since 1.37."""
    template = map_at(obj, "spec", "podGroupTemplateRef")
    reference = map_at(template, "workload") or template or map_at(obj, "spec", "workloadRef")
    return WorkloadGroup(
        *read_key(obj),
        workload=text_at(reference, "workloadName"),
        minimum=_minimum(map_at(obj, "spec")),
    )

"""The GPUs that the containers of a PodClique ask for."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from app.facts.kubernetes.gpus import gpu_count, is_gpu
from app.objects.fields import FieldError, FieldPath, as_map, walk_list, walk_map

_POD_SPEC = FieldPath("spec.podSpec")


class GpuContainer(NamedTuple):
    """A container or init container that asks for a GPU.

    `field` is the name of its list, and `position` its place there.
    """

    field: str
    position: int
    content: dict[str, Any]


def requests_gpus(pod_spec: Mapping[str, Any]) -> bool:
    """Return whether a container or init container of a stored `pod_spec` requests a GPU."""
    return bool(gpu_containers(dict(pod_spec), []))


def gpu_containers(pod_spec: dict[str, Any], findings: list[FieldError]) -> list[GpuContainer]:
    """Return the containers and init containers that request a GPU."""
    containers: list[GpuContainer] = []
    for field in ("initContainers", "containers"):
        path = _POD_SPEC.child(field)
        for position, item in enumerate(walk_list(pod_spec, field, _POD_SPEC, findings)):
            at = path.index(position)
            container = as_map(item, at, findings)
            if container is not None and _requests_gpu(container, at, findings):
                containers.append(GpuContainer(field, position, container))
    return containers


def _requests_gpu(container: dict[str, Any], at: FieldPath, findings: list[FieldError]) -> bool:
    resources = walk_map(container, "resources", at, findings)
    if not resources:
        return False
    at = at.child("resources")
    walk_list(resources, "claims", at, findings)
    limits = walk_map(resources, "limits", at, findings)
    requests = walk_map(resources, "requests", at, findings)
    return _has_gpu(limits) or _has_gpu(requests)


def _has_gpu(amounts: dict[str, Any]) -> bool:
    return any(is_gpu(name) and gpu_count(amount) > 0 for name, amount in amounts.items())

"""Pods with what they ask of a node.

What decides on placement is kept; env, args and other annotations are not.
"""

import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from app.explain.facts.common import Namespaced, interned, place
from app.explain.facts.fields import number, read
from app.explain.facts.selectors import (
    Term,
    Toleration,
    node_selector,
    required_affinity,
    tolerations,
)
from app.explain.facts.values import at, seconds_since_1970, text, texts
from app.facts.kubernetes.requests import pod_requests
from app.facts.place import Place
from app.facts.quantity import thousandths
from app.objects.shape import map_of, maps_of

POD_GROUP_NAME = "pod-group-name"
SUBGROUP = "kai.scheduler/subgroup-name"
GATED = "SchedulingGated"
"""The reason of the API server for pods with gates: no words of a scheduler."""
NODE_POOL = "kai.scheduler/node-pool"
GPU_FRACTION = "gpu-fraction"
GPU = "nvidia.com/gpu"
PREEMPTIBILITY = "kai.scheduler/preemptibility"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a pod asks of a node. Equal shapes are one object, so that pods can be grouped by it."""

    requests: tuple[tuple[str, int], ...] = ()
    selector: Term = ()
    affinity: tuple[Term, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


NO_SHAPE = Shape()


@dataclass(frozen=True, slots=True)
class PodClaim:
    """An entry of `spec.resourceClaims`.

    `claim` is the ResourceClaim's name, also one made from `template`.
    """

    name: str
    claim: str = ""
    template: str = ""


def pod_claims(spec: Any, statuses: Any = None) -> tuple[PodClaim, ...]:
    """The claims of a pod spec; those made from templates have the name that
    `resourceClaimStatuses` gives.
    """
    generated = {text(item, "name"): text(item, "resourceClaimName") for item in maps_of(statuses)}
    return tuple(
        PodClaim(
            text(item, "name"),
            text(item, "resourceClaimName") or generated.get(text(item, "name"), ""),
            text(item, "resourceClaimTemplateName"),
        )
        for item in maps_of(map_of(spec).get("resourceClaims"))
    )


def shape(spec: Any) -> Shape:
    """What the pods of a pod spec ask of a node; limits stand in for requests that are not set, as
    at admission.
    """
    spec = map_of(spec)
    requests = tuple(sorted(pod_requests(spec).items()))
    return _shape(requests, node_selector(spec), required_affinity(spec), tolerations(spec))


@lru_cache(maxsize=65536)
def _shape(
    requests: tuple[tuple[str, int], ...],
    selector: Term,
    affinity: tuple[Term, ...],
    tolerated: tuple[Toleration, ...],
) -> Shape:
    return Shape(requests, selector, affinity, tolerated)


def _shape_of_pod(obj: Any) -> Shape:
    """Of a pod that shares a GPU, with the part of it that it asks for by annotation."""
    spec = at(map_of(obj), "spec")
    share = map_of(at(map_of(obj), "metadata").get("annotations")).get(GPU_FRACTION)
    if not isinstance(share, str):
        return shape(spec)

    requests = pod_requests(spec)
    requests[GPU] = requests.get(GPU, 0) + thousandths(share)

    return _shape(
        tuple(sorted(requests.items())),
        node_selector(spec),
        required_affinity(spec),
        tolerations(spec),
    )


def _unscheduled(conditions: Any) -> str:
    """The scheduler's words in the condition PodScheduled, if it is False."""
    for condition in maps_of(conditions):
        is_false = condition.get("type") == "PodScheduled" and condition.get("status") == "False"
        if is_false and condition.get("reason") != GATED:
            return text(condition, "message") or text(condition, "reason")
    return ""


def _waiting(containers: Any) -> tuple[str, ...]:
    states = (at(container, "state", "waiting") for container in maps_of(containers))
    return tuple(
        dict.fromkeys(sys.intern(text(state, "reason")) for state in states if state.get("reason"))
    )


def _controller(references: Any) -> str:
    return next(
        (text(item, "uid") for item in maps_of(references) if item.get("controller") is True), ""
    )


def _gates(gates: Any) -> tuple[str, ...]:
    return tuple(interned(gate.get("name")) for gate in maps_of(gates))


def _claims_of_pod(obj: Any) -> tuple[PodClaim, ...]:
    return pod_claims(
        at(map_of(obj), "spec"), at(map_of(obj), "status").get("resourceClaimStatuses")
    )


@dataclass(frozen=True, slots=True)
class Pod(Namespaced):
    """`group` is the annotation that names its KAI PodGroup.

    `workload`, `workload_part` (one of its groups; both of Kubernetes 1.35) and `workload_group`
    (since 1.36) are what it references in the Kubernetes Workload API. `waiting` has the reasons
    for which containers wait.
    """

    kind = "Pod"
    uid: str = read("metadata", "uid")
    place: Place = read("metadata", "labels", of=place)
    owner: str = read("metadata", "ownerReferences", of=_controller)
    node: str = read("spec", "nodeName", of=interned)
    scheduler: str = read(
        "spec", "schedulerName", of=lambda name: interned(name) or "default-scheduler"
    )
    gates: tuple[str, ...] = read("spec", "schedulingGates", of=_gates)
    shape: Shape = read(of=_shape_of_pod)
    phase: str = read("status", "phase", of=lambda phase: interned(phase) or "Pending")
    unscheduled: str = read("status", "conditions", of=_unscheduled)
    waiting: tuple[str, ...] = read("status", "containerStatuses", of=_waiting)
    claims: tuple[PodClaim, ...] = read(of=_claims_of_pod)
    group: str = read("metadata", "annotations", POD_GROUP_NAME)
    subgroup: str = read("metadata", "labels", SUBGROUP)
    workload: str = read("spec", "workloadRef", "name")
    workload_part: str = read("spec", "workloadRef", "podGroup")
    workload_group: str = read("spec", "schedulingGroup", "podGroupName")
    priority: int = read("spec", "priority", of=number())
    preemptibility: str = read("metadata", "labels", PREEMPTIBILITY)
    deleting: float | None = read("metadata", "deletionTimestamp", of=seconds_since_1970)
    finalizers: tuple[str, ...] = read("metadata", "finalizers", of=texts)
    created: float | None = read("metadata", "creationTimestamp", of=seconds_since_1970)

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

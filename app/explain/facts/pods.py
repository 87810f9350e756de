"""Pods with what they ask of a node. What decides on placement is kept; env, args and other annotations are not."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from app.explain.facts.common import NOWHERE, Namespaced, Object, Place, place
from app.explain.facts.selectors import Term, Toleration, node_selector, required_affinity, tolerations
from app.explain.facts.values import amounts, at, seconds_since_1970, text, texts
from app.objects.shape import int_of, map_of, maps_of

POD_GROUP_NAME = "pod-group-name"
SUBGROUP = "kai.scheduler/subgroup-name"
NODE_POOL = "kai.scheduler/node-pool"
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
    """An entry of `spec.resourceClaims`. `claim` is the ResourceClaim's name, also one made from `template`."""

    name: str
    claim: str = ""
    template: str = ""


@dataclass(frozen=True, slots=True)
class Pod(Namespaced):
    """`group` is the annotation that names its KAI PodGroup. `workload`, `workload_part` (one of its groups) and
    `workload_group` are what it references in the Kubernetes Workload API. `waiting` has the reasons for which
    containers wait."""

    kind = "Pod"
    uid: str = ""
    place: Place = NOWHERE
    owner: str = ""
    node: str = ""
    scheduler: str = "default-scheduler"
    gates: tuple[str, ...] = ()
    shape: Shape = NO_SHAPE
    phase: str = "Pending"
    unscheduled: str = ""
    waiting: tuple[str, ...] = ()
    claims: tuple[PodClaim, ...] = ()
    group: str = ""
    subgroup: str = ""
    workload: str = ""
    workload_part: str = ""
    workload_group: str = ""
    priority: int = 0
    preemptibility: str = ""
    deleting: float | None = None
    finalizers: tuple[str, ...] = ()
    created: float | None = None

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


def pod(obj: Object) -> Pod:
    metadata, spec, status = at(obj, "metadata"), at(obj, "spec"), at(obj, "status")
    labels, annotations = at(metadata, "labels"), at(metadata, "annotations")
    owners = maps_of(metadata.get("ownerReferences"))
    return Pod(
        sys.intern(text(metadata, "namespace")),
        text(metadata, "name"),
        text(metadata, "uid"),
        place=place(labels),
        owner=next((text(owner, "uid") for owner in owners if owner.get("controller") is True), ""),
        node=sys.intern(text(spec, "nodeName")),
        scheduler=sys.intern(text(spec, "schedulerName") or "default-scheduler"),
        gates=tuple(sys.intern(text(gate, "name")) for gate in maps_of(spec.get("schedulingGates"))),
        shape=shape(spec),
        phase=sys.intern(text(status, "phase") or "Pending"),
        unscheduled=_unscheduled(status),
        waiting=_waiting(status),
        claims=pod_claims(spec, status.get("resourceClaimStatuses")),
        group=text(annotations, POD_GROUP_NAME),
        subgroup=text(labels, SUBGROUP),
        workload=text(at(spec, "workloadRef"), "name"),  # Kubernetes 1.35
        workload_part=text(at(spec, "workloadRef"), "podGroup"),
        workload_group=text(at(spec, "schedulingGroup"), "podGroupName"),  # since 1.36
        priority=int_of(spec.get("priority")),
        preemptibility=text(labels, PREEMPTIBILITY),
        deleting=seconds_since_1970(metadata.get("deletionTimestamp")),
        finalizers=texts(metadata.get("finalizers")),
        created=seconds_since_1970(metadata.get("creationTimestamp")),
    )


def pod_claims(spec: Any, statuses: Any = None) -> tuple[PodClaim, ...]:
    """The claims of a pod spec; those made from templates have the name that `resourceClaimStatuses` gives."""
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
    """What the pods of a pod spec ask of a node; limits stand in for requests that are not set, as at admission."""
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


def pod_requests(spec: Object) -> dict[str, int]:
    """The requests of a pod as the scheduler counts them: containers and sidecars together, or the largest moment of
    the init containers if that is more, plus overhead; a request of the pod itself replaces them. One of `pods`."""
    total: dict[str, int] = {}
    for container in maps_of(spec.get("containers")):
        _add(total, _requests(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in maps_of(spec.get("initContainers")):
        requests = _requests(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, requests)
            _raise(peak, sidecars)
        else:
            _raise(peak, _sum(sidecars, requests))
    _add(total, sidecars)
    _raise(total, peak)
    total |= _requests(spec)
    _add(total, amounts(spec.get("overhead")))
    return {**{name: amount for name, amount in total.items() if amount}, "pods": 1000}


def _requests(holder: Object) -> dict[str, int]:
    resources = holder.get("resources")
    if not isinstance(resources, dict):
        return {}
    return amounts(resources.get("limits")) | amounts(resources.get("requests"))


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _sum(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    total = dict(first)
    _add(total, second)
    return total


def _raise(total: dict[str, int], least: Mapping[str, int]) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)


def _unscheduled(status: Object) -> str:
    """The scheduler's words in the condition PodScheduled, if it is False."""
    for condition in maps_of(status.get("conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return text(condition, "message") or text(condition, "reason")
    return ""


def _waiting(status: Object) -> tuple[str, ...]:
    states = (at(container, "state", "waiting") for container in maps_of(status.get("containerStatuses")))
    return tuple(dict.fromkeys(sys.intern(text(state, "reason")) for state in states if state.get("reason")))

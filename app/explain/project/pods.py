"""Nodes and Pods as facts. What decides on placement is kept; env, args and other annotations are not."""

import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from app.explain.facts import Node, Place, Pod, PodClaim, Shape, Term, Toleration
from app.explain.project.selectors import node_selector, required_affinity, taints, tolerations
from app.explain.values import amounts, at, items, mapping, seconds_since_1970, text, texts

Object = Mapping[str, Any]

POD_GROUP_NAME = "pod-group-name"
SUBGROUP = "kai.scheduler/subgroup-name"
QUEUE = "kai.scheduler/queue"
NODE_POOL = "kai.scheduler/node-pool"


def node(obj: Object) -> Node:
    spec, status = mapping(obj.get("spec")), mapping(obj.get("status"))
    conditions = items(status.get("conditions"))
    return Node(
        name=sys.intern(text(at(obj, "metadata"), "name")),
        labels={key: sys.intern(str(value)) for key, value in at(obj, "metadata", "labels").items()},
        allocatable=_allocatable(tuple(sorted(amounts(status.get("allocatable")).items()))),
        taints=taints(spec),
        unschedulable=spec.get("unschedulable") is True,
        ready=all(item.get("status") == "True" for item in conditions if item.get("type") == "Ready"),
    )


@lru_cache(maxsize=4096)
def _allocatable(pairs: tuple[tuple[str, int], ...]) -> Mapping[str, int]:
    """Nodes of one kind share one map."""
    return dict(pairs)


def place(metadata: Object) -> Place:
    """From the labels of both vocabularies: the design's and those that Grove's operator writes."""
    labels = mapping(metadata.get("labels"))
    return _place(
        _label(labels, "grove.io/pcs-name", "app.kubernetes.io/part-of"),
        _label(labels, "grove.io/pcs-replica-index", "grove.io/podcliqueset-replica-index"),
        _label(labels, "grove.io/podclique", "grove.io/clique-name"),
        _label(labels, "grove.io/podcliquescalinggroup", "grove.io/pcsg-name"),
        _label(labels, "grove.io/podcliquescalinggroup-replica-index", "grove.io/pcsg-replica-index"),
        _label(labels, "grove.io/podgang"),
        _label(labels, "grove.io/base-podgang"),
    )


_place = lru_cache(maxsize=65536)(Place)


def _label(labels: Object, *keys: str) -> str:
    return next((value for key in keys if isinstance(value := labels.get(key), str)), "")


def pod(obj: Object) -> Pod:
    metadata, spec, status = (mapping(obj.get(key)) for key in ("metadata", "spec", "status"))
    labels, annotations = mapping(metadata.get("labels")), mapping(metadata.get("annotations"))
    workload, workload_group = _workload(spec)
    owners = items(metadata.get("ownerReferences"))
    return Pod(
        namespace=sys.intern(text(metadata, "namespace")),
        name=text(metadata, "name"),
        uid=text(metadata, "uid"),
        place=place(metadata),
        owner=next((text(owner, "uid") for owner in owners if owner.get("controller") is True), ""),
        node=sys.intern(text(spec, "nodeName")),
        scheduler=sys.intern(text(spec, "schedulerName") or "default-scheduler"),
        gates=tuple(sys.intern(text(gate, "name")) for gate in items(spec.get("schedulingGates"))),
        shape=shape(spec),
        phase=sys.intern(text(status, "phase") or "Pending"),
        unscheduled=_unscheduled(status),
        waiting=_waiting(status),
        claims=pod_claims(spec, status),
        group=text(annotations, POD_GROUP_NAME),
        subgroup=text(labels, SUBGROUP),
        workload=workload,
        workload_group=workload_group,
        queue=text(labels, QUEUE),
        pool=text(labels, NODE_POOL),
        deleting=seconds_since_1970(metadata.get("deletionTimestamp")),
        finalizers=texts(metadata.get("finalizers")),
        created=seconds_since_1970(metadata.get("creationTimestamp")),
    )


def pod_claims(spec: Object, status: Object | None = None) -> tuple[PodClaim, ...]:
    """The claims of a pod spec; those made from templates have the name that the pod's status gives."""
    generated = {
        text(item, "name"): text(item, "resourceClaimName")
        for item in items((status or {}).get("resourceClaimStatuses"))
    }
    return tuple(
        PodClaim(
            text(item, "name"),
            text(item, "resourceClaimName") or generated.get(text(item, "name"), ""),
            text(item, "resourceClaimTemplateName"),
        )
        for item in items(spec.get("resourceClaims"))
    )


def shape(spec: Object) -> Shape:
    """What the pods of a pod spec ask of a node; limits stand in for requests that are not set, as at admission."""
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
    for container in items(spec.get("containers")):
        _add(total, _requests(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in items(spec.get("initContainers")):
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
    for condition in items(status.get("conditions")):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return text(condition, "message") or text(condition, "reason")
    return ""


def _waiting(status: Object) -> tuple[str, ...]:
    states = (at(container, "state", "waiting") for container in items(status.get("containerStatuses")))
    return tuple(dict.fromkeys(sys.intern(text(state, "reason")) for state in states if state.get("reason")))


def _workload(spec: Object) -> tuple[str, str]:
    """(Workload, PodGroup) that a Pod names: `workloadRef` of Kubernetes 1.35, `schedulingGroup` since 1.36."""
    return text(at(spec, "workloadRef"), "name"), text(at(spec, "schedulingGroup"), "podGroupName")

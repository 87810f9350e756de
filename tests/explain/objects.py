"""Facts as the objects that they are read from: to read them back, from files and from an API server."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from app.explain.facts import Facts
from app.explain.facts.common import Place, Told
from app.explain.facts.devices import ClaimTemplate, ComputeDomain, DeviceClass, Event, ResourceClaim, ResourceSlice
from app.explain.facts.grove import Asked, ClusterTopology, PodClique, PodCliqueSet, PodGang
from app.explain.facts.kai import KaiPodGroup, KaiTopology, Queue, Said, Workload, WorkloadGroup
from app.explain.facts.nodes import Node
from app.explain.facts.pods import Pod, PodClaim, Shape
from app.explain.facts.selectors import Requirement, Term

Object = dict[str, Any]


def objects_of(facts: Facts) -> list[Object]:
    """All facts as objects, owners before what they own."""
    return list(_objects(facts))


def _objects(facts: Facts) -> Iterator[Object]:
    yield from map(topology, facts.topologies)
    yield from (kai_topology(one) for one in facts.kai_topologies)
    yield from map(node, facts.nodes)
    yield from (queue(one) for one in facts.queues)
    yield from map(device_class, facts.device_classes)
    yield from map(resource_slice, facts.slices)
    yield from map(pod_clique_set, facts.sets)
    yield from map(pod_gang, facts.gangs)
    yield from map(pod_clique, facts.cliques)
    yield from map(pod_group, facts.pod_groups)
    yield from (workload(one) for one in facts.workloads)
    yield from (workload_group(one) for one in facts.workload_groups)
    yield from map(claim, facts.claims)
    yield from (claim_template(one) for one in facts.claim_templates)
    yield from (compute_domain(one) for one in facts.compute_domains)
    yield from map(pod, facts.pods)
    yield from (event(number, one) for number, one in enumerate(facts.events))


def made(version: str, kind: str, namespace: str, name: str, uid: str = "", **fields: Any) -> Object:
    metadata: Object = {"name": name} | ({"namespace": namespace} if namespace else {}) | ({"uid": uid} if uid else {})
    metadata |= fields.pop("metadata", {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def time_of(seconds: float | None) -> Object:
    """`creationTimestamp` of metadata; nothing for None."""
    if seconds is None:
        return {}
    return {"creationTimestamp": datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}


def topology(one: ClusterTopology) -> Object:
    levels = [{"domain": level.domain, "key": level.key} for level in one.levels]
    spec: Object = {"levels": levels}
    status: Object = {}
    if one.external:
        spec["schedulerTopologyBindings"] = [{"schedulerName": "kai-scheduler", "topologyReference": one.kai}]
    if one.drift:
        statuses = [
            {"schedulerName": "kai-scheduler", "topologyReference": one.kai, "inSync": False, "message": one.drift}
        ]
        status = {"status": {"schedulerTopologyStatuses": statuses}}
    return made("grove.io/v1alpha1", one.kind, "", one.name, one.uid, spec=spec, **status)


def kai_topology(one: KaiTopology) -> Object:
    owners = [
        {"apiVersion": "grove.io/v1alpha1", "kind": kind, "name": name, "uid": uid, "controller": True}
        for kind, name, uid in one.owners
    ]
    metadata: Object = {"ownerReferences": owners} if owners else {}
    spec = {"levels": [{"nodeLabel": key} for key in one.keys]}
    return made("kai.scheduler/v1alpha1", "Topology", "", one.name, metadata=metadata, spec=spec)


def quantities(amounts: Iterable[tuple[str, int]]) -> dict[str, str]:
    return {name: f"{amount}m" if amount % 1000 else str(amount // 1000) for name, amount in amounts if name != "pods"}


def node(one: Node) -> Object:
    taints = [{"key": taint.key, "effect": taint.effect} for taint in one.taints]
    spec: Object = ({"taints": taints} if taints else {}) | ({"unschedulable": True} if one.unschedulable else {})
    allocatable = quantities(one.allocatable.items()) | {"pods": str(one.allocatable["pods"] // 1000)}
    ready = {"type": "Ready", "status": "True" if one.ready else "False"}
    status = {"allocatable": allocatable, "capacity": allocatable, "conditions": [ready]}
    return made("v1", "Node", "", one.name, metadata={"labels": dict(one.labels)}, spec=spec, status=status)


def queue(one: Queue) -> Object:
    bounds = {"quota": one.quota, "limit": one.limit}
    gpu = {name: -1 if value is None else value // 1000 for name, value in bounds.items()}
    spec: Object = {"resources": {"gpu": gpu}} | ({"parentQueue": one.parent} if one.parent else {})
    status = {
        "allocated": {"nvidia.com/gpu": str(one.allocated // 1000)},
        "allocatedNonPreemptible": {"nvidia.com/gpu": str(one.allocated_fixed // 1000)},
    }
    metadata: Object = {"labels": {"kai.scheduler/node-pool": one.pool}} if one.pool else {}
    return made("scheduling.run.ai/v2", "Queue", "", one.name, metadata=metadata, spec=spec, status=status)


def asked(one: Asked) -> Object:
    if not one.required and not one.preferred:
        return {}
    if ".pack." not in one.field and not one.topology:
        return {"topologyConstraint": {"packDomain": one.required}}
    pack = {name: value for name, value in (("required", one.required), ("preferred", one.preferred)) if value}
    name: Object = {"topologyName": one.topology} if one.topology else {}
    return {"topologyConstraint": {**name, "pack": pack}}


def pod_clique_set(one: PodCliqueSet) -> Object:
    empty = {"containers": [{"name": "main", "image": "registry.example/main:1"}]}
    cliques = [
        {
            "name": item.name,
            "spec": {"roleName": item.name, "replicas": item.replicas, "minAvailable": item.minimum, "podSpec": empty},
            **asked(item.asked),
        }
        for item in one.cliques
    ]
    groups = [
        {
            "name": item.name,
            "cliqueNames": list(item.cliques),
            "replicas": item.replicas,
            "minAvailable": item.minimum,
            **asked(item.asked),
        }
        for item in one.groups
    ]
    template = {"cliques": cliques, "podCliqueScalingGroups": groups, **asked(one.asked)}
    conditions = [
        {"type": item.type, "status": item.status, "reason": item.reason, "message": item.message}
        for item in one.conditions
    ]
    status: Object = {"status": {"conditions": conditions}} if conditions else {}
    spec = {"replicas": one.replicas, "template": template}
    metadata = time_of(one.created)
    return made(
        "grove.io/v1alpha1", "PodCliqueSet", one.namespace, one.name, one.uid, metadata=metadata, spec=spec, **status
    )


def labels(place: Place) -> dict[str, str]:
    """What Grove's operator writes."""
    values = {
        "app.kubernetes.io/part-of": place.pcs,
        "grove.io/podcliqueset-replica-index": place.replica,
        "grove.io/podclique": place.clique,
        "grove.io/podcliquescalinggroup": place.group,
        "grove.io/podcliquescalinggroup-replica-index": place.group_replica,
        "grove.io/podgang": place.gang,
        "grove.io/base-podgang": place.base_gang,
    }
    return {key: value for key, value in values.items() if value}


def term(requirements: Term) -> Object:
    def expressions(items: Iterable[Requirement]) -> list[Object]:
        return [{"key": item.key, "operator": item.operator, "values": list(item.values)} for item in items]

    fields = [item for item in requirements if item.key == "metadata.name"]
    rest = [item for item in requirements if item.key != "metadata.name"]
    found: Object = {"matchExpressions": expressions(rest)} if rest else {}
    return found | ({"matchFields": expressions(fields)} if fields else {})


def pod_spec(shape: Shape, claims: Iterable[PodClaim] = ()) -> Object:
    """`selector` becomes required affinity if it isn't plain."""
    container = {
        "name": "main",
        "image": "registry.example/main:1",
        "resources": {"requests": quantities(shape.requests)},
    }
    devices = {name: value for name, value in quantities(shape.requests).items() if "/" in name}
    container["resources"] |= {"limits": devices} if devices else {}  # type: ignore[operator]
    spec: Object = {"containers": [container]}
    if shape.selector:
        spec["nodeSelector"] = {item.key: item.values[0] for item in shape.selector}
    if shape.affinity:
        terms = {"nodeSelectorTerms": [term(one) for one in shape.affinity]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    if shape.tolerations:
        keys = ("key", "operator", "value", "effect")
        spec["tolerations"] = [{key: v for key in keys if (v := getattr(item, key))} for item in shape.tolerations]
    named = [
        {"name": item.name}
        | ({"resourceClaimTemplateName": item.template} if item.template else {"resourceClaimName": item.claim})
        for item in claims
    ]
    return spec | ({"resourceClaims": named} if named else {})


def pod_clique(one: PodClique) -> Object:
    spec = {
        "roleName": "r",
        "replicas": one.replicas,
        "minAvailable": one.minimum,
        "podSpec": pod_spec(one.shape, one.claims),
    }
    if one.scheduler:
        spec["podSpec"]["schedulerName"] = one.scheduler  # type: ignore[index]
    errors = [{"code": "ERR", "description": error, "observedAt": "2026-11-21T12:00:00Z"} for error in one.errors]
    status = {"scheduledReplicas": one.scheduled, "replicas": one.scheduled, "lastErrors": errors}
    metadata = {"labels": labels(one.place), **time_of(one.created)}
    return made(
        "grove.io/v1alpha1", "PodClique", one.namespace, one.name, one.uid, metadata=metadata, spec=spec, status=status
    )


def told(one: Told) -> Object:
    pack = {name: value for name, value in (("required", one.required), ("preferred", one.preferred)) if value}
    return {"topologyConstraint": {"packConstraint": pack}} if pack else {}


def pod_gang(one: PodGang) -> Object:
    podgroups = [
        {
            "name": part.name,
            "minReplicas": part.minimum,
            "podReferences": [{"namespace": one.namespace, "name": name} for name in sorted(part.pods)],
            **told(part.told),
        }
        for part in one.parts
    ]
    groups = [{"name": group.name, "podGroupNames": list(group.parts), **told(group.told)} for group in one.groups]
    spec = {"podgroups": podgroups, **told(one.told)} | ({"topologyConstraintGroupConfigs": groups} if groups else {})
    metadata: Object = {"labels": labels(one.place), **time_of(one.created)}
    metadata |= {"annotations": {"grove.io/topology-name": one.topology}} if one.topology else {}
    return made(
        "scheduler.grove.io/v1alpha1", "PodGang", one.namespace, one.name, one.uid, metadata=metadata, spec=spec
    )


def bound(one: Told, topology_name: str) -> Object:
    values = {"requiredTopologyLevel": one.required, "preferredTopologyLevel": one.preferred}
    constraint = {name: value for name, value in values.items() if value}
    return {"topologyConstraint": {**constraint, "topology": topology_name}} if constraint else {}


def pod_group(one: KaiPodGroup) -> Object:
    subgroups = [
        {"name": sub.name}
        | ({"parent": sub.parent} if sub.parent else {})
        | ({"minMember": sub.minimum} if sub.minimum else {})
        | bound(sub.told, one.topology)
        for sub in one.subgroups
    ]
    spec: Object = {"minMember": one.minimum, "queue": one.queue, **bound(one.told, one.topology)}
    spec |= {"subGroups": subgroups} if subgroups else {}
    spec |= {"preemptionDelay": f"{one.delay:.0f}s"} if one.delay else {}
    reasons = [said(item) for item in one.said]
    status: Object = {}
    if reasons:
        conditions = [{"type": "UnschedulableOnNodePool", "nodePool": "default", "status": "True", "reasons": reasons}]
        status = {"status": {"schedulingConditions": conditions}}
    owners = [
        {"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "name": one.name, "uid": uid}
        for uid in one.owners
    ]
    metadata: Object = {"ownerReferences": owners, "labels": labels(one.place), **time_of(one.created)}
    metadata["labels"] |= {"kai.scheduler/node-pool": one.pool} if one.pool else {}
    return made(
        "scheduling.run.ai/v2alpha2",
        "PodGroup",
        one.namespace,
        one.name,
        one.uid,
        metadata=metadata,
        spec=spec,
        **status,
    )


def said(one: Said) -> Object:
    details: Object = {"name": one.queue} if one.queue else {}
    for name, amounts in (
        ("queueDeservedResources", one.quota),
        ("queueAllocatedResources", one.allocated),
    ):
        details |= {name: quantities(amounts.items())} if amounts else {}
    found: Object = {"reason": one.reason, "message": one.message}
    return found | ({"details": {"queueDetails": details}} if details else {})


def workload(one: Workload) -> Object:
    groups = [{"name": name, "schedulingPolicy": {"basic": {}}} for name in one.groups]
    return made("scheduling.k8s.io/v1alpha2", "Workload", one.namespace, one.name, spec={"podGroupTemplates": groups})


def workload_group(one: WorkloadGroup) -> Object:
    reference = {"workload": {"workloadName": one.workload, "podGroupTemplateName": "workers"}}
    spec: Object = {"podGroupTemplateRef": reference} if one.workload else {}
    return made("scheduling.k8s.io/v1alpha2", "PodGroup", one.namespace, one.name, spec=spec)


def requests(classes: Iterable[str]) -> Object:
    return {
        "devices": {"requests": [{"name": f"r{n}", "exactly": {"deviceClassName": c}} for n, c in enumerate(classes)]}
    }


def claim(one: ResourceClaim) -> Object:
    status: Object = {}
    if one.allocated:
        results = [
            {"request": "r0", "driver": device.driver, "pool": device.pool, "device": device.device}
            for device in one.devices
        ]
        allocation: Object = {"devices": {"results": results}}
        allocation |= {"nodeSelector": {"nodeSelectorTerms": [term(t) for t in one.nodes]}} if one.nodes else {}
        status["allocation"] = allocation
    if one.consumers:
        status["reservedFor"] = [{"resource": "pods", "name": c.name} for c in one.consumers]
    return made(
        "resource.k8s.io/v1",
        "ResourceClaim",
        one.namespace,
        one.name,
        one.uid,
        spec=requests(one.classes),
        status=status,
    )


def device_class(one: DeviceClass) -> Object:
    expression = f"device.driver == '{one.gpus}' && device.attributes['{one.gpus}'].type == 'gpu'"
    spec: Object = {"selectors": [{"cel": {"expression": expression}}]} if one.gpus else {}
    return made("resource.k8s.io/v1", "DeviceClass", "", one.name, spec=spec)


def resource_slice(one: ResourceSlice) -> Object:
    """With a part of a GPU, which is none."""
    kinds = {**dict.fromkeys(one.gpus, "gpu"), "gpu-0-mig-1g": "mig"}
    spec = {
        "driver": one.driver,
        "pool": {"name": one.pool, "generation": one.generation, "resourceSliceCount": 1},
        "nodeName": one.node,
        "devices": [{"name": name, "attributes": {"type": {"string": kind}}} for name, kind in kinds.items()],
    }
    return made("resource.k8s.io/v1", "ResourceSlice", "", one.name, spec=spec)


def claim_template(one: ClaimTemplate) -> Object:
    spec = {"spec": requests(one.classes)}
    return made("resource.k8s.io/v1", "ResourceClaimTemplate", one.namespace, one.name, spec=spec)


def compute_domain(one: ComputeDomain) -> Object:
    nodes = [{"name": n.name, "status": "Ready" if n.ready else "NotReady", "index": 0} for n in one.nodes]
    spec = {"numNodes": one.number, "channel": {"resourceClaimTemplate": {"name": one.template}}}
    status = {"status": "Ready" if one.ready else "NotReady", "nodes": nodes}
    obj = made(
        "resource.nvidia.com/v1beta1", "ComputeDomain", one.namespace, one.name, one.uid, spec=spec, status=status
    )
    if one.held_by:
        obj["metadata"] |= {"deletionTimestamp": "2026-11-21T12:00:00Z", "finalizers": list(one.held_by)}
    return obj


def pod(one: Pod) -> Object:
    spec = pod_spec(one.shape, one.claims) | {"schedulerName": one.scheduler}
    spec |= {"nodeName": one.node} if one.node else {}
    spec |= {"schedulingGates": [{"name": gate} for gate in one.gates]} if one.gates else {}
    spec |= {"workloadRef": {"name": one.workload}} if one.workload else {}
    spec |= {"schedulingGroup": {"podGroupName": one.workload_group}} if one.workload_group else {}
    generated = [{"name": c.name, "resourceClaimName": c.claim} for c in one.claims if c.template and c.claim]
    containers = [{"name": "main", "state": {"waiting": {"reason": reason}}} for reason in one.waiting]
    status = {"phase": one.phase, "resourceClaimStatuses": generated, "containerStatuses": containers}
    marks = {"kai.scheduler/subgroup-name": one.subgroup, "kai.scheduler/queue": one.queue}
    metadata: Object = {
        "labels": labels(one.place) | {key: value for key, value in marks.items() if value},
        "annotations": {"pod-group-name": one.group} if one.group else {},
        **time_of(one.created),
    }
    metadata |= {"finalizers": list(one.finalizers)} if one.finalizers else {}
    if one.deleting is not None:
        metadata["deletionTimestamp"] = time_of(one.deleting)["creationTimestamp"]
    return made("v1", "Pod", one.namespace, one.name, one.uid, metadata=metadata, spec=spec, status=status)


def event(number: int, one: Event) -> Object:
    about = {"kind": one.about.kind, "namespace": one.about.namespace, "name": one.about.name, "uid": one.uid}
    when = time_of(one.time)["creationTimestamp"]
    fields = {"regarding": about, "reason": one.reason, "note": one.message, "eventTime": when.replace("Z", ".000000Z")}
    more = {
        "action": "Scheduling",
        "reportingController": "kai-scheduler",
        "reportingInstance": "kai-0",
        "type": "Warning",
    }
    return made("events.k8s.io/v1", "Event", one.about.namespace, f"event-{number}", **fields, **more)

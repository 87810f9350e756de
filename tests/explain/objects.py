"""Facts as the objects that they are read from: to read them back, from files and from an API
server.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from app.explain.state.snapshot import Snapshot
from app.facts.constraint import SchedulerConstraint
from app.facts.grove.podclique import PodClique
from app.facts.grove.podcliqueset import SetWithStatus, UserConstraint
from app.facts.grove.podgang import PodGang, PodGangMap
from app.facts.grove.status import LastError
from app.facts.grove.topology import ClusterTopology
from app.facts.identity import NOWHERE, Place, Ref
from app.facts.kai.podgroup import KaiPodGroup, Said
from app.facts.kai.queue import MEGABYTE, NO_SHARE, Queue
from app.facts.kai.shard import Shard
from app.facts.kai.topology import KaiTopology
from app.facts.kubernetes.claim import ClaimTemplate, DeviceClass, ResourceClaim, ResourceSlice
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.gpu_sharing import GpuPart
from app.facts.kubernetes.gpus import GPU
from app.facts.kubernetes.kueue import ClusterQueue, KueueCondition, KueueQueue, KueueWorkload
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import OTHER_GROUP, RUNS, Pod, PodClaim, Shape, Stalled
from app.facts.kubernetes.selectors import Requirement, Term
from app.facts.kubernetes.volume import StorageClass, Volume, VolumeClaim
from app.facts.kubernetes.workload import PriorityClass, Workload, WorkloadGroup
from app.facts.kubernetes.workload_status import WorkloadStatus
from app.facts.labels import KAI_QUEUE, NODE_POOL
from app.facts.nvidia.computedomain import ComputeDomain
from app.facts.unit_owners import SET_SIZE, SET_WORKER

Object = dict[str, Any]
VERSIONS = {
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
    "StatefulSet": "apps/v1",
}
SOME_TIME = "2026-11-21T12:00:00Z"


def objects_of(facts: Snapshot, *, today: bool = False) -> list[Object]:
    """All facts as objects, owners before what they own; with `today`, without fields that today's
    Grove rejects in new objects.
    """
    return list(_objects(facts, today))


def _objects(facts: Snapshot, today: bool) -> Iterator[Object]:
    yield from map(topology, facts.topologies)
    yield from (kai_topology(fact) for fact in facts.kai_topologies)
    yield from map(node, facts.nodes)
    yield from (queue(fact) for fact in facts.queues)
    yield from map(shard, facts.shards)
    yield from map(priority_class, facts.priorities)
    yield from map(device_class, facts.device_classes)
    yield from map(resource_slice, facts.slices)
    yield from (pod_clique_set(fact, today) for fact in facts.sets)
    yield from map(pod_gang, facts.gangs)
    yield from map(pod_gang_map, facts.gang_maps)
    yield from map(pod_clique, facts.cliques)
    yield from map(pod_group, facts.pod_groups)
    yield from (workload(fact) for fact in facts.workloads)
    yield from (workload_group(fact) for fact in facts.workload_groups)
    yield from map(kueue_workload, facts.kueue_workloads)
    yield from map(kueue_queue, facts.kueue_queues)
    yield from map(cluster_queue, facts.cluster_queues)
    yield from (claim_template(fact) for fact in facts.claim_templates)
    yield from (compute_domain(fact) for fact in facts.compute_domains)
    yield from map(storage_class, facts.storage_classes)
    yield from map(volume, facts.volumes)
    yield from map(volume_claim, facts.volume_claims)
    yield from map(pod, facts.pods)
    yield from map(claim, facts.claims)
    yield from map(workload_status, facts.workload_statuses)
    yield from (event(number, fact) for number, fact in enumerate(facts.events))


def made(
    version: str, kind: str, namespace: str, name: str, uid: str = "", **fields: Any
) -> Object:
    metadata: Object = (
        {"name": name}
        | ({"namespace": namespace} if namespace else {})
        | ({"uid": uid} if uid else {})
    )
    metadata |= fields.pop("metadata", {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def time_of(seconds: float | None) -> Object:
    """`creationTimestamp` of metadata; nothing for None."""
    if seconds is None:
        return {}
    return {
        "creationTimestamp": datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    }


def topology(fact: ClusterTopology) -> Object:
    levels = [{"domain": level.domain, "key": level.key} for level in fact.levels]
    spec: Object = {"levels": levels}
    status: Object = {}
    if fact.external:
        spec["schedulerTopologyBindings"] = [
            {"schedulerName": "kai-scheduler", "topologyReference": fact.kai}
        ]
    if fact.drift:
        statuses = [
            {
                "schedulerName": "kai-scheduler",
                "topologyReference": fact.kai,
                "inSync": False,
                "message": fact.drift,
            }
        ]
        status = {"status": {"schedulerTopologyStatuses": statuses}}
    return made("grove.io/v1alpha1", fact.kind, "", fact.name, fact.uid, spec=spec, **status)


def kai_topology(fact: KaiTopology) -> Object:
    owners = [
        {
            "apiVersion": "grove.io/v1alpha1",
            "kind": owner.kind,
            "name": owner.name,
            "uid": owner.uid,
            "controller": owner.controller,
        }
        for owner in fact.owners
    ]
    metadata: Object = {"ownerReferences": owners} if owners else {}
    spec = {"levels": [{"nodeLabel": key} for key in fact.keys]}
    return made("kai.scheduler/v1alpha1", "Topology", "", fact.name, metadata=metadata, spec=spec)


def quantities(amounts: Iterable[tuple[str, int]]) -> dict[str, str]:
    return {
        name: f"{amount}m" if amount % 1000 else str(amount // 1000)
        for name, amount in amounts
        if name != "pods"
    }


def node(fact: Node) -> Object:
    taints = [{"key": taint.key, "effect": taint.effect} for taint in fact.taints]
    spec: Object = ({"taints": taints} if taints else {}) | (
        {"unschedulable": True} if fact.unschedulable else {}
    )
    allocatable = quantities(fact.allocatable.items()) | {
        "pods": str(fact.allocatable["pods"] // 1000)
    }
    ready = {"type": "Ready", "status": "True" if fact.ready else "False"}
    if fact.lost_at is not None:
        ready["lastTransitionTime"] = stamp(fact.lost_at)
    status = {"allocatable": allocatable, "capacity": allocatable, "conditions": [ready]}
    return made(
        "v1",
        "Node",
        "",
        fact.name,
        metadata={"labels": dict(fact.labels)},
        spec=spec,
        status=status,
    )


def priority_class(fact: PriorityClass) -> Object:
    made_of = made("scheduling.k8s.io/v1", "PriorityClass", "", fact.name)
    return {**made_of, "value": fact.value, "globalDefault": fact.is_default}


def shard(fact: Shard) -> Object:
    spec = {"partitionLabelValue": fact.pool}
    return made("kai.scheduler/v1", "SchedulingShard", "", fact.name, spec=spec)


def queue(fact: Queue) -> Object:
    bounds = {"quota": fact.quota, "limit": fact.limit}
    gpu = {
        name: -1 if value is None else value / 1000
        for name, value in bounds.items()
        if name not in fact.unset
    }
    resources: Object = {"gpu": {**gpu, "overQuotaWeight": fact.weight}}
    allocated: Object = {"nvidia.com/gpu": str(fact.allocated // 1000)}
    fixed: Object = {"nvidia.com/gpu": str(fact.allocated_fixed // 1000)}
    for name, share, unit in (("cpu", fact.cpu, 1), ("memory", fact.memory, MEGABYTE)):
        amounts = {"quota": share.quota, "limit": share.limit}
        resources[name] = {
            key: -1 if value is None else value / unit
            for key, value in amounts.items()
            if key not in share.unset
        } | {"overQuotaWeight": share.weight}
        if share != NO_SHARE:
            allocated[name] = f"{share.allocated}m"
            fixed[name] = f"{share.allocated_fixed}m"
    spec: Object = {"resources": resources, "priority": fact.priority}
    spec |= {"parentQueue": fact.parent} if fact.parent else {}
    after = {"reclaimMinRuntime": fact.reclaim_after, "preemptMinRuntime": fact.preempt_after}
    spec |= {name: f"{value:.0f}s" for name, value in after.items() if value is not None}
    status = {"allocated": allocated, "allocatedNonPreemptible": fixed}
    metadata = {**time_of(fact.created), "labels": {NODE_POOL: fact.pool} if fact.pool else {}}
    fields: Object = {"metadata": metadata, "spec": spec, "status": status}
    return made("scheduling.run.ai/v2", "Queue", "", fact.name, **fields)


def asked(fact: UserConstraint, today: bool = False) -> Object:
    if not fact.required and not fact.preferred:
        return {}
    if not today and not fact.field.startswith("pack.") and not fact.topology:
        return {"topologyConstraint": {"packDomain": fact.required}}
    pack = {
        name: value
        for name, value in (("required", fact.required), ("preferred", fact.preferred))
        if value
    }
    name: Object = {"topologyName": fact.topology} if fact.topology else {}
    return {"topologyConstraint": {**name, "pack": pack}}


def pod_clique_set(fact: SetWithStatus, today: bool = False) -> Object:
    empty = {"containers": [{"name": "main", "image": "registry.example/main:1"}]}
    cliques = [
        {
            "name": item.name,
            "spec": {
                "roleName": item.name,
                "replicas": item.replicas,
                "minAvailable": item.minimum,
                "podSpec": empty,
            },
            **asked(item.asked, today),
        }
        for item in fact.cliques
    ]
    groups = [
        {
            "name": item.name,
            "cliqueNames": list(item.cliques),
            "replicas": item.replicas,
            "minAvailable": item.minimum,
            **asked(item.asked, today),
        }
        for item in fact.groups
    ]
    template = {"cliques": cliques, "podCliqueScalingGroups": groups, **asked(fact.asked, today)}
    if fact.termination_delay:
        template["terminationDelay"] = f"{fact.termination_delay:.0f}s"
    conditions = [
        {
            "type": c.type,
            "status": c.status,
            "reason": c.reason,
            "message": c.message,
            "lastTransitionTime": SOME_TIME if c.since is None else stamp(c.since),
        }
        for c in fact.conditions
    ]
    values: Object = {"conditions": conditions, "lastErrors": last_errors(fact.errors)}
    status: Object = {"status": values} if conditions or fact.errors else {}
    spec: Object = {"replicas": fact.replicas, "template": template}
    if fact.updates_on_delete:
        spec["updateStrategy"] = {"type": "OnDelete"}
    metadata: Object = time_of(fact.created)
    enabled = fact.mnnvl.enabled
    metadata |= {"annotations": {"grove.io/mnnvl-enabled": enabled}} if enabled else {}
    metadata |= {"finalizers": list(fact.finalizers)} if fact.finalizers else {}
    metadata |= {"uid": fact.uid} if fact.uid else {}
    if fact.deleted_at is not None:
        metadata["deletionTimestamp"] = time_of(fact.deleted_at)["creationTimestamp"]
    return made(
        "grove.io/v1alpha1",
        "PodCliqueSet",
        fact.namespace,
        fact.name,
        metadata=metadata,
        spec=spec,
        **status,
    )


def labels(place: Place) -> dict[str, str]:
    """What Grove's operator writes."""
    values = {
        "app.kubernetes.io/part-of": place.pcs,
        "grove.io/podcliqueset-replica-index": place.replica,
        "grove.io/podclique": place.clique,
        "grove.io/podcliquescalinggroup": place.group_name,
        "grove.io/podcliquescalinggroup-replica-index": place.group_replica,
        "grove.io/podgang": place.podgang,
        "grove.io/base-podgang": place.base_podgang,
    }
    return {key: value for key, value in values.items() if value}


def term(requirements: Term) -> Object:
    def expressions(items: Iterable[Requirement]) -> list[Object]:
        return [
            {"key": item.key, "operator": item.operator, "values": list(item.values)}
            for item in items
        ]

    fields = [item for item in requirements if item.key == "metadata.name"]
    rest = [item for item in requirements if item.key != "metadata.name"]
    stated: Object = {"matchExpressions": expressions(rest)} if rest else {}
    return stated | ({"matchFields": expressions(fields)} if fields else {})


def pod_spec(shape: Shape, claims: Iterable[PodClaim] = ()) -> Object:
    """`selector` becomes required affinity if it isn't plain."""
    requests = [(name, ask) for name, ask in shape.requests if not (shape.part and name == GPU)]
    container = {
        "name": "main",
        "image": "registry.example/main:1",
        "resources": {"requests": quantities(requests)},
    }
    devices = {name: value for name, value in quantities(requests).items() if "/" in name}
    container["resources"] |= {"limits": devices} if devices else {}  # type: ignore[operator]
    spec: Object = {"containers": [container]}
    if shape.selector:
        spec["nodeSelector"] = {item.key: item.values[0] for item in shape.selector}
    if shape.affinity:
        terms = {"nodeSelectorTerms": [term(fact) for fact in shape.affinity]}
        spec["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        }
    if shape.tolerations:
        keys = ("key", "operator", "value", "effect")
        spec["tolerations"] = [
            {key: v for key in keys if (v := getattr(item, key))} for item in shape.tolerations
        ]
    named = [
        {"name": item.name}
        | (
            {"resourceClaimTemplateName": item.template}
            if item.template
            else {"resourceClaimName": item.claim}
        )
        for item in claims
    ]
    return spec | ({"resourceClaims": named} if named else {})


def pod_clique(fact: PodClique) -> Object:
    spec = {
        "roleName": "r",
        "replicas": fact.replicas,
        "minAvailable": fact.replicas,
        "podSpec": pod_spec(fact.shape, fact.claims),
    }
    errors = last_errors(fact.errors)
    status: Object = {
        "scheduledReplicas": fact.scheduled,
        "replicas": fact.scheduled,
        "lastErrors": errors,
    }
    if fact.breached is not None:
        since = stamp(fact.breached)
        status["conditions"] = [
            {"type": "PodCliqueScheduled", "status": "False", "lastTransitionTime": since},
            {"type": "MinAvailableBreached", "status": "True", "lastTransitionTime": since},
        ]
    metadata: Object = {"labels": labels(fact.place)}
    if fact.revision:
        metadata["labels"]["grove.io/pod-template-hash"] = fact.revision
    own = fact.unclaimed.annotations.enabled if fact.unclaimed is not None else None
    metadata |= {"annotations": {"grove.io/mnnvl-enabled": own}} if own is not None else {}
    return made(
        "grove.io/v1alpha1",
        "PodClique",
        fact.namespace,
        fact.name,
        fact.uid,
        metadata=metadata,
        spec=spec,
        status=status,
    )


def last_errors(errors: Iterable[LastError]) -> list[Object]:
    return [
        {
            "code": "ERR",
            "description": error.text,
            "observedAt": time_of(error.time).get("creationTimestamp", SOME_TIME),
        }
        for error in errors
    ]


def told(fact: SchedulerConstraint) -> Object:
    pack = {
        name: value
        for name, value in (("required", fact.required), ("preferred", fact.preferred))
        if value
    }
    return {"topologyConstraint": {"packConstraint": pack}} if pack else {}


def pod_gang(fact: PodGang) -> Object:
    podgroups = [
        {
            "name": part.name,
            "minReplicas": part.minimum,
            "podReferences": [
                {"namespace": fact.namespace, "name": name} for name in sorted(part.pods)
            ],
            **told(part.told),
        }
        for part in fact.parts
    ]
    groups = [
        {"name": group.name, "podGroupNames": list(group.parts), **told(group.told)}
        for group in fact.groups
    ]
    spec = {"podgroups": podgroups, **told(fact.told)} | (
        {"topologyConstraintGroupConfigs": groups} if groups else {}
    )
    roles = {
        "grove.io/podgang-role": fact.role,
        "grove.io/epoch": fact.epoch,
        "grove.io/scheduler-name": fact.scheduler,
    }
    named = {key: value for key, value in roles.items() if value}
    metadata: Object = {"labels": labels(fact.place) | named, **time_of(fact.created)}
    metadata |= {"annotations": {"grove.io/topology-name": fact.topology}} if fact.topology else {}
    metadata |= {"finalizers": list(fact.finalizers)} if fact.finalizers else {}
    if fact.deleted_at is not None:
        metadata["deletionTimestamp"] = time_of(fact.deleted_at)["creationTimestamp"]
    return made(
        "scheduler.grove.io/v1alpha1",
        "PodGang",
        fact.namespace,
        fact.name,
        fact.uid,
        metadata=metadata,
        spec=spec,
        status=gang_status(fact.scheduled),
    )


def gang_status(scheduled: bool | None) -> Object:
    """As releases write it that note what was scheduled, and as earlier ones do (None)."""
    initialized = gang_condition("Initialized", "True", "PodGangPodsCreated")
    status: Object = {"phase": "Pending", "conditions": [initialized]}
    if scheduled is not None:
        status["conditions"].append(gang_condition("Scheduled", "False", "PodGangNotReady"))
    return status | ({"lastScheduled": SOME_TIME} if scheduled else {})


def gang_condition(type_: str, status: str, reason: str) -> Object:
    """With all fields that Grove's CRD requires."""
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": SOME_TIME,
    }


def bound(fact: SchedulerConstraint, topology_name: str) -> Object:
    values = {"requiredTopologyLevel": fact.required, "preferredTopologyLevel": fact.preferred}
    constraint = {name: value for name, value in values.items() if value}
    return {"topologyConstraint": {**constraint, "topology": topology_name}} if constraint else {}


def pod_gang_map(fact: PodGangMap) -> Object:
    entries = [
        {
            "epoch": e.epoch,
            "dependsOn": list(e.depends_on),
            "podCliques": {name.removeprefix(f"{fact.name}-"): count for name, count in e.pods},
        }
        for e in fact.entries
    ]
    spec = {"entries": entries}
    return made("grove.io/v1alpha1", "PodGangMap", fact.namespace, fact.name, spec=spec)


def pod_group(fact: KaiPodGroup) -> Object:
    subgroups = [
        {"name": sub.name}
        | ({"parent": sub.parent} if sub.parent else {})
        | ({"minMember": sub.minimum} if sub.minimum else {})
        | ({"minSubGroup": sub.needed} if sub.needed is not None else {})
        | (bound(sub.told, fact.topology) or bound(sub.unnamed, ""))
        for sub in fact.subgroups
    ]
    spec: Object = {
        "minMember": fact.minimum,
        "queue": fact.queue,
        **(bound(fact.told, fact.topology) or bound(fact.unnamed, "")),
        **({"topologyConstraint": {"topology": fact.topology}} if fact.without_level else {}),
    }
    spec |= {"minSubGroup": fact.needed} if fact.needed is not None else {}
    spec |= {"priorityClassName": fact.priority_class} if fact.priority_class else {}
    spec |= {"preemptibility": fact.preemptibility} if fact.preemptibility else {}
    spec |= {"subGroups": subgroups} if subgroups else {}
    spec |= {"preemptionDelay": f"{fact.delay:.0f}s"} if fact.delay else {}
    spec |= {"stalenessGracePeriod": f"{fact.grace:.0f}s"} if fact.grace is not None else {}
    spec |= {"preemptibility": fact.preemptibility} if fact.preemptibility else {}
    reasons = [said(item) for item in fact.said]
    status: Object = {}
    if fact.tries_once:
        spec["schedulingBackoff"] = 1
    if reasons or fact.given_up:
        conditions = [
            {
                "type": "UnschedulableOnNodePool",
                "nodePool": fact.pool or "default",
                "status": "True",
                "reasons": reasons,
            }
        ]
        times = [item.time for item in fact.said if item.time is not None]
        if times:
            conditions[0]["lastTransitionTime"] = time_of(times[0])["creationTimestamp"]
        status = {"status": {"schedulingConditions": conditions}}
    owners = [
        {
            "apiVersion": "scheduler.grove.io/v1alpha1",
            "kind": "PodGang",
            "name": fact.name,
            "uid": uid,
        }
        for uid in fact.owners
    ]
    metadata: Object = {"ownerReferences": owners, "labels": {}, **time_of(fact.created)}
    annotations = {
        f"kai.scheduler/{name}-timestamp": time_of(at)["creationTimestamp"]
        for name, at in (("stale-podgroup", fact.stale), ("last-start", fact.started))
        if at is not None
    }
    metadata |= {"annotations": annotations} if annotations else {}
    metadata["labels"] |= {"kai.scheduler/node-pool": fact.pool} if fact.pool else {}
    return made(
        "scheduling.run.ai/v2alpha2",
        "PodGroup",
        fact.namespace,
        fact.name,
        fact.uid,
        metadata=metadata,
        spec=spec,
        **status,
    )


def said(fact: Said) -> Object:
    details: Object = {"name": fact.queue} if fact.queue else {}
    for name, amounts in (
        ("queueDeservedResources", fact.quota),
        ("queueAllocatedResources", fact.allocated),
    ):
        details |= {name: quantities(amounts.items())} if amounts else {}
    stated: Object = {"reason": fact.reason, "message": fact.message}
    return stated | ({"details": {"queueDetails": details}} if details else {})


def workload(fact: Workload) -> Object:
    groups = [{"name": name, "schedulingPolicy": {"basic": {}}} for name in fact.groups]
    return made(
        "scheduling.k8s.io/v1alpha2",
        "Workload",
        fact.namespace,
        fact.name,
        fact.uid,
        spec={"podGroupTemplates": groups},
    )


def workload_group(fact: WorkloadGroup) -> Object:
    reference = {"workload": {"workloadName": fact.workload, "podGroupTemplateName": "workers"}}
    spec: Object = {"schedulingPolicy": {"basic": {}}}
    spec |= {"podGroupTemplateRef": reference} if fact.workload else {}
    return made("scheduling.k8s.io/v1alpha2", "PodGroup", fact.namespace, fact.name, spec=spec)


def requests(classes: Iterable[str]) -> Object:
    return {
        "devices": {
            "requests": [
                {"name": f"r{n}", "exactly": {"deviceClassName": c}} for n, c in enumerate(classes)
            ]
        }
    }


def claim(fact: ResourceClaim) -> Object:
    status: Object = {}
    if fact.allocated:
        results = [
            {"request": "r0", "driver": device.driver, "pool": device.pool, "device": device.device}
            for device in fact.devices
        ]
        allocation: Object = {"devices": {"results": results}}
        allocation |= (
            {"nodeSelector": {"nodeSelectorTerms": [term(t) for t in fact.nodes]}}
            if fact.nodes
            else {}
        )
        status["allocation"] = allocation
    if fact.consumers:
        status["reservedFor"] = [
            {"resource": "pods", "name": c.name, "uid": c.uid} for c in fact.consumers
        ]
    obj = made(
        "resource.k8s.io/v1",
        "ResourceClaim",
        fact.namespace,
        fact.name,
        spec=requests(fact.classes),
        status=status,
    )
    own = labels(fact.place) if fact.place != NOWHERE else {}
    if fact.queue:
        own[KAI_QUEUE] = fact.queue
    if own:
        obj["metadata"]["labels"] = own
    if fact.domain:
        parameters = {"kind": "ComputeDomainChannelConfig", "domainID": fact.domain}
        obj["spec"]["devices"]["config"] = [{"opaque": {"parameters": parameters}}]
    if fact.deleting is not None:
        obj["metadata"]["deletionTimestamp"] = SOME_TIME
    return obj


def device_class(fact: DeviceClass) -> Object:
    driver = fact.gpus or fact.driver
    of_type = "gpu" if fact.gpus else "channel"
    expression = f"device.driver == '{driver}' && device.attributes['{driver}'].type == '{of_type}'"
    spec: Object = {"selectors": [{"cel": {"expression": expression}}]} if driver else {}
    spec |= {"extendedResourceName": fact.extended} if fact.extended else {}
    return made("resource.k8s.io/v1", "DeviceClass", "", fact.name, spec=spec)


def resource_slice(fact: ResourceSlice) -> Object:
    """With a part of a GPU, which is none."""
    kinds = {**dict.fromkeys(fact.gpus, "gpu"), "gpu-0-mig-1g": "mig"}
    spec = {
        "driver": fact.driver,
        "pool": {"name": fact.pool, "generation": fact.generation, "resourceSliceCount": 1},
        "nodeName": fact.node,
        "devices": [
            {"name": name, "attributes": {"type": {"string": kind}}} for name, kind in kinds.items()
        ],
    }
    return made(
        "resource.k8s.io/v1", "ResourceSlice", "", f"{fact.node}-{fact.generation}", spec=spec
    )


def claim_template(fact: ClaimTemplate) -> Object:
    spec = {"spec": requests(fact.classes)}
    return made("resource.k8s.io/v1", "ResourceClaimTemplate", fact.namespace, fact.name, spec=spec)


def compute_domain(fact: ComputeDomain) -> Object:
    nodes = [
        {
            "name": n.name,
            "ipAddress": f"10.0.0.{number}",
            "cliqueID": "c.1",
            **({} if n.ready is None else {"status": "Ready" if n.ready else "NotReady"}),
        }
        for number, n in enumerate(fact.nodes)
    ]
    spec = {"numNodes": fact.number, "channel": {"resourceClaimTemplate": {"name": fact.template}}}
    status = {"status": "Ready" if fact.ready else "NotReady", "nodes": nodes}
    obj = made(
        "resource.nvidia.com/v1beta1",
        "ComputeDomain",
        fact.namespace,
        fact.name,
        fact.uid,
        spec=spec,
        status=status,
    )
    if fact.held_by:
        obj["metadata"] |= {"deletionTimestamp": SOME_TIME, "finalizers": list(fact.held_by)}
    return obj


def storage_class(fact: StorageClass) -> Object:
    key = "storageclass.kubernetes.io/is-default-class"
    return made(
        "storage.k8s.io/v1",
        "StorageClass",
        "",
        fact.name,
        metadata={"annotations": {key: "true"}} if fact.is_default else {},
        provisioner="example.com/disks" if fact.provisions else "kubernetes.io/no-provisioner",
        volumeBindingMode="WaitForFirstConsumer" if fact.waits else "Immediate",
        allowedTopologies=[
            {
                "matchLabelExpressions": [
                    {"key": each.key, "values": list(each.values)} for each in term
                ]
            }
            for term in fact.places
        ],
    )


def modes(fact: Volume | VolumeClaim) -> Object:
    access = [mode for mode in fact.modes if mode != "Block"]
    block = {"volumeMode": "Block"} if "Block" in fact.modes else {}
    return {"accessModes": access or ["ReadWriteOnce"], **block}


def storage(thousandths: int) -> str:
    return f"{thousandths}m" if thousandths else "1Gi"


def volume(fact: Volume) -> Object:
    terms = list(map(term, fact.places))
    spec: Object = modes(fact) | {
        "capacity": {"storage": storage(fact.size)},
        "storageClassName": fact.storage_class,
        "nfs": {"server": "disks.example", "path": "/1"},
    }
    if fact.reserved:
        namespace, name = fact.reserved.split("/")
        spec["claimRef"] = {"namespace": namespace, "name": name}
    if terms:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return made("v1", "PersistentVolume", "", fact.name, spec=spec, status={"phase": fact.phase})


def volume_claim(fact: VolumeClaim) -> Object:
    spec: Object = modes(fact) | {"resources": {"requests": {"storage": storage(fact.size)}}}
    spec |= {} if fact.storage_class is None else {"storageClassName": fact.storage_class}
    spec |= {"volumeName": fact.volume} if fact.volume else {}
    metadata: Object = {}
    if fact.deleting is not None:
        metadata["deletionTimestamp"] = time_of(fact.deleting)["creationTimestamp"]
    return made(
        "v1",
        "PersistentVolumeClaim",
        fact.namespace,
        fact.name,
        metadata=metadata,
        spec=spec,
        status={"phase": fact.phase},
    )


OPTED_OUT_AND_MARKED = {
    "kai.scheduler/ignore-workload-api": "true",
    "kai.scheduler/skip-podgrouper": "true",
}


def sharing(part: GpuPart | None) -> Object:
    """The annotations of a pod that shares GPUs."""
    if part is None:
        return {}
    asked = {"gpu-memory": str(part.memory)} if part.memory else {"gpu-fraction": str(part.portion)}
    return {**asked, "gpu-fraction-num-devices": str(part.devices)}


def container_status(fact: Stalled) -> Object:
    state: Object = {"waiting": {"reason": fact.reason, "message": fact.message}}
    if fact.reason == RUNS:
        since = {} if fact.since is None else time_of(fact.since)
        state = {"running": {"startedAt": since.get("creationTimestamp")}}
    status: Object = {"name": fact.name, "state": state, "restartCount": fact.restarts}
    if fact.ended == "OOMKilled":
        status["lastState"] = {"terminated": {"reason": fact.ended, "exitCode": 137}}
    elif fact.ended.startswith("StartError: "):
        reason, _, message = fact.ended.partition(": ")
        status["lastState"] = {"terminated": {"reason": reason, "message": message}}
    elif fact.ended:
        status["lastState"] = {"terminated": {"exitCode": int(fact.ended.rpartition(" ")[2])}}
    return status


def _made_for(fact: Pod) -> dict[str, str]:
    """The labels of a JobSet and of a LeaderWorkerSet, the kinds of workloads in tables."""
    found = {
        key: ref.name
        for key, kind in (
            ("jobset.sigs.k8s.io/jobset-name", "JobSet"),
            ("leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet"),
        )
        for ref in fact.made_for
        if ref.kind == kind
    }
    return found | ({SET_WORKER: "0"} if fact.leads else {})


def pod(fact: Pod) -> Object:
    spec = pod_spec(fact.shape, fact.claims) | {
        "schedulerName": fact.scheduler,
        "terminationGracePeriodSeconds": 0,
    }
    spec |= {"nodeName": fact.node} if fact.node else {}
    if fact.volumes:
        spec["volumes"] = [
            {"name": f"v{number}", "persistentVolumeClaim": {"claimName": name}}
            for number, name in enumerate(fact.volumes)
        ]
    spec |= {"schedulingGates": [{"name": gate} for gate in fact.gates]} if fact.gates else {}
    spec |= (
        {"workloadRef": {"name": fact.workload, "podGroup": fact.workload_part}}
        if fact.workload
        else {}
    )
    spec |= (
        {"schedulingGroup": {"podGroupName": fact.workload_group}} if fact.workload_group else {}
    )
    generated = [
        {"name": c.name, "resourceClaimName": c.claim}
        for c in fact.claims
        if c.template and c.claim
    ]
    named = {each.reason for each in fact.stalled if not each.init}
    containers: list[Object] = [
        {"name": "main", "state": {"waiting": {"reason": reason}}}
        for reason in fact.waiting
        if reason not in named
    ]
    init = [container_status(each) for each in fact.stalled if each.init]
    containers += [container_status(each) for each in fact.stalled if not each.init]
    if fact.unready:
        runs: Object = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        containers.append({"name": fact.unready, "ready": False, "state": runs})
    status: Object = {
        "phase": fact.phase,
        "resourceClaimStatuses": generated,
        "containerStatuses": containers,
    }
    status |= {"initContainerStatuses": init} if init else {}
    if fact.failure:
        reason, _, message = fact.failure.partition(": ")
        status |= {"reason": reason, "message": message}
    if fact.unscheduled and fact.said_at is not None:
        at = time_of(fact.said_at)["creationTimestamp"]
        words = {"reason": "Unschedulable", "message": fact.unscheduled}
        unscheduled = {"type": "PodScheduled", "status": "False", "lastTransitionTime": at}
        status["conditions"] = [unscheduled | words]
    if fact.bound is not None:
        at = time_of(fact.bound)["creationTimestamp"]
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
        status["conditions"] = [scheduled]
    if fact.leads:
        ready = {"type": "Ready", "status": "True" if fact.leads.ready else "False"}
        status["conditions"] = [*status.get("conditions", []), ready]
    if fact.is_ready or fact.unready:
        ready = {"type": "Ready", "status": "True" if fact.is_ready else "False"}
        since = fact.unready_since
        ready |= {} if since is None else {"lastTransitionTime": stamp(since)}
        status["conditions"] = [*status.get("conditions", []), ready]
    marks = {"kai.scheduler/subgroup-name": fact.subgroup} if fact.subgroup else {}
    of_grove = bool(fact.place.pcs) and not fact.made_for
    label = "grove.io/pod-template-hash" if of_grove else "controller-revision-hash"
    marks |= {label: fact.revision} if fact.revision else {}
    marks |= {"app": "kai-resource-reservation"} if fact.reserves else {}
    if fact.scales_for:
        marks["shared-gpu-pod-namespace"], marks["shared-gpu-pod-name"] = fact.scales_for
    marks |= {"kai.scheduler/background": "true"} if fact.background else {}
    marks |= {"kai.scheduler/queue": fact.queue} if fact.queue else {}
    marks |= {"kueue.x-k8s.io/managed": "true"} if fact.queued else {}
    for group in fact.gpu_groups:
        marks["runai-gpu-group" if group == fact.gpu_groups[0] else f"runai-gpu-group/{group}"] = (
            group
        )
    metadata: Object = {
        "labels": labels(fact.place) | marks | _made_for(fact),
        "annotations": {
            **({"pod-group-name": fact.group} if fact.group else {}),
            **(OPTED_OUT_AND_MARKED if fact.skipped else {}),
            **sharing(fact.shape.part),
            **({OTHER_GROUP: fact.other_group} if fact.other_group else {}),
            **({SET_SIZE: str(fact.leads.size)} if fact.leads else {}),
        },
        **time_of(fact.created),
    }
    metadata |= {"finalizers": list(fact.finalizers)} if fact.finalizers else {}
    if fact.controller and fact.controller.kind == "StatefulSet":
        owner: Object = {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "name": fact.controller.name,
        }
        metadata["ownerReferences"] = [owner | {"uid": fact.owner, "controller": True}]
    if fact.deleting is not None:
        metadata["deletionTimestamp"] = time_of(fact.deleting)["creationTimestamp"]
    return made(
        "v1",
        "Pod",
        fact.namespace,
        fact.name,
        fact.uid,
        metadata=metadata,
        spec=spec,
        status=status,
    )


def kueue_workload(fact: KueueWorkload) -> Object:
    again = time_of(fact.again)["creationTimestamp"] if fact.again is not None else None
    requeue = {"count": fact.requeues, **({"requeueAt": again} if again else {})}
    status = {
        "conditions": kueue_conditions(*fact.conditions),
        "requeueState": requeue,
        "admissionChecks": [
            {
                "name": check.name,
                "state": check.state,
                "message": check.message,
                "retryCount": check.retries,
                **({"lastTransitionTime": stamp(check.time)} if check.time is not None else {}),
            }
            for check in fact.checks
        ],
        "schedulingStats": {"evictions": [{"reason": "Preempted", "count": fact.evictions}]},
    }
    if fact.cluster_queue:
        flavors = {f"r{number}": flavor for number, flavor in enumerate(fact.flavors)}
        assigned = [{"name": "main", "flavors": flavors}]
        status["admission"] = {"clusterQueue": fact.cluster_queue, "podSetAssignments": assigned}
    owners = [{"kind": "x", "name": u, "uid": u} for u in fact.owners]
    return made(
        "kueue.x-k8s.io/v1beta1",
        "Workload",
        fact.namespace,
        fact.name,
        fact.uid,
        metadata={"ownerReferences": [*owners, *_controllers(fact.controller)]},
        spec={"queueName": fact.queue, "active": fact.active},
        status=status,
    )


def _controllers(ref: Ref | None) -> list[Object]:
    if ref is None:
        return []
    return [
        {
            "apiVersion": "batch/v1",
            "kind": ref.kind,
            "name": ref.name,
            "uid": "",
            "controller": True,
        }
    ]


def workload_status(fact: WorkloadStatus) -> Object:
    """The workload that has this status."""
    labels = {"kueue.x-k8s.io/queue-name": "lab"} if fact.queued else {}
    groups: Object = {}
    if fact.startup:
        template = {"size": fact.group}
        groups = {"startupPolicy": fact.startup, "leaderWorkerTemplate": template}
    ends = {
        "type": fact.ended,
        "status": "True",
        "reason": fact.reason,
        "message": fact.message,
        **({"lastTransitionTime": stamp(fact.time)} if fact.time is not None else {}),
    }
    return made(
        VERSIONS.get(fact.ref.kind, "batch/v1"),
        fact.ref.kind,
        fact.ref.namespace,
        fact.ref.name,
        metadata={"labels": labels},
        spec={"suspend": bool(fact.suspended)} | groups,
        status={
            "conditions": [ends] if fact.ended else [],
            **({"updateRevision": fact.revision} if fact.revision else {}),
        },
    )


def kueue_conditions(*conditions: KueueCondition) -> list[Object]:
    return [
        {
            "type": condition.type,
            "status": "True" if condition.holds else "False",
            "reason": condition.reason,
            "message": condition.message,
            **({"lastTransitionTime": stamp(condition.time)} if condition.time is not None else {}),
        }
        for condition in conditions
    ]


def stamp(time: float) -> Any:
    return time_of(time)["creationTimestamp"]


def kueue_queue(fact: KueueQueue) -> Object:
    spec = {"clusterQueue": fact.cluster_queue}
    return made("kueue.x-k8s.io/v1beta1", "LocalQueue", fact.namespace, fact.name, spec=spec)


def cluster_queue(fact: ClusterQueue) -> Object:
    conditions = kueue_conditions(fact.inactive) if fact.inactive else []
    return made(
        "kueue.x-k8s.io/v1beta1",
        "ClusterQueue",
        "",
        fact.name,
        spec={"cohort": fact.cohort},
        status={"conditions": conditions},
    )


def event(number: int, fact: Event) -> Object:
    """Return the event in the namespace of its object."""
    about = {
        "kind": fact.about.kind or "Pod",
        "namespace": fact.about.namespace or "inference",
        "name": fact.about.name or "p",
        "uid": fact.uid,
    }
    when = time_of(fact.time)["creationTimestamp"]
    fields = {
        "regarding": about,
        "reason": fact.reason,
        "note": fact.message,
        "eventTime": when.replace("Z", ".000000Z"),
    }
    more = {
        "action": "Scheduling",
        "reportingController": fact.source,
        "reportingInstance": "kai-0",
        "type": "Warning" if fact.warns else "Normal",
    }
    namespace = str(about["namespace"])
    return made("events.k8s.io/v1", "Event", namespace, f"event-{number}", **fields, **more)

"""Read Pods for explanations: their requirements on nodes, and why they do not start.

Other fields, such as env and args, are dropped.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from app.base.json import from_json, to_json
from app.base.value import Value, shared
from app.facts.identity import (
    NOWHERE,
    PLACE_LABELS,
    Namespaced,
    Place,
    Ref,
    interned,
    read_place,
)
from app.facts.kinds import LEADER_WORKER_SET
from app.facts.kubernetes.gpu_sharing import (
    FRACTION_DEVICES,
    GPU_FRACTION,
    GPU_GROUP,
    GPU_MEMORY,
    GpuPart,
    groups_of,
    read_part,
)
from app.facts.kubernetes.gpus import GPU, gpus_of_pod
from app.facts.kubernetes.kueue import is_of_kueue, pod_group_of_kueue
from app.facts.kubernetes.requests import pod_requests
from app.facts.kubernetes.selectors import (
    Term,
    Toleration,
    node_selector,
    required_affinity,
    tolerations,
)
from app.facts.labels import (
    GROVE_CLIQUE_NAME,
    IGNORE_WORKLOADS,
    KAI_BACKGROUND,
    KAI_QUEUE,
    KAI_RESERVATION,
    MNNVL_ENABLED,
    POD_GROUP_NAME,
    POD_TEMPLATE_HASH,
    SHARING_NAMESPACE,
    SHARING_POD,
    SKIP_PODGROUPER,
    SUBGROUP,
)
from app.facts.unit_owners import (
    EXCLUSIVE_GROUPS,
    EXCLUSIVE_JOBS,
    SET_SIZE,
    SET_WORKER,
    read_owner,
)
from app.facts.workload_of_pod import names_of_workloads
from app.objects.conditions import condition_of
from app.objects.names import MAX_LABEL, MAX_SUBDOMAIN, is_subdomain
from app.objects.owners import OwnerRef, controller_of
from app.objects.shape import (
    JsonMap,
    int_of,
    integer_in,
    map_at,
    map_of,
    maps_at,
    maps_of,
    only,
    text_at,
    texts_at,
)
from app.objects.time import seconds_since_1970

DAEMON_OF = "resource.nvidia.com/computeDomain"
"""The label of NVIDIA's driver that names the ComputeDomain of a daemon pod, by its uid."""

GATED = "SchedulingGated"
"""The reason that the API server gives for pods with gates. It is not a scheduler's message."""


OTHER_GROUP = "scheduling.k8s.io/group-name"
"""The annotation that names Volcano's PodGroup."""
COSCHEDULING_GROUP = "scheduling.x-k8s.io/pod-group"
"""The label that names the PodGroup of the coscheduling plugin."""


class Shape(Value):
    """The requirements of a pod on its node. Equal shapes are one object."""

    requests: tuple[tuple[str, int], ...] = ()
    """The names of the requested resources, sorted, with their amounts in thousandths.

    If the pod requests GPU fractions (`part`), the amount of GPUs is what KAI counts for its queue.
    """
    selector: Term = ()
    """The nodeSelector."""
    affinity: tuple[Term, ...] = ()
    """The terms of the required node affinity, one of which a node must meet."""
    tolerations: tuple[Toleration, ...] = ()
    part: GpuPart | None = None
    """The request for GPU fractions, or None."""
    volumes: tuple[tuple[Term, ...], ...] = ()
    """For each volume that only some nodes can use, the terms, one of which a node must meet."""
    unchecked: tuple[str, ...] = ()
    """The fields whose rules about other pods are not evaluated, although schedulers follow them.

    They are `podAffinity` and `podAntiAffinity` with required terms, and `hostPort`.
    """

    @property
    def selects(self) -> bool:
        """Whether the node selector, the node affinity or volumes exclude nodes."""
        return bool(self.selector or self.affinity or self.volumes)


NO_SHAPE = Shape()
ONLY_A_POD = Shape((("pods", 1000),))
"""The shape of a pod without requests."""


class PodClaim(Value):
    """An entry of `spec.resourceClaims` of a pod."""

    name: str
    claim: str
    """The name of the ResourceClaim, or "" while it has not been created from `template` yet."""
    template: str = ""
    """The name of the ResourceClaimTemplate, or ""."""


def read_pod_claims(spec: JsonMap, statuses: Any = None) -> tuple[PodClaim, ...]:
    """Return the claims of a pod spec.

    `statuses` are the `resourceClaimStatuses` of the pod, which name the claims from templates.
    """
    claims = maps_at(spec, "resourceClaims")
    if not claims:
        return ()

    generated = {
        text_at(item, "name"): text_at(item, "resourceClaimName") for item in maps_of(statuses)
    }
    return tuple(
        PodClaim(
            text_at(item, "name"),
            text_at(item, "resourceClaimName") or generated.get(text_at(item, "name"), ""),
            text_at(item, "resourceClaimTemplateName"),
        )
        for item in maps_at(spec, "resourceClaims")
    )


NOTHING: JsonMap = MappingProxyType({})
"""The annotations of an object without annotations."""

_OF_SHAPE = (
    "containers",
    "initContainers",
    "resources",
    "overhead",
    "nodeSelector",
    "affinity",
    "tolerations",
)


_OF_PART = (GPU_FRACTION, GPU_MEMORY, FRACTION_DEVICES)
_WITHOUT_PART = ("", "", "")


def read_shape(spec: JsonMap, annotations: JsonMap = NOTHING) -> Shape:
    """Return the shape of a pod with this spec and these annotations.

    Limits are used for requests that are not set, as at admission.
    """
    part: tuple[str, ...] = _WITHOUT_PART
    if GPU_FRACTION in annotations or GPU_MEMORY in annotations:
        part = tuple(text_at(annotations, name) for name in _OF_PART)
    content = to_json(only(spec, _OF_SHAPE))
    is_small = len(content) + sum(map(len, part)) <= _MOST_SHAPE
    return _cached_shape(content, part) if is_small else _read_shape(content, part)


_MOST_SHAPE = 4096
"""The maximum JSON size of a spec whose shape is cached, in bytes. Tenants choose the size."""


def _read_shape(content: bytes, annotations: tuple[str, ...]) -> Shape:
    """Return the shape of a pod.

    `content` is the JSON of its spec, and `annotations` has its values of the annotations in
    _OF_PART.
    """
    spec = from_json(content)
    requests = pod_requests(spec)
    part = read_part(dict(zip(_OF_PART, annotations, strict=True)))
    if part:
        requests = {name: ask for name, ask in requests.items() if not name.endswith("gpu")}
        if part.gpus:
            requests[GPU] = part.gpus

    shape: Shape = shared(
        Shape(
            tuple(sorted(requests.items())),
            node_selector(spec),
            required_affinity(spec),
            tolerations(spec),
            part,
            unchecked=tuple(_unchecked(spec)),
        )
    )
    return shape


def _unchecked(spec: JsonMap) -> Iterator[str]:
    """Yield `Shape.unchecked`."""
    for field in ("podAffinity", "podAntiAffinity"):
        if maps_at(spec, "affinity", field, "requiredDuringSchedulingIgnoredDuringExecution"):
            yield field
    ports = (
        port for container in maps_at(spec, "containers") for port in maps_at(container, "ports")
    )
    if any(port.get("hostPort") for port in ports):
        yield "hostPort"


_cached_shape = lru_cache(maxsize=1024)(_read_shape)
"""A cached `_read_shape`, which takes an eighth of the time for pods with equal specs."""


class Stalled(Value):
    """A container that is waiting because of a problem, or a running init container."""

    name: str
    """The name of the container."""
    reason: str
    """The reason for waiting, such as CrashLoopBackOff, or RUNS or UNSTARTED."""
    message: str = ""
    """The message of the kubelet, or ""."""
    init: bool = False
    """Whether the container is an init container."""
    restarts: int = 0
    """The number of restarts of the container."""
    since: float | None = None
    """When a running init container was started, in seconds since 1970, or None."""
    ended: str = ""
    """The end of the last run, such as `exit code 1` or `OOMKilled`, or "" if that is not known.

    If the container could not be started, it is `StartError: ` and the message of the runtime.
    """


RUNS = "Running"
"""The value of `Stalled.reason` for a running init container."""
UNSTARTED = "Unstarted"
"""The value of `Stalled.reason` for a running sidecar whose startup probe has not succeeded."""
_STARTS = {"ContainerCreating", "PodInitializing"}
"""The reasons of containers that wait for their first start, which are not a problem."""


class Leader(Value):
    """The group of a LeaderWorkerSet that a pod leads."""

    size: int
    """The number of pods in the group, including the leader, or 0 if that is not known."""
    ready: bool
    """Whether the leader's condition Ready is True."""


class Pod(Namespaced):
    """A pod, with the fields that explanations need."""

    kind = "Pod"
    uid: str = ""
    place: Place = NOWHERE
    """The PodCliqueSet, PodClique and PodGang that the labels of the pod name."""
    owner: str = ""
    """The uid of the controller, or ""."""
    node: str = ""
    """The node that the pod is bound to, or ""."""
    scheduler: str = "default-scheduler"
    gates: tuple[str, ...] = ()
    """The names of the scheduling gates."""
    shape: Shape = ONLY_A_POD
    """The requirements on a node."""
    phase: str = "Pending"
    """The phase: Pending, Running, Succeeded, Failed or Unknown."""
    unscheduled: str = ""
    """The message, or else the reason, of the condition PodScheduled if its status is False.

    It is "" in other cases, and while the pod has scheduling gates.
    """
    waiting: tuple[str, ...] = ()
    """The reasons why containers, except init containers, are waiting."""
    claims: tuple[PodClaim, ...] = ()
    """The entries of `spec.resourceClaims`."""
    group: str = ""
    """The KAI PodGroup that an annotation of the pod names, or ""."""
    subgroup: str = ""
    """The SubGroup of `group` that a label of the pod names, or ""."""
    workload: str = ""
    """The Workload that the pod names (Kubernetes 1.35), or "" if it names none or opts out."""
    workload_part: str = ""
    """The group of `workload` that the pod names (Kubernetes 1.35), or ""."""
    workload_group: str = ""
    """The PodGroup of Kubernetes that the pod names (since 1.36), or "" as for `workload`."""
    priority: int = 0
    """The priority in the spec."""
    deleting: float | None = None
    """The deletionTimestamp in seconds since 1970, or None if the pod is not being deleted.

    By this time, the pod should end: it is the time of the deletion request plus the grace period.
    """
    finalizers: tuple[str, ...] = ()
    created: float | None = None
    """When the pod was created, in seconds since 1970, or None if that is not known."""
    volumes: tuple[str, ...] = ()
    """The names of the PersistentVolumeClaims, including those of ephemeral volumes."""
    ephemeral: tuple[str, ...] = ()
    """The names of the PersistentVolumeClaims that Kubernetes creates for ephemeral volumes."""
    bound: float | None = None
    """When the pod was bound to its node, in seconds since 1970.

    If its conditions do not give this time, it is the creation time. It is None if the pod has no
    node, or is no longer Pending.
    """
    unit_owner: Ref | None = None
    """The workload that the pod names as the owner of its NVLink unit.

    It is None unless the pod requests MNNVL itself. Its name is "" if the pod names no workload.
    """
    asks_mnnvl: bool = False
    """Whether the pod has GPUs and requests MNNVL itself, instead of through a PodClique."""
    said_at: float | None = None
    """When the condition PodScheduled became False, in seconds since 1970.

    It is None if `unscheduled` is "" or the time is not known.
    """
    controller: Ref | None = None
    """The controller, or None."""
    skipped: bool = False
    """Whether KAI's pod-grouper skips the pod although it opts out of Workloads.

    If so, nothing creates a PodGroup for the pod.
    """
    daemon_of: str = ""
    """The uid of the ComputeDomain whose daemon the pod is, or ""."""
    gpu_groups: tuple[str, ...] = ()
    """The names of the GPUs that the pod shares, from KAI's labels."""
    reserves: bool = False
    """Whether KAI created the pod to reserve a GPU that other pods share."""
    background: bool = False
    """Whether KAI evicts the pod for any other pod. KAI evicts only pods with a PodGroup."""
    made_for: tuple[Ref, ...] = ()
    """The workloads that the pod was created for, outermost first, such as a LeaderWorkerSet."""
    queued: bool = False
    """Whether a gate, label or finalizer shows that Kueue decides when the pod is placed."""
    kueue_group: tuple[str, int] | None = None
    """The name and the size of the pod group that Kueue admits as a whole, or None."""
    stalled: tuple[Stalled, ...] = ()
    """The containers that wait because of a problem.

    If the other containers wait for an init container, it comes first, even if it is running.
    """
    failure: str = ""
    """The reason and message in the status of a failed pod, such as `OutOfcpu: ...`, or ""."""
    other_group: str = ""
    """The PodGroup that the pod names for Volcano or the coscheduling plugin, or ""."""
    scales_for: tuple[str, str] | None = None
    """The namespace and name of the pod with shared GPUs for which KAI created this one, or None.

    KAI creates such a pod to make an autoscaler add a node. Its node-scale-adjuster deletes it once
    the pod with shared GPUs is placed.
    """
    grace: int = 0
    """The grace period in seconds if the pod is being deleted, otherwise 0."""

    leads: Leader | None = None
    """The group of a LeaderWorkerSet that the pod leads, or None."""
    exclusive: str = ""
    """The node label in the exclusive-topology annotation of a LeaderWorkerSet or JobSet, or ""."""
    disrupted: str = ""
    """The message of the condition DisruptionTarget of a failed or deleted pod, or ""."""
    queue: str = ""
    """The queue in the pod's label, or "". KAI takes the queue from the PodGroup instead."""

    unready: str = ""
    """The first container that runs and is not ready, or ""."""
    unready_since: float | None = None
    """Since when the pod is not ready, in seconds since 1970, or None if that is not known."""
    is_ready: bool = False
    """Whether the condition Ready is True."""
    revision: str = ""
    """The revision of the template from which a StatefulSet or Grove created the pod, or ""."""
    ended: tuple[str, str] = ("", "")
    """The first container of a failed pod that failed, and how, such as `exit code 1`."""

    @property
    def is_helper(self) -> bool:
        """Whether KAI created the pod for other pods, so that it is not a workload."""
        return self.reserves or self.scales_for is not None

    @property
    def finished(self) -> bool:
        """Whether the phase is Succeeded or Failed."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def has_started(self) -> bool:
        """Whether the pod may have a log: it is not Pending, or a container was restarted."""
        return self.phase != "Pending" or any(container.restarts for container in self.stalled)

    @property
    def is_alive(self) -> bool:
        """Whether the pod is neither finished nor being deleted."""
        return not self.finished and self.deleting is None

    @property
    def deleted(self) -> float | None:
        """When deletion of the pod was requested, in seconds since 1970, or None if it was not."""
        return None if self.deleting is None else self.deleting - self.grace

    @property
    def leader_worker_set(self) -> Ref | None:
        """The LeaderWorkerSet that the pod was created for, or None."""
        return next((ref for ref in self.made_for if ref.kind == LEADER_WORKER_SET.kind), None)


def read_pod(obj: JsonMap) -> Pod:
    """Read a Pod. A field that is missing or has the wrong type counts as not set."""
    metadata = map_of(obj.get("metadata"))
    labels = map_of(metadata.get("labels"))
    annotations = map_of(metadata.get("annotations"))
    spec = map_of(obj.get("spec"))
    status = map_of(obj.get("status"))

    namespace = interned(metadata.get("namespace"))
    name = text_at(metadata, "name")
    phase = interned(status.get("phase")) or "Pending"
    owner = controller_of(obj)
    scheduled = condition_of(obj, "PodScheduled")
    unscheduled = _unscheduled(scheduled)
    waiting = _waiting(status)
    volumes = maps_of(spec.get("volumes"))
    ephemeral = _ephemeral(volumes, name) if volumes else ()
    gates = tuple([interned(gate.get("name")) for gate in maps_of(spec.get("schedulingGates"))])
    finalizers = tuple(texts_at(metadata, "finalizers"))
    deleting = seconds_since_1970(metadata.get("deletionTimestamp"))
    opts_out = annotations.get(IGNORE_WORKLOADS) == "true"
    # a Pod that opts out is in no Workload, whatever its spec says
    reference = {} if opts_out else map_of(spec.get("workloadRef"))
    group = {} if opts_out else map_of(spec.get("schedulingGroup"))
    queued = is_of_kueue(labels, gates, finalizers)
    ready = condition_of(obj, "Ready")
    is_ready = ready.get("status") == "True"
    unready = _unready(status) if phase == "Running" and ready.get("status") == "False" else ""
    asks_by_itself = annotations.get(MNNVL_ENABLED) == "true" and GROVE_CLIQUE_NAME not in labels

    return Pod(
        namespace=namespace,
        name=name,
        uid=text_at(metadata, "uid"),
        place=read_place(labels),
        owner=owner.uid if owner else "",
        node=interned(spec.get("nodeName")),
        scheduler=interned(spec.get("schedulerName")) or "default-scheduler",
        gates=gates,
        shape=read_shape(spec, annotations),
        phase=phase,
        unscheduled=unscheduled,
        waiting=tuple(dict.fromkeys([interned(state["reason"]) for _, state in waiting])),
        claims=read_pod_claims(spec, status.get("resourceClaimStatuses")),
        group=text_at(annotations, POD_GROUP_NAME),
        subgroup=text_at(labels, SUBGROUP),
        workload=text_at(reference, "name") if reference else "",
        workload_part=text_at(reference, "podGroup") if reference else "",
        workload_group=text_at(group, "podGroupName") if group else "",
        priority=int_of(spec.get("priority")),
        deleting=deleting,
        finalizers=finalizers,
        created=seconds_since_1970(metadata.get("creationTimestamp")),
        volumes=(*_volumes(volumes), *ephemeral) if volumes else (),
        ephemeral=ephemeral,
        bound=_bound(obj, scheduled) if phase == "Pending" else None,
        unit_owner=_unit_owner(obj, namespace) if asks_by_itself else None,
        asks_mnnvl=asks_by_itself and gpus_of_pod(spec).every > 0,
        said_at=seconds_since_1970(scheduled.get("lastTransitionTime")) if unscheduled else None,
        controller=_ref(owner.kind, namespace, owner.name) if owner else None,
        skipped=opts_out and annotations.get(SKIP_PODGROUPER) == "true",
        daemon_of=interned(labels.get(DAEMON_OF)),
        gpu_groups=groups_of(labels),
        reserves=labels.get("app") == KAI_RESERVATION,
        background=labels.get(KAI_BACKGROUND) == "true" and bool(annotations.get(POD_GROUP_NAME)),
        made_for=_made_for(namespace, labels, owner),
        queued=queued,
        kueue_group=pod_group_of_kueue(labels, annotations) if queued else None,
        stalled=_stalled(spec, status, waiting) if waiting or phase == "Pending" else (),
        failure=_failure(status) if phase == "Failed" else "",
        other_group=text_at(annotations, OTHER_GROUP) or text_at(labels, COSCHEDULING_GROUP),
        scales_for=_scales_for(namespace, labels),
        grace=max(0, int_of(metadata.get("deletionGracePeriodSeconds"))),
        leads=_leads(labels, annotations, is_ready),
        exclusive=text_at(annotations, EXCLUSIVE_GROUPS) or text_at(annotations, EXCLUSIVE_JOBS),
        disrupted=_disrupted(obj) if phase == "Failed" or deleting is not None else "",
        unready=unready,
        unready_since=seconds_since_1970(ready.get("lastTransitionTime")) if unready else None,
        is_ready=is_ready,
        revision=interned(labels.get("controller-revision-hash") or labels.get(POD_TEMPLATE_HASH)),
        ended=_failed_container(status) if phase == "Failed" else ("", ""),
        queue=interned(labels.get(KAI_QUEUE)),
    )


def _unready(status: JsonMap) -> str:
    """Return the first container that runs and is not ready, or "" if there is none."""
    for container in maps_of(status.get("containerStatuses")):
        if map_at(container, "state", "running") and container.get("ready") is False:
            return text_at(container, "name")
    return ""


def _failed_container(status: JsonMap) -> tuple[str, str]:
    """Return the first container that failed, and how it ended, or ("", "") if none has."""
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in maps_of(status.get(field)):
            ended = map_at(container, "state", "terminated")
            if int_of(ended.get("exitCode")):
                return text_at(container, "name"), _how_ended(ended)
    return "", ""


def _disrupted(obj: JsonMap) -> str:
    """Return the message of the condition DisruptionTarget, or "" if it does not hold."""
    condition = condition_of(obj, "DisruptionTarget")
    return text_at(condition, "message") if condition.get("status") == "True" else ""


def _leads(labels: JsonMap, annotations: JsonMap, is_ready: bool) -> Leader | None:
    """Return the group of a LeaderWorkerSet that a pod leads, or None."""
    if labels.get(SET_WORKER) != "0":
        return None
    size = max(0, integer_in(text_at(annotations, SET_SIZE)) or 0)
    return Leader(size, is_ready)


_SCALING = "kai-scale-adjust"
"""The namespace that KAI's chart uses for scaling pods, and for nothing else."""


def _scales_for(namespace: str, labels: JsonMap) -> tuple[str, str] | None:
    """Return the namespace and name of the pod with shared GPUs for which KAI created this pod.

    If a scaling pod names none, they are ("", ""). Return None for all other pods. Source:
    `pkg/nodescaleadjuster/scaler` of KAI.
    """
    if namespace != _SCALING:
        return None  # anybody can give a pod these labels
    return text_at(labels, SHARING_NAMESPACE), text_at(labels, SHARING_POD)


def _unit_owner(pod: JsonMap, namespace: str) -> Ref:
    """Return the workload that a pod names as the owner of its NVLink unit."""
    owner = read_owner(pod)
    return Ref(owner.kind.title, namespace, owner.name)


def _volumes(volumes: Sequence[JsonMap]) -> list[str]:
    """Return the names of the PersistentVolumeClaims that a pod's `volumes` refer to."""
    sources = [map_of(volume.get("persistentVolumeClaim")) for volume in volumes]
    return [name for source in sources if (name := text_at(source, "claimName"))]


def _ephemeral(volumes: Sequence[JsonMap], pod: str) -> tuple[str, ...]:
    """Return the names of the claims that Kubernetes creates for ephemeral volumes of `pod`."""
    return tuple([f"{pod}-{text_at(each, 'name')}" for each in volumes if "ephemeral" in each])


def _unscheduled(condition: JsonMap) -> str:
    if condition.get("status") != "False" or condition.get("reason") == GATED:
        return ""
    return text_at(condition, "message") or text_at(condition, "reason")


def _bound(obj: JsonMap, condition: JsonMap) -> float | None:
    """Return when a pod that has not started was bound to its node, or None if it has no node.

    If the condition PodScheduled is not True or has no time, return the creation time.
    """
    is_bound = condition.get("status") == "True"
    if not is_bound and not map_at(obj, "spec").get("nodeName"):
        return None
    at = condition.get("lastTransitionTime") if is_bound else None
    return seconds_since_1970(at or map_at(obj, "metadata").get("creationTimestamp"))


def _made_for(namespace: str, labels: JsonMap, owner: OwnerRef | None) -> tuple[Ref, ...]:
    """Return the workloads that a pod was created for."""
    names = names_of_workloads(labels, (owner.kind, owner.name) if owner else ("", ""))
    return tuple([_ref(kind, namespace, name) for kind, name in names]) if names else ()


def _ref(kind: str, namespace: str, name: str) -> Ref:
    """Return a reference to an object, as one object for all pods with the same reference."""
    # tenants choose the texts, and long ones must not stay in the cache
    is_short = len(kind) <= MAX_SUBDOMAIN and len(name) <= MAX_SUBDOMAIN
    return _shared_ref(kind, namespace, name) if is_short else Ref(kind, namespace, name)


_shared_ref = lru_cache(maxsize=4096)(Ref)


Waiting = list[tuple[JsonMap, JsonMap]]
"""The statuses of containers that are waiting, each with its state `waiting`."""


def _waiting(status: JsonMap) -> Waiting:
    """Return the containers, except init containers, that are waiting for a reason."""
    found: Waiting = []
    for container in maps_of(status.get("containerStatuses")):
        waiting = map_of(map_of(container.get("state")).get("waiting"))
        if text_at(waiting, "reason"):
            found.append((container, waiting))
    return found


def _stalled(spec: JsonMap, status: JsonMap, waiting: Waiting) -> tuple[Stalled, ...]:
    """Return the value of `Pod.stalled`. For most pods, it is empty."""
    found: list[Stalled] = []
    if status.get("phase") == "Pending":
        found = _keeps_waiting(spec, maps_at(status, "initContainerStatuses"))
    found += [
        _waits(container, state) for container, state in waiting if state["reason"] not in _STARTS
    ]
    return tuple(found)


def _waits(container: JsonMap, waiting: JsonMap, *, init: bool = False) -> Stalled:
    return Stalled(
        text_at(container, "name"),
        text_at(waiting, "reason"),
        text_at(waiting, "message"),
        init,
        int_of(container.get("restartCount")),
        ended=_how_ended(map_at(container, "lastState", "terminated")),
    )


def _keeps_waiting(spec: JsonMap, statuses: Sequence[JsonMap]) -> list[Stalled]:
    """Return the init container for which the others wait, as a list with at most one item."""
    sidecars = {
        text_at(container, "name")
        for container in maps_at(spec, "initContainers")
        if container.get("restartPolicy") == "Always"
    }
    for status in statuses:
        waiting = map_at(status, "state", "waiting")
        if text_at(waiting, "reason") not in ("", *_STARTS):
            return [_waits(status, waiting, init=True)]
        running = map_at(status, "state", "running")
        name = text_at(status, "name")
        if running and (name not in sidecars or status.get("started") is False):
            reason = UNSTARTED if name in sidecars else RUNS
            restarts = int_of(status.get("restartCount"))
            since = seconds_since_1970(running.get("startedAt"))
            return [Stalled(name, reason, "", True, restarts, since)]
    return []


def _how_ended(terminated: JsonMap) -> str:
    if not terminated:
        return ""
    reason = text_at(terminated, "reason")
    message = text_at(terminated, "message")
    if reason in _NEVER_RAN and message:
        return f"{reason}: {' '.join(message.split())}"
    return reason if reason == "OOMKilled" else f"exit code {int_of(terminated.get('exitCode'))}"


_NEVER_RAN = {"StartError", "ContainerCannotRun"}
"""The reasons, of containerd and of Docker, with which a container ends that cannot be started."""


def _failure(status: JsonMap) -> str:
    """Return the reason and message in the status of a failed pod.

    Return "" if it has neither, usually because only its containers have failed.
    """
    return ": ".join(filter(None, (text_at(status, "reason"), text_at(status, "message"))))


_OF_REST = (
    "namespace",
    "name",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_LABELS_OF_REST = {*PLACE_LABELS, SUBGROUP, KAI_BACKGROUND, "app"}
_MOST_CONTAINERS = 1000
_MOST_AMOUNTS = 64
_MOST_GPUS = 32
_OF_NODE = ("cpu", "memory", "ephemeral-storage", GPU)


def read_rest_of_pod(obj: JsonMap) -> Pod | None:
    """Read only what a Pod uses on its node. Return None if it has no node or has finished.

    Only this is kept of a Pod that is too large: without it, the node would count as free. To bound
    the time, only the resources in _OF_NODE count in a map with more than _MOST_AMOUNTS amounts,
    and containers after the first _MOST_CONTAINERS do not count. No kubelet runs such a Pod.
    """
    metadata = map_at(obj, "metadata")
    labels = map_at(metadata, "labels")
    annotations = map_at(metadata, "annotations")
    spec = map_at(obj, "spec")
    phase = map_at(obj, "status").get("phase")
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return None

    shared_gpus = [key for key in labels if key.startswith(GPU_GROUP)][:_MOST_GPUS]
    short = {key: text for key in _OF_PART if len(text := text_at(annotations, key)) <= MAX_LABEL}
    group = text_at(annotations, POD_GROUP_NAME)
    if is_subdomain(group):
        short[POD_GROUP_NAME] = group
    containers = {
        field: list(map(_rest_of_container, maps_at(spec, field)[:_MOST_CONTAINERS]))
        for field in ("containers", "initContainers")
    }
    rest = only(spec, ("nodeName", "priority")) | containers
    if len(text_at(spec, "schedulerName")) <= MAX_SUBDOMAIN:
        rest["schedulerName"] = spec.get("schedulerName")
    rest["overhead"] = _few_amounts(spec.get("overhead"))
    rest["resources"] = _few_resources(spec)
    return read_pod(
        {
            "metadata": {
                **only(metadata, _OF_REST),
                "labels": only(labels, [*_LABELS_OF_REST, *shared_gpus]),
                "annotations": short,
            },
            "spec": rest,
            "status": {"phase": phase},
        }
    )


def _rest_of_container(container: JsonMap) -> JsonMap:
    """Return the fields of a container that `pod_requests` reads, with limited amounts."""
    return {**only(container, ("restartPolicy",)), "resources": _few_resources(container)}


def _few_resources(holder: JsonMap) -> JsonMap:
    """Return the requests and limits of a container or pod spec, limited by `_few_amounts`."""
    resources = map_of(holder.get("resources"))
    return {field: _few_amounts(resources.get(field)) for field in ("requests", "limits")}


def _few_amounts(value: Any) -> JsonMap:
    """Return a map of amounts by resource, with only those in _OF_NODE if it has very many."""
    amounts = map_of(value)
    return amounts if len(amounts) <= _MOST_AMOUNTS else only(amounts, _OF_NODE)

"""Find the owner of a Pod's NVLink unit: the workload, other than Grove's, that the Pod names.

A Pod names its workload in labels that a controller writes, or in fields of its spec. A Pod can
name any workload, so the owner is read from the API server before anything is created for it. Each
project defines its own labels and fields:
https://github.com/kubernetes-sigs/lws/blob/060ab4d/api/leaderworkerset/v1/leaderworkerset_types.go
https://github.com/kubernetes-sigs/jobset/blob/08dfbdfd/api/jobset/v1alpha2/jobset_types.go
https://github.com/kubeflow/training-operator/blob/186ac6c6/pkg/apis/kubeflow.org/v1/common_types.go
https://github.com/ray-project/kuberay/blob/feeaf72f/ray-operator/controllers/ray/utils/constant.go
https://lws.sigs.k8s.io/docs/concepts/disaggregatedset (read in its documentation)
"""

from collections.abc import Callable, Iterable

from app.base.value import Value
from app.facts.kinds import (
    DISAGGREGATED_SET,
    JOB_SET,
    K8S_POD_GROUP,
    LEADER_WORKER_SET,
    RAY_CLUSTER,
    TRAINING_JOBS,
    WORKLOAD,
)
from app.facts.labels import MNNVL_SCOPE, NVLINK_DOMAIN
from app.objects.fields import FieldPath
from app.objects.names import is_index
from app.objects.resource import JOB, Resource
from app.objects.shape import JsonMap, annotations_of, int_of, map_at, maps_at, text_at

SET_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
SET_SUBGROUP = "leaderworkerset.sigs.k8s.io/subgroup-index"
SET_WORKER = "leaderworkerset.sigs.k8s.io/worker-index"
SET_SIZE = "leaderworkerset.sigs.k8s.io/size"
JOB_SET_NAME = "jobset.sigs.k8s.io/jobset-name"
REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
JOBS_OF_SET = "jobset.sigs.k8s.io/global-replicas"
JOBS_OF_TEMPLATE = "jobset.sigs.k8s.io/replicatedjob-replicas"
EXCLUSIVE_GROUPS = "leaderworkerset.sigs.k8s.io/exclusive-topology"
EXCLUSIVE_JOBS = "alpha.jobset.sigs.k8s.io/exclusive-topology"
TRAINING_JOB = "training.kubeflow.org/job-name"
RAY_GROUP = "ray.io/group"
SLICE = "disaggregatedset.x-k8s.io/slice"
ROLE = "disaggregatedset.x-k8s.io/role"
_RAY_HEAD = "headgroup"

_SPEC = "spec."
_POD_GROUP = "spec.schedulingGroup.podGroupName"
_WORKLOAD = "spec.workloadRef.name"
_WORKLOAD_GROUP = "spec.workloadRef.podGroup"

HasUnit = Callable[[JsonMap, JsonMap], bool]
"""A function that returns whether an owner with this spec still has the unit with these labels."""


class UnitScope(Value):
    """The rule that says which Pods of an owner share a unit."""

    name: str
    prefix: str
    """The first word of the names of the units. It is different for each scope."""
    keys: tuple[str, ...] = ()
    """The labels or fields of Pods that tell units apart. Pods of one unit have equal values."""


class OwnerKind(Value, eq=False):
    """A kind of workload whose Pods can share a ComputeDomain."""

    title: str
    """The name of the kind in messages, such as `RayCluster`."""
    resources: tuple[Resource, ...]
    """The resources that this kind stands for. Only the row of training jobs has several."""
    key: str
    """The label, or the field of the spec, in which a Pod names its owner."""
    scopes: tuple[UnitScope, ...]
    """The scopes, the default first."""
    has_unit: HasUnit = lambda spec, labels: True
    """Returns whether an owner with this spec still has the unit with these labels."""
    together: str = ""
    """The annotation that makes the controller place each unit in a separate domain, or ""."""
    together_scope: str = ""
    """The scope of the units that `together` places in separate domains, or ""."""
    together_field: str = ""
    """The field of the spec, with its value, that keeps each unit within one domain, or ""."""

    @property
    def keys(self) -> set[str]:
        """The labels and fields in which a Pod names its owner and its units."""
        return {self.key, *(key for scope in self.scopes for key in scope.keys)}

    @property
    def resource_kinds(self) -> set[str]:
        """The kinds of `resources`, such as `Job`."""
        return {resource.kind for resource in self.resources}

    def scope(self, name: str) -> UnitScope:
        """Return the scope `name`, which must be one of `scopes`."""
        return next(scope for scope in self.scopes if scope.name == name)


class NamedOwner(Value):
    """The owner that a Pod names."""

    kind: OwnerKind
    name: str = ""
    values: tuple[tuple[str, str], ...] = ()
    """The pairs (key, value) of the Pod for the `keys` of its kind, without empty values."""
    second: str = ""
    """The title of another kind of workload that the Pod names too, or "".

    Only the kinds in _LABELLED exclude each other. A Pod may name other kinds together with them.
    """
    more_scopes: tuple[str, ...] = ()
    """The scopes of a DisaggregatedSet that the Pod names too, without a scope annotation for it.

    The Pod would be in a unit of the DisaggregatedSet if its scope annotation named one of them.
    """

    def values_at(self, keys: Iterable[str]) -> list[str]:
        """Return the values at `keys`, with "" for a key that the Pod lacks."""
        values = dict(self.values)
        return [values.get(key, "") for key in keys]


def _has_group(spec: JsonMap, labels: JsonMap) -> bool:
    return is_index(text_at(labels, SET_GROUP), int_of(spec.get("replicas"), 1))


def _has_job(spec: JsonMap, labels: JsonMap) -> bool:
    name = text_at(labels, REPLICATED_JOB)
    replicas = replicas_of_jobs(spec).get(name, 0)
    return not name or is_index(text_at(labels, JOB_INDEX) or "0", replicas)


def replicas_of_jobs(spec: JsonMap) -> dict[str, int]:
    """Return the number of Jobs of each replicatedJob of a JobSet with this `spec`, by name."""
    return {
        text_at(job, "name"): int_of(job.get("replicas"), 1)
        for job in maps_at(spec, "replicatedJobs")
    }


def _has_workers(spec: JsonMap, labels: JsonMap) -> bool:
    groups = {text_at(group, "groupName") for group in maps_at(spec, "workerGroupSpecs")}
    return text_at(labels, RAY_GROUP) in {"", _RAY_HEAD, *groups}


def _has_role(spec: JsonMap, labels: JsonMap) -> bool:
    roles = {text_at(role, "name") for role in maps_at(spec, "roles")}
    is_there = is_index(text_at(labels, SLICE), int_of(spec.get("slices"), 1))
    return is_there and text_at(labels, ROLE) in {"", *roles}


_IN_SPEC = (
    OwnerKind("PodGroup", (K8S_POD_GROUP,), _POD_GROUP, (UnitScope("group", "group"),)),
    OwnerKind(
        "Workload",
        (WORKLOAD,),
        _WORKLOAD,
        (UnitScope("group", "workload", (_WORKLOAD_GROUP,)),),
    ),
)
_LABELLED = (
    OwnerKind(
        "LeaderWorkerSet",
        (LEADER_WORKER_SET,),
        "leaderworkerset.sigs.k8s.io/name",
        (
            UnitScope("group", "lws", (SET_GROUP,)),
            UnitScope(
                "subgroup",
                "lwssub",
                (SET_GROUP, SET_SUBGROUP),
            ),
        ),
        _has_group,
        EXCLUSIVE_GROUPS,
        "group",
    ),
    OwnerKind(
        "JobSet",
        (JOB_SET,),
        JOB_SET_NAME,
        (
            UnitScope("set", "jobset"),
            UnitScope("replicatedJob", "jobsetrj", (REPLICATED_JOB,)),
            UnitScope("job", "jobsetjob", (REPLICATED_JOB, JOB_INDEX)),
        ),
        _has_job,
        EXCLUSIVE_JOBS,
        "job",
    ),
    OwnerKind(
        "training job",
        TRAINING_JOBS,
        TRAINING_JOB,
        (UnitScope("job", "training"),),
    ),
    OwnerKind(
        "RayCluster",
        (RAY_CLUSTER,),
        "ray.io/cluster",
        (UnitScope("cluster", "ray"), UnitScope("workerGroup", "raygroup", (RAY_GROUP,))),
        _has_workers,
    ),
)
_DISAGGREGATED = OwnerKind(
    "DisaggregatedSet",
    (DISAGGREGATED_SET,),
    "disaggregatedset.x-k8s.io/name",
    (UnitScope("slice", "disagg", (SLICE,)), UnitScope("role", "disaggrole", (SLICE, ROLE))),
    _has_role,
    together_field=f"spec.placementPolicy: {{type: ExclusiveSlice, topology: {NVLINK_DOMAIN}}}",
)
"""The row of DisaggregatedSets.

Their Pods are in the units of their LeaderWorkerSets, unless they name a scope of this row.
"""

_JOBS = OwnerKind(JOB.kind, (JOB,), "batch.kubernetes.io/job-name", (UnitScope("job", "job"),))

OWNER_KINDS: tuple[OwnerKind, ...] = (*_IN_SPEC, _DISAGGREGATED, *_LABELLED, _JOBS)
"""The kinds in order of precedence, for Pods that name several.

`read_owner` skips _DISAGGREGATED unless the Pod names one of its scopes.
"""

NO_KIND = OwnerKind("Pod", (), "", (UnitScope("", ""),))
"""The OwnerKind of a Pod that names no owner."""


def is_label_key(key: str) -> bool:
    """Return whether `key` is the key of a label, and not a field of a pod spec."""
    return not key.startswith(_SPEC)


def path_of_key(key: str) -> FieldPath:
    """Return the path in a Pod of a label or field with this key."""
    return FieldPath("metadata.labels").key(key) if is_label_key(key) else FieldPath(key)


def read_owner(pod: JsonMap) -> NamedOwner:
    """Return the owner that `pod` names, of the kind NO_KIND if it names none."""
    values = _values(pod)
    named = [kind for kind in OWNER_KINDS if kind.key in values]
    scope = annotations_of(pod).get(MNNVL_SCOPE)
    more_scopes: tuple[str, ...] = ()
    if _DISAGGREGATED in named and all(scope != each.name for each in _DISAGGREGATED.scopes):
        named.remove(_DISAGGREGATED)
        more_scopes = tuple(each.name for each in _DISAGGREGATED.scopes)
    if not named:
        return NamedOwner(NO_KIND)

    first = named[0]
    rivals = [kind.title for kind in named[1:] if kind in _LABELLED and first in _LABELLED]
    kept = tuple((key, values[key]) for key in sorted(first.keys & values.keys()))
    second = rivals[0] if rivals else ""
    return NamedOwner(first, values[first.key], kept, second, more_scopes)


def _values(pod: JsonMap) -> dict[str, str]:
    """Return the values that `pod` has for the keys of all kinds, without empty ones."""
    spec = map_at(pod, "spec")
    labels = map_at(pod, "metadata", "labels")
    reference = map_at(spec, "workloadRef")
    parts = (text_at(reference, "podGroup"), text_at(reference, "podGroupReplicaKey"))
    values = {
        _POD_GROUP: text_at(map_at(spec, "schedulingGroup"), "podGroupName"),
        _WORKLOAD: text_at(reference, "name"),
        _WORKLOAD_GROUP: ".".join(filter(None, parts)),
    }
    values |= {key: text_at(labels, key) for key in _LABEL_KEYS}
    return {key: value for key, value in values.items() if value}


LABELLED = (_DISAGGREGATED, *_LABELLED, _JOBS)
"""The kinds of workloads that a Pod names in a label."""

_LABEL_KEYS = [key for kind in OWNER_KINDS for key in kind.keys if is_label_key(key)]


class UnitSize(Value):
    """The number of Pods in a unit of a workload, and the number of such units."""

    pods: int
    """The number of Pods in one unit."""
    units: int
    """The number of units in the workload that are copies of this unit, including itself."""

"""Read Kueue's Workloads, the units that Kueue admits, and its queues.

The names of fields, conditions and reasons are taken from kubernetes-sigs/kueue (commit ff69552),
https://github.com/kubernetes-sigs/kueue/tree/ff69552/apis/kueue/v1beta2: `workload_types.go`,
`localqueue_types.go` and `clusterqueue_types.go`. v1beta1 has the same names except `spec.cohort`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from app.base.value import Value
from app.facts.identity import ClusterScoped, Namespaced, Ref, read_key, read_name
from app.objects.owners import controller_of, owners_of
from app.objects.shape import (
    JsonMap,
    int_of,
    integer_in,
    map_at,
    map_of,
    maps_at,
    text_at,
    texts_at,
)
from app.objects.time import seconds_since_1970

OF_KUEUE = "kueue.x-k8s.io/"
"""The prefix of Kueue's scheduling gates, labels and finalizers."""

_POD_LABELS = frozenset(
    f"{OF_KUEUE}{name}" for name in ("managed", "queue-name", "podset", "pod-group-name")
)
"""Kueue's labels of Pods. Each Pod that Kueue manages has at least one of them."""

READY = "Ready"
"""The state of an AdmissionCheck that lets a Workload pass."""


class KueueCondition(Value):
    """A condition of a Workload or of a queue."""

    type: str
    holds: bool
    """Whether the status of the condition is True."""
    reason: str
    """The reason for programs, one CamelCase word."""
    message: str
    """The message for people."""
    time: float | None = None
    """When the status last changed, in seconds since 1970, or None if that is not known."""


class KueueCheck(Value):
    """The state of an AdmissionCheck for a Workload."""

    name: str
    state: str = "Pending"
    """The state: Pending, Ready, Retry or Rejected, or "" if it is missing."""
    message: str = ""
    """The message of the controller that runs the check, or ""."""
    time: float | None = None
    """The time since which the check is in this state, in seconds since 1970, or None."""
    retries: int = 0
    """The number of times that the check asked Kueue to try again."""


class KueueWorkload(Namespaced):
    """A Workload of Kueue: pods that Kueue admits together."""

    kind = "Workload"
    queue: str = ""
    """The name of the LocalQueue, or ""."""
    cluster_queue: str = ""
    """The ClusterQueue that has reserved quota for the Workload, or ""."""
    owners: tuple[str, ...] = ()
    """The uids of the objects that own the Workload."""
    conditions: tuple[KueueCondition, ...] = ()
    active: bool = True
    """Whether Kueue may admit the Workload. A user can forbid that with `spec.active`."""
    requeues: int = 0
    """The number of requeues of the Workload because its pods were not ready in time."""
    again: float | None = None
    """The earliest time at which Kueue tries the Workload again, in seconds since 1970, or None."""
    flavors: tuple[str, ...] = ()
    """The flavors of `cluster_queue` that are assigned to the requested resources."""
    checks: tuple[KueueCheck, ...] = ()
    """The states of the AdmissionChecks for the Workload."""
    evictions: int = 0
    """The number of times that Kueue evicted the Workload, for any reason."""
    uid: str = ""
    controller: Ref | None = None
    """The controller of the Workload, for which Kueue created it, or None."""
    cluster: str = ""
    """The cluster to which MultiKueue has sent the Workload, or ""."""
    levels: tuple[str, ...] = ()
    """The node labels by which Kueue has chosen nodes or domains for the pods (TAS), or ()."""

    @property
    def is_pending(self) -> bool:
        """Whether the Workload is neither admitted nor finished."""
        return not self.holds("Admitted") and not self.holds("Finished")

    def condition(self, type: str) -> KueueCondition | None:
        """Return the condition of this type, or None."""
        return next((each for each in self.conditions if each.type == type), None)

    def holds(self, type: str) -> bool:
        """Return whether the condition of this type is True."""
        condition = self.condition(type)
        return condition is not None and condition.holds


class KueueQueue(Namespaced):
    """A LocalQueue of Kueue, which workloads name."""

    kind = "LocalQueue"
    cluster_queue: str = ""
    """The ClusterQueue whose quota the workloads of this queue use, or ""."""


class ClusterQueue(ClusterScoped):
    """A ClusterQueue of Kueue, which has the quota for LocalQueues."""

    kind = "ClusterQueue"
    cohort: str = ""
    """The cohort whose quota the queue shares, or ""."""
    inactive: KueueCondition | None = None
    """The condition that says why the queue is not active, or None."""


_GROUP = f"{OF_KUEUE}pod-group-name"
_GROUP_SIZE = f"{OF_KUEUE}pod-group-total-count"


def pod_group_of_kueue(labels: JsonMap, annotations: JsonMap) -> tuple[str, int] | None:
    """Return the name and the size of a Pod's pod group.

    Return None if the Pod names no group, or no valid size. Kueue creates the Workload of a group
    once all of its Pods exist.
    """
    name = text_at(labels, _GROUP)
    size = integer_in(text_at(annotations, _GROUP_SIZE))
    return (name, size) if name and size else None


def is_of_kueue(labels: JsonMap, gates: Iterable[str] = (), finalizers: Iterable[str] = ()) -> bool:
    """Return whether a Pod or a workload has a label, gate or finalizer of Kueue."""
    if not _POD_LABELS.isdisjoint(labels):
        return True
    return any(name.startswith(OF_KUEUE) for name in (*gates, *finalizers))


def read_kueue_workload(obj: JsonMap) -> KueueWorkload:
    """Read a Workload of Kueue. A field that is missing or has the wrong type counts as not set."""
    spec = map_at(obj, "spec")
    status = map_at(obj, "status")
    requeue = map_at(status, "requeueState")
    admission = map_at(status, "admission")
    pod_sets = maps_at(admission, "podSetAssignments")
    assigned = [map_at(each, "flavors") for each in pod_sets]
    levels = (texts_at(map_at(each, "topologyAssignment"), "levels") for each in pod_sets)
    checks = tuple(map(_check, maps_at(status, "admissionChecks")))
    evictions = maps_at(map_at(status, "schedulingStats"), "evictions")
    namespace, name = read_key(obj)
    controller = controller_of(obj)
    return KueueWorkload(
        namespace,
        name,
        queue=text_at(spec, "queueName"),
        cluster_queue=text_at(admission, "clusterQueue"),
        owners=tuple(owner.uid for owner in owners_of(obj)),
        conditions=_conditions(status),
        active=spec.get("active") is not False,
        requeues=int_of(requeue.get("count")),
        again=seconds_since_1970(requeue.get("requeueAt")),
        flavors=_flavors(assigned),
        checks=checks,
        uid=text_at(map_at(obj, "metadata"), "uid"),
        evictions=sum(int_of(eviction.get("count")) for eviction in evictions),
        controller=Ref(controller.kind, namespace, controller.name) if controller else None,
        cluster=text_at(status, "clusterName") or _cluster_of(checks),
        levels=tuple(dict.fromkeys(key for keys in levels for key in keys)),
    )


_ON_CLUSTER = re.compile(r'The workload got reservation on "([^"]{1,253})"')
"""MultiKueue's message about its AdmissionCheck, before Workloads had `status.clusterName`.

Source: `pkg/controller/admissionchecks/multikueue/workload.go`.
"""


def _cluster_of(checks: Iterable[KueueCheck]) -> str:
    """Return the cluster that the message of an AdmissionCheck names, or ""."""
    found = (_ON_CLUSTER.match(check.message) for check in checks)
    return next((match[1] for match in found if match), "")


def _flavors(assigned: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    names = {text_at(flavors, resource) for flavors in assigned for resource in flavors}
    return tuple(sorted(names - {""}))


def _check(item: JsonMap) -> KueueCheck:
    return KueueCheck(
        text_at(item, "name"),
        text_at(item, "state"),
        text_at(item, "message"),
        seconds_since_1970(item.get("lastTransitionTime")),
        int_of(item.get("retryCount")),
    )


def read_kueue_queue(obj: JsonMap) -> KueueQueue:
    """Read a LocalQueue."""
    return KueueQueue(*read_key(obj), cluster_queue=text_at(map_at(obj, "spec"), "clusterQueue"))


def read_cluster_queue(obj: JsonMap) -> ClusterQueue:
    """Read a ClusterQueue."""
    spec = map_at(obj, "spec")
    conditions = _conditions(map_at(obj, "status"))
    inactive = [each for each in conditions if each.type == "Active" and not each.holds]
    return ClusterQueue(
        read_name(obj),
        cohort=text_at(spec, "cohortName") or text_at(spec, "cohort"),
        inactive=inactive[0] if inactive else None,
    )


def _conditions(status: JsonMap) -> tuple[KueueCondition, ...]:
    return tuple(
        KueueCondition(
            text_at(item, "type"),
            item.get("status") == "True",
            text_at(item, "reason"),
            text_at(item, "message"),
            seconds_since_1970(item.get("lastTransitionTime")),
        )
        for item in maps_at(map_of(status), "conditions")
    )

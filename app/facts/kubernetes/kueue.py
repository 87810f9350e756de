"""Kueue's Workloads: what Kueue admits together, and what it says of them.

Source: `apis/kueue/v1beta1/workload_types.go` of kubernetes-sigs/kueue.
"""

from app.base.value import Value
from app.facts.identity import Namespaced, read_key
from app.objects.owners import owners_of
from app.objects.shape import JsonMap, int_of, map_at, maps_at, text_at
from app.objects.time import seconds_since_1970

GATES = "kueue.x-k8s.io/"
"""How the names of Kueue's scheduling gates begin."""


class KueueCondition(Value):
    """A condition of a Workload."""

    type: str
    holds: bool
    reason: str
    message: str
    time: float | None = None


class KueueWorkload(Namespaced):
    """A Workload of Kueue.

    `queue` is its LocalQueue, and `cluster_queue` the ClusterQueue that has admitted it, "" for
    none. `owners` are uids. If it is not `active`, Kueue does not admit it. `requeues` is how often
    Kueue has put it back into its queue, and before `again` it does not try it again.
    """

    kind = "Workload"
    queue: str = ""
    cluster_queue: str = ""
    owners: tuple[str, ...] = ()
    conditions: tuple[KueueCondition, ...] = ()
    active: bool = True
    requeues: int = 0
    again: float | None = None


def read_kueue_workload(obj: JsonMap) -> KueueWorkload:
    spec = map_at(obj, "spec")
    status = map_at(obj, "status")
    requeue = map_at(status, "requeueState")
    return KueueWorkload(
        *read_key(obj),
        queue=text_at(spec, "queueName"),
        cluster_queue=text_at(map_at(status, "admission"), "clusterQueue"),
        owners=tuple(owner.uid for owner in owners_of(obj)),
        conditions=tuple(map(_condition, maps_at(status, "conditions"))),
        active=spec.get("active") is not False,
        requeues=int_of(requeue.get("count")),
        again=seconds_since_1970(requeue.get("requeueAt")),
    )


def _condition(item: JsonMap) -> KueueCondition:
    return KueueCondition(
        text_at(item, "type"),
        item.get("status") == "True",
        text_at(item, "reason"),
        text_at(item, "message"),
        seconds_since_1970(item.get("lastTransitionTime")),
    )

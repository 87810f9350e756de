"""Add RayJobs, RayServices and TrainJobs to the workloads that pods were created for.

The pods of a RayCluster name only the RayCluster in their labels (`labelPod` in
`ray-operator/controllers/ray/common/pod.go` of KubeRay). The RayJob or RayService names the
RayCluster in its status, and owns it. The pods of a TrainJob name only its JobSet, which has the
name of the TrainJob (`pkg/runtime/framework/plugins/jobset` of Kubeflow Trainer).
"""

from collections.abc import Mapping

from msgspec.structs import replace

from app.explain.state.snapshot import Snapshot
from app.facts.identity import Ref
from app.facts.kinds import JOB_SET, RAY_CLUSTER, RAY_JOB, RAY_SERVICE, TRAIN_JOB
from app.facts.kubernetes.pod import Pod

_INNER = {
    RAY_JOB.kind: RAY_CLUSTER.kind,
    RAY_SERVICE.kind: RAY_CLUSTER.kind,
    TRAIN_JOB.kind: JOB_SET.kind,
}
"""The kind of the workloads that a controller creates, by the kind of the outer workload."""


def with_outer_workloads(facts: Snapshot) -> Snapshot:
    """Return the facts, in which pods name the RayJob, RayService or TrainJob too."""
    outer = _outer_workloads(facts)
    if not outer:
        return facts
    return replace(facts, pods=tuple(_with_outer(pod, outer) for pod in facts.pods))


def _outer_workloads(facts: Snapshot) -> Mapping[Ref, Ref]:
    """Return the known outer workload of each RayCluster and JobSet."""
    outer: dict[Ref, Ref] = {}
    for status in facts.workload_statuses:
        owner = status.controller
        if owner and _INNER.get(owner.kind) == status.ref.kind:
            outer[status.ref] = owner
        if status.ref.kind == TRAIN_JOB.kind:
            outer[replace(status.ref, kind=JOB_SET.kind)] = status.ref
        outer.update(dict.fromkeys(status.clusters, status.ref))
    return outer


def _with_outer(pod: Pod, outer: Mapping[Ref, Ref]) -> Pod:
    for ref in pod.made_for:
        made_by = outer.get(ref)
        if made_by and made_by not in pod.made_for:
            return replace(pod, made_for=(made_by, *pod.made_for))
    return pod

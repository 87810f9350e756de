"""Add RayJobs and RayServices to the workloads that pods were created for.

The pods of a RayCluster name only the RayCluster in their labels (`labelPod` in
`ray-operator/controllers/ray/common/pod.go` of KubeRay). The RayJob or RayService names the
RayCluster in its status, and owns it.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from app.explain.state.snapshot import Snapshot
from app.facts.identity import Ref
from app.facts.kinds import RAY_CLUSTER, RAY_JOB, RAY_SERVICE
from app.facts.kubernetes.pod import Pod

_MAKERS = {RAY_JOB.kind, RAY_SERVICE.kind}


def with_ray_makers(facts: Snapshot) -> Snapshot:
    """Return the facts, in which pods of RayClusters name the RayJob or RayService too."""
    makers = _makers(facts)
    if not makers:
        return facts
    return replace(facts, pods=tuple(_with_maker(pod, makers) for pod in facts.pods))


def _makers(facts: Snapshot) -> Mapping[Ref, Ref]:
    """Return the known RayJob or RayService of each RayCluster."""
    makers: dict[Ref, Ref] = {}
    for status in facts.workload_statuses:
        owner = status.controller
        if status.ref.kind == RAY_CLUSTER.kind and owner and owner.kind in _MAKERS:
            makers[status.ref] = owner
        if status.ref.kind in _MAKERS:
            makers.update(dict.fromkeys(status.clusters, status.ref))
    return makers


def _with_maker(pod: Pod, makers: Mapping[Ref, Ref]) -> Pod:
    for ref in pod.made_for:
        maker = makers.get(ref)
        if maker and maker not in pod.made_for:
            return replace(pod, made_for=(maker, *pod.made_for))
    return pod

"""Pods as the controllers of each kind of workload create them, and their owners."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from tests.builders import Object, pod_spec

_FILE = Path(__file__).parent / "testdata" / "pods" / "pods.yaml"
RECORDED: Mapping[str, Object] = {
    pod["metadata"]["name"]: pod for pod in yaml.safe_load(_FILE.read_text())
}
UNITS = {name: pod["metadata"]["annotations"]["unit"] for name, pod in RECORDED.items()}
"""The base name of the unit of each Pod, "" if it is not known yet."""

ENABLED = {"grove.io/mnnvl-enabled": "true"}
SCOPE = "grove.io/mnnvl-scope"


def pod(
    name: str, labels: Mapping[str, str | None] | None = None, **annotations: str | None
) -> Object:
    """Return the recorded Pod `name` in the namespace `ns`, with GPUs and the annotation.

    `labels` replace recorded ones, and None removes one. So do annotations, by the end of their key.
    """
    recorded = deepcopy(RECORDED[name])
    metadata = recorded["metadata"]
    metadata["namespace"] = "ns"
    metadata["labels"] = _changed(metadata.get("labels", {}), labels or {})
    ours = {f"grove.io/mnnvl-{key}": value for key, value in annotations.items()}
    metadata["annotations"] = _changed({**metadata["annotations"], **ENABLED}, ours)
    recorded["spec"] = {**pod_spec(), **recorded.get("spec", {})}
    return recorded


def _changed(entries: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    merged = {**entries, **changes}
    return {key: value for key, value in merged.items() if value is not None}


def owners() -> list[Object]:
    """Return the direct and indirect owners of the recorded Pods."""
    return list(_owners())


def _owners() -> Iterator[Object]:
    yield owner("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "a", spec={"replicas": 3})
    yield owner("apps/v1", "StatefulSet", "a", "sts-a", by=("LeaderWorkerSet", "a"))
    yield owner("v1", "Pod", "a-2", by=("StatefulSet", "a", "sts-a"))
    yield owner("apps/v1", "StatefulSet", "a-2", "sts-a-2", by=("Pod", "a-2"))
    roles = [{"name": "prefill"}, {"name": "decode"}]
    yield owner("disaggregatedset.x-k8s.io/v1", "DisaggregatedSet", "d", spec={"roles": roles})
    of_role = "d-0-5c5fb-prefill"
    lws = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", of_role)
    yield owner(*lws, by=("DisaggregatedSet", "d"))
    by = ("LeaderWorkerSet", of_role)
    yield owner("apps/v1", "StatefulSet", f"{of_role}-0", "sts-d", by=by)
    jobs = [{"name": "workers", "replicas": 2}]
    yield owner("jobset.x-k8s.io/v1alpha2", "JobSet", "train", spec={"replicatedJobs": jobs})
    yield owner("batch/v1", "Job", "train-workers-1", by=("JobSet", "train"))
    yield owner("kubeflow.org/v1", "PyTorchJob", "bert")
    yield owner("kubeflow.org/v2beta1", "MPIJob", "nccl")
    yield owner("batch/v1", "Job", "nccl-launcher", by=("MPIJob", "nccl"))
    groups = [{"groupName": "gpus"}]
    yield owner("ray.io/v1", "RayCluster", "serve", spec={"workerGroupSpecs": groups})
    yield owner("batch/v1", "Job", "nccl-test")
    yield owner("scheduling.k8s.io/v1beta1", "PodGroup", "prefill-0")
    yield owner("scheduling.k8s.io/v1beta1", "Workload", "w")


_VERSIONS = {
    "DisaggregatedSet": "disaggregatedset.x-k8s.io/v1",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
    "StatefulSet": "apps/v1",
    "Pod": "v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "MPIJob": "kubeflow.org/v2beta1",
}


def owner(
    api_version: str,
    kind: str,
    name: str,
    uid: str = "",
    *,
    by: tuple[str, ...] = (),
    spec: Any = None,
) -> Object:
    """Return an object of the namespace `ns` whose uid is made of kind and name, if none is given.

    `by` are kind and name, and maybe uid, of its controller.
    """
    metadata: Object = {"name": name, "namespace": "ns", "uid": uid or f"{kind.lower()}-{name}"}
    if by:
        above = by[2] if len(by) > 2 else f"{by[0].lower()}-{by[1]}"
        reference = {"apiVersion": _VERSIONS[by[0]], "kind": by[0], "name": by[1], "uid": above}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec or {}}

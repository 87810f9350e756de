"""Print the objects of a small cluster for demonstrations.

    fleet.py > FILE
    python -m scripts.apiserver --objects FILE ...

The cluster has four zones of racks, 64 nodes of 8 GPUs, and three PodCliqueSets.

`llm-serve` is stuck. Its workers need all four nodes of a rack, but every rack has a node in use
or, in one case, a node that lost its rack label. The gang can be scheduled after this node is
labelled, or after a pod of `batch-eval` is deleted.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
ZONES = ("zone-a", "zone-b", "zone-c", "zone-d")
UNLABELLED = "gpu-c-15"
"""The name of the node without a rack label."""
_LABELS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/block",
    "topology.kubernetes.io/rack",
)
_INFERENCE = "inference"
_RESEARCH = "research"
_GPU = "nvidia.com/gpu"


def fleet() -> list[Object]:
    """Return all objects, in an order in which they can be created."""
    return [*_namespaces(), *_nodes(), *_queues(), *_chat(), *_embed(), *_stuck(), *_batch()]


def _namespaces() -> Iterator[Object]:
    for name in (_INFERENCE, _RESEARCH):
        yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _nodes() -> Iterator[Object]:
    """Yield the nodes. Each zone has two blocks of two racks of four nodes."""
    for zone in ZONES:
        letter = zone[-1]
        for number in range(16):
            name = f"gpu-{letter}-{number + 1:02}"
            values = (zone, f"block-{letter}{number // 8 + 1}", f"rack-{letter}{number // 4 + 1}")
            labels = {"kubernetes.io/hostname": name, **dict(zip(_LABELS, values, strict=True))}
            if name == UNLABELLED:
                del labels[_LABELS[2]]
            spec = {"unschedulable": True} if name == "gpu-d-03" else {}
            amounts = {"cpu": "128", "memory": "1024Gi", "pods": "110", _GPU: "8"}
            status = {
                "allocatable": amounts,
                "capacity": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            metadata = {"name": name, "labels": labels}
            yield {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": metadata,
                "spec": spec,
                "status": status,
            }


def _queues() -> Iterator[Object]:
    """Yield the queues, with the GPUs that their pods use.

    CPU and memory are explicitly unlimited, because KAI reads a missing limit as 0.
    """
    for name, parent, quota, used in (
        ("root", "", 512, 184),
        ("team-llm", "root", 256, 40),
        ("research", "root", 256, 144),
    ):
        unlimited = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        resources = {"gpu": {**unlimited, "quota": quota}, "cpu": unlimited, "memory": unlimited}
        spec: Object = {"resources": resources}
        spec |= {"parentQueue": parent} if parent else {}
        queue: Object = {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": name},
        }
        yield {**queue, "spec": spec, "status": {"allocated": {_GPU: str(used)}}}


@dataclass(frozen=True, slots=True)
class Workload:
    """A PodCliqueSet of one replica, with the objects that Grove and KAI would create for it.

    `cliques` maps each PodClique to its number of pods and the GPUs of a pod.
    """

    namespace: str
    name: str
    level: str
    cliques: dict[str, tuple[int, int]]

    def objects(self, nodes: tuple[str, ...] = ()) -> Iterator[Object]:
        """Yield the objects of the workload.

        `nodes` has the nodes of the first pods. The other pods are pending.
        """
        gang = f"{self.name}-0"
        places = iter(nodes)
        yield self._set()
        for clique, (replicas, gpus) in self.cliques.items():
            full = f"{gang}-{clique}"
            yield self._object(
                "grove.io/v1alpha1", "PodClique", full, self._clique(clique, replicas, gpus), gang
            )

        parts = [
            {
                "name": f"{gang}-{clique}",
                "minReplicas": replicas,
                "podReferences": self._references(clique, replicas),
            }
            for clique, (replicas, _) in self.cliques.items()
        ]
        obj = self._object("scheduler.grove.io/v1alpha1", "PodGang", gang, {"podgroups": parts}, "")
        obj["metadata"]["annotations"] = {"grove.io/topology-name": "grove-topology"}
        obj["metadata"]["uid"] = f"uid of {gang}"
        yield obj
        yield self._pod_group(gang)
        for clique, (replicas, gpus) in self.cliques.items():
            for number in range(replicas):
                yield self._pod(clique, number, gpus, next(places, ""))

    def _references(self, clique: str, replicas: int) -> list[Object]:
        names = [f"{self.name}-0-{clique}-{number}" for number in range(replicas)]
        return [{"namespace": self.namespace, "name": name} for name in names]

    def _object(self, version: str, kind: str, name: str, spec: Object, gang: str) -> Object:
        labels = {"grove.io/pcs-name": self.name, "app.kubernetes.io/part-of": self.name}
        labels |= {"grove.io/pcs-replica-index": "0", "grove.io/podgang": gang} if gang else {}
        metadata: Object = {"name": name, "namespace": self.namespace, "labels": labels}
        return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}

    def _set(self) -> Object:
        cliques = [
            {"name": clique, "spec": self._clique(clique, replicas, gpus)}
            for clique, (replicas, gpus) in self.cliques.items()
        ]
        template: Object = {"cliques": cliques, "topologyConstraint": {"packDomain": self.level}}
        spec: Object = {"replicas": 1, "template": template}
        return self._object("grove.io/v1alpha1", "PodCliqueSet", self.name, spec, "")

    def _clique(self, clique: str, replicas: int, gpus: int) -> Object:
        return {
            "roleName": clique,
            "replicas": replicas,
            "minAvailable": replicas,
            "podSpec": _pod_spec(gpus),
        }

    def _pod_group(self, gang: str) -> Object:
        queue = "team-llm" if self.namespace == _INFERENCE else "research"
        label = {"zone": _LABELS[0], "block": _LABELS[1], "rack": _LABELS[2]}[self.level]
        spec: Object = {
            "minMember": sum(replicas for replicas, _ in self.cliques.values()),
            "queue": queue,
        }
        spec |= {
            "topologyConstraint": {"topology": "grove-topology", "requiredTopologyLevel": label}
        }
        obj = self._object("scheduling.run.ai/v2alpha2", "PodGroup", gang, spec, gang)
        obj["metadata"]["ownerReferences"] = [
            {
                "apiVersion": "scheduler.grove.io/v1alpha1",
                "kind": "PodGang",
                "name": gang,
                "uid": f"uid of {gang}",
                "controller": True,
            }
        ]
        return obj

    def _pod(self, clique: str, number: int, gpus: int, node: str) -> Object:
        gang = f"{self.name}-0"
        obj = self._object("v1", "Pod", f"{gang}-{clique}-{number}", _pod_spec(gpus, node), gang)
        obj["metadata"]["labels"]["grove.io/podclique"] = f"{gang}-{clique}"
        obj["metadata"]["annotations"] = {"pod-group-name": gang}
        return {**obj, "status": _status(node)}


def _pod_spec(gpus: int, node: str = "") -> Object:
    resources: Object = {"requests": {"cpu": "8"}}
    resources |= {"limits": {_GPU: gpus}, "requests": {"cpu": "8", _GPU: gpus}} if gpus else {}
    container = {"name": "main", "image": "registry.example/inference:1", "resources": resources}
    spec: Object = {"schedulerName": "kai-scheduler", "containers": [container]}
    return {**spec, "nodeName": node} if node else spec


def _status(node: str) -> dict[str, Any]:
    if node:
        return {"phase": "Running"}
    message = "0/64 nodes are available for the gang"
    waits = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
    }
    return {"phase": "Pending", "conditions": [waits]}


def _chat() -> Iterator[Object]:
    chat = Workload(_INFERENCE, "chat-70b", "rack", {"decode": (2, 8), "prefill": (1, 8)})
    yield from chat.objects(("gpu-a-01", "gpu-a-02", "gpu-a-03"))


def _embed() -> Iterator[Object]:
    embed = Workload(_INFERENCE, "embed", "zone", {"worker": (4, 4)})
    yield from embed.objects(("gpu-b-01", "gpu-b-01", "gpu-b-05", "gpu-b-05"))


def _stuck() -> Iterator[Object]:
    yield from Workload(
        _INFERENCE, "llm-serve", "rack", {"router": (1, 0), "worker": (4, 8)}
    ).objects()


def _batch() -> Iterator[Object]:
    """Yield the PodGroup batch-eval, with the minimum 1, and its pods in most racks.

    The racks of `chat-70b` and of the node without a rack label have none.
    """
    yield {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "batch-eval", "namespace": _RESEARCH},
        "spec": {"minMember": 1, "queue": "research"},
    }
    for zone in ZONES:
        for number in (2, 6, 10, 14, 7):
            name = f"gpu-{zone[-1]}-{number:02}"
            if name in ("gpu-c-14", "gpu-a-02"):
                continue
            annotations = {"pod-group-name": "batch-eval"}
            metadata = {
                "name": f"batch-eval-{name}",
                "namespace": _RESEARCH,
                "annotations": annotations,
            }
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
            yield {**pod, "spec": _pod_spec(8, name), "status": _status(name)}


def dump() -> str:
    """Return all objects as JSON, in the form of `kubectl get -o json`."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": fleet()}, indent=1)


if __name__ == "__main__":
    print(dump())

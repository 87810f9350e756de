"""Small clusters as objects: nodes with GPUs, queues without limits, PodGroups and their pods."""

from typing import Any

from msgspec.structs import replace

from app.explain.answers.answer import Answer, explain
from app.explain.state.index import Index
from app.explain.state.read import facts_of
from app.facts.identity import Ref

Object = dict[str, Any]
FREE: Object = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


def told(objects: list[Object], kind: str, name: str) -> Answer:
    """What explain says about an object in a cluster that has nothing else than `objects`."""
    facts = replace(facts_of(objects, 0.0), skipped=frozenset())
    answer = explain(Index(facts), Ref(kind, "default", name))
    assert answer is not None
    return answer


def made(version: str, kind: str, name: str, spec: Object, **metadata: Any) -> Object:
    own: Object = {"name": name, "uid": f"{kind}-{name}", **metadata}
    if kind not in {"Node", "Queue", "Topology", "PriorityClass"}:
        own["namespace"] = "default"
    return {"apiVersion": version, "kind": kind, "metadata": own, "spec": spec}


def node(name: str, gpus: int = 8, *, ready: bool = True, **spec: Any) -> Object:
    labels = spec.pop("labels", {})
    obj = made("v1", "Node", name, spec, labels=labels)
    allocatable = {"cpu": "64", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    obj["status"] = {"allocatable": allocatable, "conditions": conditions}
    return obj


def queues(pool: str = "", **gpu: int) -> list[Object]:
    """The queue `team` with these bounds of GPUs, below the queue `root` without bounds."""
    labels = {"kai.scheduler/node-pool": pool} if pool else {}
    bounds = dict.fromkeys(("cpu", "memory", "gpu"), FREE)
    root = {"resources": bounds}
    team = {"parentQueue": "root", "resources": {**bounds, "gpu": {**FREE, **gpu}}}
    return [
        made("scheduling.run.ai/v2", "Queue", name, spec, labels=labels)
        for name, spec in (("root", root), ("team", team))
    ]


def pod_group(name: str, minimum: int, pool: str = "", **spec: Any) -> Object:
    labels = {"kai.scheduler/node-pool": pool} if pool else {}
    own = {"minMember": minimum, "queue": "team", "priorityClassName": "train", **spec}
    return made("scheduling.run.ai/v2alpha2", "PodGroup", name, own, labels=labels)


def pod(
    name: str,
    group: str,
    gpus: int = 1,
    node_name: str = "",
    *,
    cpu: str = "1",
    memory: str = "0",
    **metadata: Any,
) -> Object:
    requests = {"cpu": cpu, "memory": memory, "nvidia.com/gpu": str(gpus)}
    spec: Object = {
        "schedulerName": "kai-scheduler",
        "containers": [{"name": "c", "resources": {"requests": requests}}],
        **({"nodeName": node_name} if node_name else {}),
    }
    obj = made("v1", "Pod", name, spec, annotations={"pod-group-name": group}, **metadata)
    obj["status"] = {"phase": "Running" if node_name else "Pending"}
    return obj


def in_subgroup(name: str, group: str, subgroup: str, node_name: str = "") -> Object:
    """A pod with this SubGroup in its label, or without the label if it is ""."""
    labels = {"kai.scheduler/subgroup-name": subgroup} if subgroup else {}
    return pod(name, group, node_name=node_name, labels=labels)


def topology() -> Object:
    levels = [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]
    return made("kai.scheduler/v1alpha1", "Topology", "topo", {"levels": levels})

"""Random fleets and gangs, in the form of a recording without the decision.

A KAI scheduler can be given the objects; its decision is then added as the field `kai`.
"""

import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Object = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
RACK = "topology.kubernetes.io/rack"
HOST = "kubernetes.io/hostname"
LEVELS = {"zone": ZONE, "rack": RACK, "host": HOST}
POOL = "kai.scheduler/node-pool"
CLASSES = {"train": 50, "build-preemptible": 75, "mid": 90, "build": 100, "inference": 125}
NOT_READY = {"conditions": [{"type": "Ready", "status": "False"}]}


class Fleet:
    """One random cluster: `made` are its objects."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.name = f"gang{seed}"
        self.gpus = self.random.choice([4, 8])
        self.made: list[Object] = []
        self.title: list[str] = []
        self._number = 0
        self._base()

    def object(self, version: str, kind: str, name: str, **fields: Any) -> Object:
        """Add an object with a uid."""
        self._number += 1
        metadata = {"name": name, "uid": f"uid-{self._number}"}
        if kind in ("Pod", "PodGroup"):
            metadata["namespace"] = "default"
        made = {"apiVersion": version, "kind": kind, "metadata": metadata | fields.pop("meta", {})}
        self.made.append(made | fields)
        return self.made[-1]

    def _base(self) -> None:
        keys = [{"nodeLabel": key} for key in LEVELS.values()]
        self.object("kai.scheduler/v1alpha1", "Topology", "grove-topology", spec={"levels": keys})
        for name, value in CLASSES.items():
            self.object("scheduling.k8s.io/v1", "PriorityClass", name, value=value)
        for name in ("root", "team"):
            self.queue(name)
        self.nodes()

    def queue(self, name: str, quota: int = -1, limit: int = -1) -> None:
        """Add a queue below the root, which is called so."""
        free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        gpu = free | {"quota": quota, "limit": limit}
        spec: Object = {"resources": {"cpu": free, "memory": free, "gpu": gpu}}
        spec |= {"parentQueue": "root"} if name != "root" else {}
        self.object("scheduling.run.ai/v2", "Queue", name, spec=spec)

    def nodes(self) -> None:
        """Add nodes, of which some are closed or lack labels in half of the fleets."""
        odd = self.random.random() < 0.5
        repeat = self.random.random() < 0.33
        for zone in range(self.random.randint(1, 3)):
            for rack in range(self.random.randint(1, 3)):
                called = f"r{rack}" if repeat else f"z{zone}r{rack}"
                for number in range(self.random.randint(1, 4)):
                    self.node(f"z{zone}r{rack}n{number}", f"z{zone}", called, odd=odd)

    def node(self, name: str, zone: str, rack: str, *, odd: bool) -> None:
        """Add a node; an `odd` one may be closed, or lack labels."""
        labels = {ZONE: zone, RACK: rack, HOST: name}
        spec: Object = {}
        gpus = self.random.choice([4, 8]) if odd else self.gpus
        status: Object = {"conditions": [{"type": "Ready", "status": "True"}]}
        what = self.random.random() if odd else 1.0
        if what < 0.07:
            spec["unschedulable"] = True
        elif what < 0.14:
            taint = {"key": "dedicated", "value": "infra", "effect": "NoSchedule"}
            spec["taints"] = [taint]
        elif what < 0.19:
            status = dict(NOT_READY)
        elif what < 0.29:
            del labels[self.random.choice([ZONE, RACK])]
        status["allocatable"] = {
            "cpu": "64",
            "memory": "512Gi",
            "pods": "110",
            "nvidia.com/gpu": str(gpus),
        }
        self.object("v1", "Node", name, meta={"labels": labels}, spec=spec, status=status)

    @property
    def own_nodes(self) -> list[Object]:
        """The nodes."""
        return [made for made in self.made if made["kind"] == "Node"]

    def fill(self, share: float, classes: list[str], queue: str = "team") -> None:
        """Add PodGroups of others of one pod each, which hold some of the GPUs."""
        for node in self.own_nodes:
            left = int(node["status"]["allocatable"]["nvidia.com/gpu"])
            number = 0
            while left and self.random.random() < share:
                size = min(left, self.random.choice([1, 2, 4, 8]))
                name = f"job-{node['metadata']['name']}-{number}"
                self.group(name, 1, self.random.choice(classes), queue)
                self.pod(f"{name}-0", name, size, node=node["metadata"]["name"])
                left -= size
                number += 1

    def group(
        self, name: str, minimum: int, priority: str, queue: str = "team", **spec: Any
    ) -> Object:
        """Add a PodGroup."""
        fields = {"minMember": minimum, "priorityClassName": priority, "queue": queue, **spec}
        version = "scheduling.run.ai/v2alpha2"
        return self.object(version, "PodGroup", name, spec=fields)

    def pod(
        self, name: str, group: str, gpus: int, sub: str = "", node: str = "", **spec: Any
    ) -> Object:
        """Add a pod."""
        requests = {"cpu": "100m", "memory": "10Mi"}
        resources: Object = {"requests": requests}
        if gpus:
            requests["nvidia.com/gpu"] = str(gpus)
            resources["limits"] = {"nvidia.com/gpu": str(gpus)}
        fields: Object = {"schedulerName": "kai-scheduler", **spec}
        fields["containers"] = [{"name": "c", "resources": resources}]
        if node:
            fields |= {"nodeName": node, "tolerations": [{"operator": "Exists"}]}
        meta: Object = {"annotations": {"pod-group-name": group}}
        meta |= {"labels": {"kai.scheduler/subgroup-name": sub}} if sub else {}
        phase = "Running" if node else "Pending"
        return self.object("v1", "Pod", name, meta=meta, spec=fields, status={"phase": phase})

    def levels(self, *, broader: bool = False) -> Object:
        """Some constraint, or none: a required level, a preferred one, or both."""
        what = self.random.choice(["none", "required", "required", "preferred", "both"])
        names = list(LEVELS)
        required = self.random.choice(names)
        allowed = names if broader else names[names.index(required) :]
        preferred = self.random.choice(names if what == "preferred" else allowed)
        constraint = {"topology": "grove-topology"}
        if what in ("required", "both"):
            constraint["requiredTopologyLevel"] = LEVELS[required]
        if what in ("preferred", "both"):
            constraint["preferredTopologyLevel"] = LEVELS[preferred]
        self.title.append(
            " ".join(f"{key[:-13]} {value.rpartition('/')[2]}" for key, value in constraint.items())
            if what != "none"
            else "no constraint"
        )
        return {"topologyConstraint": constraint} if what != "none" else {}

    def size(self) -> int:
        """GPUs of a pod."""
        return self.random.choice([1, 2, 4, self.gpus])

    def priority(self) -> str:
        """The class of the gang."""
        return self.random.choice(["inference", "inference", "train", "build"])


def homog(fleet: Fleet) -> None:
    """Equal pods with one constraint."""
    size = fleet.size()
    count = fleet.random.randint(1, 9)
    fleet.fill(0.5, ["inference"])
    fleet.group(fleet.name, count, fleet.priority(), **fleet.levels(broader=True))
    for number in range(count):
        fleet.pod(f"{fleet.name}-{number}", fleet.name, size)


def mixed(fleet: Fleet) -> None:
    """Pods of different sizes, without SubGroups."""
    sizes = [fleet.random.choice([0, 1, 2, 4, 8]) for _ in range(fleet.random.randint(2, 7))]
    fleet.fill(0.4, ["inference"])
    fleet.group(fleet.name, len(sizes), fleet.priority(), **fleet.levels())
    for number, size in enumerate(sizes):
        fleet.pod(f"{fleet.name}-{number}", fleet.name, size)


def subs(fleet: Fleet) -> None:
    """SubGroups with constraints of their own, of different sizes in half of the cases."""
    parts = [(f"s{number}", fleet.random.randint(1, 4)) for number in range(3)]
    parts = parts[: fleet.random.randint(2, 3)]
    same = fleet.size() if fleet.random.random() < 0.5 else 0
    subgroups = [{"name": name, "minMember": count, **fleet.levels()} for name, count in parts]
    spec: Object = {"subGroups": subgroups, **fleet.levels()}
    optional = fleet.random.random() < 0.2
    spec |= {"minSubGroup": fleet.random.randint(1, len(parts))} if optional else {}
    fleet.fill(0.4, ["inference"])
    fleet.group(fleet.name, sum(count for _, count in parts), fleet.priority(), **spec)
    for name, count in parts:
        size = same or fleet.size()
        for number in range(count):
            fleet.pod(f"{fleet.name}-{name}-{number}", fleet.name, size, name)


def nested(fleet: Fleet) -> None:
    """Units with two SubGroups each."""
    subgroups: list[Object] = []
    pods: list[tuple[str, int]] = []
    size = fleet.size()
    for unit in range(fleet.random.randint(1, 3)):
        subgroups.append({"name": f"u{unit}", "minSubGroup": 2, **fleet.levels()})
        for part in ("p", "d"):
            name = f"u{unit}-{part}"
            count = fleet.random.randint(1, 3)
            subgroups.append({"name": name, "parent": f"u{unit}", "minMember": count})
            pods.append((name, count))
    fleet.fill(0.4, ["inference"])
    spec: Object = {"subGroups": subgroups, **fleet.levels()}
    fleet.group(fleet.name, sum(count for _, count in pods), fleet.priority(), **spec)
    for name, count in pods:
        for number in range(count):
            fleet.pod(f"{fleet.name}-{name}-{number}", fleet.name, size, name)


def elastic(fleet: Fleet) -> None:
    """More pods than the minimum, of which some run in half of the cases."""
    size = fleet.size()
    count = fleet.random.randint(2, 8)
    minimum = fleet.random.randint(1, count)
    fleet.fill(0.4, ["inference"])
    constraint = fleet.levels()
    fleet.group(fleet.name, minimum, fleet.priority(), **constraint)
    used: dict[str, int] = {}
    for made in fleet.made:
        if made["kind"] == "Pod":
            node = made["spec"]["nodeName"]
            requests = made["spec"]["containers"][0]["resources"]["requests"]
            used[node] = used.get(node, 0) + int(requests["nvidia.com/gpu"])
    room = [
        node["metadata"]["name"]
        for node in fleet.own_nodes
        if int(node["status"]["allocatable"]["nvidia.com/gpu"])
        - used.get(node["metadata"]["name"], 0)
        >= size
    ]
    runs = bool(room) and fleet.random.random() < 0.5
    for number in range(count):
        where = room[0] if runs and not number else ""
        fleet.pod(f"{fleet.name}-{number}", fleet.name, size, node=where)


def pools(fleet: Fleet) -> None:
    """Node pools, selectors and tolerations."""
    for node in fleet.own_nodes:
        if fleet.random.random() < 0.3:
            node["metadata"]["labels"][POOL] = "other"
        node["metadata"]["labels"]["type"] = fleet.random.choice(["a", "b"])
    size = fleet.size()
    count = fleet.random.randint(1, 5)
    fleet.fill(0.4, ["inference"])
    fleet.group(fleet.name, count, fleet.priority(), **fleet.levels())
    spec: Object = {}
    if fleet.random.random() < 0.6:
        spec["nodeSelector"] = {"type": fleet.random.choice(["a", "b", "c"])}
    if fleet.random.random() < 0.4:
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    for number in range(count):
        fleet.pod(f"{fleet.name}-{number}", fleet.name, size, **spec)


def preempt(fleet: Fleet) -> None:
    """PodGroups of several classes hold most of the GPUs."""
    size = fleet.size()
    count = fleet.random.randint(1, 5)
    fleet.fill(0.9, list(CLASSES))
    fleet.group(fleet.name, count, fleet.random.choice(list(CLASSES)), **fleet.levels())
    for number in range(count):
        fleet.pod(f"{fleet.name}-{number}", fleet.name, size)


def queues(fleet: Fleet) -> None:
    """Limits and quotas."""
    limit = fleet.random.choice([-1, 4, 8, 16])
    fleet.queue("own", fleet.random.choice([-1, 4, 8]), limit)
    fleet.queue("theirs", fleet.random.choice([-1, 4, 8]))
    size = fleet.size()
    count = fleet.random.randint(1, 4)
    fleet.fill(0.6, list(CLASSES), "theirs")
    fleet.group(fleet.name, count, fleet.random.choice(list(CLASSES)), "own", **fleet.levels())
    for number in range(count):
        fleet.pod(f"{fleet.name}-{number}", fleet.name, size)


KINDS: tuple[Callable[[Fleet], None], ...] = (
    homog,
    mixed,
    subs,
    subs,
    nested,
    elastic,
    pools,
    preempt,
    queues,
)


def fleet_of(seed: int) -> Object:
    """Return a recording without its decision: equal for equal seeds."""
    fleet = Fleet(seed)
    make = KINDS[seed % len(KINDS)]
    make(fleet)
    kind = make.__name__
    title = f"{kind}: {', '.join(fleet.title)}"
    return {
        "apiVersion": "v1",
        "kind": "List",
        "case": {
            "name": f"random-{kind}-{seed}",
            "title": title,
            "kind": f"random {kind}",
            "seed": seed,
        },
        "ask": f"podgroup/{fleet.name}",
        "namespace": "default",
        "items": fleet.made,
    }


def written(folder: Path, first: int, count: int) -> Iterator[Path]:
    """Write so many files, and give their names."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(first, first + count):
        document = fleet_of(seed)
        file = folder / f"{document['case']['name']}.json"
        file.write_text(json.dumps(document, indent=1))
        yield file


if __name__ == "__main__":
    for made in written(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])):
        print(made)

"""Workloads of each kind as users write them, 20 units of 2 to 18 Pods of each."""

import itertools
import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, ClassVar

from app.facts.kinds import (
    JOB_SET,
    K8S_POD_GROUP,
    LEADER_WORKER_SET,
    RAY_CLUSTER,
    TRAINING_JOBS,
)
from app.kube.api import Object
from app.objects.resource import JOB, Resource
from tests.pods import ENABLED, SCOPE

UNITS = 20
SIZES = range(2, 19)
MPI_JOB = next(resource for resource in TRAINING_JOBS if resource.kind == "MPIJob")
PYTORCH_JOB = next(resource for resource in TRAINING_JOBS if resource.kind == "PyTorchJob")


class Workload:
    """An owner of units, which `scale` changes, with the objects that a user writes for it.

    `needs` names the controllers that make its Pods, and `restarts` says how many of them can be
    deleted at once: a Job waits longer after each.
    """

    resource: ClassVar[Resource]
    needs: ClassVar[tuple[str, ...]]
    scales: ClassVar[bool] = True
    restarts: ClassVar[int] = SIZES[-1]
    prefix: ClassVar[str]

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size

    def objects(self) -> list[Object]:
        return [self.owner(self.spec())]

    def owner(self, spec: Object) -> Object:
        return made(self.resource, self.name, spec)

    def spec(self) -> Object:
        raise NotImplementedError

    def units(self) -> dict[str, int]:
        """The names of its units, each with its number of Pods."""
        return {f"{self.prefix}-{self.name}": self.size}

    def unit_of(self, pod: str) -> str:
        """The unit to which the Pod of this name belongs."""
        return f"{self.prefix}-{self.name}"

    def scale(self, rng: Random) -> None:
        self.size = rng.choice([size for size in SIZES if size != self.size])


class GroupedSet(Workload):
    """A LeaderWorkerSet, whose groups are the units."""

    resource = LEADER_WORKER_SET
    needs = ("lws",)
    prefix = "lws"
    groups = 4
    first_ready = False

    def spec(self) -> Object:
        group = {"size": self.size, "workerTemplate": template(self.scope), **self.more()}
        policy = "LeaderReady" if self.first_ready else "LeaderCreated"
        return {"replicas": self.groups, "startupPolicy": policy, "leaderWorkerTemplate": group}

    scope = ""

    def more(self) -> Object:
        return {"restartPolicy": "RecreateGroupOnPodRestart"}

    def units(self) -> dict[str, int]:
        return {f"lws-{self.name}-{index}": self.size for index in range(self.groups)}

    def unit_of(self, pod: str) -> str:
        return f"lws-{self.name}-{self._numbers(pod)[0]}"

    def _numbers(self, pod: str) -> tuple[int, int]:
        found = re.fullmatch(rf"{self.name}-(\d+)(?:-(\d+))?", pod)
        assert found, pod
        return int(found[1]), int(found[2] or 0)

    def scale(self, rng: Random) -> None:
        self.groups = rng.choice([count for count in range(1, 7) if count != self.groups])


class SubGroupedSet(GroupedSet):
    """A LeaderWorkerSet with two subgroups in each of its groups."""

    scope = "subgroup"
    groups = 2

    def more(self) -> Object:
        return {**super().more(), "subGroupPolicy": {"subGroupSize": self.size // 2}}

    def units(self) -> dict[str, int]:
        indexes = itertools.product(range(self.groups), range(2))
        return {f"lwssub-{self.name}-{group}-{half}": self.size // 2 for group, half in indexes}

    def unit_of(self, pod: str) -> str:
        group, worker = self._numbers(pod)
        return f"lwssub-{self.name}-{group}-{worker // (self.size // 2)}"


class WholeJobSet(Workload):
    """A JobSet that is one unit: a Job of one Pod, and one of all others."""

    resource = JOB_SET
    needs = ("jobset",)
    prefix = "jobset"
    scales = False
    scope = ""

    def jobs(self) -> list[tuple[str, int, int]]:
        """The name of each ReplicatedJob, its Jobs, and the Pods of a Job."""
        return [("driver", 1, 1), ("workers", 1, self.size - 1)]

    def spec(self) -> Object:
        listed = [
            {"name": name, "replicas": jobs, "template": {"spec": job(pods, self.scope, 0)}}
            for name, jobs, pods in self.jobs()
        ]
        return {"replicatedJobs": listed, "failurePolicy": {"maxRestarts": 20}}


class ReplicatedJobs(WholeJobSet):
    """A JobSet in which each of two ReplicatedJobs is a unit."""

    prefix = "jobsetrj"
    scope = "replicatedJob"

    def jobs(self) -> list[tuple[str, int, int]]:
        return [("a", 1, self.size), ("b", 2, 2)]

    def units(self) -> dict[str, int]:
        return {f"jobsetrj-{self.name}-{name}": jobs * pods for name, jobs, pods in self.jobs()}

    def unit_of(self, pod: str) -> str:
        return f"jobsetrj-{self.name}-{pod.removeprefix(self.name).split('-')[1]}"


class SingleJobs(WholeJobSet):
    """A JobSet in which each of three Jobs is a unit."""

    prefix = "jobsetjob"
    scope = "job"

    def jobs(self) -> list[tuple[str, int, int]]:
        return [("a", 3, self.size)]

    def units(self) -> dict[str, int]:
        return {f"jobsetjob-{self.name}-a-{index}": self.size for index in range(3)}

    def unit_of(self, pod: str) -> str:
        return f"jobsetjob-{self.name}-a-{pod.removeprefix(self.name).split('-')[2]}"


class IndexedJob(Workload):
    resource = JOB
    needs = ()
    restarts = 1
    prefix = "job"

    def spec(self) -> Object:
        return job(self.size)


class NamedGroup(Workload):
    """A PodGroup of Kubernetes, and a Job whose Pods name it, which can be scaled without a gang."""

    resource = K8S_POD_GROUP
    needs = ()
    restarts = 1
    prefix = "group"

    def objects(self) -> list[Object]:
        spec: Object = {"schedulingPolicy": {"basic": {}}}
        member: Object = {"schedulingGroup": {"podGroupName": self.name}}
        group = {**self.owner(spec), "apiVersion": "scheduling.k8s.io/v1alpha2"}
        return [group, made(JOB, self.name, job(self.size, **member))]


class TorchJob(Workload):
    resource = PYTORCH_JOB
    needs = ("training-operator",)
    prefix = "training"

    def spec(self) -> Object:
        parts = {"Master": 1, "Worker": self.size - 1}
        pod = template(container="pytorch")
        return {
            "pytorchReplicaSpecs": {
                part: {"replicas": count, "restartPolicy": "OnFailure", "template": pod}
                for part, count in parts.items()
            }
        }


class MpiJob(Workload):
    """Its launcher has no GPUs, and is in no unit."""

    resource = MPI_JOB
    needs = ("mpi-operator",)
    prefix = "training"

    def spec(self) -> Object:
        launcher = {"replicas": 1, "template": template(asks=False)}
        workers = {"replicas": self.size, "template": template()}
        return {"mpiReplicaSpecs": {"Launcher": launcher, "Worker": workers}}


class Ray(Workload):
    """A RayCluster that is one unit; its head has no GPUs, and is in none."""

    resource = RAY_CLUSTER
    needs = ("kuberay",)
    prefix = "ray"
    scope = ""

    def groups(self) -> dict[str, int]:
        return {"gpus": self.size}

    def spec(self) -> Object:
        head = {"rayStartParams": {}, "template": template(container="ray-head", asks=False)}
        workers = [
            {
                "groupName": name,
                "replicas": count,
                "minReplicas": 0,
                "maxReplicas": 100,
                "rayStartParams": {},
                "template": template(self.scope, container="ray-worker"),
            }
            for name, count in self.groups().items()
        ]
        return {"headGroupSpec": head, "workerGroupSpecs": workers}


class RayGroups(Ray):
    """A RayCluster in which each of two groups of workers is a unit."""

    prefix = "raygroup"
    scope = "workerGroup"

    def groups(self) -> dict[str, int]:
        return {"big": self.size, "small": 2}

    def units(self) -> dict[str, int]:
        return {f"raygroup-{self.name}-{name}": count for name, count in self.groups().items()}

    def unit_of(self, pod: str) -> str:
        return f"raygroup-{self.name}-{pod.removeprefix(self.name).split('-')[1]}"


def template(scope: str = "", container: str = "main", *, asks: bool = True, **spec: Any) -> Object:
    """A Pod template, with GPUs and the annotation if it `asks` for MNNVL."""
    made: Object = {"name": container, "image": "registry.example/main:1"}
    if not asks:
        return {"metadata": {}, "spec": {"containers": [made], **spec}}
    made["resources"] = {"limits": {"nvidia.com/gpu": "4"}}
    annotations = {**ENABLED, **({SCOPE: scope} if scope else {})}
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [made], **spec}}


def job(pods: int, scope: str = "", failures: int = 1000, **spec: Any) -> Object:
    """The spec of a Job whose number of Pods can be changed, and that bears `failures`."""
    return {
        "completionMode": "Indexed",
        "parallelism": pods,
        "completions": pods,
        "backoffLimit": failures,
        "template": template(scope, restartPolicy="Never", **spec),
    }


def made(resource: Resource, name: str, spec: Object) -> Object:
    version = resource.api_version(resource.versions[0])
    return {
        "apiVersion": version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


KINDS: dict[str, tuple[tuple[Callable[[str, int], Workload], int], ...]] = {
    "LeaderWorkerSet": ((GroupedSet, 4), (SubGroupedSet, 1)),
    "JobSet": ((WholeJobSet, 8), (ReplicatedJobs, 3), (SingleJobs, 2)),
    "Job": ((IndexedJob, 20),),
    "PyTorchJob": ((TorchJob, 20),),
    "MPIJob": ((MpiJob, 20),),
    "RayCluster": ((Ray, 10), (RayGroups, 5)),
    "PodGroup": ((NamedGroup, 20),),
}
"""For each kind, what makes its workloads, and how many of them: 20 units in all."""


def some(kind: str, rng: Random) -> list[Workload]:
    """The workloads of a kind in random order, of which one has the least and one the most Pods."""
    sizes = itertools.chain((SIZES[-1], SIZES[0]), iter(lambda: rng.choice(SIZES), 0))
    workloads = [make(f"w{number:02}", size) for number, (make, size) in _numbered(kind, sizes)]
    assert sum(len(workload.units()) for workload in workloads) == UNITS
    rng.shuffle(workloads)
    return workloads


def _numbered(
    kind: str, sizes: Iterator[int]
) -> Iterator[tuple[int, tuple[Callable[[str, int], Workload], int]]]:
    makes = [make for make, count in KINDS[kind] for _ in range(count)]
    for number, make in enumerate(makes):
        size = next(sizes)
        yield number, (make, size + size % 2 if make is SubGroupedSet else size)

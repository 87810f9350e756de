"""Random clusters with workloads that are not Grove's, and with schedulers besides KAI."""

from typing import Any, Literal

from msgspec.structs import replace

from app.explain.state.index import Index
from app.facts.identity import Ref
from app.facts.kai.podgroup import KaiPodGroup, Said
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.kueue import KueueCondition, KueueWorkload
from app.facts.kubernetes.pod import Pod, read_pod
from app.facts.labels import KAI_SCHEDULER
from tests.explain.test_contradictions import MIG, NOW, Clusters

By = Literal["kai", "ungrouped", "default-scheduler", "volcano", "kueue", "kai-schedular"]
PLACED_BY: tuple[By, ...] = (
    "kai", "kai", "ungrouped", "default-scheduler", "volcano", "kueue", "kai-schedular",
)  # fmt: skip
"""Who places a workload: KAI with or without a PodGroup, others, or a scheduler that isn't there."""
WORDS = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu"
NO_QUOTA = "insufficient quota for nvidia.com/gpu in flavor h100"
LABELS: dict[str, dict[str, str]] = {
    "LeaderWorkerSet": {"leaderworkerset.sigs.k8s.io/name": "{0}"},
    "JobSet": {
        "jobset.sigs.k8s.io/jobset-name": "{0}",
        "batch.kubernetes.io/job-name": "{0}-a-0",
    },
    "RayCluster": {"ray.io/cluster": "{0}"},
    "Job": {"batch.kubernetes.io/job-name": "{0}"},
    "StatefulSet": {},
}
"""The labels by which a Pod names its workload."""
CONTROLLERS = {
    "LeaderWorkerSet": ("StatefulSet", "{0}"),
    "JobSet": ("Job", "{0}-a-0"),
    "RayCluster": ("RayCluster", "{0}"),
    "Job": ("Job", "{0}"),
    "StatefulSet": ("StatefulSet", "{0}"),
}


class Unit:
    """A workload that is not Grove's."""

    def __init__(self, kind: str, name: str, by: By, pods: tuple[Pod, ...], said: str) -> None:
        self.ref = Ref(kind, "ns", name)
        self.by = by
        self.pods = pods
        self.said = said
        """What its scheduler, or Kueue, has said of it; "" for nothing."""

    @property
    def waits(self) -> bool:
        return any(not pod.node for pod in self.pods)


class Neighbourhood(Clusters):
    """A cluster of `Clusters`, with workloads of other kinds and schedulers."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.events: list[Event] = []
        self.kueue: list[KueueWorkload] = []
        kinds = self._random.choices(list(LABELS), k=self._random.randint(1, 4))
        self.units = [self._unit(f"unit{at}", kind) for at, kind in enumerate(kinds)]

    @property
    def index(self) -> Index:
        facts = super().index.facts
        return Index(
            replace(
                facts,
                events=tuple(self.events),
                kueue_workloads=tuple(self.kueue),
            )
        )

    def _unit(self, name: str, kind: str) -> Unit:
        chosen = self._random
        by = chosen.choice(PLACED_BY)
        runs = chosen.random() < 0.2 and by != "kai-schedular"
        pods = [self._pod(name, kind, number, by) for number in range(chosen.randint(1, 3))]
        # Kueue admits all or none, and a scheduler that isn't there places nothing
        first = 0 if by in ("kueue", "kai-schedular") else chosen.choice((0, 0, 1))
        first = len(pods) if runs else first
        nodes = [node.name for node in self.nodes]
        pods = [
            replace(pod, node=chosen.choice(nodes), phase="Running", gates=())
            if at < first
            else pod
            for at, pod in enumerate(pods)
        ]
        if by == "default-scheduler" and chosen.random() < 0.3:
            pods[-1] = replace(pods[-1], scheduler="volcano")  # such as a leader's template
        said = self._say(name, by, pods) if chosen.random() < 0.6 else ""
        if said and by in ("default-scheduler", "volcano"):
            pods = [self._told(pod, said) for pod in pods]
        if by == "kai":
            owner = pods[0].owner
            self.groups.append(
                KaiPodGroup(
                    "ns",
                    f"pg-{name}",
                    f"uid-pg-{name}",
                    (owner,),
                    minimum=chosen.choice((1, len(pods))),
                    queue="a",
                    created=pods[0].created,
                    said=self._words_of_kai(),
                )
            )
        if chosen.random() < 0.1:
            self._creates_no_more(pods[0])
        self.pods += pods
        return Unit(kind, name, by, tuple(pods), said)

    def _words_of_kai(self) -> tuple[Said, ...]:
        chosen = self._random
        reason = chosen.choice(("", "", "OverLimit", "NonPreemptibleOverQuota", "Other"))
        age = chosen.choice((20, 90, 3000))
        return (Said(reason, f"KAI says {reason}", time=NOW - age),) if reason else ()

    def _creates_no_more(self, pod: Pod) -> None:
        """The controller of a pod is refused more of them by a quota."""
        assert pod.controller
        words = "exceeded quota: gpus, requested: 1, used: 8, limited: 8"
        self.events.append(
            Event(pod.owner, "FailedCreate", words, NOW - 50, "controller", pod.controller, True)
        )

    def _pod(self, name: str, kind: str, number: int, by: By) -> Pod:
        chosen = self._random
        controller, owner = (text.format(name) for text in CONTROLLERS[kind])
        reference = {"apiVersion": "x/v1", "kind": controller, "name": owner, "uid": f"uid-{owner}"}
        obj: dict[str, Any] = {
            "metadata": {
                "namespace": "ns",
                "name": f"{name}-{number}",
                "uid": f"uid-{name}-{number}",
                "labels": {key: value.format(name) for key, value in LABELS[kind].items()},
                "annotations": {"pod-group-name": f"pg-{name}"} if by == "kai" else {},
                "ownerReferences": [{**reference, "controller": True}],
            },
            "spec": {
                "containers": [{"name": "c", "resources": {"limits": self._asked()}}],
                "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}] if by == "kueue" else [],
            },
        }
        scheduler = {"kai": KAI_SCHEDULER, "ungrouped": KAI_SCHEDULER, "kueue": KAI_SCHEDULER}
        created = NOW - chosen.choice((5, 45, chosen.randint(200, 5000)))
        return replace(read_pod(obj), scheduler=scheduler.get(by, by), created=created)

    def _asked(self) -> dict[str, int]:
        chosen = self._random
        return {MIG: 1} if chosen.random() < 0.1 else {"nvidia.com/gpu": chosen.randint(1, 2)}

    def _say(self, name: str, by: By, pods: list[Pod]) -> str:
        """What is said of the pods, now or soon."""
        if not any(not pod.node for pod in pods):
            return ""
        if by == "kueue":
            condition = KueueCondition("QuotaReserved", False, "Pending", NO_QUOTA, NOW - 60)
            self.kueue.append(
                KueueWorkload(
                    "ns", f"kueue-{name}", "lab", owners=(pods[0].owner,), conditions=(condition,)
                )
            )
            return NO_QUOTA
        return WORDS if by in ("default-scheduler", "volcano") else ""

    def _told(self, pod: Pod, words: str) -> Pod:
        """A pod of which its scheduler has spoken, in a condition or in an event."""
        if pod.node:
            return pod
        if pod.scheduler == "default-scheduler":
            return replace(pod, unscheduled=words, said_at=NOW - 60)
        self.events.append(
            Event(pod.uid, "FailedScheduling", words, NOW - 60, pod.scheduler, pod.ref, True)
        )
        return pod

"""No answer contradicts itself: headline, reasons, tree and line are of one judgement.

The clusters are random: shared GPUs of several kinds, MIG devices, node pools, queues without
limits, ending and background pods, and gangs of several sizes.
"""

import random
from collections.abc import Iterator

import pytest

from app.explain.answers.answer import Answer, explain
from app.explain.answers.branch import Branch
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.constraint import SchedulerConstraint
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kai.queue import Queue, Share
from app.facts.kai.topology import KaiTopology
from app.facts.kubernetes.gpu_sharing import MEMORY_LABEL, GpuPart
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod, Shape
from app.facts.kubernetes.workload import PriorityClass
from app.facts.labels import KAI_SCHEDULER, NODE_POOL
from tests.effort import tries

NOW = 1_800_000_000.0
GPU = "nvidia.com/gpu"
RACK = "example.com/rack"
HOST = "kubernetes.io/hostname"
MIG = "nvidia.com/mig-3g.40gb"
EXCLUDING = {
    "AfterOthers",
    "BoundToDomain",
    "FairShare",
    "GpuMemoryUnknown",
    "LowerPriority",
    "NeverFits",
    "NoDomainFits",
    "NodesUnfit",
    "OtherResource",
    "OutsidePool",
    "QueueLimit",
    "QueueMissing",
    "QueueQuota",
}
"""Reasons with which a gang is not placed in the next cycle."""
UNSET = Share(0, 0, weight=0.0, unset=("quota", "limit"))


class Clusters:
    """A random cluster."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._pools = ("", "h100") if self._random.random() < 0.3 else ("",)
        self.nodes = [self._node(number) for number in range(self._random.randint(1, 4))]
        self.queues = list(self._queues())
        self.pods: list[Pod] = []
        self.groups: list[KaiPodGroup] = []
        for number in range(self._random.randint(0, 6)):
            self._gang(f"run{number}", runs=True)
        for number in range(self._random.randint(1, 5)):
            self._gang(f"wait{number}", runs=False)

    @property
    def index(self) -> Index:
        return Index(
            Snapshot(
                nodes=tuple(self.nodes),
                queues=tuple(self.queues),
                pods=tuple(self.pods),
                pod_groups=tuple(self.groups),
                kai_topologies=(KaiTopology("t", (RACK, HOST)),),
                priorities=(PriorityClass("train", 50), PriorityClass("build", 100)),
                now=NOW,
            )
        )

    def _node(self, number: int) -> Node:
        chosen = self._random
        labels = {RACK: f"r{number // 2}", HOST: f"n{number}"}
        pool = chosen.choice(self._pools)
        labels |= {NODE_POOL: pool} if pool else {}
        labels |= {MEMORY_LABEL: chosen.choice(("40960", "81920"))} if chosen.random() < 0.7 else {}
        has = {"cpu": 64_000, "memory": 512 * 1024**3 * 1000, "pods": 110_000}
        if chosen.random() < 0.15:
            has[MIG] = chosen.randint(1, 4) * 1000
            labels["nvidia.com/mig.strategy"] = "mixed"
        else:
            has[GPU] = chosen.randint(1, 4) * 1000
        return Node(f"n{number}", labels, has, unschedulable=chosen.random() < 0.1)

    def _queues(self) -> Iterator[Queue]:
        chosen = self._random
        for pool in self._pools:
            yield Queue(f"root{pool}", pool=pool)
            for name in ("a", "b"):
                yield Queue(
                    f"{name}{pool}",
                    f"root{pool}",
                    quota=chosen.choice((None, 0, 300, 1000, 2000)),
                    limit=chosen.choice((None, None, 1000, 3000)),
                    cpu=UNSET if chosen.random() < 0.1 else Share(),
                    pool=pool,
                )

    def _shape(self) -> Shape:
        chosen = self._random
        requests = {"cpu": 1000, "memory": 1024**3 * 1000, "pods": 1000}
        part = None
        match chosen.randint(0, 5):
            case 0 | 1:
                requests[GPU] = chosen.randint(1, 3) * 1000
            case 2:
                part = GpuPart(
                    chosen.choice((0.1, 0.2, 0.5, 0.6)), devices=chosen.choice((1, 1, 2))
                )
                requests[GPU] = part.gpus
            case 3:
                part = GpuPart(0.0, chosen.choice((8000, 30000)), chosen.choice((1, 1, 2)))
            case 4:
                requests[MIG] = 1000
        return Shape(tuple(sorted(requests.items())), part=part)

    def _gang(self, name: str, *, runs: bool) -> None:
        chosen = self._random
        pool = chosen.choice(self._pools)
        queue = chosen.choice(("a", "a", "b")) + (pool if chosen.random() < 0.9 else "")
        count = chosen.randint(1, 3)
        created = NOW - chosen.randint(100, 5000)
        shape = self._shape()
        told = SchedulerConstraint(chosen.choice(("", "", RACK, HOST, HOST)))
        self.groups.append(
            KaiPodGroup(
                "ns",
                name,
                f"uid-{name}",
                minimum=count,
                queue=queue,
                pool=pool,
                priority_class=chosen.choice(("train", "build")),
                created=created,
                topology="t" if told else "",
                told=told,
            )
        )
        nodes = [node for node in self.nodes if node.labels.get(NODE_POOL, "") == pool]
        for number in range(count):
            node = chosen.choice(nodes).name if runs and nodes else ""
            groups = (
                tuple(f"{node}-{chosen.randint(0, 1)}-{at}" for at in range(shape.part.devices))
                if shape.part and node
                else ()
            )
            self.pods.append(
                Pod(
                    "ns",
                    f"{name}-{number}",
                    f"uid-{name}-{number}",
                    node=node,
                    scheduler=KAI_SCHEDULER,
                    shape=shape,
                    phase="Running" if node else "Pending",
                    group=name,
                    created=created,
                    deleting=NOW if node and chosen.random() < 0.25 else None,
                    gpu_groups=groups,
                    background=bool(node) and chosen.random() < 0.1,
                )
            )


def _branches(branch: Branch) -> Iterator[Branch]:
    yield branch
    for child in branch.children:
        yield from _branches(child)


def contradictions(answer: Answer) -> Iterator[str]:
    """Yield what in an answer excludes something else in it."""
    problems = {reason.id for reason in answer.reasons if reason.severity == "problem"}
    is_next = any(own.next == "next" for own in answer.line)
    waits = (answer.tree.placed or 0) < (answer.tree.total or 0)
    if is_next and problems & EXCLUDING:
        yield f"placed next, and {sorted(problems & EXCLUDING)}"
    if waits and not is_next and not answer.reasons:
        yield "it waits without a reason"
    for own in answer.line:
        if "are ahead of it" in own.words and own.order == 1:
            yield f"the first of all, and {own.words}"
    for branch in _branches(answer.tree):
        has_room = branch.ref.kind == "Queue" and branch.words == "has room"
        bounds = problems & {"QueueLimit", "QueueMissing", "QueueQuota"}
        if has_room and bounds and not _is_above(answer, branch):
            yield f"{branch.ref.name} has room, and {sorted(problems)}"


def _is_above(answer: Answer, queue: Branch) -> bool:
    """Return whether a limit or quota is reached only in queues above this one."""
    bounds = ("QueueLimit", "QueueMissing", "QueueQuota")
    about = [reason for reason in answer.reasons if reason.id in bounds]
    return all(f"ueue {queue.ref.name}" not in reason.text for reason in about)


@pytest.mark.parametrize("first", range(0, tries(200, 2000), 50))
def test_no_answer_contradicts_itself(first: int) -> None:
    found = []
    for seed in range(first, first + 50):
        index = Clusters(seed).index
        for group in index.facts.pod_groups:
            answer = explain(index, group.ref)
            assert answer
            found += [(seed, group.name, words) for words in contradictions(answer)]
    assert found == []


def test_a_gang_is_told_of_the_room_that_those_before_it_leave() -> None:
    """By itself it would wait for what ends in r1, which the gang before it has chosen."""
    has = {GPU: 8000, "cpu": 64_000, "pods": 110_000}
    nodes = tuple(Node(f"n{number}", {RACK: f"r{number}"}, has) for number in (1, 2))
    asks = Shape(((GPU, 4000), ("pods", 1000)))
    told = SchedulerConstraint(RACK)
    pods = [
        Pod(
            "ns",
            name,
            f"uid-{name}",
            node=node,
            scheduler=KAI_SCHEDULER,
            shape=asks,
            phase="Running" if node else "Pending",
            group=name,
            deleting=NOW if name == "ends" else None,
        )
        for name, node in (("runs", "n1"), ("ends", "n1"), ("first", ""), ("second", ""))
    ]
    groups = [
        KaiPodGroup("ns", name, queue="a", topology="t", told=told, created=float(number))
        for number, name in enumerate(("runs", "ends", "first", "second"))
    ]
    index = Index(
        Snapshot(
            nodes=nodes,
            queues=(Queue("root"), Queue("a", "root")),
            pods=tuple(pods),
            pod_groups=tuple(groups),
            kai_topologies=(KaiTopology("t", (RACK,)),),
            now=NOW,
        )
    )
    first, second = (explain(index, group.ref) for group in groups[2:])
    assert first
    assert second
    assert [reason.text for reason in first.reasons] == [
        "KAI should choose n1 and wait until 1 pod there has ended: it already counts its room as free"
    ]
    assert [own.next for own in first.line] == ["waits"]
    assert (second.reasons, [own.words for own in second.line]) == (
        (),
        ["position 2 of 2 in queue a; KAI should place it next in r2"],
    )


@pytest.mark.parametrize(("topology", "ids"), [("", ["NoDomainFits"]), ("t", [])])
def test_topologies_that_are_not_among_the_files_matter_only_beside_constraints(
    topology: str, ids: list[str]
) -> None:
    asks = Shape(((GPU, 8000), ("pods", 1000)))
    pods = [
        Pod(
            "ns",
            name,
            name,
            node=node,
            scheduler=KAI_SCHEDULER,
            shape=asks,
            phase=phase,
            group=name,
        )
        for name, node, phase in (("runs", "n1", "Running"), ("waits", "", "Pending"))
    ]
    groups = [
        KaiPodGroup("ns", name, queue="a", topology=topology, created=float(number))
        for number, name in enumerate(("runs", "waits"))
    ]
    known = Snapshot(
        nodes=(Node("n1", {}, {GPU: 8000, "pods": 110_000}),),
        queues=(Queue("root"), Queue("a", "root")),
        pods=tuple(pods),
        pod_groups=tuple(groups),
        skipped=frozenset({"kai_topologies"}),
        now=NOW,
    )
    answer = explain(Index(known), groups[1].ref)
    assert answer
    assert [reason.id for reason in answer.reasons] == ids

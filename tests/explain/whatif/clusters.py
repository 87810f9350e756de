"""Small random clusters, and edits of them."""

import random

from msgspec.structs import replace

from app.explain.answers.whatif.edits import Addition, Drain, Labelling, Supposition
from app.explain.state.snapshot import Snapshot
from app.facts.constraint import SchedulerConstraint
from app.facts.kai.podgroup import KaiPodGroup, SubGroup
from app.facts.kai.queue import Queue
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod
from tests.explain.fleet import GPU, HOST, NOW, RACK, ZONE, design, shape

NAMESPACE = "lab"
RACKS = (("zone-a", "a1"), ("zone-a", "a2"), ("zone-b", "b1"))


def cluster(source: random.Random) -> Snapshot:
    """Up to six nodes, and up to four gangs, of which some have places and some wait."""
    nodes = [_node(source, number) for number in range(source.randint(3, 6))]
    free = {node.name: node.allocatable[GPU] // 1000 for node in nodes}
    groups: list[KaiPodGroup] = []
    pods: list[Pod] = []
    for number in range(source.randint(1, 4)):
        group, own = _gang(source, number)
        if source.random() < 0.7:
            own = _placed(source, own, nodes, free)
        groups.append(group)
        pods += own
    return Snapshot(
        **design(),
        nodes=tuple(nodes),
        pods=tuple(pods),
        pod_groups=tuple(groups),
        queues=(Queue("root"), Queue("team", "root")),
        now=NOW,
    )


def _node(source: random.Random, number: int) -> Node:
    name = f"n{number}"
    zone, rack = source.choice(RACKS)
    labels = {ZONE: zone, RACK: rack, HOST: name}
    if source.random() < 0.1:
        del labels[RACK]
    gpus = source.choice((2, 4, 8))
    allocatable = {"cpu": 64_000, "memory": 2**40, "pods": 110_000, GPU: gpus * 1000}
    return Node(name, labels, allocatable, unschedulable=source.random() < 0.1, ready=True)


def _gang(source: random.Random, number: int) -> tuple[KaiPodGroup, list[Pod]]:
    name = f"gang-{number}"
    told = [
        SchedulerConstraint(),
        SchedulerConstraint(),
        SchedulerConstraint(RACK),
        SchedulerConstraint(RACK, HOST),
        SchedulerConstraint(ZONE, RACK),
        SchedulerConstraint(ZONE),
        SchedulerConstraint(HOST),
    ]
    subgroups = []
    pods: list[Pod] = []
    for part in range(source.randint(1, 2)):
        count = source.randint(1, 2)
        sub = f"part-{part}"
        subgroups.append(SubGroup(sub, "", source.randint(1, count), told=source.choice(told[:5])))
        gpus = source.choice((1, 1, 2, 3, 4))
        pods += [_pod(name, sub, number, gpus, len(pods) + at) for at in range(count)]

    group = KaiPodGroup(
        NAMESPACE,
        name,
        uid=f"uid-{name}",
        minimum=sum(sub.minimum for sub in subgroups),
        queue="team",
        topology="grove-topology",
        told=source.choice(told),
        subgroups=tuple(subgroups),
        created=NOW - 1000 + number,
    )
    return group, pods


def _pod(group: str, subgroup: str, age: int, gpus: int, number: int) -> Pod:
    return Pod(
        NAMESPACE,
        f"{group}-{number}",
        uid=f"uid-{group}-{number}",
        scheduler="kai-scheduler",
        shape=shape(gpus),
        group=group,
        subgroup=subgroup,
        created=NOW - 1000 + age,
    )


def _placed(
    source: random.Random, pods: list[Pod], nodes: list[Node], free: dict[str, int]
) -> list[Pod]:
    """The pods on nodes with room, whatever they require; as they are if there is none."""
    names: list[str] = []
    left = dict(free)
    for pod in pods:
        gpus = dict(pod.shape.requests)[GPU] // 1000
        takers = [node.name for node in nodes if left[node.name] >= gpus]
        if not takers:
            return pods
        names.append(source.choice(takers))
        left[names[-1]] -= gpus
    free.update(left)
    return [replace(pod, node=name, phase="Running") for pod, name in zip(pods, names, strict=True)]


def edits(source: random.Random, facts: Snapshot) -> list[Supposition]:
    """One or two edits of a cluster, labels last: what is drained is as it was made."""
    chosen = [_edit(source, facts) for _ in range(source.randint(1, 2))]
    return sorted(chosen, key=lambda edit: isinstance(edit, Labelling))


def _edit(source: random.Random, facts: Snapshot) -> Supposition:
    node = source.choice(facts.nodes)
    choice = source.random()
    if choice < 0.5:
        targets = [node.name]
        if RACK in node.labels:
            targets.append(f"rack={node.labels[RACK]}")
        return Drain((source.choice(targets),))
    if choice < 0.8:
        return Addition(source.randint(1, 2), node.name)
    zone, rack = source.choice(RACKS)
    return Labelling((node.name,), ((ZONE, zone), (RACK, rack)))

"""What becomes of gangs, found by trying every node for every pod: an oracle for tests.

It knows nothing of the code that it judges: only facts, and what a required level means.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from app.explain.state.snapshot import Snapshot
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod
from tests.explain.fleet import GPU, KEYS

Key = tuple[str, str]


@dataclass(frozen=True)
class Job:
    """Pods that need a node, beside those of their gang that stay; some pods leave their nodes."""

    group: KaiPodGroup
    pods: tuple[Pod, ...]
    staying: tuple[Pod, ...] = ()
    leaving: tuple[Pod, ...] = ()


def fates(facts: Snapshot, moved: Iterable[Key]) -> list[tuple[str, str]]:
    """The name of each gang that moves or waits, in order, with what becomes of it."""
    gone = set(moved)
    moving = [
        group for group in facts.pod_groups if gone & {_key(pod) for pod in _of(facts, group)}
    ]
    waiting = [
        group
        for group in facts.pod_groups
        if group not in moving and any(not pod.node for pod in _of(facts, group))
    ]
    chosen: list[Job] = []
    answer = []
    for group in moving:
        answer.append((group.name, _choose(facts, chosen, _choices(facts, group, gone))))
    for group in waiting:
        job = _minimum(facts, group)
        answer.append((group.name, _choose(facts, chosen, [("placed", job)], "waits")))
    return answer


def _choose(
    facts: Snapshot, chosen: list[Job], choices: list[tuple[str, Job]], otherwise: str = "breaks"
) -> str:
    for how, job in choices:
        if fits(facts, [*chosen, job]):
            chosen.append(job)
            return how
    return otherwise


def _choices(facts: Snapshot, group: KaiPodGroup, gone: set[Key]) -> list[tuple[str, Job]]:
    pods = _of(facts, group)
    lost = tuple(pod for pod in pods if _key(pod) in gone)
    staying = tuple(pod for pod in pods if pod.node)
    choices = [("fits", Job(group, lost, staying))]
    if staying:
        choices.append(("restarts", Job(group, (*lost, *staying), (), staying)))

    needed: list[Pod] = []
    for sub in group.subgroups:
        has = sum(1 for pod in staying if pod.subgroup == sub.name)
        own = [pod for pod in lost if pod.subgroup == sub.name]
        needed += own[: max(0, sub.minimum - has)]
    return [*choices, ("shrinks", Job(group, tuple(needed), staying))]


def _minimum(facts: Snapshot, group: KaiPodGroup) -> Job:
    pods = _of(facts, group)
    needed: list[Pod] = []
    for sub in group.subgroups:
        needed += [pod for pod in pods if pod.subgroup == sub.name][: sub.minimum]
    return Job(group, tuple(needed))


def _of(facts: Snapshot, group: KaiPodGroup) -> list[Pod]:
    return [pod for pod in facts.pods if pod.group == group.name]


def _key(pod: Pod) -> Key:
    return pod.namespace, pod.name


def fits(facts: Snapshot, jobs: list[Job]) -> bool:
    """Whether all jobs have a placement at once."""
    leaving = {_key(pod) for job in jobs for pod in job.leaving}
    free = {node.name: node.allocatable[GPU] for node in facts.nodes}
    for pod in facts.pods:
        if pod.node and _key(pod) not in leaving:
            free[pod.node] -= _gpus(pod)
    nodes = {node.name: node for node in facts.nodes}
    return _place(jobs, 0, 0, free, nodes, {})


def _place(
    jobs: list[Job],
    number: int,
    at: int,
    free: dict[str, int],
    nodes: Mapping[str, Node],
    chosen: dict[Key, str],
) -> bool:
    """Try every node for the next pod."""
    if number == len(jobs):
        return True
    job = jobs[number]
    if at == len(job.pods):
        return _is_allowed(job, nodes, chosen) and _place(jobs, number + 1, 0, free, nodes, chosen)

    pod = job.pods[at]
    for node in nodes.values():
        if free[node.name] < _gpus(pod) or node.unschedulable:
            continue
        free[node.name] -= _gpus(pod)
        chosen[_key(pod)] = node.name
        is_placed = _place(jobs, number, at + 1, free, nodes, chosen)
        free[node.name] += _gpus(pod)
        del chosen[_key(pod)]
        if is_placed:
            return True
    return False


def _gpus(pod: Pod) -> int:
    return dict(pod.shape.requests)[GPU]


def _is_allowed(job: Job, nodes: Mapping[str, Node], chosen: Mapping[Key, str]) -> bool:
    """Whether every required level is kept, and constrained pods are on nodes with all labels."""
    parts: list[tuple[str, bool, list[Pod], list[Pod]]] = []
    told = job.group.told
    parts.append((told.required, bool(told), list(job.pods), list(job.staying)))
    for sub in job.group.subgroups:
        new = [pod for pod in job.pods if pod.subgroup == sub.name]
        old = [pod for pod in job.staying if pod.subgroup == sub.name]
        parts.append((sub.told.required, bool(sub.told), new, old))
    return all(_is_kept(part, nodes, chosen) for part in parts)


def _is_kept(
    part: tuple[str, bool, list[Pod], list[Pod]],
    nodes: Mapping[str, Node],
    chosen: Mapping[Key, str],
) -> bool:
    required, constrained, new, old = part
    if not constrained or not new:
        return True
    paths = [_path(nodes[chosen[_key(pod)]]) for pod in new]
    if not all(len(path) == len(KEYS) for path in paths):
        return False
    if not required:
        return True

    depth = KEYS.index(required) + 1
    domains = {path[:depth] for path in paths}
    homes = {path[:depth] for path in _paths(old, nodes) if len(path) == len(KEYS)}
    return len(domains) == 1 and (not old or domains <= homes)


def _paths(pods: Iterable[Pod], nodes: Mapping[str, Node]) -> Iterator[tuple[str, ...]]:
    for pod in pods:
        yield _path(nodes[pod.node])


def _path(node: Node) -> tuple[str, ...]:
    return tuple(node.labels[key] for key in KEYS if key in node.labels)

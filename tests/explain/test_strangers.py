"""Situations that people have reported in public, rebuilt with few objects.

Each case names what the answer must say first, what helps, and what would be false.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import Answer, explain
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.identity import Ref
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.pod import Pod
from app.facts.nvidia.computedomain import ComputeDomain
from tests.explain.fleet import NAMESPACE, NOW, cliques, facts, nodes, occupant, pods, shape
from tests.explain.fleet import answer as of_set

FOUR = tuple(nodes()[:4])
LACKS = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."


def made(kind: str, name: str, number: int, **more: Any) -> Pod:
    """A pod with 8 GPUs of a workload."""
    ref = Ref(kind, NAMESPACE, name)
    values: dict[str, Any] = {
        "uid": f"uid-{name}-{number}",
        "owner": f"uid-{name}",
        "controller": ref,
        "made_for": (ref,),
        "shape": shape(8),
        "created": NOW - 1800,
    }
    return Pod(NAMESPACE, f"{name}-{number}", **{**values, **more})


def on(node: str) -> dict[str, Any]:
    return {"node": node, "phase": "Running"}


def told(ref: Ref, *pods: Pod, **more: Any) -> Answer:
    answer = explain(Index(Snapshot(pods=pods, **{"nodes": FOUR, "now": NOW, **more})), ref)
    assert answer
    return answer


def half(kind: str, name: str, *on_nodes: str) -> tuple[Pod, ...]:
    """A workload of four pods, some of which have a node."""
    placed = [made(kind, name, at, **on(node)) for at, node in enumerate(on_nodes)]
    said = {"unscheduled": LACKS, "said_at": NOW - 60}
    waiting = [made(kind, name, at, **said) for at in range(len(placed), 4)]
    return (*placed, *waiting)


# Pods that hold the room.


def test_two_jobs_that_hold_half_each_wait_for_each_other() -> None:
    pods = (
        *half("PyTorchJob", "a", "gpu-00", "gpu-01"),
        *half("PyTorchJob", "b", "gpu-02", "gpu-03"),
    )
    first = told(Ref("PyTorchJob", NAMESPACE, "a"), *pods).reasons[0]
    assert first.id == "NoDomainFits"
    assert first.remedy.startswith("Delete or suspend one of PyTorchJob a and PyTorchJob b: each")
    assert "Wait until" not in first.remedy


@pytest.mark.parametrize(
    "holders",
    [
        pytest.param(half("Job", "b", "gpu-02", "gpu-03"), id="pods that need no others"),
        pytest.param(
            tuple(made("PyTorchJob", "b", at, **on(f"gpu-0{at + 2}")) for at in range(2)),
            id="a complete job",
        ),
    ],
)
def test_the_room_of_pods_that_end_is_waited_for_without_that_of_the_own_workload(
    holders: tuple[Pod, ...],
) -> None:
    pods = (*half("PyTorchJob", "a", "gpu-00", "gpu-01"), *holders)
    first = told(Ref("PyTorchJob", NAMESPACE, "a"), *pods).reasons[0]
    assert first.remedy.startswith(f"Wait until {holders[0].controller} (2 pods")
    assert "PyTorchJob a" not in first.remedy


# Followers that JobSet creates once their leader has a node.


@pytest.mark.parametrize(
    "words",
    [
        "leader pod not yet scheduled, not creating follower pod",
        "follower pod node selector not set",
    ],
)
def test_followers_without_a_leader_follow_from_why_the_leader_has_no_node(words: str) -> None:
    leader = made("JobSet", "sim", 0, unscheduled=LACKS, said_at=NOW - 60)
    job = Ref("Job", NAMESPACE, "sim-w-0")
    event = Event("uid-sim", "FailedCreate", words, NOW - 60, "job-controller", job, True)
    held = [occupant(node.name, created=NOW - 9000) for node in FOUR]
    answer = told(Ref("JobSet", NAMESPACE, "sim"), leader, *held, events=(event,))
    assert [reason.id for reason in answer.reasons] == [
        "NoDomainFits", "SchedulerRefuses", "PodsNotCreated",
    ]  # fmt: skip
    last = answer.reasons[-1]
    assert last.follows
    assert last.text.endswith("JobSet creates the followers once their leader has a node")


# Pods that the kubelet has rejected.


def rejected(**more: Any) -> Pod:
    failure = "UnexpectedAdmissionError: no GPU device allocation"
    values = {"phase": "Failed", "failure": failure, "node": "gpu-00", **more}
    return made("RayCluster", "ray", 1, **values)


HEAD = made("RayCluster", "ray", 0, shape=shape(0), **on("gpu-00"))
RAY = Ref("RayCluster", NAMESPACE, "ray")


def test_a_worker_that_was_rejected_and_not_replaced_is_told_although_the_rest_runs() -> None:
    answer = told(RAY, HEAD, rejected())
    assert [(reason.id, reason.severity) for reason in answer.reasons] == [
        ("KubeletRefuses", "warning")
    ]
    assert answer.headline == "ray is placed, with remarks: 1 of 1 pod placed"


@pytest.mark.parametrize(
    "others",
    [
        pytest.param(
            (rejected(), made("RayCluster", "ray", 2, created=NOW - 600, **on("gpu-01"))),
            id="it was replaced",
        ),
        pytest.param((rejected(created=NOW - 9000),), id="it was rejected long ago"),
        pytest.param((), id="nothing was rejected"),
    ],
)
def test_a_workload_whose_pods_were_replaced_is_placed(others: tuple[Pod, ...]) -> None:
    assert told(RAY, HEAD, *others).reasons == ()


def test_a_pod_that_was_rejected_is_not_placed() -> None:
    pod = rejected(owner="", controller=None, made_for=(), created=NOW - 90000)
    answer = told(pod.ref, pod)
    assert [(reason.id, reason.severity) for reason in answer.reasons] == [
        ("KubeletRefuses", "problem")
    ]
    assert answer.headline == "ray-1 has ended (Failed)"
    assert answer.tree.words == "ended (Failed)"


# Messages of schedulers, with and without room.


AFFINITY = "0/4 nodes are available: 1 node(s) didn't match pod affinity rules, 3 Insufficient x."


@pytest.mark.parametrize(
    ("is_full", "remedy"),
    [
        pytest.param(False, "Correct podAffinity in the pod template", id="with room"),
        pytest.param(True, "Request less x per pod", id="without room"),
    ],
)
def test_a_missing_resource_is_no_cause_where_nodes_have_room(is_full: bool, remedy: str) -> None:
    pod = made("Job", "j", 0, unscheduled=AFFINITY, said_at=NOW - 60)
    held = [occupant(node.name) for node in FOUR] if is_full else []
    reasons = told(pod.ref, pod, *held).reasons
    [refuses] = [reason for reason in reasons if reason.id == "SchedulerRefuses"]
    assert refuses.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("3 node(s) didn't satisfy existing pods anti-affinity rules", "Scale down the workload"),
        (
            'running Score plugins: plugin "DynamicResources" failed with: number of allocations',
            "Ask the platform team to read the log of the scheduler",
        ),
        ("pod group is not ready, 1 Running, 3 minAvailable", "Find out why the other pods"),
    ],
)
def test_what_helps_depends_on_the_scheduler_s_words(words: str, remedy: str) -> None:
    pod = made("Job", "j", 0, unscheduled=words, said_at=NOW - 60)
    assert told(pod.ref, pod).reasons[0].remedy.startswith(remedy)


# What cannot exist, and what nobody uses.


def test_a_clique_that_was_scaled_to_zero_is_told_once() -> None:
    router, workers = cliques()
    snapshot = facts(cliques=(router, replace(workers, replicas=0)), pods=pods()[:1])
    reasons = of_set(snapshot).reasons
    assert {reason.id for reason in reasons} == {"MinAboveReplicas"}
    assert reasons[0].remedy == ("Set replicas to at least 3; an autoscaler must not go below that")


def test_a_domain_that_no_pod_uses_says_what_makes_it_ready() -> None:
    domain = ComputeDomain(NAMESPACE, "cd", "uid-cd", 2, "channel", False)
    answer = told(domain.ref, compute_domains=(domain,))
    assert answer.headline == (
        "No pod uses cd: its nodes become ready once pods with claim template channel have nodes"
    )

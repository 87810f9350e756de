"""Workers that do not exist yet, because their leader is not ready.

Tests `app/explain/reasons/startup_order.py`.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from app.explain.answers.answer import Answer, explain
from app.explain.answers.pending import waiting_alone
from app.explain.reasons.startup_order import workers_to_come
from app.explain.state.index import Index
from app.explain.state.read import facts_of
from app.facts.identity import Ref
from app.facts.kubernetes.pod import Leader, Pod, read_pod
from app.objects.shape import Object

NOW = 1_800_000_000.0
LATE, NEW = "2027-01-15T07:50:00Z", "2027-01-15T07:59:30Z"
VLLM = Ref("LeaderWorkerSet", "ml", "vllm")
_PREFIX = "leaderworkerset.sigs.k8s.io"


def node(name: str) -> Object:
    gpus = {"cpu": "64", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    ready = {"type": "Ready", "status": "True"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": gpus, "conditions": [ready]},
    }


def member(
    worker: int,
    annotations: Mapping[str, str] = MappingProxyType({f"{_PREFIX}/size": "4"}),
    *,
    group: int = 0,
    ready: bool = False,
    created: str = LATE,
) -> Object:
    name = f"vllm-{group}" + (f"-{worker}" if worker else "")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"uid-{name}",
            "creationTimestamp": created,
            "labels": {
                f"{_PREFIX}/name": "vllm",
                f"{_PREFIX}/group-index": str(group),
                f"{_PREFIX}/worker-index": str(worker),
            },
            "annotations": {**annotations},
        },
        "spec": {"nodeName": "n0", "containers": [{"name": "main"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def lws(policy: str = "", size: int = 4) -> Object:
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "vllm", "namespace": "ml", "uid": "uid-lws"},
        "spec": {"leaderWorkerTemplate": {"size": size}}
        | ({"startupPolicy": policy} if policy else {}),
    }


def answered(*documents: Object, ref: Ref = VLLM) -> Answer:
    answer = explain(Index(facts_of([node("n0"), *documents], NOW)), ref)
    assert answer
    return answer


def test_a_set_waits_for_a_leader_that_is_not_ready() -> None:
    answer = answered(lws("LeaderReady"), member(0))
    assert (answer.state, answer.exit_code) == ("waits", 1)
    assert answer.headline.startswith("vllm is pending: 1 of 1 pod placed, 3 pods not created")
    [reason] = answer.reasons
    assert reason.id == "PodsMissing"
    assert "vllm-0 is not ready, and its 3 workers do not exist" in reason.text
    assert "(startupPolicy: LeaderReady)" in reason.text
    assert reason.commands == ("kubectl describe pod -n ml vllm-0", "kubectl logs -n ml vllm-0")


def test_leaders_of_several_groups_have_one_reason() -> None:
    answer = answered(lws("LeaderReady"), member(0), member(0, group=1))
    assert "2 of 2 pods placed, 6 pods not created yet" in answer.headline
    [reason] = answer.reasons
    text = "vllm-0 and vllm-1 are not ready, and their 6 workers do not exist"
    assert reason.text.startswith(text)


@pytest.mark.parametrize(
    ("documents", "workers"),
    [
        ([lws("LeaderReady"), member(0)], 3),
        ([lws("LeaderReady"), member(0, created=NEW)], 3),
        ([lws("LeaderReady", size=2), member(0, {f"{_PREFIX}/size": ""})], 1),
        ([lws("LeaderReady", size=1), member(0, {f"{_PREFIX}/size": "1"})], 0),
        ([lws("LeaderReady"), member(0), member(2)], 0),
        ([member(0)], 3),
        ([member(0, created=NEW)], 0),
        ([lws(), member(0, created=NEW)], 0),
        ([lws(), member(0)], 3),
        ([lws("LeaderReady"), member(0, ready=True, created=NEW)], 0),
        ([lws("LeaderReady"), member(0, ready=True)], 3),
    ],
)
def test_the_workers_that_a_leader_waits_for(documents: list[Object], workers: int) -> None:
    index = Index(facts_of(documents, NOW))
    leader = index.pods["ml", "vllm-0"]
    assert workers_to_come(index, leader) == workers
    assert bool(waiting_alone(index)) is bool(workers)


def test_the_policy_is_not_claimed_if_it_was_not_read() -> None:
    [reason] = answered(member(0), ref=Ref("Pod", "ml", "vllm-0")).reasons
    assert reason.text.endswith("if its startupPolicy is LeaderReady")


def test_a_group_whose_kai_minimum_counts_the_workers_has_one_reason() -> None:
    """KAI's pod-grouper raises minMember to the size of the group once the leader has a node."""
    group: dict[str, Any] = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "pg", "namespace": "ml"},
        "spec": {"minMember": 4, "queue": "team"},
    }
    leader = member(0, {"pod-group-name": "pg"})
    leader["spec"]["schedulerName"] = "kai-scheduler"
    answer = answered(lws("LeaderReady"), group, leader)
    assert answer.headline.startswith("vllm is pending: 1 of 4 pods placed")
    assert [reason.id for reason in answer.reasons][:1] == ["PodsMissing"]
    assert "GangIncomplete" not in {reason.id for reason in answer.reasons}


def test_only_a_leader_leads() -> None:
    assert read_pod(member(0, ready=True)).leads == Leader(4, ready=True)
    assert read_pod(member(0, {f"{_PREFIX}/size": "x"})).leads == Leader(0, ready=False)
    assert read_pod(member(1)).leads is None


def of_stateful_set(number: int, name: str = "web") -> Object:
    made = member(0, {})
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "controller": True}
    made["metadata"] |= {"name": f"{name}-{number}", "labels": {}, "ownerReferences": [owner]}
    return made


def stateful_set(replicas: int, **spec: str) -> Object:
    metadata = {"name": "web", "namespace": "ml"}
    spec_of_set = {"replicas": replicas, **spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata,
        "spec": spec_of_set,
    }


def test_a_workload_whose_controller_creates_pods_in_steps_is_placed() -> None:
    """Only its controller knows whether more pods are to come."""
    pods = [of_stateful_set(number) for number in (0, 1)]
    answer = answered(stateful_set(12), *pods, ref=Ref("StatefulSet", "ml", "web"))
    assert (answer.state, answer.reasons) == ("well", ())


class Pods(tuple[Pod, ...]):
    """Pods that count how often they are listed."""

    lists = 0

    def __iter__(self) -> Iterator[Pod]:
        type(self).lists += 1
        return super().__iter__()


def test_the_pods_of_a_set_are_listed_once_for_all_leaders() -> None:
    leaders = [member(0, group=group) for group in range(50)]
    index = Index(facts_of([node("n0"), *leaders], NOW))
    pods = index.pods_made_for[VLLM]
    vars(index)["pods_made_for"] = {VLLM: Pods(pods)}
    assert [workers_to_come(index, pod) for pod in pods] == [3] * 50
    assert Pods.lists == 1


def test_the_state_of_a_leader_that_crashes_is_told_at_once() -> None:
    crashes = member(0)
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    crashes["status"]["containerStatuses"] = [
        {"name": "main", "restartCount": 9, "state": waiting},
    ]
    first = answered(lws("LeaderReady"), crashes).reasons[0]
    assert first.text.endswith(" In vllm-0, container main is in CrashLoopBackOff (9 restarts)")


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "LeaderWorkerSet"])
def test_a_workload_that_was_scaled_to_zero_waits_for_nothing(kind: str) -> None:
    version = "leaderworkerset.x-k8s.io/v1" if kind == "LeaderWorkerSet" else "apps/v1"
    stored = {**stateful_set(0), "apiVersion": version, "kind": kind}
    answer = answered(stored, ref=Ref(kind, "ml", "web"))
    assert answer.headline == "web has no replicas, so there is nothing to place"
    assert (answer.state, answer.exit_code, answer.outlook) == ("well", 0, "")
    one = {**stateful_set(1), "apiVersion": version, "kind": kind}
    assert answered(one, ref=Ref(kind, "ml", "web")).state == "waits"


def test_a_paused_deployment_creates_no_pods() -> None:
    stored = {**stateful_set(2), "kind": "Deployment"}
    stored["spec"] = {**stored["spec"], "paused": True}
    ref = Ref("Deployment", "ml", "web")
    [reason] = answered(stored, ref=ref).reasons
    assert (reason.id, reason.remedy) == (
        "WorkloadSuspended",
        "Set spec.paused of Deployment web to false",
    )
    rolled_out = {"deployment.kubernetes.io/revision": "1"}  # its ReplicaSet is still scaled
    running = {**stored, "metadata": {**stored["metadata"], "annotations": rolled_out}}
    assert "WorkloadSuspended" not in {reason.id for reason in answered(running, ref=ref).reasons}


def test_kai_does_not_decide_on_a_workload_without_pods() -> None:
    other = {"kind": "Pod", "metadata": {"name": "other", "namespace": "ml"}}
    command = "kubectl describe statefulset web -n ml"
    ref = Ref("StatefulSet", "ml", "web")
    assert answered(stateful_set(1), other, ref=ref).outlook == (
        "Its controller has created no pods yet. If it creates none within a minute, find out why:"
        f" {command}"
    )
    without_pods = answered(stateful_set(1), ref=ref)
    assert without_pods.outlook == f"If it has no pods, find out why: {command}"


@pytest.mark.parametrize(
    ("version", "kind", "spec", "headline"),
    [
        (
            "grove.io/v1alpha1",
            "PodCliqueSet",
            {"template": {}},
            "It is not known whether a has pods",
        ),
        (
            "grove.io/v1alpha1",
            "PodCliqueSet",
            {"replicas": 0},
            "a has no replicas, so there is nothing to place",
        ),
        ("resource.k8s.io/v1", "ResourceClaim", {}, "It is not known whether a pod uses a"),
    ],
)
def test_a_file_without_pods_leaves_open_whether_there_are_pods(
    version: str, kind: str, spec: Object, headline: str
) -> None:
    metadata = {"name": "a", "namespace": "ml"}
    document = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
    answer = explain(Index(facts_of([document], NOW)), Ref(kind, "ml", "a"))
    assert answer
    assert answer.headline == headline
    assert answer.exit_code == (0 if "replicas" in spec else 2)

"""Pods that do not exist yet, because their workload creates them after others.

Tests `app/explain/reasons/startup_order.py`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from app.explain.answers.answer import Answer, explain
from app.explain.answers.pending import waiting_alone
from app.explain.reasons.startup_order import workers_to_come
from app.explain.state.index import Index
from app.explain.state.read import facts_of
from app.facts.identity import Ref
from app.facts.kubernetes.pod import Leader, read_pod
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


def test_a_stateful_set_creates_one_pod_after_the_other() -> None:
    pods = [of_stateful_set(number) for number in (0, 1)]
    answer = answered(stateful_set(12), *pods, ref=Ref("StatefulSet", "ml", "web"))
    assert answer.headline.startswith("web is pending: 2 of 2 pods placed, 10 pods not created yet")
    [reason] = answer.reasons
    assert reason.text == (
        "StatefulSet web has 2 of 12 pods. It creates the next one only once web-1 is ready"
        " (podManagementPolicy: OrderedReady)"
    )


@pytest.mark.parametrize(
    "stored",
    [
        stateful_set(2),
        stateful_set(2, podManagementPolicy="Parallel"),
        stateful_set(0),
    ],
)
def test_a_stateful_set_with_its_pods_is_placed(stored: Object) -> None:
    pods = [of_stateful_set(number) for number in (0, 1)]
    answer = answered(stored, *pods, ref=Ref("StatefulSet", "ml", "web"))
    assert (answer.state, answer.reasons) == ("well", ())


def test_a_pending_pod_is_explained_before_later_ones() -> None:
    waiting = of_stateful_set(1)
    del waiting["spec"]["nodeName"]
    waiting["status"] = {"phase": "Pending"}
    pods = [of_stateful_set(0), waiting]
    answer = answered(stateful_set(12), *pods, ref=Ref("StatefulSet", "ml", "web"))
    assert "PodsMissing" not in {reason.id for reason in answer.reasons}
    assert "not created" not in answer.headline


def job_set(*jobs: Object, **spec: Any) -> Object:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "sim", "namespace": "ml"},
        "spec": {"replicatedJobs": list(jobs), **spec},
    }


def replicated(name: str, pods: int = 1, **more: Any) -> Object:
    return {"name": name, "replicas": 1, "template": {"spec": {"parallelism": pods}}, **more}


def of_job_set(job: str) -> Object:
    made = member(0, {})
    labels = {"jobset.sigs.k8s.io/jobset-name": "sim"}
    made["metadata"] |= {"name": f"sim-{job}-0-0-x", "uid": f"uid-{job}", "labels": labels}
    return made


AFTER = {"dependsOn": [{"name": "driver", "status": "Complete"}]}


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        (
            job_set(replicated("driver"), replicated("workers", 3, **AFTER)),
            "JobSet sim has none of the 3 pods of workers yet: it creates them only once driver is"
            " complete (dependsOn)",
        ),
        (
            job_set(
                replicated("driver"),
                replicated("workers", 3),
                startupPolicy={"startupPolicyOrder": "InOrder"},
            ),
            "JobSet sim has none of the 3 pods of workers yet: it creates them only once driver is"
            " ready (startupPolicyOrder: InOrder)",
        ),
    ],
)
def test_a_job_set_creates_jobs_after_others(stored: Object, told: str) -> None:
    of_set = Ref("JobSet", "ml", "sim")
    answer = answered(stored, of_job_set("driver"), ref=of_set)
    assert "3 pods not created yet" in answer.headline
    [reason] = answer.reasons
    assert reason.text == told
    both = answered(stored, of_job_set("driver"), of_job_set("workers"), ref=of_set)
    assert both.reasons == ()


@pytest.mark.parametrize(
    "stored",
    [
        job_set(replicated("driver"), replicated("workers", 3)),
        job_set(replicated("driver"), replicated("workers", 3, **AFTER), suspend=True),
    ],
)
def test_other_job_sets_wait_for_nothing(stored: Object) -> None:
    answer = answered(stored, of_job_set("driver"), ref=Ref("JobSet", "ml", "sim"))
    assert "PodsMissing" not in {reason.id for reason in answer.reasons}


def of_deployment(created: str) -> Object:
    made = member(0, {}, created=created)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6f9c7", "controller": True}
    labels = {"pod-template-hash": "6f9c7"}
    made["metadata"] |= {"name": "web-6f9c7-a", "labels": labels, "ownerReferences": [owner]}
    return made


@pytest.mark.parametrize(
    ("kind", "pod", "told"),
    [
        ("Deployment", of_deployment(LATE), ["Deployment web has 1 of 3 pods"]),
        ("Deployment", of_deployment(NEW), []),
        ("StatefulSet", of_stateful_set(0), ["StatefulSet web has 1 of 3 pods"]),
    ],
)
def test_pods_that_are_created_at_once_are_late(kind: str, pod: Object, told: list[str]) -> None:
    """Events that would say why are kept for an hour."""
    stored = {**stateful_set(3, podManagementPolicy="Parallel"), "kind": kind}
    answer = answered(stored, pod, ref=Ref(kind, "ml", "web"))
    assert [reason.text for reason in answer.reasons] == told
    assert ("2 pods not created yet" in answer.headline) is bool(told)


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


def test_groups_of_a_leaderworkerset_are_counted_by_their_leaders() -> None:
    stored = lws()
    stored["spec"]["replicas"] = 3
    answer = answered(stored, member(0), member(1), member(0, group=1), member(1, group=1))
    assert "4 pods not created yet" in answer.headline
    assert [reason.text for reason in answer.reasons] == ["LeaderWorkerSet vllm has 2 of 3 groups"]


def test_a_paused_deployment_creates_no_pods() -> None:
    stored = {**stateful_set(2), "kind": "Deployment"}
    stored["spec"] = {**stored["spec"], "paused": True}
    ref = Ref("Deployment", "ml", "web")
    [reason] = answered(stored, ref=ref).reasons
    assert (reason.id, reason.remedy) == (
        "WorkloadSuspended",
        "Set spec.paused to false to start it",
    )
    running = {**stored, "status": {"replicas": 2}}
    assert "WorkloadSuspended" not in {reason.id for reason in answered(running, ref=ref).reasons}


def test_kai_does_not_decide_on_a_workload_without_pods() -> None:
    answer = answered(stateful_set(1), ref=Ref("StatefulSet", "ml", "web"))
    assert answer.outlook == (
        "Its controller has created no pods yet. If it creates none within a minute, find out why:"
        " kubectl describe statefulset web -n ml"
    )


def test_a_pod_that_is_being_replaced_waits_for_no_other() -> None:
    ref = Ref("StatefulSet", "ml", "web")
    answer = answered(stateful_set(3), of_stateful_set(0), of_stateful_set(2), ref=ref)
    assert [reason.text for reason in answer.reasons] == ["StatefulSet web has 2 of 3 pods"]
    ending = of_stateful_set(1)
    ending["metadata"]["deletionTimestamp"] = NEW
    pods = [of_stateful_set(0), ending, of_stateful_set(2)]
    assert "not created" not in answered(stateful_set(3), *pods, ref=ref).headline

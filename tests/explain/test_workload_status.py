"""Workloads that have ended or are suspended: they are not called pending, or placed.

Tests `app/explain/state/workload_status.py` and `app/explain/reasons/workload_status.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import Answer, explain
from app.explain.state.index import Index
from app.explain.state.read import facts_of, read_list
from app.explain.state.snapshot import ON_REQUEST, Snapshot
from app.facts.identity import Ref
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.workload_status import WorkloadStatus
from app.facts.labels import KAI_SCHEDULER
from tests.explain.fleet import NAMESPACE, NOW
from tests.explain.table.recorded import Asking, whole
from tests.explain.test_read import Cluster
from tests.kube.memory.client import MemoryClient
from tests.said import Said

JOB = Ref("Job", NAMESPACE, "train")
LIMIT = "Job has reached the specified backoff limit"
FAILED = WorkloadStatus(JOB, "Failed", "BackoffLimitExceeded", LIMIT, NOW - 600)


def pod(name: str, phase: str, **more: Any) -> Pod:
    return Pod(NAMESPACE, name, f"uid-{name}", phase=phase, made_for=(JOB,), **more)


@pytest.fixture
def answer(said: Said) -> Asking:
    """Explains the Job beside pods, and compares all that is said with what is recorded."""

    def ask(*pods: Pod, **more: Any) -> Answer:
        explained = explain(Index(Snapshot(pods=pods, now=NOW, **more)), JOB)
        assert explained
        said(whole(explained))
        return explained

    return ask


@pytest.mark.parametrize(
    ("how", "remedy"),
    [
        ("OOMKilled", "Raise limits.memory of container main, because memory ran out, then delete"),
        ("exit code 1", "Read the log of a failed pod, correct the cause, then delete Job train"),
        ("StartError: no such file", "Read the log of a failed pod, correct the cause"),
    ],
)
def test_a_failed_job_is_told_how_its_newest_pod_ended(
    how: str, remedy: str, answer: Asking
) -> None:
    pods = [
        pod("a", "Failed", node="n", created=NOW - 900, ended=("main", how)),
        pod("b", "Failed", node="n", created=NOW - 1800, ended=("main", "exit code 9")),
    ]
    failed = answer(*pods, workload_statuses=(FAILED,)).reasons[0]
    assert failed.text.endswith(f". In pod a, container main ended: {how}")
    assert failed.remedy.startswith(remedy)
    assert failed.commands == (f"kubectl logs -n {NAMESPACE} a",)


TWO_FAILED = (pod("a", "Failed", node="n"), pod("b", "Failed", node="n"))


@pytest.mark.parametrize("pods", [(), TWO_FAILED], ids=["without pods", "with failed pods"])
def test_a_job_that_has_failed_is_neither_pending_nor_placed(
    pods: tuple[Pod, ...], answer: Asking
) -> None:
    told = answer(*pods, workload_statuses=(FAILED,))
    assert told.headline == "train has failed (10 minutes ago)"
    assert (told.state, told.exit_code) == ("problem", 1)
    assert [reason.id for reason in told.reasons] == ["WorkloadFailed"]
    [command] = told.reasons[0].commands
    assert command == (
        f"kubectl logs -n {NAMESPACE} b" if pods else f"kubectl describe job train -n {NAMESPACE}"
    )


def test_an_event_tells_that_a_job_has_failed_if_its_status_was_not_read(answer: Asking) -> None:
    event = Event("u", "BackoffLimitExceeded", LIMIT, NOW - 600, "job-controller", JOB, True)
    assert answer(*TWO_FAILED, events=(event,)).headline == "train has failed (10 minutes ago)"
    assert answer(events=(event,)).headline == "train has failed (10 minutes ago)"
    again = answer(pod("c", "Pending"), events=(event,))
    assert again.headline == "train is pending: 0 of 1 pod placed"


@pytest.mark.parametrize(
    ("how", "remedy"),
    [
        ("OOMKilled", "Raise limits.memory of container main, because memory ran out"),
        ("exit code 1", "Read the log of a failed pod, and correct the cause"),
    ],
)
def test_a_job_creates_another_pod_after_a_failure(how: str, remedy: str, answer: Asking) -> None:
    old = pod("a", "Failed", node="n", created=NOW - 900, ended=("main", "exit code 9"))
    new = pod("b", "Failed", node="n", created=NOW - 300, ended=("main", how))
    known = WorkloadStatus(JOB, replicas=1)
    [reason] = answer(old, new, workload_statuses=(known,)).reasons
    assert (reason.id, reason.severity) == ("WorkloadFailed", "warning")
    assert reason.text.startswith("2 pods of Job train failed. Kubernetes creates another one")
    assert reason.text.endswith(f". In pod b, container main ended: {how}")
    assert reason.remedy == remedy
    assert reason.commands == (f"kubectl logs -n {NAMESPACE} b",)


@pytest.mark.parametrize(
    ("known", "phase"),
    [
        pytest.param(WorkloadStatus(JOB), "Running", id="a pod runs"),
        pytest.param(WorkloadStatus(JOB), "Succeeded", id="none has failed"),
        pytest.param(WorkloadStatus(JOB, suspended="spec.suspend"), "Failed", id="suspended"),
        pytest.param(FAILED, "Failed", id="it has failed for good"),
    ],
)
def test_a_job_does_not_always_create_another_pod(known: WorkloadStatus, phase: str) -> None:
    pods = [pod("b", phase, node="n")] + [pod("a", "Failed", node="n")] * (phase == "Running")
    state = Snapshot(pods=tuple(pods), workload_statuses=(known,), nodes=(Node("n"),), now=NOW)
    told = explain(Index(state), JOB)
    assert told
    assert "Kubernetes creates another" not in "".join(reason.text for reason in told.reasons)


def test_a_job_that_has_completed_is_said_to_have(answer: Asking) -> None:
    done = WorkloadStatus(JOB, "Complete", time=NOW - 600)
    told = answer(pod("a", "Succeeded", node="n"), workload_statuses=(done,))
    assert told.headline == "train has completed (10 minutes ago)"
    assert told.reasons == ()
    assert (told.state, told.exit_code) == ("well", 0)
    without = answer(workload_statuses=(done,))
    assert without.headline == "train has completed (10 minutes ago)"
    assert (without.state, without.exit_code) == ("well", 0)


MPI = Ref("MPIJob", NAMESPACE, "mpi")
OUTER = Ref("TrainJob", NAMESPACE, "mpi")


@pytest.mark.parametrize(
    ("made_for", "statuses", "ended"),
    [
        pytest.param((MPI,), (WorkloadStatus(MPI, "Succeeded"),), True, id="it has"),
        pytest.param((MPI,), (WorkloadStatus(MPI),), False, id="it runs"),
        pytest.param(
            (OUTER, MPI),
            (WorkloadStatus(OUTER), WorkloadStatus(MPI, "Succeeded")),
            False,
            id="what created it runs",
        ),
    ],
)
def test_a_workload_that_has_ended_misses_no_pods(
    made_for: tuple[Ref, ...], statuses: tuple[WorkloadStatus, ...], ended: bool
) -> None:
    """The workers of an MPIJob may still run when its launcher has completed."""
    own = {"group": "pg", "scheduler": KAI_SCHEDULER, "node": "n"}
    pods = tuple(
        replace(pod(name, phase, **own), made_for=made_for)
        for name, phase in (("launcher", "Succeeded"), ("worker", "Running"))
    )
    state = Snapshot(
        pods=pods,
        pod_groups=(KaiPodGroup(NAMESPACE, "pg", minimum=2),),
        workload_statuses=statuses,
        nodes=(Node("n"),),
        now=NOW,
    )
    told = explain(Index(state), MPI)
    assert told
    wrong = {"GangIncomplete", "NeverFits", "NoDomainFits"}
    assert wrong.isdisjoint(reason.id for reason in told.reasons) is ended


@pytest.mark.parametrize(
    ("phases", "code"),
    [(["Succeeded", "Succeeded"], 0), (["Succeeded", "Failed"], 1)],
)
def test_pods_that_have_succeeded_are_neither_pending_nor_wrong(
    phases: list[str], code: int, answer: Asking
) -> None:
    """Exit code 0 means that nothing is pending and nothing is wrong."""
    pods = [pod(str(number), phase, node="n") for number, phase in enumerate(phases)]
    assert answer(*pods).exit_code == code


def test_pods_that_have_all_ended_are_not_placed(answer: Asking) -> None:
    pods = (*TWO_FAILED, pod("c", "Succeeded", node="n"))
    assert answer(*pods).headline == (
        "train has no running or pending pods: 3 pods ended (2 Failed and 1 Succeeded)"
    )
    others = answer(*pods, pod("d", "Running", node="n"))
    assert others.headline.startswith("train is placed")
    assert [reason.text for reason in others.reasons] == [
        "Pod d is on node n, which does not exist any more"
    ]


def test_a_suspended_job_is_pending_and_kueue_is_asked_first(answer: Asking) -> None:
    held = WorkloadStatus(JOB, suspended="spec.suspend")
    told = answer(workload_statuses=(held,))
    assert (told.state, told.headline) == ("waits", "train is pending: it has no pods yet")
    assert [reason.id for reason in told.reasons] == ["WorkloadSuspended"]
    assert told.reasons[0].remedy == "Set spec.suspend of Job train to false"


def job(name: str) -> dict[str, Any]:
    condition = {"type": "Failed", "status": "True", "reason": "r", "message": LIMIT}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": {},
        "status": {"conditions": [condition]},
    }


def test_the_status_is_read_from_files() -> None:
    facts = facts_of([job("train")], NOW)
    told = explain(Index(facts), JOB)
    assert told
    assert told.headline == "train has failed"


async def test_only_the_status_of_the_object_is_read_that_is_asked_about() -> None:
    client = MemoryClient([job("train"), job("other")])
    read = await read_list(client, NAMESPACE, room=True, now=NOW, asked=JOB)
    assert [status.ref for status in read.workload_statuses] == [JOB]
    listed = await read_list(client, NAMESPACE, room=True, now=NOW)
    assert listed.workload_statuses == ()


@pytest.mark.parametrize(
    ("version", "kind", "inner"),
    [("ray.io/v1", "RayJob", "Job"), ("trainer.kubeflow.org/v1alpha1", "TrainJob", "JobSet")],
)
async def test_the_status_of_what_it_creates_with_its_name_is_read_too(
    version: str, kind: str, inner: str
) -> None:
    itself = {**job("train"), "apiVersion": version, "kind": kind}
    made = {**job("train"), "kind": inner}
    made["apiVersion"] = "batch/v1" if inner == "Job" else "jobset.x-k8s.io/v1alpha2"
    served = {resource: resource.versions[0] for resource in ON_REQUEST}
    client = MemoryClient([itself, made, job("other")], served=served)
    asked = Ref(kind, NAMESPACE, "train")
    read = await read_list(client, NAMESPACE, room=True, now=NOW, asked=asked)
    assert [status.ref.kind for status in read.workload_statuses] == [kind, inner]


def test_a_job_without_parallelism_has_nothing_to_place() -> None:
    paused = {**job("train"), "spec": {"parallelism": 0}, "status": {}}
    told = explain(Index(facts_of([paused], NOW)), JOB)
    assert told
    assert told.headline == "train has parallelism 0, so there is nothing to place"
    assert told.state == "well"


async def test_without_the_right_to_list_jobs_it_is_not_known_whether_one_has_failed() -> None:
    snapshot = Snapshot(pods=(pod("a", "Pending"),), now=NOW)
    denied = Cluster(snapshot, denied=[("jobs", NAMESPACE)])
    read = await read_list(denied, NAMESPACE, room=True, now=NOW, asked=JOB)
    assert read.unseen == {"workload_statuses": "no permission to list"}
    index = Index(replace(read, pods=snapshot.pods))
    told = explain(index, JOB)
    assert told
    assert "WorkloadFailed" in {each.id for each in told.unknown}
    assert told.exit_code == 2


def test_pods_without_a_gang_are_told_of_together(answer: Asking) -> None:
    """Their reasons have one count, and one message of a kubelet or scheduler."""
    words = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu"
    waiting = [
        pod(name, "Pending", unscheduled=words, said_at=NOW - 60)
        for name in ("train-0", "train-1", "train-2")
    ]
    never, refuses = answer(*waiting).reasons
    assert (refuses.id, len(refuses.objects)) == ("SchedulerRefuses", 3)
    # Pods that KAI does not place have no node pool.
    assert (never.id, never.text) == ("NeverFits", "The cluster has no nodes")

    late = {"node": "n", "bound": NOW - 600, "waiting": ("ContainerCreating",)}
    starting = [pod(name, "Pending", **late) for name in ("train-0", "train-1", "train-2")]
    said = "Failed to prepare dynamic resources: driver not registered"
    events = tuple(
        Event(f"uid-{name}", "FailedPrepareDynamicResources", said, NOW, "kubelet", warns=True)
        for name in ("train-0", "train-1", "train-2")
    )
    told = answer(*starting, events=events, nodes=(Node("n"),))
    assert [(reason.id, reason.text) for reason in told.reasons] == [
        (
            "KubeletRefuses",
            f"kubelet says: {said} (0 seconds ago). 3 pods have had a node for up to 10 minutes and did"
            " not start",
        )
    ]
    lost = answer(*starting)
    assert [(reason.id, reason.text) for reason in lost.reasons] == [
        ("NodeGone", "3 pods of train are on node n, which does not exist any more")
    ]

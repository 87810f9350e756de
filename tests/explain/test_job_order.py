"""Jobs of a JobSet that wait for others, and launchers that wait for workers.

Tests `app/explain/reasons/startup_order.py`, `app/facts/kubernetes/replicated_jobs.py` and the
suspended Jobs of `app/explain/reasons/workload_status.py`.
"""

from typing import Any

import pytest

from app.explain.answers.answer import Answer, explain
from app.facts.identity import Ref
from app.facts.kubernetes.replicated_jobs import JobDependency, ReplicatedJob, read_replicated_jobs
from tests.explain.table.recorded import whole
from tests.explain.test_workloads import MPI, Object, group, index_of, pod
from tests.said import Said

SET = Ref("JobSet", "ns", "w")
READY = {"type": "Ready", "status": "True"}


def part(name: str, *after: str, jobs: int = 1, pods: int = 1, completions: Any = None) -> Object:
    """A replicatedJob, after others that are given as `NAME=STATUS`."""
    needed = [dict(zip(("name", "status"), each.split("="), strict=True)) for each in after]
    spec = {"parallelism": pods} | ({} if completions is None else {"completions": completions})
    of_job: Object = {"name": name, "replicas": jobs, "template": {"spec": spec}}
    return of_job | ({"dependsOn": needed} if needed else {})


def job_set(*parts: Object, done: Any = None, **spec: Any) -> Object:
    """A JobSet, with counts of Jobs such as `{"init": {"succeeded": 1}}` in its status."""
    status = [{"name": each["name"], **(done or {}).get(each["name"], {})} for each in parts]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "w", "namespace": "ns"},
        "spec": {"replicatedJobs": list(parts), **spec},
        "status": {"replicatedJobsStatus": status},
    }


def of_job(name: str, *, ready: bool = False, **more: Any) -> Object:
    """The pod of the first Job of a replicatedJob."""
    job = f"w-{name}-0"
    labels = {"jobset.sigs.k8s.io/jobset-name": "w", "batch.kubernetes.io/job-name": job}
    made = pod(f"{job}-0-x", labels, controller=f"Job/{job}", **more)
    made["status"]["conditions"] = [READY] if ready else []
    return made


RUNS: Any = {"node": "n0", "phase": "Running"}
INIT, NODE = part("init"), part("node", "init=Complete", jobs=2, pods=4)


def answered(*objects: Object, ref: Ref = SET) -> Answer:
    answer = explain(index_of(*objects), ref)
    assert answer
    return answer


def text_of(*objects: Object) -> str:
    [reason] = [each for each in answered(*objects).reasons if each.id == "PodsMissing"]
    return reason.text


def test_jobs_wait_until_a_job_has_completed(said: Said) -> None:
    answer = answered(job_set(INIT, NODE), of_job("init", ready=True, **RUNS))
    said(whole(answer))
    assert answer.headline.startswith("w is pending: 1 of 1 pod placed, 8 pods not created yet")
    [reason] = answer.reasons
    assert reason.text == (
        "With dependsOn, JobSet w creates the 8 pods of node only once all Jobs of init are"
        " complete (so far 0 of 1)"
    )
    assert (reason.who, reason.remedy) == ("wait", "Wait until w-init-0-0-x has completed")
    assert reason.commands == ("kubectl logs -n ns w-init-0-0-x",)


@pytest.mark.parametrize(
    ("done", "waits"),
    [
        pytest.param({}, True, id="it runs"),
        pytest.param({"init": {"ready": 1}}, True, id="it is ready"),
        pytest.param({"init": {"succeeded": 1}}, False, id="it has completed"),
        pytest.param({"node": {"active": 1}}, False, id="they run already"),
    ],
)
def test_only_jobs_that_do_not_exist_wait(done: Any, *, waits: bool) -> None:
    answer = answered(job_set(INIT, NODE, done=done), of_job("init", ready=True, **RUNS))
    assert (answer.state, bool(answer.reasons)) == ("waits" if waits else "well", waits)


@pytest.mark.parametrize("done", ["ready", "succeeded", "failed"])
def test_a_job_that_has_started_is_ready(done: str) -> None:
    node = part("node", "init=Ready")
    waits = answered(job_set(INIT, node), of_job("init", **RUNS))
    assert [reason.id for reason in waits.reasons] == ["PodsMissing"]
    assert waits.reasons[0].remedy.startswith("Find out why w-init-0-0-x is not ready")
    answer = answered(job_set(INIT, node, done={"init": {done: 1}}), of_job("init", **RUNS))
    assert answer.state == "well"


def test_each_step_of_a_chain_is_named() -> None:
    last = part("last", "node=Ready", "init=Complete")
    assert text_of(job_set(INIT, NODE, last), of_job("init", **RUNS)) == (
        "With dependsOn, JobSet w creates the 8 pods of node only once all Jobs of init are"
        " complete (so far 0 of 1) and creates the 1 pod of last only once all Jobs of node are"
        " ready (so far 0 of 2) and all Jobs of init are complete (so far 0 of 1)"
    )


def test_jobs_in_order_wait_for_the_previous_ones_even_if_they_are_suspended() -> None:
    """JobSet resumes them one after the other, so nobody else has suspended them."""
    order = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
    suspended = {"node": {"suspended": 2}}
    objects = (job_set(INIT, part("node", jobs=2), done=suspended, **order), of_job("init", **RUNS))
    assert text_of(*objects) == (
        "With startupPolicyOrder: InOrder, JobSet w creates the 2 pods of node only once all Jobs"
        " of init are ready (so far 0 of 1)"
    )
    assert [reason.id for reason in answered(*objects).reasons] == ["PodsMissing"]


def test_a_job_that_waits_for_room_comes_first(said: Said) -> None:
    answer = answered(job_set(INIT, NODE), of_job("init", gpus=9))
    said(whole(answer))
    assert [(each.id, each.follows) for each in answer.reasons] == [
        ("NeverFits", False),
        ("PodsMissing", True),
    ]
    assert "0 of 1 pod placed, 8 pods not created yet" in answer.headline


def test_a_container_that_fails_keeps_the_others_waiting() -> None:
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off"}
    crashing = of_job("init", **RUNS)
    crashing["status"]["containerStatuses"] = [
        {"name": "c", "restartCount": 3, "state": {"waiting": waiting}}
    ]
    first = answered(job_set(INIT, NODE), crashing).reasons[0]
    assert "In w-init-0-0-x, container c is in CrashLoopBackOff" in first.text
    assert first.remedy.startswith("Find out why w-init-0-0-x is not ready")


def test_a_pod_that_has_failed_explains_why_a_job_does_not_complete() -> None:
    failed = of_job("init", node="n0", phase="Failed")
    failed["metadata"]["name"] = "w-init-0-0-a"
    failed["metadata"]["uid"] = "a"
    ended = {"terminated": {"exitCode": 2, "reason": "Error"}}
    failed["status"]["containerStatuses"] = [{"name": "c", "state": ended}]
    [reason] = answered(job_set(INIT, NODE), failed, of_job("init", ready=True, **RUNS)).reasons
    assert reason.text.endswith(". Pod w-init-0-0-a has failed: c ended: exit code 2")
    assert reason.remedy == "Read the log of the failed pod, and correct the cause"
    assert reason.commands == ("kubectl logs -n ns w-init-0-0-a",)


def test_a_controller_that_does_not_follow_its_status_is_looked_at() -> None:
    done = of_job("init", node="n0", phase="Succeeded")
    [reason] = answered(job_set(INIT, NODE), done).reasons
    assert reason.remedy.startswith("Read the status and the events of JobSet w")
    assert reason.commands == ("kubectl describe jobset w -n ns",)


def test_a_gang_of_kai_never_has_all_pods_of_a_job_set_with_an_order(said: Said) -> None:
    """KAI's pod-grouper makes one PodGroup for all replicatedJobs (JobSetGrouper)."""
    grouped = group("pg")
    grouped["spec"]["minMember"] = 9
    member = of_job("init", annotations={"pod-group-name": "pg"}, scheduler="kai-scheduler")
    answer = answered(job_set(INIT, NODE), grouped, member)
    said(whole(answer))
    first = answer.reasons[0]
    assert first.id == "PodsMissing"
    assert first.text.endswith(
        ". This is a deadlock: KAI places w-init-0-0-x only together with these pods"
    )
    assert first.remedy.startswith("Create JobSet w again without dependsOn, and run the Jobs")
    assert "GangIncomplete" not in {reason.id for reason in answer.reasons}
    assert answer.headline.startswith("w is pending: 0 of 9 pods placed, requested")


def test_a_pod_is_placed_even_if_others_wait_for_it() -> None:
    objects = (job_set(INIT, NODE), of_job("init", ready=True, **RUNS))
    itself = answered(*objects, ref=Ref("Pod", "ns", "w-init-0-0-x"))
    assert itself.headline == "w-init-0-0-x is placed, with problems"
    assert [reason.id for reason in itself.reasons] == ["PodsMissing"]


def launching(worker: str = "Running", **spec: Any) -> list[Object]:
    job = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "w", "namespace": "ns"},
        "spec": {"launcherCreationPolicy": "WaitForWorkersReady", **spec},
    }
    workers = [pod(f"w-{each}", MPI, controller="MPIJob/w", **RUNS) for each in (0, 1)]
    workers[0]["status"]["conditions"] = [READY]
    workers[1]["status"]["phase"] = worker
    return [job, *workers]


def test_a_launcher_waits_for_all_workers(said: Said) -> None:
    ref = Ref("MPIJob", "ns", "w")
    answer = answered(*launching(), ref=ref)
    said(whole(answer))
    assert "2 of 2 pods placed, 1 pod not created yet" in answer.headline
    [reason] = answer.reasons
    assert reason.text == (
        "With launcherCreationPolicy: WaitForWorkersReady, MPIJob w creates the launcher only once"
        " all workers are ready (so far 1 of 2)"
    )
    assert reason.remedy.startswith("Find out why w-1 is not ready")
    launcher = pod("w-launcher-x", MPI, controller="Job/w-launcher", **RUNS)
    assert answered(*launching(), launcher, ref=ref).state == "well"
    assert answered(*launching(launcherCreationPolicy="AtStartup"), ref=ref).state == "well"


def test_a_train_job_waits_as_its_job_set_does() -> None:
    owner = {"apiVersion": "x/v1", "kind": "TrainJob", "name": "w", "controller": True}
    made = job_set(INIT, NODE)
    made["metadata"]["ownerReferences"] = [owner]
    train_job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "w", "namespace": "ns"},
    }
    running = of_job("init", ready=True, **RUNS)
    for objects in ([made, running], [train_job, made, running]):
        answer = answered(*objects, ref=Ref("TrainJob", "ns", "w"))
        assert "1 of 1 pod placed, 8 pods not created yet" in answer.headline
        assert answer.reasons[0].text.startswith("With dependsOn, JobSet w creates")


# Suspended Jobs.


def submitting(job: Any, **spec: Any) -> Answer:
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "w", "controller": True}
    ray_job = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "w", "namespace": "ns"},
        "spec": spec,
        "status": {"rayClusterName": "c"},
    }
    submitter = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "w", "namespace": "ns", "ownerReferences": [owner]},
        **job,
    }
    head = pod("head", {"ray.io/cluster": "c"}, controller="RayCluster/c", **RUNS)
    return answered(ray_job, submitter, head, ref=Ref("RayJob", "ns", "w"))


def test_a_suspended_job_does_not_submit_a_ray_job(said: Said) -> None:
    answer = submitting({"spec": {"suspend": True}})
    said(whole(answer))
    [reason] = answer.reasons
    assert reason.id == "WorkloadSuspended"
    assert reason.text.startswith("Job w, which submits the Ray job, is suspended (spec.suspend")
    assert reason.remedy == (
        "Resume RayJob w if it is suspended too. Otherwise, set spec.suspend of Job w to false"
    )
    assert submitting({"spec": {"suspend": False}}).state == "well"
    ended = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert submitting({"spec": {"suspend": True}, "status": ended}).state == "well"


def test_jobs_that_others_suspend_are_not_those_of_a_suspended_set(said: Said) -> None:
    held = {"init": {"suspended": 1}, "node": {"suspended": 2}}
    parts = INIT, part("node", jobs=2)
    answer = answered(job_set(*parts, done=held))
    said(whole(answer))
    [reason] = answer.reasons
    assert reason.text == "3 Jobs of JobSet w are suspended, although JobSet w is not"
    assert reason.commands == ("kubectl describe jobs -n ns -l jobset.sigs.k8s.io/jobset-name=w",)
    one = answered(job_set(INIT, NODE, done=held)).reasons[0]
    assert one.text == "1 Job of JobSet w is suspended, although JobSet w is not"
    suspended = answered(job_set(*parts, done=held, suspend=True)).reasons[0]
    assert suspended.text.startswith("JobSet w is suspended (spec.suspend: true)")


# What is read.


def test_the_pods_of_a_replicated_job_are_those_that_run_at_once() -> None:
    parts = [
        part("a", pods=4, completions=2),
        part("b", "a=Ready", "a=Complete", jobs=3, pods=2),
        {"name": "c"},
    ]
    read = read_replicated_jobs(
        {"replicatedJobs": parts}, {"replicatedJobsStatus": [{"name": "a"}]}
    )
    needed = (JobDependency("a", "Ready"), JobDependency("a", "Complete"))
    assert read == (
        ReplicatedJob("a", 1, 2),
        ReplicatedJob("b", 3, 6, needed),
        ReplicatedJob("c", 1, 1),
    )
    assert read_replicated_jobs({"replicatedJobs": parts}, {}) == ()


def test_a_dependency_that_does_not_exist_is_no_reason() -> None:
    objects = job_set(part("node", "init=Ready")), of_job("node", **RUNS)
    assert answered(*objects).state == "well"

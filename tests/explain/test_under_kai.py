"""Situations of workloads under KAI, as their controllers leave the objects.

Tests `app/explain/reasons/startup_order.py`, `missing_pods.py`, `workload_status.py`, `volumes.py`,
`gates.py`, `evictions.py`, `partial_gangs.py`, `placed_pods.py` and `scheduler_messages.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import explain
from app.explain.reasons.reason import Reason
from app.explain.state.index import Index
from app.explain.state.read import facts_of
from app.facts.identity import Ref
from tests.explain.small import Object, made, node, pod, pod_group, queues, told

BASE = [node("a"), *queues()]


def owned(obj: Object, kind: str, name: str, version: str = "batch/v1") -> Object:
    """The object, controlled by another one."""
    uid = f"{kind}-{name}"
    owner = {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}
    obj["metadata"]["ownerReferences"] = [owner]
    return obj


def ended(obj: Object, phase: str = "Succeeded") -> Object:
    obj["status"] = {"phase": phase}
    return obj


def about(obj: Object, reason: str, message: str) -> Object:
    """An event of KAI."""
    metadata = obj["metadata"]
    event = made("v1", "Event", f"{metadata['name']}-{reason}", {})
    del event["spec"]
    return event | {
        "involvedObject": {"kind": obj["kind"], **{k: metadata[k] for k in ("name", "uid")}},
        "reason": reason,
        "message": message,
        "source": {"component": "kai-scheduler"},
        "type": "Warning",
    }


def reasons(objects: list[Object], kind: str, name: str) -> dict[str, Reason]:
    return {reason.id: reason for reason in told(objects, kind, name).reasons}


# JobSets that create pods in steps.


def job_set(first: str, later: str, needed: int, status: str = "", **metadata: Any) -> list[Object]:
    """A JobSet, whose replicatedJob `later` waits for `first`, as KAI 0.16 groups it."""
    jobs: list[Object] = [
        {"name": name, "replicas": 1, "template": {"spec": {"parallelism": 1}}}
        for name in (first, later)
    ]
    spec: Object = {"replicatedJobs": jobs}
    if status:
        jobs[1]["dependsOn"] = [{"name": first, "status": status}]
    else:
        spec["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    js = made("jobset.x-k8s.io/v1alpha2", "JobSet", "js", spec, **metadata)
    js["status"] = {"replicatedJobsStatus": [{"name": first, "active": 1}, {"name": later}]}
    job = owned(made("batch/v1", "Job", f"js-{first}-0", {}), "JobSet", "js", "jobset.x-k8s.io/v1")
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "js",
        "jobset.sigs.k8s.io/replicatedjob-name": first,
        "kai.scheduler/subgroup-name": f"{first}-replica-0",
    }
    waits = owned(pod("p", "pg", labels=labels), "Job", f"js-{first}-0")
    subgroups = [
        each
        for name in (first, later)
        for each in (
            {"name": name, "minSubGroup": 1},
            {"name": f"{name}-replica-0", "minMember": 1, "parent": name},
        )
    ]
    group = pod_group("pg", 1, subGroups=subgroups, minSubGroup=needed)
    return [*BASE, js, job, waits, group]


def test_a_jobset_whose_jobs_must_complete_first_needs_another_workload() -> None:
    reason = reasons(job_set("init", "node", 2, "Complete"), "JobSet", "js")["PodsMissing"]
    assert reason.text.endswith("KAI places p only together with these pods")
    assert reason.remedy.endswith("run the Jobs that must come first in a separate workload")


def test_a_trainjob_is_created_again_without_initializers() -> None:
    objects = job_set("init", "node", 2, "Complete")
    owned(objects[len(BASE)], "TrainJob", "tj", "trainer.kubeflow.org/v1alpha1")
    reason = reasons(objects, "JobSet", "js")["PodsMissing"]
    assert reason.remedy.startswith("Create TrainJob tj again without initializers")


def test_a_jobset_whose_jobs_must_be_ready_first_gets_a_lower_minimum() -> None:
    reason = reasons(job_set("driver", "node", 2, "Ready"), "JobSet", "js")["PodsMissing"]
    assert reason.remedy.startswith(
        'Set the annotation kai.scheduler/batch-min-member: "1" on JobSet js and minSubGroup: 1'
    )
    assert reason.commands[0].startswith("kubectl annotate jobset js -n default kai.scheduler/")
    assert reason.commands[1].endswith("""--type merge -p '{"spec":{"minSubGroup":1}}'""")


@pytest.mark.parametrize("needed", [1, 2])
def test_kai_places_the_first_subgroup_by_name(needed: int) -> None:
    reason = reasons(job_set("prep", "main", needed), "JobSet", "js")["PodsMissing"]
    assert "KAI places SubGroup main first, because its name comes first, and it has no" in (
        reason.text
    )
    assert "names sort in the order in which they start" in reason.remedy


def test_it_is_no_deadlock_if_kai_places_the_first_job() -> None:
    objects = job_set("a-prep", "main", 1)
    assert "deadlock" not in reasons(objects, "JobSet", "js")["PodsMissing"].text


# Pods that have completed or are terminating.


def test_a_job_of_which_pods_have_completed_gets_a_lower_minimum() -> None:
    job = made("batch/v1", "Job", "j", {"parallelism": 2, "completions": 3})
    done = [ended(owned(pod(f"j-{at}", "pg"), "Job", "j")) for at in range(2)]
    objects = [*BASE, job, pod_group("pg", 2), *done, owned(pod("j-2", "pg"), "Job", "j")]
    reason = reasons(objects, "Job", "j")["GangIncomplete"]
    assert reason.remedy.startswith('Set the annotation kai.scheduler/batch-min-member: "1" on Job')
    assert reason.commands[0] == (
        "kubectl annotate job j -n default kai.scheduler/batch-min-member=1 --overwrite"
    )
    assert """'{"spec":{"minMember":1}}'""" in reason.commands[1]


def finishing(**annotations: str) -> list[Object]:
    """A gang of two pods, of which one has completed and the other runs."""
    job = made("kubeflow.org/v1", "PyTorchJob", "j", {})
    group = pod_group("pg", 2)
    group["metadata"]["annotations"] = annotations
    pods = [ended(pod("j-0", "pg")), pod("j-1", "pg", 1, "a")]
    return [*BASE, job, group, *(owned(each, "PyTorchJob", "j") for each in pods)]


def test_nothing_is_to_be_done_while_the_other_pods_run() -> None:
    reason = reasons(finishing(), "PodGroup", "pg")["GangIncomplete"]
    assert (
        reason.remedy == "Do nothing while the other pods run: completed pods are not created again"
    )


def test_kai_evicts_the_rest_of_a_gang_that_completes() -> None:
    since = {"kai.scheduler/stale-podgroup-timestamp": "1970-01-01T00:00:00Z"}
    found = reasons(finishing(**since), "PodGroup", "pg")
    assert "GangIncomplete" not in found
    assert "because KAI 0.16.2 to 0.17 ignores pods that have completed" in found["GangStale"].text
    assert found["GangStale"].remedy.startswith("To keep KAI from evicting this gang")


def test_a_terminating_pod_is_waited_for() -> None:
    going = owned(pod("j-0", "pg", 1, "a"), "Job", "j")
    going["metadata"] |= {
        "deletionTimestamp": "1970-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 30,
    }
    objects = [*BASE, made("batch/v1", "Job", "j", {}), pod_group("pg", 1), going]
    reason = reasons(objects, "PodGroup", "pg")["GangIncomplete"]
    assert reason.text.endswith("j-0 is terminating")
    assert reason.remedy.startswith("Wait until Kubernetes has deleted j-0")
    assert reason.remedy.endswith("Its controller then creates the missing pods")


def test_a_spark_driver_is_not_to_wait_for_its_executors() -> None:
    driver = pod("driver", "pg", 0, "a")
    executor = owned(pod("exec-1", "pg", 9), "Pod", "driver", "v1")
    assert "GangSplit" not in reasons(
        [*BASE, pod_group("pg", 1), driver, executor], "Pod", "exec-1"
    )


# KubeRay.


def ray_cluster(*, awaited: bool) -> list[Object]:
    """A RayCluster whose worker group is suspended, as KAI groups it with or without the group."""
    groups = [{"groupName": "gpu", "replicas": 1, "minReplicas": 1, "suspend": True}]
    cluster = made("ray.io/v1", "RayCluster", "ray", {"workerGroupSpecs": groups})
    names = ["headgroup", *(["gpu"] if awaited else [])]
    group = pod_group("pg", 1, subGroups=[{"name": name, "minMember": 1} for name in names])
    labels = {"kai.scheduler/subgroup-name": "headgroup", "ray.io/cluster": "ray"}
    head = owned(pod("head", "pg", 0, "a", labels=labels), "RayCluster", "ray", "ray.io/v1")
    return [*BASE, cluster, group, head]


@pytest.mark.parametrize(
    ("awaited", "severity", "remedy"),
    [
        (False, "note", "Set suspend: false in this worker group if the pods are needed"),
        (
            True,
            "problem",
            "Set suspend: false in this worker group, or set replicas and minReplicas to 0",
        ),
    ],
)
def test_a_suspended_worker_group_has_no_pods(awaited: bool, severity: str, remedy: str) -> None:
    found = reasons(ray_cluster(awaited=awaited), "RayCluster", "ray")
    reason = found["WorkloadSuspended"]
    assert (reason.severity, reason.remedy) == (severity, remedy)
    assert reason.text.startswith("Worker group gpu of RayCluster ray is suspended")
    assert "GangIncomplete" not in found


def test_a_rayjob_that_is_retried_has_not_failed_for_good() -> None:
    job = made("ray.io/v1", "RayJob", "rj", {"backoffLimit": 2})
    job["status"] = {
        "jobDeploymentStatus": "Retrying",
        "jobStatus": "FAILED",
        "message": "exit code 1",
    }
    answer = told([*BASE, job], "RayJob", "rj")
    [reason] = [each for each in answer.reasons if each.id == "WorkloadFailed"]
    assert reason.severity == "warning"
    assert "exit code 1. KubeRay deletes its RayCluster and tries again" in reason.text
    assert "create it again" not in reason.remedy


# Volumes that are created by hand.


def claim(name: str, **selector: str) -> Object:
    spec: Object = {
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    if selector:
        spec["selector"] = {"matchLabels": selector}
    return made("v1", "PersistentVolumeClaim", name, spec) | {"status": {"phase": "Pending"}}


def disk(name: str, **labels: str) -> Object:
    spec = {
        "storageClassName": "local",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "2Gi"},
    }
    volume = made("v1", "PersistentVolume", name, spec, labels=labels)
    del volume["metadata"]["namespace"]
    return volume | {"status": {"phase": "Available"}}


def with_claims(*claims: Object, disks: list[Object]) -> dict[str, Reason]:
    storage = made("storage.k8s.io/v1", "StorageClass", "local", {})
    del storage["metadata"]["namespace"]
    storage |= {
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    waits = pod("w-0", "w")
    names = [each["metadata"]["name"] for each in claims]
    waits["spec"]["volumes"] = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names
    ]
    return reasons([*BASE, storage, *claims, *disks, pod_group("w", 1), waits], "PodGroup", "w")


def test_a_volume_must_have_the_labels_that_the_claim_selects() -> None:
    fast = claim("data", tier="fast")
    reason = with_claims(fast, disks=[disk("d", tier="slow")])["VolumeUnbound"]
    assert reason.text.endswith("(1 GiB, ReadWriteOnce and tier=fast)")
    assert "VolumeUnbound" not in with_claims(fast, disks=[disk("d", tier="fast")])


def test_each_claim_needs_a_volume_of_its_own() -> None:
    both = (claim("data"), claim("logs", tier="fast"))
    one = with_claims(*both, disks=[disk("d", tier="fast")])["VolumeUnbound"]
    assert one.text.startswith(
        "PersistentVolumeClaims data and logs need a volume each, but only 1"
    )
    assert one.remedy.startswith("Ask the platform team for 1 more PersistentVolume")
    # The first claim must leave the only fast volume to the other.
    assert "VolumeUnbound" not in with_claims(*both, disks=[disk("d", tier="fast"), disk("e")])


# Fair shares.


def sharing(used: int, asks: int) -> str:
    """The remedy for a gang of `asks` pods, while queue `other` uses 8 and `team` some of 8 GPUs."""
    root, team = queues(quota=4)
    other = made("scheduling.run.ai/v2", "Queue", "other", team["spec"])
    group = pod_group("x", 1)
    group["spec"] = {**group["spec"], "queue": "other"}
    held = [pod(f"x-{at}", "x", 1, "a") for at in range(8 - used)]
    mine = [pod_group("y", 1), *(pod(f"y-{at}", "y", 1, "a") for at in range(used))]
    gang = [pod_group("w", asks), *(pod(f"w-{at}", "w") for at in range(asks))]
    objects = [node("a"), root, team, other, group, *held, *mine, *gang]
    return reasons(objects, "PodGroup", "w")["NoDomainFits"].remedy


@pytest.mark.parametrize(
    ("used", "asks", "most"),
    [(0, 8, "4 GPUs in total, because KAI reclaims from queue other only while"), (1, 6, "3 GPUs")],
)
def test_kai_reclaims_only_up_to_the_fair_share(used: int, asks: int, most: str) -> None:
    assert sharing(used, asks).startswith(f"Request at most {most}")


@pytest.mark.parametrize(("used", "asks"), [(0, 4), (4, 1)])
def test_less_helps_only_if_kai_would_then_reclaim(used: int, asks: int) -> None:
    assert "in total" not in sharing(used, asks)


# Rolling updates in a queue without room for one more pod.


def update(old: str, new: str, **spec: Any) -> list[Object]:
    """A pod of a Deployment that uses 8 GPUs, and a pending pod, each of a ReplicaSet."""

    def of(name: str, hash_: str, node_name: str) -> list[Object]:
        labels = {"pod-template-hash": hash_}
        one = pod(name, name, 8, node_name, labels=labels)
        return [owned(one, "ReplicaSet", f"llm-{hash_}", "apps/v1"), pod_group(name, 1, **spec)]

    nodes = [node("a"), node("b")]
    return [*nodes, *of("p-0", old, "a"), *of("p-1", new, "")]


@pytest.mark.parametrize(
    ("bounds", "spec", "id", "word"),
    [
        ({"limit": 8}, {}, "QueueLimit", "limit"),
        ({"quota": 8}, {"preemptibility": "non-preemptible"}, "QueueQuota", "quota"),
    ],
)
def test_pods_of_the_previous_revision_end_before_new_ones_start(
    bounds: dict[str, int], spec: Object, id: str, word: str
) -> None:
    bound = queues("", **bounds)
    reason = reasons([*bound, *update("1", "2", **spec)], "PodGroup", "p-1")[id]
    assert reason.remedy.startswith(
        "Set spec.strategy.type: Recreate, or maxSurge: 0, in Deployment llm: 1 pod of its previous"
        f" revision takes up the {word} until new pods are ready. Or "
    )
    same = reasons([*bound, *update("1", "1", **spec)], "PodGroup", "p-1")[id]
    assert "maxSurge" not in same.remedy


# What KAI says.


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("the type of the job j doesn't allow for 0 Worker pods", "Remove the replica type with 0"),
        ("replicas for a workerGroupsSpec can't be less than minReplicas", "Set replicas of this"),
        ("topology annotation (kai.scheduler/topology) is required", "Add this annotation"),
        ("something else", "Fix the problem that KAI's message describes"),
    ],
)
def test_what_helps_the_pod_grouper(message: str, remedy: str) -> None:
    waits = owned(pod("j-0", ""), "PyTorchJob", "j", "kubeflow.org/v1")
    event = about(waits, "PodGrouperWarning", message)
    event["source"] = {"component": "pod-grouper"}
    objects = [*BASE, made("kubeflow.org/v1", "PyTorchJob", "j", {}), waits, event]
    assert reasons(objects, "PyTorchJob", "j")["NotGrouped"].remedy.startswith(remedy)


def test_a_gang_that_kai_has_moved_is_placed_with_a_remark() -> None:
    group = pod_group("pg", 1)
    moved = about(
        group, "Evict", "Pod default/p-0 was preempted and rescheduled due to bin packing"
    )
    answer = told([*BASE, group, pod("p-1", "pg", 1, "a"), moved], "PodGroup", "pg")
    [reason] = answer.reasons
    assert (reason.id, reason.severity) == ("PlacementLost", "note")
    assert reason.text.startswith(
        "All pods of pg are placed again, after KAI evicted or moved some"
    )


def refused(message: str, **spec: Any) -> tuple[list[Object], Object]:
    waits = pod("w-0", "w", 0)
    waits["spec"] |= spec
    return [*BASE, pod_group("w", 1), waits, about(waits, "Unschedulable", message)], waits


def test_our_checks_ignore_host_ports() -> None:
    objects, waits = refused("1 node(s) didn't have free ports for the requested pod ports.")
    waits["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    assert refusal(objects).text.endswith(
        "According to our checks, which ignore hostPort, the gang fits in a"
    )


def refusal(objects: list[Object]) -> Reason:
    """What is said a second after the message."""
    for each in objects:
        if each["kind"] == "Event":
            each["lastTimestamp"] = "1970-01-01T00:16:39Z"
    facts = replace(facts_of(objects, 1000.0), skipped=frozenset())
    answer = explain(Index(facts), Ref("PodGroup", "default", "w"))
    assert answer
    [reason] = [each for each in answer.reasons if each.id == "KaiRefuses"]
    return reason


@pytest.mark.parametrize(("users", "updates"), [(1, False), (2, True)])
def test_old_releases_count_a_gpu_once_for_each_pod_that_shares_it(
    users: int, updates: bool
) -> None:
    objects, _ = refused("1 node(s) didn't have enough resources: GPUs.")
    spec = {"devices": {"requests": [{"name": "g", "deviceClassName": "gpu.nvidia.com"}]}}
    shared = made("resource.k8s.io/v1beta1", "ResourceClaim", "c", spec)
    shared["status"] = {
        "reservedFor": [{"resource": "pods", "name": f"u{at}", "uid": "u"} for at in range(users)]
    }
    drivers = [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]
    known = made("resource.k8s.io/v1", "DeviceClass", "gpu.nvidia.com", {"selectors": drivers})
    del known["metadata"]["namespace"]
    remedy = refusal([*objects, shared, known]).remedy
    assert remedy.startswith("Ask the platform team to update KAI") is updates

"""Pods that a gang lacks, in the words of what makes them, and pods that others have placed."""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import explain
from app.explain.reasons.reason import Reason
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.identity import Ref
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kai.queue import Queue
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.workload import Workload, WorkloadGroup
from tests.explain.fleet import NAMESPACE, NOW, nodes, shape

JOB = Ref("Job", NAMESPACE, "train")
GROUP = KaiPodGroup(
    NAMESPACE, "pg-train", "uid-pg", ("uid-job",), minimum=4, queue="team", created=NOW - 900
)
POD = Pod(
    NAMESPACE,
    "train-0",
    "uid-0",
    owner="uid-job",
    scheduler="kai-scheduler",
    shape=shape(8),
    group="pg-train",
    created=NOW - 900,
    controller=JOB,
)


def facts(**changes: Any) -> Snapshot:
    start: dict[str, Any] = {
        "nodes": nodes(),
        "pods": (POD,),
        "pod_groups": (GROUP,),
        "queues": (Queue("team"),),
        "now": NOW,
    }
    return Snapshot(**{**start, **changes})


def incomplete(snapshot: Snapshot, name: str = POD.name) -> Reason:
    explained = explain(Index(snapshot), Ref("Pod", NAMESPACE, name))
    assert explained
    [reason] = [reason for reason in explained.reasons if reason.id == "GangIncomplete"]
    return reason


def failed(words: str, **changes: Any) -> Event:
    event = Event("uid-job", "FailedCreate", words, NOW - 60, "job-controller", JOB, warns=True)
    return replace(event, **changes)


QUOTA = 'pods "train-1" is forbidden: exceeded quota: rq, requested: pods=1, limited: pods=1'
LEADER = "leader pod not yet scheduled, not creating follower pod train-1"
LACKS = "1 of 4 required pods exists: pg-train lacks 3 pods"
SAID = f"{LACKS}. About Job train, job-controller says: {{}} (60 seconds ago)"


@pytest.mark.parametrize(
    ("event", "text", "remedy", "who"),
    [
        (
            failed(QUOTA),
            SAID.format(QUOTA),
            "Request at most what the ResourceQuota of namespace inference leaves, or ask for a higher quota: kubectl describe resourcequota -n inference",
            "you",
        ),
        (
            failed("failed calling webhook x: no endpoints available"),
            SAID.format("failed calling webhook x: no endpoints available"),
            "Ask the platform team to check the webhook in the message: the API server could not call it.",
            "platform",
        ),
        (
            failed("no such image policy"),
            SAID.format("no such image policy"),
            "Fix the problem that this message describes: kubectl describe job train -n inference",
            "you",
        ),
        (
            failed("all is well", warns=False),
            LACKS,
            "Find out why Job train creates no more pods: kubectl describe job train -n inference",
            "you",
        ),
        (
            failed(QUOTA, uid="uid-of-another"),
            LACKS,
            "Find out why Job train creates no more pods: kubectl describe job train -n inference",
            "you",
        ),
        (
            failed(QUOTA, about=Ref("Job", "another-namespace", "train")),
            LACKS,
            "Find out why Job train creates no more pods: kubectl describe job train -n inference",
            "you",
        ),
        (
            failed("train lost its place: x", source="grove-admission"),
            LACKS,
            "Find out why Job train creates no more pods: kubectl describe job train -n inference",
            "you",
        ),
    ],
    ids=[
        "the quota",
        "a webhook",
        "another cause",
        "no warning",
        "about another Job",
        "of a stranger",
        "our report",
    ],
)
def test_what_makes_the_pods_says_why_it_makes_no_more(
    event: Event, text: str, remedy: str, who: str
) -> None:
    reason = incomplete(facts(events=(event,)))
    assert (reason.text, reason.remedy, reason.who) == (text, remedy, who)


def test_followers_that_wait_for_a_leader_that_waits_for_them_are_told_so() -> None:
    reason = incomplete(facts(events=(failed(LEADER),)))
    assert "This is a deadlock" in reason.text
    assert "alpha.jobset.sigs.k8s.io/exclusive-topology" in reason.remedy


@pytest.mark.parametrize("node", ["gpu-00", ""])
def test_a_pod_of_the_workload_that_another_scheduler_has_does_not_count(node: str) -> None:
    head = replace(
        POD, name="train-head", uid="uid-h", scheduler="default-scheduler", group="", node=node
    )
    reason = incomplete(facts(pods=(POD, head)))
    has = "has placed" if node else "places"
    assert reason.text == (
        f"{LACKS}. train-head exists, but default-scheduler {has} it, so KAI does not count it"
    )
    assert reason.remedy.startswith("Set schedulerName: kai-scheduler in the pod template of")


@pytest.mark.parametrize(
    ("worker", "workload", "other", "maker", "counts"),
    [
        ("a-w-0-0", "JobSet/a", "a-d-0-0", "Job/a-d-0", True),
        ("a-0-1", "LeaderWorkerSet/a", "a-0", "StatefulSet/a", True),
        ("a-0-1", "LeaderWorkerSet/a", "a-1", "StatefulSet/a", False),
        ("a-worker-0", "MPIJob/a", "a-launcher-x", "Job/a-launcher", True),
        ("a-worker-0", "MPIJob/a", "b-launcher-x", "Job/b-launcher", False),
    ],
    ids=["JobSet", "LeaderWorkerSet", "another group", "MPIJob", "another MPIJob"],
)
def test_pods_of_one_workload_can_have_several_owners(
    worker: str, workload: str, other: str, maker: str, counts: bool
) -> None:
    def ref(text: str) -> Ref:
        kind, name = text.split("/")
        return Ref(kind, NAMESPACE, name)

    own = {"JobSet/a": "Job/a-w-0", "LeaderWorkerSet/a": "StatefulSet/a-0"}.get(workload, workload)
    made_for = () if workload == "MPIJob/a" else (ref(workload),)
    ours = replace(POD, name=worker, controller=ref(own), made_for=made_for)
    theirs = replace(
        POD,
        name=other,
        uid="uid-other",
        owner="uid-other-owner",
        controller=ref(maker),
        made_for=made_for,
        scheduler="default-scheduler",
        group="",
        node="gpu-00",
    )
    reason = incomplete(facts(pods=(ours, theirs)), worker)
    assert (f"{other} exists, but default-scheduler has placed it" in reason.text) == counts


def test_a_missing_pod_that_another_scheduler_has_placed_requests_what_it_requests() -> None:
    """The launcher of an MPIJob requests no GPUs, so one node has room for the gang."""
    launcher = replace(
        POD, name="launcher", uid="uid-l", scheduler="default-scheduler", group="", shape=shape(0)
    )
    for pods, ids in (
        ((POD, launcher), ["GangIncomplete"]),
        ((POD,), ["GangIncomplete", "NeverFits"]),
    ):
        known = facts(pods=pods, pod_groups=(replace(GROUP, minimum=2),), nodes=nodes()[:1])
        explained = explain(Index(known), POD.ref)
        assert explained
        assert [reason.id for reason in explained.reasons] == ids


@pytest.mark.parametrize(
    "other",
    [{"owner": "uid-of-another"}, {"namespace": "elsewhere"}, {"phase": "Succeeded"}],
    ids=["of another owner", "in another namespace", "that has ended"],
)
def test_other_pods_of_other_schedulers_are_not_named(other: dict[str, Any]) -> None:
    head = replace(POD, name="head", uid="uid-h", scheduler="default-scheduler", group="", **other)
    assert "head" not in incomplete(facts(pods=(POD, head))).text


RING = tuple(
    replace(
        POD,
        name=f"ring-{number}",
        uid=f"uid-{number}",
        scheduler="default-scheduler",
        group="",
        workload_group="ring",
        controller=Ref("StatefulSet", NAMESPACE, "ring"),
        made_for=(Ref("StatefulSet", NAMESPACE, "ring"),),
    )
    for number in range(3)
)


def test_a_group_of_kubernetes_that_lacks_pods_is_told_its_numbers() -> None:
    group = WorkloadGroup(NAMESPACE, "ring", minimum=5)
    reason = incomplete(facts(pods=RING, pod_groups=(), workload_groups=(group,)), "ring-0")
    assert reason.text == ("PodGroup ring needs 5 pods together (minCount), but has only 3 pods")
    assert reason.remedy == (
        "Make the numbers agree if no more pods are created: run 5 pods (spec.replicas of"
        " StatefulSet ring), or create PodGroup ring again with minCount: 3."
    )


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("LeaderWorkerSet", "spec.leaderWorkerTemplate.size of LeaderWorkerSet ring"),
        ("LeaderWorkerSet", "If its startupPolicy is LeaderReady, use LeaderCreated instead"),
        ("JobSet", "replicas and parallelism of JobSet ring"),
        ("JobSet", "startupPolicyOrder: InOrder or dependsOn, create it again without"),
        ("RayCluster", "replicas or parallelism of RayCluster ring"),
    ],
)
def test_the_outermost_workload_is_what_users_can_change(kind: str, words: str) -> None:
    outermost = Ref(kind, NAMESPACE, "ring")
    pods = tuple(replace(pod, made_for=(outermost, *pod.made_for)) for pod in RING)
    group = WorkloadGroup(NAMESPACE, "ring", minimum=5)
    reason = incomplete(facts(pods=pods, pod_groups=(), workload_groups=(group,)), "ring-0")
    assert words in reason.remedy


def test_a_group_of_bare_pods_lacks_pods_and_no_workload_is_named() -> None:
    pods = tuple(replace(pod, made_for=(), controller=None) for pod in RING)
    group = WorkloadGroup(NAMESPACE, "ring", minimum=5)
    reason = incomplete(facts(pods=pods, pod_groups=(), workload_groups=(group,)), "ring-0")
    assert "run 5 pods, or create" in reason.remedy


def test_a_group_of_kubernetes_is_explained_by_its_own_name() -> None:
    group = WorkloadGroup(NAMESPACE, "ring", minimum=4)
    known = facts(pods=RING, pod_groups=(), workload_groups=(group,))
    answer = explain(Index(known), Ref("PodGroup", NAMESPACE, "ring"))
    assert answer
    assert answer.headline.startswith("ring is pending: 0 of 3 pods placed")
    [reason] = [each for each in answer.reasons if each.id == "GangIncomplete"]
    assert reason.text.startswith("PodGroup ring needs 4 pods together (minCount)")
    assert explain(Index(known), Ref("PodGroup", NAMESPACE, "other")) is None


def test_a_group_of_a_workload_of_kubernetes_1_35_is_told_its_numbers() -> None:
    own = tuple(replace(pod, workload_group="", workload="w", workload_part="ring") for pod in RING)
    workload = Workload(NAMESPACE, "w", {"ring": 4})
    reason = incomplete(facts(pods=own, pod_groups=(), workloads=(workload,)), "ring-0")
    assert reason.text.startswith("Workload w/ring needs 4 pods together (minCount)")


@pytest.mark.parametrize("minimum", [0, 3])
def test_a_group_of_kubernetes_that_has_its_pods_is_not_incomplete(minimum: int) -> None:
    group = WorkloadGroup(NAMESPACE, "ring", minimum=minimum)
    snapshot = facts(pods=RING, pod_groups=(), workload_groups=(group,))
    explained = explain(Index(snapshot), Ref("Pod", NAMESPACE, "ring-0"))
    assert explained
    assert "GangIncomplete" not in {reason.id for reason in explained.reasons}


@pytest.mark.parametrize(
    ("controller", "made_for", "maker"),
    [
        ("Job/sim-ps-0", ("JobSet/sim", "Job/sim-ps-0"), "JobSet sim"),
        ("StatefulSet/vllm-0", ("LeaderWorkerSet/vllm",), "LeaderWorkerSet vllm"),
        ("RayCluster/tune-x7", ("RayJob/tune", "RayCluster/tune-x7"), "RayCluster tune-x7"),
    ],
)
def test_the_missing_pods_may_be_those_of_another_job_of_the_workload(
    controller: str, made_for: tuple[str, ...], maker: str
) -> None:
    of, *others = (
        Ref(kind, NAMESPACE, name) for kind, name in map(parted, (controller, *made_for))
    )
    found = incomplete(facts(pods=(replace(POD, controller=of, made_for=tuple(others)),)))
    see = f"kubectl describe {maker.lower()} -n inference"
    begin = f"Find out why {maker} creates no more pods"
    if maker.startswith("JobSet"):
        assert found.remedy.startswith(f"{begin} ({see}). If it has startupPolicyOrder")
    else:
        assert found.remedy == f"{begin}: {see}"


def parted(text: str) -> list[str]:
    return text.split("/")


def test_pods_that_have_ended_are_named_because_kai_does_not_count_them() -> None:
    ended = replace(POD, name="train-1", uid="uid-1", node="gpu-00", phase="Succeeded")
    found = incomplete(facts(pods=(POD, ended)))
    assert found.text == f"{LACKS}. train-1 (Succeeded) has ended, and KAI does not count it"
    assert found.remedy.startswith('Set the annotation kai.scheduler/batch-min-member: "1" on Job')

    found = incomplete(facts(pods=(POD, replace(ended, phase="Failed"))))
    assert found.text == f"{LACKS}. train-1 (Failed) has ended, and KAI does not count it"
    assert (
        found.remedy
        == "Find out why Job train creates no more pods: kubectl describe job train -n inference"
    )


@pytest.mark.parametrize(
    ("workload", "maker", "told"),
    [
        ("LeaderWorkerSet/vllm", "StatefulSet/vllm-0", True),
        ("LeaderWorkerSet/vllm", "StatefulSet/vllm-1", False),
        ("LeaderWorkerSet/vllm", "StatefulSet/vllm", True),
        ("JobSet/vllm", "Job/vllm-workers-1", True),
        ("RayJob/vllm", "RayCluster/vllm-x7k2p", True),
    ],
    ids=["of the leader", "of another leader", "of all leaders", "of a JobSet", "of a RayJob"],
)
def test_makers_that_own_no_pod_of_the_gang_yet_are_quoted(
    workload: str, maker: str, told: bool
) -> None:
    """The StatefulSet of the workers is owned by their leader, and owns no pod before it can create one."""
    of, about = (
        Ref(*f"{kind}/{NAMESPACE}/{name}".split("/"))
        for kind, name in (w.split("/") for w in (workload, maker))
    )
    leader = replace(POD, name="vllm-0", made_for=(of,), controller=of)
    event = failed(QUOTA, uid="uid-of-another", about=about)
    reason = incomplete(facts(pods=(leader,), events=(event,)), leader.name)
    assert (QUOTA in reason.text) == told
    assert (f"About {about}, " in reason.text) == told
    assert ("resourcequota" in reason.remedy) == told

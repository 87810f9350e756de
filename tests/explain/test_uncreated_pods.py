"""Workloads without pods: what their controllers say, in an explanation and in the list."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import Answer, explain
from app.explain.answers.pending import rows, waiting_without_pods
from app.explain.output.waiting_text import exit_code, list_text
from app.explain.state.index import Index
from app.explain.state.makers import is_made_by, named_workloads
from app.explain.state.read import read_list
from app.explain.state.snapshot import Snapshot
from app.facts.identity import Ref
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.kueue import KueueCondition, KueueWorkload
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.workload_status import WorkloadStatus
from tests.explain.fleet import NAMESPACE, NOW
from tests.explain.table.recorded import whole
from tests.explain.test_read import Cluster
from tests.said import Said

QUOTA = 'pods "x" is forbidden: exceeded quota: team, limited: requests.cpu=64'
SPACE = NAMESPACE


def refused(
    about: Ref, said: str = QUOTA, *, ago: float = 90, reason: str = "FailedCreate"
) -> Event:
    return Event(f"uid-{about.name}", reason, said, NOW - ago, "a-controller", about, True)


def told(*events: Event, pods: tuple[Pod, ...] = ()) -> Index:
    return Index(Snapshot(events=events, pods=pods, now=NOW))


@pytest.mark.parametrize(
    ("asked", "about"),
    [
        ("Job/sweep", "Job/sweep"),
        ("RayCluster/ray", "RayCluster/ray"),
        ("Deployment/api", "ReplicaSet/api-6f9"),
        ("LeaderWorkerSet/vllm", "StatefulSet/vllm"),
        ("LeaderWorkerSet/vllm", "StatefulSet/vllm-0"),
        ("JobSet/sim", "Job/sim-workers-0"),
        ("RayJob/tune", "RayCluster/tune-x7k2p"),
        ("MPIJob/mpi", "Job/mpi-launcher"),
    ],
)
def test_a_workload_without_pods_is_explained_by_what_makes_them(asked: str, about: str) -> None:
    ref, maker = of(asked), of(about)
    answer = explain(told(refused(maker)), ref)
    assert answer
    assert (answer.headline, answer.exit_code) == (f"{ref.name} is pending: it has no pods yet", 1)
    [reason] = answer.reasons
    assert (reason.id, reason.text, reason.who) == (
        "PodsNotCreated",
        f"{ref} has no pods. About {maker}, a-controller says: {QUOTA} (90 seconds ago)",
        "you",
    )
    assert "kubectl describe resourcequota -n inference" in reason.remedy


@pytest.mark.parametrize("is_refused", [True, False])
def test_files_without_pods_do_not_show_that_there_are_none(is_refused: bool) -> None:
    events = (refused(of("Job/sweep")),) if is_refused else ()
    statuses = (WorkloadStatus(of("Job/sweep")),)
    skipped = frozenset({"pods"})
    facts = Snapshot(events=events, workload_statuses=statuses, skipped=skipped, now=NOW)
    answer = explain(Index(facts), of("Job/sweep"))
    assert answer
    assert answer.headline == "It is not known whether sweep has pods"
    assert [reason.id for reason in answer.reasons] == ["PodsNotCreated"] * is_refused
    assert not any("has no pods" in reason.text for reason in answer.reasons)
    assert "has created no pods" not in answer.outlook


def of(text: str) -> Ref:
    kind, name = text.split("/")
    return Ref(kind, SPACE, name)


@pytest.mark.parametrize(
    ("workload", "other"),
    [
        ("Deployment/api", "ReplicaSet/api-v2-6f9"),
        ("Deployment/api", "Job/api-6f9"),
        ("LeaderWorkerSet/vllm", "StatefulSet/vllm-cache"),
        ("JobSet/sim", "Job/simulation-0"),
        ("Job/sweep", "ReplicaSet/sweep"),
    ],
)
def test_what_another_workload_made_is_not_confused_with_it(workload: str, other: str) -> None:
    assert not is_made_by(of(other), of(workload))
    assert not is_made_by(of(workload), Ref(of(workload).kind, "elsewhere", of(workload).name))
    assert explain(told(refused(of(other))), of(workload)) is None


def test_any_warning_explains_a_workload_without_pods_that_is_asked_for() -> None:
    said = "no such template"
    event = refused(of("Job/sweep"), said, ago=4000, reason="Unusual")
    answer = explain(told(event), of("Job/sweep"))
    assert answer
    assert [reason.text.partition(". ")[2] for reason in answer.reasons] == [
        f"About Job sweep, a-controller says: {said} (66 minutes ago)"
    ]


@pytest.mark.parametrize("name", ["train", "api-frontend", "-6f9"])
def test_a_replica_set_without_the_hash_of_a_deployment_is_not_taken_for_one(name: str) -> None:
    index = told(refused(of(f"ReplicaSet/{name}")))
    assert waiting_without_pods(index) == []
    assert list(named_workloads(index)) == []


@pytest.mark.parametrize(
    ("words", "helps"),
    [
        *(
            (words, "")
            for words in (
                "exceeded quota: team, requested: pods=1, used: pods=9, limited: pods=9",
                "maximum cpu usage per Pod is 8",
                "cpu max limit to request ratio per Container is 2",
                "limits: must be equal to nvidia.com/gpu request",
                "pods is forbidden: User x cannot create resource",
                'pods "a" already exists',
                'PodGroup "a" is invalid: spec.x: Invalid value',
            )
        ),
        (
            "failed quota: team: must specify limits.cpu",
            "Set the requests and limits",
        ),
        ('admission webhook "p" denied the request: no', "Change the pod template so that"),
        (
            'admission webhook "p" denied the request: attempting to create a pod a/b with gpu sharing request, while GPU sharing is disabled',
            "Request whole GPUs instead of gpu-fraction",
        ),
        (
            'admission webhook "p" denied the request: cannot have both GPU fraction request and whole GPU resource request/limit',
            "Remove either the annotation gpu-fraction",
        ),
        (
            'admission webhook "p" denied the request: gpu-fraction annotation value must be a positive number smaller than 1.0',
            "Correct the annotation that the message names",
        ),
        ('violates PodSecurity "restricted:latest"', "Change the securityContext"),
        ("maximum memory usage per Container is 8Gi", "kubectl describe limitrange -n inference"),
        ("no PriorityClass with name gold was found", "kubectl get priorityclasses"),
        ('serviceaccount "trainer" not found', "Create the ServiceAccount"),
        ("unable to create new content because it is being terminated", "in another namespace"),
        ("restarting jobset, attempt 3", "Find out why a Job failed"),
        (
            "applying RestartJobSet failure policy action (first failed job: tr-a-0)",
            "creates them again, up to failurePolicy.maxRestarts times",
        ),
        ("something else", "kubectl describe job sweep -n inference"),
    ],
)
def test_the_remedy_is_for_what_the_controller_says(words: str, helps: str, said: Said) -> None:
    answer = explain(told(refused(of("Job/sweep"), words)), of("Job/sweep"))
    assert answer
    assert helps in answer.reasons[0].remedy
    said(
        line
        for reason in answer.reasons
        for line in (f"{reason.id} ({reason.who}): {reason.remedy}", *reason.commands)
    )


def listed(index: Index) -> str:
    found = rows(index, waiting_without_pods(index))
    return list_text(found, index.facts, "", everything=False, width=0)


def test_the_list_has_workloads_whose_pods_cannot_be_created() -> None:
    index = told(refused(of("Job/sweep")), refused(of("ReplicaSet/api-6f9")))
    assert waiting_without_pods(index) == [of("Deployment/api"), of("Job/sweep")]
    text = listed(index)
    assert "2 of 2 workloads in all namespaces are pending" in text
    assert "Job sweep has no pods" in text
    assert exit_code(rows(index, waiting_without_pods(index)), index.facts) == 1


@pytest.mark.parametrize(
    "event",
    [
        refused(of("Job/sweep"), ago=3000),
        refused(of("Job/sweep"), reason="BackoffLimitExceeded"),
        refused(of("DaemonSet/agent")),
    ],
    ids=["that was long ago", "it has failed", "no workload has that kind"],
)
def test_the_list_has_no_workload_that_may_be_gone(event: Event) -> None:
    assert waiting_without_pods(told(event)) == []


def test_workloads_with_pods_are_listed_once() -> None:
    made = Pod(
        SPACE, "sim-workers-0-0", "uid", made_for=(of("JobSet/sim"), of("Job/sim-workers-0"))
    )
    other = refused(of("Job/sim-workers-1"))
    assert waiting_without_pods(told(other, pods=(made,))) == []
    assert waiting_without_pods(told(other), ["elsewhere"]) == []


def condition(type: str, holds: bool, message: str, ago: float) -> KueueCondition:
    return KueueCondition(type, holds, type, message, NOW - ago)


def suspended(*conditions: KueueCondition) -> Index:
    """A Job without pods, and Kueue's Workload of it."""
    workload = KueueWorkload(
        SPACE, "job-sweep-1a", "lab", conditions=conditions, controller=of("Job/sweep")
    )
    return Index(Snapshot(kueue_workloads=(workload,), now=NOW))


async def test_a_list_has_what_kueue_holds_without_any_event() -> None:
    """Events are kept for an hour, and a Job may be suspended for days."""
    snapshot = suspended(NO_QUOTA).facts
    read = await read_list(Cluster(snapshot), "", room=True, now=NOW)
    assert waiting_without_pods(Index(read)) == [of("Job/sweep")]


NO_QUOTA = condition("QuotaReserved", False, "insufficient quota for cpu in flavor default", 600)
ADMITTED = condition("Admitted", True, "", 2400)


def test_a_job_that_kueue_keeps_suspended_is_explained_in_its_words() -> None:
    answer = explain(suspended(NO_QUOTA), of("Job/sweep"))
    assert answer
    assert (answer.headline, answer.exit_code) == ("sweep is pending: it has no pods yet", 1)
    [reason] = answer.reasons
    assert reason.id == "KueueHolds"
    assert "insufficient quota for cpu in flavor default" in reason.text
    assert "Kueue holds the workload in queue lab" in listed(suspended(NO_QUOTA))


def test_a_job_that_kueue_has_admitted_and_that_has_no_pods_is_not_said_to_wait_for_quota() -> None:
    index = suspended(condition("QuotaReserved", True, "", 2400), ADMITTED)
    answer = explain(index, of("Job/sweep"))
    assert answer
    assert [reason.text for reason in answer.reasons] == [
        "Kueue admitted Job sweep 40 minutes ago, and it still has no pods"
    ]
    assert waiting_without_pods(index) == []


def test_pods_in_the_moment_after_kueue_admits_a_job_are_not_missed() -> None:
    reserved = condition("QuotaReserved", True, "", 5)
    answer = explain(suspended(reserved, condition("Admitted", True, "", 5)), of("Job/sweep"))
    assert answer
    assert answer.reasons == ()


def told_from_files(*conditions: KueueCondition, lacking: Sequence[str] = ("pods",)) -> Answer:
    """What explain says of a suspended Job in files that lack some kinds."""
    job = WorkloadStatus(of("Job/sweep"), suspended="spec.suspend", queued=True)
    held = suspended(*conditions).facts.kueue_workloads if conditions else ()
    files = frozenset(lacking)
    facts = Snapshot(kueue_workloads=held, workload_statuses=(job,), skipped=files, now=NOW)
    answer = explain(Index(facts), job.ref)
    assert answer
    return answer


def test_the_workload_of_kueue_tells_why_a_job_is_suspended_without_the_pods() -> None:
    answer = told_from_files(NO_QUOTA)
    assert [reason.id for reason in answer.reasons] == ["KueueHolds"]
    assert answer.reasons[0].text.startswith("Kueue holds the workload in queue lab: ")
    assert "KueueHolds" not in answer.skipped
    admitted = told_from_files(condition("QuotaReserved", True, "", 2400), ADMITTED)
    assert admitted.reasons == ()  # its pods may exist


def test_files_without_workloads_of_kueue_do_not_show_that_there_are_none() -> None:
    [reason] = told_from_files(lacking=("pods", "kueue_workloads")).reasons
    assert reason.id == "WorkloadSuspended"
    assert "created no Workload" not in reason.text
    assert reason.commands == ("kubectl describe workloads.kueue.x-k8s.io -n inference",)
    [known] = told_from_files().reasons
    assert "Kueue has created no Workload for it" in known.text


CONDITION = Ref("Deployment", SPACE, "api")


@pytest.mark.parametrize(
    ("pods", "start"),
    [
        ((), "Deployment inference/api has no pods."),
        (
            (Pod(SPACE, "api-1", node="n", phase="Running", made_for=(CONDITION,)),),
            "Not all pods of Deployment inference/api could be created.",
        ),
    ],
)
def test_a_condition_tells_what_the_events_of_an_hour_ago_did(
    pods: tuple[Pod, ...], start: str
) -> None:
    status = WorkloadStatus(CONDITION, refused=QUOTA, refused_since=NOW - 7200)
    answer = explain(Index(Snapshot(pods=pods, workload_statuses=(status,), now=NOW)), CONDITION)
    assert answer
    [reason] = [known for known in answer.reasons if known.id == "PodsNotCreated"]
    assert reason.text.startswith(start.replace("inference/", ""))
    assert f"its controller says: {QUOTA} (2 hours ago)" in reason.text
    assert "kubectl describe resourcequota -n inference" in reason.remedy


def test_a_newer_event_counts_more_than_a_condition() -> None:
    status = WorkloadStatus(CONDITION, refused="an old message", refused_since=NOW - 7200)
    facts = Snapshot(events=(refused(CONDITION),), workload_statuses=(status,), now=NOW)
    answer = explain(Index(facts), CONDITION)
    assert answer
    assert [known.text.count("an old message") for known in answer.reasons] == [0]


def test_a_condition_of_a_workload_that_has_ended_explains_nothing() -> None:
    status = WorkloadStatus(CONDITION, ended="Failed", refused=QUOTA)
    answer = explain(Index(Snapshot(workload_statuses=(status,), now=NOW)), CONDITION)
    assert answer
    assert "PodsNotCreated" not in {known.id for known in answer.reasons}


def managed(by: str, *held: KueueWorkload, pods: tuple[Pod, ...] = (), ended: str = "") -> Answer:
    status = WorkloadStatus(CONDITION, ended=ended, managed_by=by)
    facts = Snapshot(pods=pods, kueue_workloads=held, workload_statuses=(status,), now=NOW)
    answer = explain(Index(facts), CONDITION)
    assert answer
    return answer


MULTIKUEUE = "kueue.x-k8s.io/multikueue"


@pytest.mark.parametrize(
    ("by", "end", "helps"),
    [
        (MULTIKUEUE, ". Kueue's MultiKueue runs it in another cluster", "Look for its pods in the"),
        ("example.com/own", "", "Ask the platform team whether example.com/own runs, or create"),
    ],
)
def test_another_controller_creates_no_pods_here(by: str, end: str, helps: str, said: Said) -> None:
    answer = managed(by)
    said(whole(answer))
    assert answer.state == "waits"
    [reason] = answer.reasons
    assert reason.id == "PodsNotCreated"
    assert reason.text == (
        f"Deployment api has no pods: its field managedBy names the controller {by}, so the usual"
        f" controller of a Deployment ignores it{end}"
    )
    assert reason.remedy.startswith(helps)


def test_another_controller_is_no_reason_if_more_is_known() -> None:
    held = KueueWorkload(SPACE, "w", "q", controller=CONDITION)
    for answer in (
        managed(MULTIKUEUE, held),
        managed(MULTIKUEUE, replace(held, cluster="far")),
        managed(MULTIKUEUE, ended="Failed"),
        managed(MULTIKUEUE, pods=(Pod(SPACE, "api-1", made_for=(CONDITION,)),)),
        managed(""),
    ):
        assert "managedBy" not in "".join(reason.text for reason in answer.reasons)

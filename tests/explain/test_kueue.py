"""What helps against each of Kueue's messages, in the words that its code writes."""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.reasons.kueue import state_of
from app.explain.reasons.kueue_words import help_for, inactive_help
from app.explain.reasons.reason import Reason
from app.explain.state.index import Index
from app.facts.identity import Ref
from app.facts.kubernetes.kueue import (
    ClusterQueue,
    KueueCheck,
    KueueCondition,
    KueueQueue,
    KueueWorkload,
)
from app.facts.kubernetes.pod import ONLY_A_POD
from app.facts.kubernetes.selectors import Requirement
from app.facts.labels import KAI_SCHEDULER
from tests.explain.fleet import HOST, NAMESPACE, NOW, WORKERS, answer, facts, gang, nodes, placed
from tests.explain.table.recorded import Asking
from tests.explain.table.words import ADMITTED, LATE, NO_QUOTA, NOT_READY, RESERVED, kueue, opened
from tests.said import Said

WORKLOAD = KueueWorkload(NAMESPACE, "w", "lab")
QUEUES = (
    KueueQueue(NAMESPACE, "lab", "team-a"),
    KueueQueue(NAMESPACE, "spare", "team-b"),
    KueueQueue("elsewhere", "hidden", "team-b"),
)
SHORT = "couldn't assign flavors to pod set main: "
UNUSED = "insufficient unused quota for nvidia.com/gpu in flavor h100, 8 more needed"
TOO_MUCH = (
    "insufficient quota for nvidia.com/gpu in flavor h100, previously considered podsets requests"
    " (0) + current podset request (32) > maximum capacity (24)"
)
CASES = [
    (SHORT + UNUSED, "Wait for 8 more unused nvidia.com/gpu in flavor h100", "wait"),
    (
        "insufficient unused quota in cohort for nvidia.com/gpu in flavor h100, 8 more needed",
        "Wait for 8 more unused nvidia.com/gpu in flavor h100 of ClusterQueue team-a",
        "wait",
    ),
    (SHORT + TOO_MUCH, "Request at most 24 of nvidia.com/gpu in total, or ask", "you"),
    (
        f"{SHORT}{TOO_MUCH}, {UNUSED.replace('h100', 'h200')}",
        "unused nvidia.com/gpu in flavor h200",
        "wait",
    ),
    (
        "insufficient quota for cpu in flavor small in ClusterQueue",
        "Request at most the allowed amount of cpu in total",
        "you",
    ),
    (
        "borrowing limit for cpu in flavor small exceeded",
        "Request less of cpu, or ask the platform team for a higher borrowingLimit in flavor small",
        "you",
    ),
    (
        f"{SHORT}{UNUSED}. Pending the preemption of 2 workload(s)",
        "Wait until Kueue has stopped",
        "wait",
    ),
    (
        "waiting for all admitted workloads to be in PodsReady condition",
        "Wait until all workloads that Kueue has admitted are ready",
        "wait",
    ),
    (
        SHORT + "untolerated taint {dedicated x NoSchedule <nil>} in flavor h200",
        "Add a toleration for the taint of flavor h200",
        "you",
    ),
    (
        SHORT + "flavor h100 doesn't match node affinity",
        "Correct nodeSelector or node affinity in the pod templates: the labels of flavor h100",
        "you",
    ),
    (
        SHORT + "resource nvidia.com/gpu unavailable in ClusterQueue",
        "add nvidia.com/gpu to spec.resourceGroups of ClusterQueue team-a",
        "platform",
    ),
    (
        'topology "default" allows to fit only 3 out of 4 pod(s). Total nodes: 9',
        "Wait until Kueue's Topology default has room for all pods",
        "you",
    ),
    (
        'topology "default" doesn\'t allow to fit any of 4 pod(s). Total nodes: 9',
        "Wait until a domain of Kueue's Topology default has room for one pod, request less",
        "wait",
    ),
    (
        'topology "default" doesn\'t allow to fit any of 2 slice(s)',
        "Wait until a domain of Kueue's Topology default has room for one slice",
        "wait",
    ),
    (
        SHORT + "no topology domains at level: a.b/block, and more",
        "none that is ready and not cordoned has the labels of all levels of Kueue's Topology, down"
        " to a.b/block",
        "platform",
    ),
    ("no requested topology level: a.b/rack", "instead of a.b/rack", "you"),
    (
        SHORT + 'Flavor "tasf" does not contain the requested level',
        "Name a level that the Topology of flavor tasf has",
        "you",
    ),
    (
        SHORT + 'Flavor "tasf" does not support TopologyAwareScheduling',
        "set spec.topologyName of flavor tasf",
        "you",
    ),
    ("Workload no longer fits after processing another workload", "Wait until workloads", "wait"),
    (
        f"{UNUSED}. Preempting 2 workload(s) failed, will retry.",
        "Wait until Kueue tries again",
        "wait",
    ),
    (
        "Workload has overlapping preemption targets with another workload",
        "Wait until Kueue",
        "wait",
    ),
    (
        "of another release (NoMatchingFlavor)",
        "so that they match a flavor of ClusterQueue team-a",
        "you",
    ),
    ("of another release (WaitingForQuota)", "Wait until workloads", "wait"),
    ("of another release (WaitingForPreemptedWorkloads)", "Wait until Kueue has stopped", "wait"),
    ("of another release (TopologyPlacementFailed)", "Wait until Kueue's Topology", "you"),
    ("of another release (Misconfigured)", "to fix the problem that Kueue reports", "platform"),
    ("of another release (Suspended)", "to start the Workload's queue again", "platform"),
    ("of another release (PendingEvaluation)", "Wait a minute", "wait"),
    ("LocalQueue lab doesn't exist", "label kueue.x-k8s.io/queue-name, such as spare.", "you"),
    ("LocalQueue lab is terminating or missing", "Name an existing LocalQueue", "you"),
    ("LocalQueue lab is inactive", "start LocalQueue lab again", "platform"),
    ("LocalQueue lab is stopped", "start LocalQueue lab again", "platform"),
    ("ClusterQueue team-a doesn't exist", "create ClusterQueue team-a, or name", "platform"),
    ("ClusterQueue team-a not found", "create ClusterQueue team-a, or name", "platform"),
    ("ClusterQueue gone is terminating or missing", "create ClusterQueue gone", "platform"),
    ("ClusterQueue team-a is inactive", "make ClusterQueue team-a active again", "platform"),
    ("ClusterQueue team-a is stopped", "make ClusterQueue team-a active again", "platform"),
    (
        "workload namespace doesn't match ClusterQueue selector",
        f"let namespace {NAMESPACE} into ClusterQueue team-a",
        "platform",
    ),
    ("resources validation failed: spec: too large", "Correct the requests and limits", "you"),
    (
        "resources didn't satisfy LimitRange constraints: x",
        "within the LimitRange: `kubectl",
        "you",
    ),
    ("Admission is gated by: example.com/quota", "Ask the owner of example.com/quota", "you"),
    (
        "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled",
        "enable KueueDRAIntegration",
        "platform",
    ),
    ("Workload is pending evaluation in the scheduling queue", "Wait a minute", "wait"),
    ("AdmissionGatedBy cleared, waiting for quota reservation", "Wait a minute", "wait"),
    ("The workload has failed admission checks", "Wait a minute", "wait"),
    ("Job is on hold", "Scale up the workload", "you"),
    ("Evicted NodeFailures", "Wait until Kueue admits the Workload again.", "wait"),
    ("Evicted FlavorMigration", "Wait until Kueue admits the Workload again.", "wait"),
    ("Evicted Preempted InClusterQueue", "for a higher priority", "wait"),
    ("Evicted Preempted InCohortFairSharing", "the workloads of ClusterQueue team-a", "wait"),
    ("Evicted AdmissionCheck", "Wait until Kueue tries again", "wait"),
    ("a message of another release", "more quota in ClusterQueue team-a: `kubectl", "you"),
]


@pytest.mark.parametrize(("message", "remedy", "who"), CASES, ids=[case[0][:60] for case in CASES])
def test_each_message_has_a_remedy_with_its_own_values(
    message: str, remedy: str, who: str, said: Said
) -> None:
    found = help_for(Index(facts(kueue_queues=QUEUES)), WORKLOAD, message)
    assert remedy in found.remedy
    assert found.who == who
    assert "{" not in found.remedy
    said([found.remedy], found.commands)


def test_a_queue_that_cannot_be_read_has_no_cluster_queue_of_a_guessed_name() -> None:
    found = help_for(Index(facts()), WORKLOAD, UNUSED)
    assert "in flavor h100 of its ClusterQueue or its cohort" in found.remedy


@pytest.mark.parametrize(
    ("reason", "words", "command"),
    [
        ("Stopped", "start it again", '{"spec":{"stopPolicy":"None"}}'),
        ("FlavorNotFound", "create the ResourceFlavors", "kubectl get resourceflavors"),
        ("AdmissionCheckNotFound", "create the AdmissionChecks", "kubectl get admissionchecks"),
        ("AdmissionCheckInactive", "are not active", "kubectl describe admissionchecks"),
        ("TopologyNotFound", "create the Topology", "kubectl get topologies.kueue"),
        ("Terminating", "wait until it is deleted", "kubectl describe clusterqueue team-a"),
        ("MultiKueueWithProvisioningRequest", "condition Active gives", "kubectl describe"),
    ],
)
def test_a_cluster_queue_that_is_not_active_says_what_it_lacks(
    reason: str, words: str, command: str, said: Said
) -> None:
    inactive = KueueCondition("Active", False, reason, "Can't admit new workloads")
    found = inactive_help(ClusterQueue("team-a", inactive=inactive))
    assert found.who == "platform"
    assert words in found.remedy
    assert command in found.commands[0]
    said([found.remedy], found.commands)


@pytest.mark.parametrize(
    ("reason", "requeued", "remedy"),
    [
        ("LocalQueueStopped", False, "Ask the platform team to start LocalQueue lab again"),
        ("LocalQueueStopped", True, "Wait until Kueue admits the Workload again."),
        (
            "ClusterQueueStopped",
            False,
            "Ask the platform team to make its ClusterQueue active again",
        ),
        ("ClusterQueueStopped", True, "Wait until Kueue admits the Workload again."),
        ("Deactivated", True, "Wait until Kueue admits the Workload again."),
        ("EvictedOnManagerCluster", True, "Wait until Kueue admits the Workload again."),
    ],
)
def test_what_was_put_back_only_waits(reason: str, requeued: bool, remedy: str, said: Said) -> None:
    conditions = (
        KueueCondition("Evicted", True, reason, "evicted"),
        KueueCondition("Requeued", requeued, "Restarted", ""),
    )
    told = state_of(Index(facts()), replace(WORKLOAD, conditions=conditions))
    assert told is not None
    assert told[1].remedy.startswith(remedy)
    said([told[0], told[1].remedy], told[1].commands)


def test_the_workload_that_took_the_quota_is_named(said: Said) -> None:
    message = "Preempted to accommodate a workload (UID: uid-w, JobUID: UNKNOWN) due to reclamation"
    workload = replace(
        WORKLOAD,
        conditions=(
            KueueCondition("Evicted", True, "Preempted", message),
            KueueCondition("Preempted", True, "InCohortReclamation", message),
        ),
    )
    others = (KueueWorkload("team-b", "owner", uid="uid-w"), KueueWorkload("team-b", "other"))
    told = state_of(Index(facts(kueue_workloads=(workload, *others))), workload)
    assert told is not None
    assert told[0].startswith(
        "Kueue evicted the Workload (Preempted, InCohortReclamation, by Workload owner): Preempted to"
    )
    said([told[0], told[1].remedy], told[1].commands)


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ("Deactivated", "Find out why it was deactivated, then set spec.active: true"),
        ("DeactivatedDueToAdmissionCheck", "Fix the cause of the AdmissionCheck's rejection"),
        ("DeactivatedDueToRequeuingLimitExceeded", "Find out why its pods were not ready"),
        ("DeactivatedDueToMaximumExecutionTimeExceeded", "kueue.x-k8s.io/max-exec-time-seconds"),
    ],
)
def test_what_is_deactivated_is_activated_after_its_cause_is_gone(
    reason: str, remedy: str, said: Said
) -> None:
    evicted = KueueCondition("Evicted", True, reason, "The workload is deactivated", NOW - 60)
    workload = replace(WORKLOAD, active=False, conditions=(evicted,))
    told = state_of(Index(facts()), workload)
    assert told is not None
    words, helps = told
    assert words.endswith(
        "not active (spec.active: false): The workload is deactivated (60 seconds ago)"
    )
    assert remedy in helps.remedy
    assert helps.commands[0].endswith("""-p '{"spec":{"active":true}}'""")
    said([words, helps.remedy], helps.commands)


def test_what_a_check_says_when_it_rejects_is_quoted(said: Said) -> None:
    evicted = KueueCondition("Evicted", True, "Deactivated", "Checks were rejected", NOW - 60)
    checks = (KueueCheck("prov", "Rejected", "no quota\nin the cloud"), KueueCheck("x", "Rejected"))
    rejected = replace(WORKLOAD, active=False, conditions=(evicted,), checks=checks)
    told = state_of(Index(facts()), rejected)
    assert told is not None
    words, helps = told
    assert words.endswith(
        "were rejected (60 seconds ago). AdmissionCheck prov: no quota in the cloud"
    )
    assert helps.remedy.startswith("Fix the cause of the AdmissionCheck's rejection")
    said([words, helps.remedy], helps.commands)


def held(**state: Any) -> list[Reason]:
    return [known for known in answer(facts(**state)).reasons if known.id == "KueueHolds"]


@pytest.mark.parametrize("conditions", [(RESERVED,), (RESERVED, LATE)])
def test_a_workload_that_runs_in_another_cluster_is_not_missed_here(
    conditions: tuple[KueueCondition, ...],
) -> None:
    (known,) = held(**kueue(*conditions, cluster="worker-1"))
    assert known.text.startswith("MultiKueue has sent the workload to cluster worker-1")
    assert known.who == "you"
    (known,) = held(**kueue(NO_QUOTA, cluster="worker-1"))
    assert "worker-1" not in known.text


@pytest.mark.parametrize(
    ("size", "phase", "words", "remedy"),
    [
        pytest.param(6, "Pending", "all 6 pods of the pod group g exist", "Create 2 more pods"),
        pytest.param(4, "Pending", "has no Workload for them", "Check the label"),
        pytest.param(4, "Failed", "and 3 do", "Create 1 more pod with"),
    ],
)
def test_kueue_waits_for_all_pods_of_a_pod_group(
    size: int, phase: str, words: str, remedy: str
) -> None:
    pods = [replace(pod, kueue_group=("g", size)) for pod in kueue()["pods"]]
    (known,) = held(pods=(*pods[:3], replace(pods[3], phase=phase)))
    assert words in known.text
    assert known.remedy.startswith(remedy)


def test_the_controller_of_a_pod_group_creates_its_pods() -> None:
    maker = Ref("LeaderWorkerSet", NAMESPACE, "vllm")
    pods = [replace(pod, kueue_group=("g", 6), made_for=(maker,)) for pod in kueue()["pods"]]
    (known,) = held(pods=tuple(pods))
    assert known.remedy == (
        "Find out why LeaderWorkerSet vllm creates no more pods: kubectl describe leaderworkerset"
        f" vllm -n {NAMESPACE}."
    )


def test_the_workload_of_a_pod_group_has_its_name() -> None:
    pods = [replace(pod, kueue_group=("g", 6)) for pod in kueue()["pods"]]
    workload = replace(WORKLOAD, name="g", conditions=(NO_QUOTA,))
    (known,) = held(pods=tuple(pods), kueue_workloads=(workload,))
    assert "has waited for quota for 10 minutes" in known.text


CHOSEN = replace(ONLY_A_POD, selector=(Requirement(HOST, "In", ("gpu-99",)),))


@pytest.mark.parametrize(
    ("changes", "chosen"),
    [
        ({"levels": (HOST,)}, True),
        ({"levels": ()}, False),
        ({"levels": (HOST,), "conditions": (RESERVED,)}, False),
    ],
)
def test_a_node_that_kueue_chose_is_not_corrected_in_the_template(
    changes: dict[str, Any], chosen: bool
) -> None:
    state = opened(RESERVED, LATE, **changes)
    state["pods"] = tuple(
        replace(pod, shape=CHOSEN, unscheduled="didn't match Pod's node affinity/selector")
        for pod in state["pods"]
    )
    reasons = answer(facts(**state)).reasons
    found = [r for r in reasons if r.id in ("NoNodeMatches", "SchedulerRefuses")]
    assert len(found) == 2
    for known in found:
        assert known.remedy.startswith(f"Wait a minute: Kueue chose {HOST}=gpu-99") is chosen
        assert any('"active": true' in command for command in known.commands) is chosen


def test_a_node_that_exists_or_was_not_read_is_not_called_gone() -> None:
    state = opened(RESERVED, LATE, levels=(HOST,))
    there = replace(CHOSEN, selector=(Requirement(HOST, "In", ("gpu-00",)),))
    words = "didn't match Pod's node affinity/selector"
    for shape, unseen in ((there, {}), (CHOSEN, {"nodes": "forbidden"})):
        pods = tuple(replace(pod, shape=shape, unscheduled=words) for pod in state["pods"])
        reasons = answer(facts(**state | {"pods": pods, "unseen": unseen})).reasons
        assert not any("Kueue chose" in known.remedy for known in reasons)


@pytest.mark.parametrize(
    ("flavors", "words"),
    [
        (
            ("h100",),
            " Kueue has added the node labels of flavor h100 to the nodeSelector of its pods.",
        ),
        ((), ""),
    ],
)
def test_what_a_flavor_makes_pods_select_is_said(
    flavors: tuple[str, ...], words: str, answered: Asking
) -> None:
    state = opened(RESERVED, LATE, NOT_READY, flavors=flavors)
    remedies = [
        each.remedy for each in answered(facts(**state)).reasons if each.id == "KueueMayEvict"
    ]
    assert [remedy.partition("first.")[2].partition(" If its")[0] for remedy in remedies] == [words]


@pytest.mark.parametrize(
    ("state", "ids"),
    [
        pytest.param("Pending", {"KueueHolds"}, id="a check may bring nodes"),
        pytest.param("Ready", {"KueueHolds", "NeverFits"}, id="no check is left"),
    ],
)
def test_nodes_that_a_check_may_bring_are_not_missed(
    state: str, ids: set[str], answered: Asking
) -> None:
    conditions = (RESERVED, replace(ADMITTED, holds=False))
    waits = kueue(*conditions, checks=(KueueCheck("prov", state),))
    empty = tuple(replace(node, allocatable={"cpu": 64000, "pods": 110_000}) for node in nodes())
    reasons = answered(facts(**waits, nodes=empty)).reasons
    assert {each.id for each in reasons if each.id in ("KueueHolds", "NeverFits")} == ids


def placed_by(scheduler: str, *names: str) -> list[Reason]:
    """Return what is said of a gang that requires a zone, and a rack for its workers."""
    backend = gang(scheduler=scheduler)
    by = KAI_SCHEDULER if scheduler == KAI_SCHEDULER else "default-scheduler"
    return list(answer(facts(gangs=(backend,), pods=placed(*names, scheduler=by))).reasons)


@pytest.mark.parametrize(
    ("scheduler", "names", "texts"),
    [
        pytest.param("kueue", ("gpu-15", "gpu-00", "gpu-01", "gpu-02"), [], id="each is in one"),
        pytest.param(
            "kueue",
            ("gpu-00", "gpu-01", "gpu-02", "gpu-04"),
            [
                f"{WORKERS} must stay in one rack, but its 3 pods are in 2 racks (zone-a/rack-a1 and zone-a/rack-a2)"
            ],
            id="a PodClique in two racks",
        ),
        pytest.param(
            KAI_SCHEDULER,
            ("gpu-15", "gpu-00", "gpu-01", "gpu-02"),
            ["llm-0 must stay in one zone, but its 4 pods are in 2 zones (zone-a and zone-b)"],
            id="KAI keeps all of them together",
        ),
    ],
)
def test_kueue_keeps_each_pod_clique_within_a_domain(
    scheduler: str, names: tuple[str, ...], texts: list[str]
) -> None:
    """Grove makes a request for each PodSet of it, and there is none for all of them."""
    found = [r for r in placed_by(scheduler, *names) if r.id == "RequiredViolated"]
    assert [reason.text.partition(": ")[0] for reason in found] == texts
    places = "Kueue places" if scheduler == "kueue" else "KAI places"
    assert all(f"so that {places} all of them in one" in reason.remedy for reason in found)


def test_a_gang_of_kueue_is_not_called_unconstrained() -> None:
    names = ("gpu-00", "gpu-00", "gpu-01", "gpu-02")
    assert "GangUnconstrained" not in {reason.id for reason in placed_by("kueue", *names)}

"""Reasons in the words of schedulers, kubelets, Kueue and of what makes pods."""

from typing import Any

from msgspec.structs import replace

from app.explain.reasons.reason import clock
from app.facts.constraint import SchedulerConstraint
from app.facts.grove.podcliqueset import UserConstraint
from app.facts.grove.podgang import GangPart
from app.facts.identity import Ref
from app.facts.kai.podgroup import Said, SubGroup
from app.facts.kai.queue import Queue
from app.facts.kai.shard import Shard
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.kueue import (
    ClusterQueue,
    KueueCheck,
    KueueCondition,
    KueueQueue,
    KueueWorkload,
)
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.selectors import Taint
from tests.explain.fleet import (
    GANG,
    NAMESPACE,
    NOW,
    ROUTER,
    WORKERS,
    gang,
    nodes,
    occupant,
    pcs,
    placed,
    pod_group,
    pods,
)
from tests.explain.table.row import Row, changed, domain, event, labelled

KUEUE_GATE = ("kueue.x-k8s.io/admission",)
UNBOUND: dict[str, Any] = {
    "gangs": (gang(told=SchedulerConstraint(), groups=()),),
    "sets": (pcs(asked=UserConstraint(), groups=()),),
    "pod_groups": (),
}
"""The gang without constraints, and without KAI."""
SHORT = "0/16 nodes are available: 16 Insufficient nvidia.com/gpu."
NO_DRIVER = "failed to get DRA client: plugin compute-domain.nvidia.com not registered"


def warned(about: Ref, uid: str, reason: str, message: str, source: str) -> Event:
    return Event(uid, reason, message, NOW - 60, source, about, True)


def starting(**changes: Any) -> tuple[Pod, ...]:
    """All pods have had a node for ten minutes, and none is started."""
    on_nodes = placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")
    made = {"phase": "Pending", "waiting": ("ContainerCreating",), "bound": NOW - 600}
    return tuple(replace(each, **{**made, **changes}) for each in on_nodes)


def kueue(*conditions: KueueCondition, **changes: Any) -> dict[str, Any]:
    workload = KueueWorkload(NAMESPACE, GANG, "lab", conditions=conditions)
    return {
        **UNBOUND,
        "pods": pods(group="", scheduler="default-scheduler", gates=KUEUE_GATE),
        "kueue_workloads": (replace(workload, **changes),),
    }


def opened(*conditions: KueueCondition, **changes: Any) -> dict[str, Any]:
    """Kueue has opened the gates of the pods."""
    state = kueue(*conditions, **changes)
    state["pods"] = tuple(
        replace(pod, gates=(), queued=True, created=NOW - 5) for pod in state["pods"]
    )
    return state


def behind(inactive: KueueCondition | None = None) -> dict[str, Any]:
    """The queue and its ClusterQueue."""
    return {
        "kueue_queues": (
            KueueQueue(NAMESPACE, "lab", "team-a"),
            KueueQueue(NAMESPACE, "other", "b"),
        ),
        "cluster_queues": (ClusterQueue("team-a", "all", inactive),),
    }


NO_QUOTA = KueueCondition(
    "QuotaReserved", False, "Pending", "insufficient quota for nvidia.com/gpu in flavor h100", NOW - 600
)  # fmt: skip
EVICTED = KueueCondition(
    "Evicted", True, "PodsReadyTimeout", "Exceeded the PodsReady timeout", NOW - 300
)
ADMITTED = KueueCondition("Admitted", True, "Admitted", "", NOW - 5)
RESERVED = KueueCondition("QuotaReserved", True, "QuotaReserved", "", NOW - 9)
NOT_READY = KueueCondition("PodsReady", False, "WaitForStart", "Not all pods are ready", NOW - 9)
LATE = replace(ADMITTED, time=NOW - 300)
RECLAIMED = KueueCondition("Preempted", True, "InCohortReclamation", "", NOW - 300)
PREEMPTED = replace(
    EVICTED,
    reason="Preempted",
    message="Preempted to accommodate a workload (UID: uid-w, JobUID: UNKNOWN) due to reclamation",
)
UNKNOWN_YET = replace(NO_QUOTA, message="Workload is pending evaluation in the scheduling queue")
GROUPED = {**UNBOUND, "pods": pods(group="", scheduler="default-scheduler", created=NOW - 5)}

WAIT_FOR_EACH_OTHER = domain(number=8, old=True)
WAIT_FOR_EACH_OTHER |= {
    "pods": (
        *WAIT_FOR_EACH_OTHER["pods"],
        replace(
            WAIT_FOR_EACH_OTHER["pods"][-1],
            name=f"{WORKERS}-9",
            uid="uid-9",
            node="",
            waiting=(),
            created=NOW - 60,
            gates=("grove.io/podgang-pending-creation",),
        ),
    )
}

FORBIDDEN = 'pods "gpu-reservation-gpu-15-a" is forbidden:'
ACCOUNT = 'error looking up service account kai/r: serviceaccount "r" not found'
HELPER = occupant("gpu-15", gpus=0, namespace="research", name="r-0", uid="uid-r-0")
OF_CLIQUE = pods()[:3]
CLIQUE = Ref("PodClique", NAMESPACE, WORKERS)

WORDS = (
    Row(
        "SchedulerRefuses",
        "the default scheduler says why it does not place pods",
        {
            **UNBOUND,
            "pods": pods(
                group="", scheduler="default-scheduler", unscheduled=SHORT, said_at=NOW - 120
            ),
        },
        "default-scheduler says: 0/16 nodes are available: 16 Insufficient nvidia.com/gpu (2 minutes ago)",
        "you",
        {**UNBOUND, "pods": pods(group="", scheduler="default-scheduler", created=NOW - 5)},
    ),
    Row(
        "SchedulerRefuses",
        "volcano says it in an event",
        {
            **UNBOUND,
            "pods": pods(group="", scheduler="volcano"),
            "events": tuple(
                warned(
                    each.ref,
                    each.uid,
                    "FailedScheduling",
                    "all nodes are cordoned: 16 were unschedulable",
                    "volcano",
                )
                for each in pods()
            ),
        },
        "volcano says: all nodes are cordoned: 16 were unschedulable (60 seconds ago)",
        "platform",
        {
            **UNBOUND,
            "pods": pods(group="", scheduler="volcano", created=NOW - 5),
            "events": tuple(
                warned(each.ref, each.uid, "FailedScheduling", "no", "kubelet") for each in pods()
            ),
        },
    ),
    Row(
        "SchedulerRefuses",
        "the nodes are cordoned",
        {
            **UNBOUND,
            "pods": pods(
                group="",
                scheduler="default-scheduler",
                unscheduled="0/16 nodes are available: 16 node(s) were unschedulable",
                said_at=NOW - 120,
            ),
            "nodes": changed(("gpu-00", "gpu-01"), unschedulable=True),
        },
        "default-scheduler says: 0/16 nodes are available: 16 node(s) were unschedulable (2 minutes ago)",
        "platform",
        {**UNBOUND, "pods": pods(group="", scheduler="default-scheduler", created=NOW - 5)},
    ),
    Row(
        "SchedulerSilent",
        "no scheduler has that name, which is nearly KAI's",
        {**UNBOUND, "pods": pods(group="", scheduler="kai-schedular")},
        '4 pods use scheduler "kai-schedular", and no scheduler of that name has acted for 14 minutes. Did you mean kai-scheduler?',
        "you",
        {**UNBOUND, "pods": pods(group="", scheduler="our-own", created=NOW - 20)},
    ),
    Row(
        "SchedulerSilent",
        "the scheduler has placed others, and says nothing of these",
        {
            **UNBOUND,
            "pods": (*pods(group="", scheduler="volcano"), occupant("gpu-00", scheduler="volcano")),
        },
        '4 pods use scheduler "volcano", which has been silent about them for 14 minutes',
        "platform",
        {**UNBOUND, "pods": pods(group="", scheduler="volcano", gates=("example.com/wait",))},
    ),
    Row(
        "KaiRefuses",
        "KAI has no place for it, and we see one",
        {"pod_groups": (pod_group(said=(Said("Other", "no luck", time=NOW - 61),)),)},
        "KAI says: no luck (61 seconds ago). According to our checks, the gang fits in zone-a/rack-a1",
        "you",
        {
            "pod_groups": (pod_group(said=(Said("Other", "no luck", time=NOW - 61),)),),
            "pods": pods(created=NOW - 5),
        },
    ),
    Row(
        "KaiSilent",
        "KAI has said nothing for a quarter of an hour",
        {},
        "Nothing we check is blocking it, and KAI has been silent for 14 minutes; it fits in zone-a/rack-a1",
        "platform",
        {"pods": pods(created=NOW - 59)},
    ),
    Row(
        "KaiSilent",
        "its node pool has no SchedulingShard",
        {
            "pod_groups": (pod_group(pool="h100"),),
            "nodes": labelled(tuple(n.name for n in nodes()), pool="h100"),
            "queues": (Queue("root", pool="h100"), Queue("team-llm", "root", pool="h100")),
            "shards": (Shard("default"),),
        },
        "Nothing we check is blocking it, and KAI has been silent for 14 minutes; it fits in zone-a/rack-a1; there is no SchedulingShard of node pool h100",
        "platform",
        {"pods": pods(created=NOW - 59)},
    ),
    Row(
        "KubeletRefuses",
        "the DRA driver is not registered with the kubelet",
        {
            "pods": starting(),
            "events": tuple(
                warned(each.ref, each.uid, "FailedPrepareDynamicResources", NO_DRIVER, "kubelet")
                for each in pods()
            ),
        },
        "kubelet says: failed to get DRA client: plugin compute-domain.nvidia.com not registered (60 seconds ago). 4 pods have had a node for up to 10 minutes and did not start",
        "platform",
        {
            "pods": starting(bound=NOW - 30),
            "events": tuple(
                warned(each.ref, each.uid, "FailedPrepareDynamicResources", NO_DRIVER, "kubelet")
                for each in pods()
            ),
        },
    ),
    Row(
        "KubeletRefuses",
        "a Secret is missing",
        {
            "pods": starting(),
            "events": tuple(
                warned(each.ref, each.uid, "FailedMount", 'secret "s" not found', "kubelet")
                for each in pods()
            ),
        },
        'kubelet says: secret "s" not found (60 seconds ago). 4 pods have had a node for up to 10 minutes and did not start',
        "you",
        {"pods": starting(bound=NOW - 5)},
    ),
    Row(
        "DomainDeadlock",
        "a ComputeDomain of more nodes than pods that are not gated",
        WAIT_FOR_EACH_OTHER,
        "ComputeDomain llm-0-cd requires 8 nodes (numNodes), but 1 of its 5 pods has scheduling gates, and pods with a node don't start before the domain is ready",
        "you",
        {**WAIT_FOR_EACH_OTHER, "compute_domains": domain(number=8)["compute_domains"]},
        also=("GateNotInGang",),
    ),
    Row(
        "DomainNotReady",
        "a ComputeDomain of more nodes than pods exist",
        domain(number=5, old=True),
        "ComputeDomain llm-0-cd requires 5 nodes (numNodes), but only 4 pods use it, so it cannot become ready",
        "you",
        domain("gpu-00", "gpu-01", "gpu-02", "gpu-03"),
        also=("NotAsPreferred",),
    ),
    Row(
        "GangIncomplete",
        "a webhook that does not answer keeps pods from being made",
        {
            "pods": OF_CLIQUE,
            "events": (
                warned(CLIQUE, "uid-workers", "FailedCreate", "failed calling webhook x", "grove"),
            ),
        },
        "3 of 4 required pods exist: llm-0-pool-0-workers lacks 1 pod. About PodClique llm-0-pool-0-workers, grove says: failed calling webhook x (60 seconds ago)",
        "platform",
        {"pods": pods()},
    ),
    Row(
        "BindingFailed",
        "a policy refuses to have it bound",
        {"events": (event(pods()[0].uid, "BindingError", "x denied the request: no", "binder"),)},
        "KAI chose a node, but binding failed: x denied the request: no (10 seconds ago)",
        "you",
        {"events": (event(pods()[0].uid, "BindingError", "x denied the request", "kubelet"),)},
    ),
    Row(
        "BindingFailed",
        "the ResourceQuota of KAI's helper pods is used up",
        {
            "events": (
                event(pods()[0].uid, "BindingError", f"{FORBIDDEN} exceeded quota: q", "binder"),
            )
        },
        f"KAI chose a node, but binding failed: {FORBIDDEN} exceeded quota: q (10 seconds ago)",
        "platform",
        {"events": (event(pods()[0].uid, "Other", f"{FORBIDDEN} exceeded quota: q", "binder"),)},
    ),
    Row(
        "BindingFailed",
        "the ServiceAccount of KAI's helper pods does not exist",
        {"events": (event(pods()[0].uid, "BindingError", f"{FORBIDDEN} {ACCOUNT}", "binder"),)},
        f"KAI chose a node, but binding failed: {FORBIDDEN} {ACCOUNT} (10 seconds ago)",
        "platform",
        {"events": (event(pods()[0].uid, "Other", f"{FORBIDDEN} {ACCOUNT}", "binder"),)},
    ),
    Row(
        "BindingFailed",
        "KAI's pod that reserves a GPU does not tolerate a taint",
        {
            "events": (event(pods()[0].uid, "BindingError", "waiting for research/r-0", "binder"),),
            "pods": (*pods(), HELPER),
            "nodes": changed(("gpu-15",), taints=(Taint("hpc", "", "NoExecute"),)),
        },
        "KAI chose a node, but binding failed: waiting for research/r-0 (10 seconds ago). KAI's helper pod r-0 is evicted by the taint hpc (NoExecute) of gpu-15",
        "platform",
        {"pods": (*pods(), HELPER)},
    ),
    Row(
        "PoolNotChosen",
        "KAI Resource Management has chosen nothing yet",
        {"pod_groups": (pod_group(pool="kai-unexisting-node-pool", queue=""),)},
        "KAI Resource Management has not assigned a node pool or a queue, although the PodGroup is 14 minutes old",
        "platform",
        {"pod_groups": (pod_group(pool="gold"),)},
    ),
    Row(
        "GangSplit",
        "two of three workers run, because one is enough for KAI",
        {
            "gangs": (gang(parts=(gang().parts[0], GangPart(WORKERS, 1))),),
            "pods": (*placed("gpu-00", "gpu-00", "gpu-01"), pods()[3]),
            "pod_groups": (
                pod_group(subgroups=(SubGroup(ROUTER, minimum=1), SubGroup(WORKERS, minimum=1))),
            ),
        },
        "llm-0-pool-0-workers runs with at least its minimum (minAvailable 1 of 3). 2 pods are placed, and KAI places the other pod where there is room",
        "you",
        {
            "pods": (*placed("gpu-00", "gpu-00", "gpu-01"), pods()[3]),
        },
    ),
    Row(
        "KueueHolds",
        "Kueue has no quota for it",
        kueue(NO_QUOTA),
        "Kueue holds 4 pods in queue lab: the Workload has waited for quota for 10 minutes: insufficient quota for nvidia.com/gpu in flavor h100",
        "you",
        {**UNBOUND, "pods": pods(group="", scheduler="default-scheduler", created=NOW - 5)},
    ),
    Row(
        "KueueHolds",
        "Kueue has evicted it, whose pods were not ready in time, and waits with the next try",
        kueue(EVICTED, NO_QUOTA, requeues=3, again=NOW + 300),
        f"Kueue holds 4 pods in queue lab: Kueue evicted the Workload (PodsReadyTimeout), requeued 3 times: Exceeded the PodsReady timeout (5 minutes ago); Kueue does not try again before {clock(NOW + 300)}",
        "you",
        {**UNBOUND, "pods": pods(group="", scheduler="default-scheduler", created=NOW - 5)},
    ),
    Row(
        "KueueHolds",
        "Kueue has evicted it for another one, and waits for quota again",
        kueue(replace(EVICTED, reason="Preempted", message="for another"), NO_QUOTA, again=NOW - 5),
        "Kueue holds 4 pods in queue lab: Kueue evicted the Workload (Preempted): for another (5 minutes ago); now the Workload has waited for quota for 10 minutes: insufficient quota for nvidia.com/gpu in flavor h100",
        "you",
        {**UNBOUND, "pods": pods(group="", scheduler="default-scheduler", created=NOW - 5)},
    ),
    Row(
        "KueueHolds",
        "Kueue has given up, after too many evictions",
        kueue(replace(EVICTED, reason="Deactivated", message="too many tries"), active=False),
        "Kueue holds 4 pods in queue lab: the Workload is not active (spec.active: false): too many tries (5 minutes ago)",
        "you",
        kueue(replace(EVICTED, holds=False), RESERVED, ADMITTED, active=True)
        | {"pods": pods(group="", scheduler="default-scheduler", created=NOW - 5)},
    ),
    Row(
        "KueueHolds",
        "Kueue has just admitted it",
        kueue(RESERVED, ADMITTED),
        "Kueue holds 4 pods in queue lab: the Workload is admitted, and Kueue removes the gates within seconds",
        "wait",
        {**UNBOUND, "pods": pods(group="", scheduler="default-scheduler", created=NOW - 5)},
    ),
    Row(
        "KueueHolds",
        "Kueue knows no Workload of it",
        {**kueue(), "kueue_workloads": ()},
        "Kueue holds 4 pods, but has no Workload for them",
        "platform",
        {**UNBOUND, "pods": pods(group="", scheduler="default-scheduler", created=NOW - 5)},
    ),
    Row(
        "KueueHolds",
        "the gates are open, and Kueue has evicted it because its pods were not ready in time",
        opened(EVICTED, replace(NO_QUOTA, message=EVICTED.message), requeues=1, again=NOW + 300),
        f"Kueue holds the workload in queue lab: Kueue evicted the Workload (PodsReadyTimeout), requeued once: Exceeded the PodsReady timeout (5 minutes ago); Kueue does not try again before {clock(NOW + 300)}",
        "you",
        opened(replace(EVICTED, holds=False), RESERVED, LATE),
    ),
    Row(
        "KueueHolds",
        "the gates are open, and another workload of the cohort has taken back what it had borrowed",
        {
            **opened(PREEMPTED, RECLAIMED, UNKNOWN_YET),
            **behind(),
        },
        "Kueue holds the workload in queue lab (ClusterQueue team-a): Kueue evicted the Workload (Preempted, InCohortReclamation): Preempted to accommodate a workload (UID: uid-w, JobUID: UNKNOWN) due to reclamation (5 minutes ago)",
        "wait",
        GROUPED,
    ),
    Row(
        "KueueHolds",
        "Kueue stops its pods, and waits for new ones in their place",
        opened(
            replace(EVICTED, reason="ClusterQueueStopped", message="The ClusterQueue is stopped"),
            RESERVED,
            KueueCondition("WaitingForReplacementPods", True, "ClusterQueueStopped", ""),
            cluster_queue="team-a",
        ),
        "Kueue holds the workload in queue lab (ClusterQueue team-a): Kueue evicted the Workload (ClusterQueueStopped): The ClusterQueue is stopped (5 minutes ago); Kueue is stopping its pods; Kueue has deleted its pods, and waits for new ones",
        "platform",
        GROUPED,
    ),
    Row(
        "KueueHolds",
        "an AdmissionCheck wants to try again later",
        kueue(
            RESERVED,
            replace(ADMITTED, holds=False),
            KueueCondition(
                "Evicted",
                False,
                "QuotaReserved",
                "Previously: Evicted due to AdmissionCheck in Retry state",
            ),
            cluster_queue="team-a",
            flavors=("h100",),
            checks=(
                KueueCheck("ready", "Ready"),
                KueueCheck("prov", "Retry", "no capacity in zone-a", NOW - 60, 2),
            ),
            again=NOW + 90,
        ),
        f"Kueue holds 4 pods in queue lab (ClusterQueue team-a): the Workload has quota and waits for AdmissionCheck prov (Retry for 60 seconds after 2 retries): no capacity in zone-a (flavor h100); previously: Evicted due to AdmissionCheck in Retry state; Kueue does not try again before {clock(NOW + 90)}",
        "platform",
        GROUPED,
    ),
    Row(
        "KueueHolds",
        "Kueue has reserved quota, and says nothing of checks",
        kueue(RESERVED, replace(ADMITTED, holds=False, reason="Pending")),
        "Kueue holds 4 pods in queue lab: the Workload has quota, but is not admitted yet: Pending (5 seconds ago)",
        "platform",
        GROUPED,
    ),
    Row(
        "KueueHolds",
        "its ClusterQueue is not active",
        {
            **kueue(replace(NO_QUOTA, message="ClusterQueue team-a is inactive")),
            **behind(KueueCondition("Active", False, "FlavorNotFound", "no ResourceFlavor h100.")),
        },
        "Kueue holds 4 pods in queue lab (ClusterQueue team-a): the Workload has not been admitted for 10 minutes: ClusterQueue team-a is inactive (FlavorNotFound: no ResourceFlavor h100)",
        "platform",
        GROUPED,
    ),
    Row(
        "KueueHolds",
        "Kueue has not looked at it",
        kueue(),
        "Kueue holds 4 pods in queue lab: Kueue has not evaluated it yet",
        "wait",
        GROUPED,
    ),
    Row(
        "KueueHolds",
        "it was admitted long ago, and the gates are still there",
        kueue(RESERVED, LATE),
        "Kueue holds 4 pods in queue lab: the Workload was admitted 5 minutes ago, and the gates are still there",
        "platform",
        opened(RESERVED, LATE),
    ),
    Row(
        "KueueMayEvict",
        "it was evicted before, and its pods are not ready yet",
        opened(RESERVED, LATE, NOT_READY, requeues=2, cluster_queue="team-a", flavors=("h100",)),
        "Kueue admitted the workload (5 minutes ago) in queue lab (ClusterQueue team-a, flavor h100), and evicts it if its pods are not all ready in time; Kueue has evicted it 2 times before",
        "platform",
        opened(RESERVED, LATE, replace(NOT_READY, holds=True), requeues=2),
    ),
    Row(
        "KueueMayEvict",
        "Kueue has never evicted it",
        opened(RESERVED, LATE, NOT_READY),
        "Kueue admitted the workload (5 minutes ago) in queue lab, and evicts it if its pods are not all ready in time",
        "platform",
        opened(RESERVED, LATE),
    ),
)

"""Reasons in what was not made, or is recreated, and in what is not installed."""

from msgspec.structs import replace

from app.facts.grove.podcliqueset import MnnvlAnnotations
from app.facts.grove.status import LastError
from app.facts.identity import Ref
from app.facts.kubernetes.kueue import KueueWorkload
from app.facts.kubernetes.workload import Workload
from app.facts.kubernetes.workload_status import WorkloadStatus
from tests.explain.fleet import (
    NAMESPACE,
    NOW,
    condition,
    gang,
    pcs,
    placed,
    pods,
)
from tests.explain.table.row import Row

NOTHING = {"pods": (), "cliques": (), "gangs": (), "pod_groups": ()}
MIGRATES = replace(
    condition("PodGangMigrationInProgress", "True", "LegacyPodGangsPendingMigration"),
    since=NOW - 60,
)
STRANDED = tuple(replace(pod, place=replace(pod.place, podgang="llm-0-9")) for pod in pods())
KAI = frozenset({"pod_groups", "queues", "kai_topologies"})
ERROR = LastError("ERR_GET_PODGANGMAP", NOW - 1020)
NOT_VALID = LastError('Service "llm-0" is invalid: metadata.name: a DNS-1035 label must', NOW - 30)

PLACED = placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")

JOB = Ref("JobSet", NAMESPACE, "train")
OF_JOB = pods(made_for=(JOB,))
REACHED = "Job has reached the specified backoff limit"
FAILED = WorkloadStatus(JOB, "Failed", "BackoffLimitExceeded", REACHED, NOW - 600)
HELD = WorkloadStatus(JOB, suspended="spec.suspend")

OF_WORKLOAD = Row(
    "NothingMade",
    "no pod of a Workload exists",
    {**NOTHING, "sets": (), "workloads": (Workload(NAMESPACE, "train", {"ring": 4}),)},
    "No pod belongs to Workload train",
    "you",
    {
        "sets": (),
        "pods": pods(workload="train"),
        "workloads": (Workload(NAMESPACE, "train", {"ring": 4}),),
    },
)
"""The only row about another object than the set: Workload train."""

MADE = (
    Row(
        "WorkloadFailed",
        "its JobSet is at its backoff limit",
        {"pods": OF_JOB, "workload_statuses": (FAILED,)},
        f"JobSet train has failed: {REACHED} (BackoffLimitExceeded) (10 minutes ago)",
        "you",
        {"pods": OF_JOB, "workload_statuses": (replace(FAILED, ended="Complete"),)},
    ),
    Row(
        "WorkloadSuspended",
        "its JobSet is suspended",
        {"pods": OF_JOB, "workload_statuses": (HELD,)},
        "JobSet train is suspended (spec.suspend: true), so its controller creates no pods",
        "you",
        {"pods": OF_JOB, "workload_statuses": (replace(HELD, suspended=""),)},
    ),
    Row(
        "WorkloadSuspended",
        "its JobSet has the label of a queue of Kueue",
        {"pods": OF_JOB, "workload_statuses": (replace(HELD, queued=True),)},
        "JobSet train is suspended (spec.suspend: true), so its controller creates no pods. Kueue"
        " has created no Workload for it, although it has a label of Kueue",
        "platform",
        {
            "pods": OF_JOB,
            "workload_statuses": (HELD,),
            "kueue_workloads": (KueueWorkload(NAMESPACE, "job-train", "lab", controller=JOB),),
        },
    ),
    Row(
        "KaiMissing",
        "the APIs of KAI are not served",
        {"absent": KAI, "pod_groups": (), "queues": (), "kai_topologies": ()},
        "The pods use kai-scheduler, but KAI's PodGroup API is not served",
        "platform",
        {"absent": frozenset({"queues"}), "queues": ()},
    ),
    Row(
        "KaiMissing",
        "only KAI's Topology is served",
        {"absent": frozenset({"pod_groups"}), "pod_groups": ()},
        "The pods use kai-scheduler, but KAI's PodGroup API is not served",
        "platform",
        {},
    ),
    Row(
        "GroveMissing",
        "PodGangs are not served",
        {"absent": frozenset({"gangs"}), "gangs": ()},
        "Grove is only partly installed: the PodGang API is not served",
        "platform",
        {"absent": frozenset({"gang_maps"})},
    ),
    Row(
        "SetBeingDeleted",
        "somebody's finalizer keeps the set",
        {"sets": (pcs(deleted_at=NOW - 300, finalizers=("example.com/hold",)),), "pods": PLACED},
        "PodCliqueSet llm has been terminating for 5 minutes, blocked by finalizer example.com/hold",
        "you",
        {"sets": (pcs(finalizers=("example.com/hold",)),), "pods": PLACED},
    ),
    Row(
        "SetBeingDeleted",
        "somebody's finalizer keeps the PodGang",
        {"gangs": (gang(deleted_at=NOW - 300, finalizers=("example.com/hold",)),)},
        "PodGang llm-0 has been terminating for 5 minutes, blocked by finalizer example.com/hold",
        "platform",
        {"gangs": (gang(finalizers=("example.com/hold",)),)},
    ),
    Row(
        "NothingMade",
        "there is only the PodCliqueSet",
        NOTHING,
        "Grove has created nothing for llm yet",
        "platform",
        {**NOTHING, "sets": (pcs(replicas=0),)},
    ),
    Row(
        "NothingMade",
        "Grove says that the name is not valid for an object that it creates",
        {**NOTHING, "sets": (pcs(errors=(ERROR, NOT_VALID)),)},
        f"Grove has created nothing for llm yet. Grove says: {NOT_VALID.text} (30 seconds ago)",
        "you",
        {**NOTHING, "sets": (pcs(errors=(ERROR, NOT_VALID), replicas=0),)},
    ),
    Row(
        "NothingMade",
        "our webhook refuses the PodCliques, because MNNVL can't be set up here",
        {
            **NOTHING,
            "sets": (pcs(mnnvl=MnnvlAnnotations("true")),),
            "absent": frozenset({"compute_domains"}),
        },
        "llm requests MNNVL, but NVIDIA's ComputeDomain API is not served, so grove-admission rejects the PodCliques that Grove creates",
        "platform",
        {
            **NOTHING,
            "sets": (pcs(mnnvl=MnnvlAnnotations("true"), replicas=0),),
            "absent": frozenset({"compute_domains"}),
        },
    ),
    Row(
        "PodGangMigrationInProgress",
        "Grove says so",
        {"sets": (pcs(conditions=(MIGRATES,)),)},
        "Grove is replacing the PodGangs of llm with those of its new release",
        "wait",
        {"sets": (pcs(conditions=(replace(MIGRATES, status="False"),)),)},
    ),
    Row(
        "PodGangMigrationInProgress",
        "Grove says so, and has not finished for half an hour",
        {"sets": (pcs(conditions=(replace(MIGRATES, since=NOW - 1800),)),)},
        "Grove has been replacing the PodGangs of llm for 30 minutes, which usually takes seconds",
        "platform",
        {"sets": (pcs(conditions=(replace(MIGRATES, since=NOW - 1800, status="False"),)),)},
    ),
    Row(
        "PodGangMissing",
        "there are PodCliques, and no PodGang",
        {"gangs": (), "pods": (), "sets": (pcs(errors=(ERROR,)),)},
        "Grove has created PodCliques but no PodGang for llm, so KAI can't group its pods",
        "platform",
        {},
    ),
    Row(
        "PodGangMissing",
        "somebody has deleted the only one",
        {"gangs": (), "pods": PLACED},
        "PodGang llm-0 does not exist, but 4 pods refer to it",
        "platform",
        {"pods": PLACED},
    ),
    Row(
        "PodGangMissing",
        "the label of pods names none that exists",
        {"pods": STRANDED},
        "PodGang llm-0-9 does not exist, but 4 pending pods refer to it",
        "platform",
        {"pods": pods()},
    ),
    Row(
        "PodGangMissing",
        "Grove is replacing the PodGangs",
        {"pods": STRANDED, "sets": (pcs(conditions=(MIGRATES,)),)},
        "PodGang llm-0-9 does not exist, but 4 pending pods refer to it",
        "wait",
        {"pods": pods(), "sets": (pcs(conditions=(MIGRATES,)),)},
        also=("PodGangMigrationInProgress",),
    ),
    Row(
        "PodGangMissing",
        "the pods run on",
        {
            "pods": tuple(
                replace(pod, place=replace(pod.place, podgang="llm-0-9"))
                for pod in placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")
            )
        },
        "PodGang llm-0-9 does not exist, but 4 pods refer to it",
        "platform",
        {"pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")},
    ),
)

"""Reasons for which pods are not handed to KAI."""

from msgspec.structs import replace

from app.facts.constraint import SchedulerConstraint
from app.facts.grove.podcliqueset import UserConstraint
from app.facts.grove.podgang import GangPart, MapEntry
from app.facts.grove.status import LastError
from app.facts.kubernetes.workload import Workload, WorkloadGroup
from tests.explain.fleet import (
    NAMESPACE,
    NOW,
    ROUTER,
    WORKERS,
    cliques,
    fill,
    gang,
    pcs,
    pods,
)
from tests.explain.table.row import GATE, Row, alone, epochs, event, scaled

OF_TRAIN = pods(group="", workload="train-a", workload_part="workers")

EMPTY_ANCHOR = (MapEntry("018"), MapEntry("019", ("018",)))
OPEN = "4 pods have had Grove's scheduling gate for 14 minutes although its conditions are met"

NOT_REFERRING = gang(parts=(GangPart(ROUTER, 1, frozenset({f"{ROUTER}-0"})), GangPart(WORKERS, 3)))

FREE_OF_LEVELS = {
    "gangs": (gang(told=SchedulerConstraint(), groups=()),),
    "sets": (pcs(asked=UserConstraint(), groups=()),),
}
ROUTED = replace(pods()[0], node="gpu-00", phase="Running")
"""The router, which needs no GPU and has a node."""

SECOND_ANCHOR = tuple(replace(each, role="Anchor") for each in epochs(0, scheduled=False)["gangs"])

GATES = (
    Row(
        "GangIncomplete",
        "one worker is missing",
        {
            "pods": pods()[:3],
            "cliques": (
                cliques()[0],
                replace(cliques()[1], errors=(LastError("quota exceeded", NOW - 60),)),
            ),
        },
        f"3 of 4 required pods exist: {WORKERS} lacks 1 pod",
        "you",
        {"pods": pods(gates=GATE)[:3]},
    ),
    Row(
        "GangIncomplete",
        "one worker is missing, and Grove says why in words that are known",
        {
            "pods": pods()[:3],
            "cliques": (
                cliques()[0],
                replace(cliques()[1], errors=(LastError("x exceeded quota: gpu", NOW - 60),)),
            ),
        },
        f"3 of 4 required pods exist: {WORKERS} lacks 1 pod. Grove said: x exceeded quota: gpu (60 seconds ago)",
        "you",
        {"pods": pods(gates=GATE)[:3]},
    ),
    Row(
        "GangIncomplete",
        "the others have Grove's gate, and Grove says why it can't create one",
        {
            "pods": pods(gates=GATE)[:3],
            "cliques": (
                cliques()[0],
                replace(cliques()[1], errors=(LastError("x exceeded quota: gpu", NOW - 60),)),
            ),
            "gangs": (NOT_REFERRING,),
        },
        f"3 of 4 required pods exist: {WORKERS} lacks 1 pod. Grove said: x exceeded quota: gpu (60 seconds ago). Grove keeps its gate on 3 pods until the others exist",
        "you",
        {
            "pods": pods(gates=GATE)[:3],
            "cliques": (
                cliques()[0],
                replace(cliques()[1], errors=(LastError("some error", NOW - 60),)),
            ),
            "gangs": (NOT_REFERRING,),
        },
    ),
    Row(
        "GateNotInGang",
        "the gang does not refer to two gated pods",
        {
            "gangs": (NOT_REFERRING,),
            "pods": pods(gates=GATE),
        },
        "Grove has not added 3 pods of llm-0 to the gang for 14 minutes",
        "platform",
        {"pods": pods(gates=GATE)},
    ),
    Row(
        "GateNotInGang",
        "the gang does not refer to two gated pods, which are new",
        {"gangs": (NOT_REFERRING,), "pods": pods(gates=GATE, created=NOW - 60)},
        "Grove has not added 3 pods of llm-0 to the gang yet",
        "wait",
        {"pods": pods(gates=GATE, created=NOW - 60)},
    ),
    Row(
        "GateBaseGang",
        "the base gang has two of three scheduled",
        scaled(2),
        "The gang waits for gang llm-base: 2 of the 3 required pods of llm-0-decode are scheduled",
        "wait",
        scaled(3),
        also=("GangIncomplete",),
    ),
    Row(
        "GateBaseGang",
        "the PodGangMap names the anchor, which has two of three scheduled",
        epochs(2),
        "The gang waits for gang llm-0-018: 2 of the 3 required pods of llm-0-decode are scheduled",
        "wait",
        epochs(3),
        also=("GangIncomplete",),
    ),
    Row(
        "GateBaseGang",
        "the PodGangMap is not known, so the anchor of the replica is meant",
        epochs(2, mapped=False),
        "The gang waits for gang llm-0-018: 2 of the 3 required pods of llm-0-decode are scheduled",
        "wait",
        epochs(3, mapped=False),
        also=("GangIncomplete",),
    ),
    Row(
        "GateBaseGang",
        "the anchor has its minimum, and has never been scheduled, which Grove notes",
        epochs(3, scheduled=False),
        "The gang waits for gang llm-0-018: 0 of the 3 required pods of llm-0-decode are scheduled",
        "wait",
        epochs(0, scheduled=True),
        also=("GangIncomplete",),
    ),
    Row(
        "GateBaseGang",
        "the anchor needs no pods any more, and Grove has not noted that it was scheduled",
        epochs(0, scheduled=False, parts=(GangPart("llm-0-decode", 0),)),
        "The gang waits for gang llm-0-018: Grove has not recorded yet that it is scheduled",
        "wait",
        epochs(0, scheduled=True, parts=(GangPart("llm-0-decode", 0),)),
    ),
    Row(
        "GateBaseGang",
        "the second anchor waits for the first",
        epochs(3, scheduled=False) | {"gangs": SECOND_ANCHOR},
        "The gang waits for gang llm-0-018: 0 of the 3 required pods of llm-0-decode are scheduled",
        "wait",
        epochs(3, scheduled=False, mapped=False) | {"gangs": SECOND_ANCHOR},
        also=("GangIncomplete",),
    ),
    Row(
        "GateBaseMissing",
        "the map does not have the epoch that the gang depends on",
        alone("Tail", (MapEntry("019", ("017",)),), scheduled=False),
        "The gang waits for a PodGang of epoch 017, which does not exist",
        "platform",
        alone("Tail", (MapEntry("019"),), scheduled=False),
    ),
    Row(
        "GateBaseMissing",
        "the map does not have the gang's own epoch",
        alone("Tail", (MapEntry("018"),), scheduled=None),
        "The gang waits for epoch 019 in PodGangMap llm-0, which does not exist",
        "platform",
        alone("Tail", (MapEntry("019"),), scheduled=None),
    ),
    Row(
        "GateBaseMissing",
        "an entry without pods has no anchor, and Grove compares minimums",
        alone("ScaleOut", EMPTY_ANCHOR, scheduled=None),
        "The gang waits for a PodGang of epoch 018, which does not exist",
        "platform",
        epochs(3),
    ),
    Row(
        "GateBaseMissing",
        "an entry without pods has no anchor, and Grove notes what was scheduled",
        alone("ScaleOut", EMPTY_ANCHOR, scheduled=False),
        "The gang waits for a PodGang of epoch 018, which does not exist",
        "platform",
        epochs(0, scheduled=True),
    ),
    Row(
        "GateOpens",
        "the gang refers to all gated pods, and waits for no other gang",
        {"pods": pods(gates=GATE)},
        OPEN,
        "platform",
        {"gangs": (NOT_REFERRING,), "pods": pods(gates=GATE)},
    ),
    Row(
        "GateOpens",
        "the gang refers to all gated pods, which are new",
        {"pods": pods(gates=GATE, created=NOW - 60)},
        "4 pods still have Grove's scheduling gate although its conditions are met",
        "wait",
        {"gangs": (NOT_REFERRING,), "pods": pods(gates=GATE)},
    ),
    Row(
        "GangIncomplete",
        "one of the workers has failed",
        {"pods": (*pods()[:3], replace(pods()[3], phase="Failed", node="gpu-03"))},
        f"3 of 4 required pods exist: {WORKERS} lacks 1 pod",
        "you",
        {"pods": (*pods()[:3], replace(pods()[3], phase="Running", node="gpu-03"))},
    ),
    Row(
        "GateForeign",
        "another gate holds all pods",
        {"pods": pods(gates=("example.com/quota",))},
        "4 pods have the scheduling gate example.com/quota, which some other controller must remove",
        "platform",
        {"pods": pods(gates=GATE)},
    ),
    Row(
        "GateForeign",
        "KAI's own gate holds all pods",
        {"pods": pods(gates=("kai.scheduler/queue-admission",))},
        "4 pods have KAI's scheduling gate kai.scheduler/queue-admission, which KAI removes once the gang is within the quota and limits of its queue",
        "wait",
        {"pods": pods()},
    ),
    Row(
        "WorkloadMissing",
        "pods name a KAI PodGroup that does not exist",
        {"pod_groups": ()},
        "4 pods wait for KAI PodGroup llm-0, which does not exist",
        "you",
        {},
    ),
    Row(
        "WorkloadMissing",
        "pods name a Workload that does not exist",
        {
            "pods": OF_TRAIN,
            "workloads": (Workload(NAMESPACE, "train-b", {"workers": None}),),
        },
        "4 pods wait for Workload train-a, which does not exist",
        "you",
        {
            "pods": OF_TRAIN,
            "workloads": (Workload(NAMESPACE, "train-a", {"workers": None}),),
        },
    ),
    Row(
        "WorkloadMissing",
        "pods name a group that does not exist",
        {"pods": pods(group="", workload_group="train-a-workers")},
        "4 pods wait for PodGroup train-a-workers, which does not exist",
        "you",
        {
            "pods": pods(group="", workload_group="g"),
            "workload_groups": (WorkloadGroup(NAMESPACE, "g"),),
        },
    ),
    Row(
        "WorkloadMissing",
        "pods name a group whose Workload does not exist",
        {
            "pods": pods(group="", workload_group="g"),
            "workload_groups": (WorkloadGroup(NAMESPACE, "g", "train-a"),),
        },
        "4 pods wait for Workload train-a, which does not exist",
        "you",
        {
            "pods": pods(group="", workload_group="g"),
            "workload_groups": (WorkloadGroup(NAMESPACE, "g", "train-a"),),
            "workloads": (Workload(NAMESPACE, "train-a", {"workers": None}),),
        },
    ),
    Row(
        "WorkloadMissing",
        "pods name a Workload that lacks their group",
        {
            "pods": OF_TRAIN,
            "workloads": (Workload(NAMESPACE, "train-a", {"routers": None}),),
        },
        "4 pods wait for group workers of Workload train-a, which does not exist",
        "you",
        {
            "pods": OF_TRAIN,
            "workloads": (Workload(NAMESPACE, "train-a", {"routers": None, "workers": None}),),
        },
    ),
    Row(
        "OptOutWithoutEffect",
        "pods opt out of the Workload API and still have the mark",
        {"pods": pods(group="gone", skipped=True)},
        "4 pods opt out of the Workload API, but the annotation kai.scheduler/skip-podgrouper still keeps KAI from grouping them",
        "you",
        {"pods": pods(skipped=True)},
    ),
    Row(
        "NotGrouped",
        "KAI's grouper gave up",
        {
            "pods": pods(group=""),
            "events": tuple(event(p.uid, "PodGrouperWarning", "unknown topology") for p in pods()),
        },
        "KAI's pod-grouper has not created a PodGroup for these 4 pods: unknown topology",
        "you",
        {"pods": pods(group="", gates=GATE)},
    ),
    Row(
        "NotGrouped",
        "KAI's grouper may not read the owner",
        {
            "pods": pods(group=""),
            "events": tuple(
                event(
                    p.uid,
                    "PodGrouperWarning",
                    'workflows.argoproj.io "w" is forbidden: User "g" cannot get resource "workflows"',
                )
                for p in pods()
            ),
        },
        'KAI\'s pod-grouper has not created a PodGroup for these 4 pods: workflows.argoproj.io "w" is forbidden: User "g" cannot get resource "workflows"',
        "platform",
        {"pods": pods(group="", gates=GATE)},
    ),
    Row(
        "NotGrouped",
        "KAI's grouper says nothing",
        {"pods": (replace(pods()[0], group=""), *pods()[1:])},
        "For 14 minutes, KAI's pod-grouper has not created a PodGroup for this pod",
        "platform",
        {"pods": pods(scheduler="default-scheduler", group="")},
    ),
    Row(
        "NotGrouped",
        "the pod is new, and KAI's grouper says nothing",
        {"pods": pods(group="", created=NOW - 30)},
        "KAI's pod-grouper has not created a PodGroup for these 4 pods yet",
        "wait",
        {"pods": pods(group="", gates=GATE)},
    ),
    Row(
        "WrongScheduler",
        "the default scheduler places pods with a constraint",
        {"pods": pods(scheduler="default-scheduler")},
        '4 pods with a topology constraint use scheduler "default-scheduler", which ignores the constraint',
        "you",
        {**FREE_OF_LEVELS, "pods": pods(scheduler="default-scheduler")},
    ),
    Row(
        "WrongScheduler",
        "one clique of a gang uses the default scheduler, which has placed its pod",
        {
            **FREE_OF_LEVELS,
            "pods": (replace(ROUTED, scheduler="default-scheduler"), *pods()[1:]),
        },
        "1 required pod of the gang uses default-scheduler. KAI does not count it, and places none of the other pods",
        "you",
        {**FREE_OF_LEVELS, "pods": (ROUTED, *pods()[1:])},
    ),
    Row(
        "WrongScheduler",
        "Grove hands it to the default scheduler, and then to Kueue",
        {
            "pods": pods(scheduler="default-scheduler"),
            "gangs": (gang(scheduler="default-scheduler"),),
        },
        '4 pods with a topology constraint use scheduler "default-scheduler", which ignores the constraint',
        "you",
        {"pods": pods(scheduler="default-scheduler"), "gangs": (gang(scheduler="kueue"),)},
    ),
    Row(
        "WrongScheduler",
        "no scheduler has that name, and then it has placed pods",
        {"pods": pods(scheduler="team-x")},
        '4 pods with a topology constraint use scheduler "team-x", which no component here answers to',
        "you",
        {
            "pods": (
                *pods(scheduler="team-x"),
                *(replace(pod, scheduler="team-x") for pod in fill("rack-b2")[:1]),
            )
        },
    ),
)

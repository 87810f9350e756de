"""What is said of pods, gangs and sets that are missing, held back, or ended.

Tests `app/explain/reasons/missing_pods.py`, `app/explain/reasons/creation.py`,
`app/explain/reasons/gates.py`, `app/explain/reasons/kueue.py`,
`app/explain/reasons/partial_gangs.py` and `app/explain/reasons/evictions.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import Answer, explain
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.grove.podgang import GangPart
from app.facts.grove.status import LastError
from app.facts.identity import Place, Ref
from app.facts.kai.podgroup import KaiPodGroup, SubGroup
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.kueue import KueueCheck
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.workload import Workload, WorkloadGroup
from app.facts.kubernetes.workload_status import WorkloadStatus
from tests.explain.fleet import (
    GANG_REF,
    NAMESPACE,
    NOW,
    PLACE,
    ROUTER,
    WORKERS,
    answer,
    cliques,
    facts,
    gang,
    nodes,
    pcs,
    placed,
    pod,
    pod_group,
    pods,
)
from tests.explain.table.creation import MIGRATES, STRANDED
from tests.explain.table.evictions import below
from tests.explain.table.recorded import Asking, whole
from tests.explain.table.row import GATE, Changes, scaled
from tests.explain.table.words import (
    ADMITTED,
    EVICTED,
    LATE,
    NO_QUOTA,
    NOT_READY,
    RESERVED,
    WORDS,
    kueue,
    opened,
    warned,
)
from tests.said import Said

SET_ERROR = LastError("ERR_A", NOW - 60), LastError("ERR_B", NOW - 30)
KUEUE_GATE = ("kueue.x-k8s.io/admission",)
CASES: dict[str, tuple[Changes, str]] = {
    "Grove deletes a set": (
        {"sets": (pcs(deleted_at=NOW - 300, finalizers=("grove.io/podcliqueset",)),)},
        "PodCliqueSet llm has been terminating for 5 minutes, blocked by finalizer grove.io/podcliqueset",
    ),
    "nothing keeps a set that is being deleted": (
        {"sets": (pcs(deleted_at=NOW - 30),)},
        "PodCliqueSet llm has been terminating for 30 seconds",
    ),
    "finalizers of Grove and of others keep a set": (
        {"sets": (pcs(deleted_at=NOW - 300, finalizers=("grove.io/a", "x.y/b", "x.y/c")),)},
        "PodCliqueSet llm has been terminating for 5 minutes, blocked by finalizers grove.io/a, x.y/b and x.y/c",
    ),
    "pods name a PodGang that is gone while Grove replaces the PodGangs": (
        {"pods": STRANDED, "sets": (pcs(conditions=(MIGRATES,)),)},
        "PodGang llm-0-9 does not exist, but 4 pending pods refer to it",
    ),
    "one of three pods that name a PodGang that is gone is pending": (
        {"pods": (*pods()[:1], *(replace(each, node=node) for each, node in zip(STRANDED[1:], ("", "gpu-00", "gpu-01"), strict=True)))},
        "PodGang llm-0-9 does not exist, but 3 pods refer to it, 1 of them pending",
    ),
    "Grove has replaced PodGangs for exactly five minutes": (
        {"sets": (pcs(conditions=(replace(MIGRATES, since=NOW - 300),)),)},
        "Grove is replacing the PodGangs of llm with those of its new release",
    ),
    "Grove has created nothing, and says why": (
        {"pods": (), "cliques": (), "gangs": (), "pod_groups": (), "sets": (pcs(errors=SET_ERROR, created=NOW - 5),)},
        "Grove has created nothing for llm yet",
    ),
    "one pod of a part has ended, and one is missing": (
        {"pods": (pods()[0], pods()[1], replace(pods()[2], phase="Succeeded", node="gpu-01"))},
        f"2 of 4 required pods exist: {WORKERS} lacks 2 pods",
    ),
    "only one pod exists": (
        {"pods": pods()[1:2]},
        f"1 of 4 required pods exists: {ROUTER} lacks 1 pod and {WORKERS} lacks 2 pods",
    ),
    "Grove's errors about two PodCliques": (
        {
            "pods": pods()[1:2],
            "cliques": (
                replace(cliques()[0], errors=(LastError("ERR_R", NOW - 90),)),
                replace(cliques()[1], errors=(LastError("ERR_W", None),)),
            ),
        },
        f"1 of 4 required pods exists: {ROUTER} lacks 1 pod and {WORKERS} lacks 2 pods",
    ),
    "two pods end, of which one is kept by a finalizer": (
        {
            "pods": (
                *pods()[:2],
                replace(pods()[2], deleting=NOW - 600, node="gpu-01"),
                replace(pods()[3], deleting=NOW - 500, node="gpu-02", finalizers=("x.y/b", "x.y/a")),
            )
        },
        f"2 of 4 required pods exist: {WORKERS} lacks 2 pods",
    ),
    "a pod ends, and another one has failed": (
        {
            "pods": (
                *pods()[:2],
                replace(pods()[2], phase="Failed", node="gpu-01"),
                replace(pods()[3], deleting=NOW - 500, node="gpu-02"),
            )
        },
        f"2 of 4 required pods exist: {WORKERS} lacks 2 pods",
    ),
    "two pods have failed": (
        {"pods": (*pods()[:2], *(replace(each, phase="Failed") for each in pods()[2:]))},
        f"2 of 4 required pods exist: {WORKERS} lacks 2 pods",
    ),
    "the base gang lacks pods of two PodCliques": (
        {
            **scaled(2),
            "gangs": (
                gang(),
                gang(name="llm-base", uid="uid-base", parts=(GangPart("llm-0-decode", 3), GangPart(ROUTER, 2)), groups=()),
            ),
        },
        f"The gang waits for gang llm-base: 2 of the 3 required pods of llm-0-decode are scheduled and 0 of the 2 required pods of {ROUTER} are scheduled",
    ),
    "one pod has Grove's gate although nothing is missing": (
        {"pods": (replace(pods()[0], gates=GATE), *pods()[1:])},
        "1 pod has had Grove's scheduling gate for 14 minutes although its conditions are met",
    ),
    "a new pod has Grove's gate although nothing is missing": (
        {"pods": (replace(pods()[0], gates=GATE, created=NOW - 180), *pods()[1:])},
        "1 pod still has Grove's scheduling gate although its conditions are met",
    ),
    "pods have Grove's gate, and nobody knows since when": (
        {"pods": tuple(replace(each, gates=GATE, created=None) for each in pods())},
        "4 pods still have Grove's scheduling gate although its conditions are met",
    ),
    "pods have Grove's gate, and the PodGang is new": (
        {"pods": pods(gates=GATE), "gangs": (gang(created=NOW - 60),)},
        "4 pods still have Grove's scheduling gate although its conditions are met",
    ),
    "pods have Grove's gate, and their base gang may have been scheduled just now": (
        scaled(3),
        "4 pods still have Grove's scheduling gate although its conditions are met",
    ),
    "new pods are not in the PodGang": (
        {
            "gangs": (gang(parts=(GangPart(ROUTER, 1), GangPart(WORKERS, 3))),),
            "pods": pods(gates=GATE, created=NOW - 60),
        },
        "Grove has not added 4 pods of llm-0 to the gang yet",
    ),
    "one pod has another gate": (
        {"pods": (replace(pods()[0], gates=("x.y/b", *GATE, *KUEUE_GATE)), *pods()[1:])},
        "1 pod has the scheduling gate x.y/b, which some other controller must remove",
    ),
    "pods were not grouped for two minutes": (
        {"pods": (*pods()[:2], *(replace(each, group="", created=NOW - age) for each, age in zip(pods()[2:], (120, 5), strict=True)))},
        "For 2 minutes, KAI's pod-grouper has not created a PodGroup for these 2 pods",
    ),
    "pods were not grouped for nearly two minutes": (
        {"pods": (*pods()[:2], *(replace(each, group="", created=NOW - age) for each, age in zip(pods()[2:], (119, 5), strict=True)))},
        "KAI's pod-grouper has not created a PodGroup for these 2 pods yet",
    ),
    "pods were not grouped, and nobody knows since when": (
        {"pods": (*pods()[:2], *(replace(each, group="", created=None) for each in pods()[2:]))},
        "KAI's pod-grouper has not created a PodGroup for these 2 pods yet",
    ),
    "pods name two schedulers that do not read constraints": (
        {"pods": (*pods(scheduler="kai-schedular")[:1], *pods(scheduler="team-x")[1:2], *pods(scheduler="default-scheduler")[2:])},
        '2 pods with a topology constraint use scheduler "default-scheduler", which ignores the constraint',
    ),
    "a running gang has been below its minimum for as long as KAI needs": (
        below(90),
        "llm-0 has been below its minimum for 90 seconds: KAI evicts its 1 running pod at 07:59 UTC, if its grace period is the default of 60 seconds",
    ),
    "a grace period of its own of no seconds": (
        below(30, grace=0),
        "llm-0 has been below its minimum for 30 seconds: KAI evicts its 1 running pod at 07:59 UTC",
    ),
    "Kueue has just opened a gate, and has a Workload without conditions": (
        opened(RESERVED),
        "Kueue holds the workload in queue lab: the Workload has quota, but is not admitted yet",
    ),
    "Kueue admitted a gang a minute ago, and its gates are still there": (
        kueue(RESERVED, replace(ADMITTED, time=NOW - 60)),
        "Kueue holds 4 pods in queue lab: the Workload was admitted 60 seconds ago, and the gates are still there",
    ),
    "Kueue admitted a gang nearly a minute ago": (
        kueue(RESERVED, replace(ADMITTED, time=NOW - 59)),
        "Kueue holds 4 pods in queue lab: the Workload is admitted, and Kueue removes the gates within seconds",
    ),
    "two checks of Kueue are not ready, of which one has no state": (
        kueue(
            RESERVED,
            replace(ADMITTED, holds=False),
            checks=(KueueCheck("a", ""), KueueCheck("b", "Pending", "", NOW - 90, 1)),
        ),
        "Kueue holds 4 pods in queue lab: the Workload has quota and waits for AdmissionCheck a (Pending) and AdmissionCheck b (Pending for 90 seconds after 1 retry)",
    ),
    "Kueue has evicted a gang, stops its pods, and tries again": (
        opened(replace(EVICTED, reason="Preempted"), RESERVED, requeues=1),
        "Kueue holds the workload in queue lab: Kueue evicted the Workload (Preempted), requeued once: Exceeded the PodsReady timeout (5 minutes ago); Kueue is stopping its pods",
    ),
    "Kueue evicted a gang, whose pods were not ready, and has no quota now": (
        kueue(EVICTED, NO_QUOTA),
        "Kueue holds 4 pods in queue lab: Kueue evicted the Workload (PodsReadyTimeout): Exceeded the PodsReady timeout (5 minutes ago); now the Workload has waited for quota for 10 minutes: insufficient quota for nvidia.com/gpu in flavor h100",
    ),
    "Kueue does not know a queue": (
        kueue(NO_QUOTA, queue=""),
        "Kueue holds 4 pods in queue (none): the Workload has waited for quota for 10 minutes: insufficient quota for nvidia.com/gpu in flavor h100",
    ),
    "Kueue may evict a gang that it has evicted once": (
        opened(RESERVED, LATE, NOT_READY, evictions=1),
        "Kueue admitted the workload (5 minutes ago) in queue lab, and evicts it if its pods are not all ready in time; Kueue has evicted it once before",
    ),
    "Kueue holds one pod of a gang": (
        {
            **kueue(NO_QUOTA),
            "pods": (*pods(group="", scheduler="default-scheduler")[:3], *kueue()["pods"][3:]),
        },
        "Kueue holds 1 pod in queue lab: the Workload has waited for quota for 10 minutes: insufficient quota for nvidia.com/gpu in flavor h100",
    ),
    "Kueue has no Workload for one pod": (
        {
            **kueue(),
            "pods": (*pods(group="", scheduler="default-scheduler")[:3], *kueue()["pods"][3:]),
            "kueue_workloads": (),
        },
        "Kueue holds 1 pod, but has no Workload for it",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "text"), CASES.values(), ids=CASES)
def test_what_is_missing_or_held_back(changes: Changes, text: str, answered: Asking) -> None:
    reasons = answered(facts(**changes)).reasons
    assert text in [reason.text for reason in reasons]


def alone(*pods: Pod, **more: Any) -> Snapshot:
    """Pods of a workload, with no Grove."""
    values: dict[str, Any] = {"nodes": nodes(), "now": NOW, **more}
    return Snapshot(pods=pods, **values)


JOB = Ref("Job", NAMESPACE, "train")


def worker(number: int, **changes: Any) -> Pod:
    """A pod of Job `train`, in the PodGroup `train`."""
    made = replace(
        pod(WORKERS, number),
        name=f"train-{number}",
        uid=f"uid-train-{number}",
        place=Place(),
        owner="uid-train",
        controller=JOB,
        made_for=(JOB,),
        group="train",
        subgroup="",
    )
    return replace(made, **changes)


def group(minimum: int, **changes: Any) -> KaiPodGroup:
    made = KaiPodGroup(NAMESPACE, "train", "uid-pg", ("uid-train",), minimum, "team-llm")
    return replace(made, **changes)


def of_group(minimum: int, *own: Pod, **more: Any) -> Snapshot:
    return replace(
        facts(sets=(), gangs=(), cliques=(), pods=own, pod_groups=(group(minimum),)), **more
    )


ON = {"node": "gpu-00", "phase": "Running"}
OTHER: dict[str, Any] = {"scheduler": "default-scheduler", "group": ""}
REFUSED = warned(JOB, "uid-train", "FailedCreate", "exceeded quota: team", "job-controller")
GROUPS: dict[str, tuple[Snapshot, str]] = {
    "a pod has completed, and is not created again": (
        of_group(3, worker(0), worker(1), worker(2, phase="Succeeded")),
        "2 of 3 required pods exist: train lacks 1 pod. train-2 (Succeeded) has ended, and KAI does not count it",
    ),
    "two pods have failed": (
        of_group(3, worker(0), worker(2, phase="Failed"), worker(1, phase="Failed")),
        "1 of 3 required pods exists: train lacks 2 pods. train-1 (Failed) and train-2 (Failed) have ended, and KAI does not count them",
    ),
    "the controller says why it creates no more": (
        of_group(3, worker(0), worker(1), events=(REFUSED,)),
        "2 of 3 required pods exist: train lacks 1 pod. About Job train, job-controller says: exceeded quota: team (60 seconds ago)",
    ),
    "a pod of the workload uses another scheduler": (
        of_group(2, worker(0), worker(1, **OTHER)),
        "1 of 2 required pods exists: train lacks 1 pod. train-1 exists, but default-scheduler places it, so KAI does not count it",
    ),
    "another scheduler has placed pods of the workload": (
        of_group(3, worker(0), worker(1, **OTHER, **ON), worker(2, **OTHER, **ON)),
        "1 of 3 required pods exists: train lacks 2 pods. train-1 and train-2 exist, but default-scheduler has placed them, so KAI does not count them",
    ),
    "two other schedulers have placed pods of the workload": (
        of_group(
            3, worker(0), worker(1, **OTHER, **ON), worker(2, **ON, group="", scheduler="volcano")
        ),
        "1 of 3 required pods exists: train lacks 2 pods. train-1 and train-2 exist, but default-scheduler and volcano have placed them, so KAI does not count them",
    ),
    "a pod of another owner, of another namespace, and one that has ended use another scheduler": (
        of_group(
            2,
            worker(0),
            worker(1, **OTHER, owner="uid-x"),
            worker(2, **OTHER, namespace="research"),
            worker(3, **OTHER, phase="Failed"),
            worker(4, scheduler="default-scheduler"),
        ),
        '1 pod uses scheduler "default-scheduler", which has been silent about it for 14 minutes',
    ),
    "pods of nobody are too few": (
        of_group(2, worker(0, owner="", controller=None, made_for=())),
        "1 of 2 required pods exists: train lacks 1 pod",
    ),
    "pods of a Workload are too few": (
        of_group(2, worker(0, owner="", controller=None, made_for=(), workload="w")),
        "1 of 2 required pods exists: train lacks 1 pod",
    ),
    "half of the SubGroups are enough, and pods of the others are missing": (
        replace(
            of_group(0, worker(0, subgroup="a", **ON), worker(1, subgroup="a")),
            pod_groups=(
                group(0, needed=1, subgroups=(SubGroup("a", minimum=2), SubGroup("b", minimum=1))),
            ),
        ),
        "Nothing we check is blocking it, and KAI has been silent for 14 minutes",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("snapshot", "text"), GROUPS.values(), ids=GROUPS)
def test_a_podgroup_that_grove_does_not_make(
    snapshot: Snapshot, text: str, answered: Asking
) -> None:
    reasons = answered(snapshot, Ref("PodGroup", NAMESPACE, "train")).reasons
    assert any(reason.text.startswith(text) for reason in reasons)


def split(kind: str, *running: int, total: int = 3, **changes: Any) -> Snapshot:
    """A PodGroup with the minimum 1, of whose pods some run; `kind` made them."""
    ref = Ref(kind, NAMESPACE, "w") if kind else None
    own = (
        worker(
            number,
            controller=ref,
            made_for=(ref,) if ref else (),
            **({"node": f"gpu-0{number}", "phase": "Running"} if number in running else {}),
        )
        for number in range(total)
    )
    return replace(of_group(1, *own), **changes)


@pytest.mark.parametrize(
    "snapshot",
    [
        split("Job", 0),
        split("Job", 0, 1),
        split("StatefulSet", 0),
        split("RayCluster", 0),
        split("PyTorchJob", 0),
        split("ReplicaSet", 0),
        split("Thing", 0),
        split("", 0),
        split("Job", 0, total=17, nodes=nodes()[:4]),
    ],
    ids=[
        "Job",
        "two pods run",
        "StatefulSet",
        "RayCluster",
        "PyTorchJob",
        "ReplicaSet",
        "another kind",
        "nobody",
        "all together fit nowhere",
    ],
)
def test_a_gang_of_which_only_the_minimum_runs(snapshot: Snapshot, answered: Asking) -> None:
    reasons = answered(snapshot, Ref("PodGroup", NAMESPACE, "train")).reasons
    assert [reason.id for reason in reasons if reason.severity == "note"] == ["GangSplit"]


def named(said: Said, snapshot: Snapshot, ref: Ref) -> Answer:
    answer = explain(Index(snapshot), ref)
    assert answer
    said(whole(answer))
    return answer


SELF = {"group": "", "scheduler": "default-scheduler"}
TOGETHER: dict[str, tuple[Snapshot, list[str]]] = {
    "a group of the Workload API has too few pods": (
        alone(
            worker(0, workload_group="g", **SELF),
            worker(1, workload_group="g", phase="Failed", **SELF),
            workload_groups=(WorkloadGroup(NAMESPACE, "g", minimum=2),),
        ),
        ["PodGroup g needs 2 pods together (minCount), but has only 1 pod"],
    ),
    "it has enough": (
        alone(
            worker(0, workload_group="g", **SELF),
            worker(1, workload_group="g", **SELF),
            workload_groups=(WorkloadGroup(NAMESPACE, "g", minimum=2),),
        ),
        [],
    ),
    "a group of a Workload has too few pods, and the controller says why": (
        alone(
            *(worker(n, workload="w", workload_part="ring", **SELF) for n in range(2)),
            workloads=(Workload(NAMESPACE, "w", {"ring": 4, "other": 9}),),
            events=(REFUSED,),
        ),
        [
            "Workload w/ring needs 4 pods together (minCount), but has only 2 pods. About Job train, job-controller says: exceeded quota: team (60 seconds ago)"
        ],
    ),
    "a group without a minimum, and pods of nobody": (
        alone(
            worker(0, workload="w", workload_part="ring", **SELF),
            workloads=(Workload(NAMESPACE, "w", {"ring": None}),),
        ),
        [],
    ),
    "KAI places the pods": (
        alone(
            worker(0, workload="w", workload_part="ring", group=""),
            workloads=(Workload(NAMESPACE, "w", {"ring": 4}),),
        ),
        [],
    ),
}


@pytest.mark.parametrize(("snapshot", "texts"), TOGETHER.values(), ids=TOGETHER)
def test_a_group_of_the_workload_api(snapshot: Snapshot, texts: list[str], said: Said) -> None:
    reasons = named(said, snapshot, JOB).reasons
    assert [each.text for each in reasons if each.id == "GangIncomplete"] == texts


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (WorkloadStatus(JOB, "Failed"), "Job train has failed: its status gives no reason"),
        (WorkloadStatus(JOB, "Failed", "Deadline"), "Job train has failed: Deadline"),
        (
            WorkloadStatus(JOB, "Failed", "Late", "was Late.", NOW - 600),
            "Job train has failed: was Late (10 minutes ago)",
        ),
    ],
)
def test_why_a_workload_has_failed(status: WorkloadStatus, text: str, said: Said) -> None:
    failed = (worker(number, group="", phase="Failed") for number in (1, 0, 2))
    pods = (*failed, worker(3, group="", phase="Succeeded"))
    answer = named(said, alone(*pods, workload_statuses=(status,)), JOB)
    assert [reason.text for reason in answer.reasons] == [text]


def test_a_gang_of_another_scheduler_is_not_split_by_kai() -> None:
    """Another scheduler may place the rest otherwise."""
    [state] = [row.hit for row in WORDS if row.id == "GangSplit"]
    for scheduler, is_told in (("kai-scheduler", True), ("default-scheduler", False)):
        own = tuple(replace(pod, scheduler=scheduler) for pod in state["pods"])
        reasons = answer(facts(**{**state, "pods": own})).reasons
        assert any(reason.id == "GangSplit" for reason in reasons) is is_told


def test_an_event_about_the_podgroup_comes_before_one_about_the_set(answered: Asking) -> None:
    """KAI's newest event about it is told, whatever our leader has written on the set."""
    words = "was preempted by workload ml/y"
    events = (
        Event("uid-set", "PlacementLost", f"inference/llm-0 lost its place: x {words}.", NOW, "grove-admission"),
        Event("uid-group", "Evict", f"old {words}.", NOW - 90, "kai-scheduler"),
        Event("uid-group", "Evict", f"new {words}.", NOW - 60, "kai-scheduler"),
    )  # fmt: skip
    state = facts(events=events, pods=placed("gpu-00"), pod_groups=(pod_group(),))
    found = [each.text for each in answered(state, GANG_REF).reasons if each.id == "PlacementLost"]
    assert found == [f"KAI evicted llm-0: new {words} (60 seconds ago)"]


@pytest.mark.parametrize("placed", [2, 3])
def test_a_base_gang_whose_pods_have_nodes_is_not_said_to_lack_them(placed: int) -> None:
    changes = scaled(0)
    place = replace(PLACE, clique="llm-0-decode", podgang="llm-base")
    pods = tuple(
        pod("llm-0-decode", at, node=f"gpu-0{at}", place=place, group="llm-base")
        for at in range(placed)
    )
    told = answer(facts(**changes | {"pods": (*changes["pods"], *pods)}))
    [reason] = [reason for reason in told.reasons if reason.id == "GateBaseGang"]
    assert ("has not recorded yet" in reason.text) is (placed == 3)
    assert ("log of Grove's operator" in reason.remedy) is (placed == 3)

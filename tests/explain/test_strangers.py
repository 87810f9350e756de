"""Situations that people have reported in public, rebuilt with few objects.

Each case names what the answer must say first, what helps, and what would be false.
"""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import Answer, explain
from app.explain.gangs.assembly import gang_of_pod
from app.explain.reasons.restarts import deletion_of
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.constraint import SchedulerConstraint
from app.facts.identity import Ref
from app.facts.kubernetes.claim import Device, DeviceClass, ResourceClaim, ResourceSlice
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.kueue import KueueWorkload
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import RUNS, Pod, PodClaim, Shape, Stalled
from app.facts.kubernetes.selectors import Requirement, Taint
from app.facts.kubernetes.volume import StorageClass, Volume, VolumeClaim
from app.facts.kubernetes.workload import WorkloadGroup
from app.facts.kubernetes.workload_status import WorkloadStatus
from app.facts.nvidia.computedomain import ComputeDomain
from tests.explain.fleet import (
    GANG,
    HOST,
    NAMESPACE,
    NOW,
    cliques,
    facts,
    gang,
    nodes,
    occupant,
    pods,
    shape,
)
from tests.explain.fleet import answer as of_set
from tests.explain.table.recorded import whole
from tests.explain.table.words import ADMITTED, RESERVED
from tests.said import Said

FOUR = tuple(nodes()[:4])
ALL = ("gpu-00", "gpu-01", "gpu-02", "gpu-03")
LACKS = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."


def made(kind: str, name: str, number: int, **more: Any) -> Pod:
    """A pod with 8 GPUs of a workload."""
    ref = Ref(kind, NAMESPACE, name)
    values: dict[str, Any] = {
        "uid": f"uid-{name}-{number}",
        "owner": f"uid-{name}",
        "controller": ref,
        "made_for": (ref,),
        "shape": shape(8),
        "created": NOW - 1800,
    }
    return Pod(NAMESPACE, f"{name}-{number}", **{**values, **more})


def on(node: str) -> dict[str, Any]:
    return {"node": node, "phase": "Running"}


Told = Callable[..., Answer]


@pytest.fixture
def told(said: Said) -> Told:
    """Explains an object beside pods, and compares all that is said with what is recorded."""

    def ask(ref: Ref, *pods: Pod, **more: Any) -> Answer:
        answer = explain(Index(Snapshot(pods=pods, **{"nodes": FOUR, "now": NOW, **more})), ref)
        assert answer
        said(whole(answer))
        return answer

    return ask


def half(kind: str, name: str, *on_nodes: str) -> tuple[Pod, ...]:
    """A workload of four pods, some of which have a node."""
    placed = [made(kind, name, at, **on(node)) for at, node in enumerate(on_nodes)]
    said = {"unscheduled": LACKS, "said_at": NOW - 60}
    waiting = [made(kind, name, at, **said) for at in range(len(placed), 4)]
    return (*placed, *waiting)


# Pods that hold the room.


def test_two_jobs_that_hold_half_each_wait_for_each_other(told: Told) -> None:
    pods = (
        *half("PyTorchJob", "a", "gpu-00", "gpu-01"),
        *half("PyTorchJob", "b", "gpu-02", "gpu-03"),
    )
    first = told(Ref("PyTorchJob", NAMESPACE, "a"), *pods).reasons[0]
    assert first.id == "NoDomainFits"
    assert first.text.startswith("The nodes have no room")
    assert first.remedy.startswith("Delete or suspend one of PyTorchJob a and PyTorchJob b: each")
    assert "Wait until" not in first.remedy


@pytest.mark.parametrize(
    "holders",
    [
        pytest.param(half("Job", "b", "gpu-02", "gpu-03"), id="pods that need no others"),
        pytest.param(
            tuple(made("PyTorchJob", "b", at, **on(f"gpu-0{at + 2}")) for at in range(2)),
            id="a complete job",
        ),
    ],
)
def test_the_room_of_pods_that_end_is_waited_for_without_that_of_the_own_workload(
    holders: tuple[Pod, ...], told: Told
) -> None:
    pods = (*half("PyTorchJob", "a", "gpu-00", "gpu-01"), *holders)
    first = told(Ref("PyTorchJob", NAMESPACE, "a"), *pods).reasons[0]
    assert first.remedy.startswith(f"Wait until {holders[0].controller} (2 pods")
    assert "PyTorchJob a" not in first.remedy


def test_a_workload_that_is_larger_than_all_nodes_is_not_told_to_wait_for_some_room(
    told: Told,
) -> None:
    workers = half("LeaderWorkerSet", "lws", "gpu-00")
    held = [occupant(node.name, created=NOW - 9000) for node in FOUR[2:]]
    two_free = {"nodes": FOUR[:1] + FOUR[2:]}
    ref = Ref("LeaderWorkerSet", NAMESPACE, "lws")
    first = told(ref, *workers, *held, **two_free).reasons[0]
    assert first.text.endswith(
        "without other workloads there would be room for 2 of the 3 pending pods of"
        " LeaderWorkerSet lws"
    )
    assert first.remedy == "Ask the platform team for more nodes, or use fewer or smaller pods"

    enough = [occupant(node.name, created=NOW - 9000) for node in FOUR[1:]]
    first = told(ref, *workers, *enough).reasons[0]
    assert "without other workloads" not in first.text
    assert first.remedy.startswith("Wait until PodGroup research/batch-eval (3 pods")


def of_deployment(name: str, replica_set: str, **more: Any) -> Pod:
    owner = Ref("ReplicaSet", NAMESPACE, f"llm-{replica_set}")
    deployment = Ref("Deployment", NAMESPACE, "llm")
    values = {"owner": replica_set, "controller": owner, "made_for": (deployment,), **more}
    return replace(made("Deployment", "llm", 0, **values), name=name, uid=name)


@pytest.mark.parametrize(
    ("revision", "remedy"),
    [
        pytest.param(
            "old",
            "Set spec.strategy.type: Recreate, or maxSurge: 0, in Deployment llm",
            id="another",
        ),
        pytest.param("new", "Use fewer replicas of Deployment llm, or ask the", id="the same"),
    ],
)
def test_pods_of_the_previous_revision_hold_the_room_during_a_rolling_update(
    revision: str, remedy: str, told: Told
) -> None:
    held = [of_deployment(f"llm-{at}", revision, **on(f"gpu-0{at}")) for at in range(4)]
    waits = of_deployment("llm-9", "new")
    first = told(Ref("Deployment", NAMESPACE, "llm"), *held, waits).reasons[0]
    assert (first.id, first.remedy[: len(remedy)]) == ("NoDomainFits", remedy)
    assert "as one gang" not in first.remedy


APART = "0/4 nodes are available: 4 node(s) didn't match pod anti-affinity rules."


@pytest.mark.parametrize(
    ("revision", "remedy"),
    [
        pytest.param(
            "old",
            "Set spec.strategy.rollingUpdate.maxSurge: 0 and maxUnavailable: 1 in Deployment llm:"
            " llm-0, llm-1, llm-2 and llm-3 of its previous revision hold their nodes until a new",
            id="another",
        ),
        pytest.param("new", "Use fewer replicas, scale down the workload", id="the same"),
    ],
)
def test_pods_of_the_previous_revision_keep_new_ones_away_by_anti_affinity(
    revision: str, remedy: str, told: Told
) -> None:
    apart = replace(shape(1), unchecked=("podAntiAffinity",))
    held = [
        of_deployment(f"llm-{at}", revision, **on(f"gpu-0{at}"), shape=apart) for at in range(4)
    ]
    waits = of_deployment("llm-9", "new", shape=apart, unscheduled=APART, said_at=NOW - 60)
    first = told(Ref("Deployment", NAMESPACE, "llm"), *held, waits).reasons[0]
    assert (first.id, first.remedy[: len(remedy)]) == ("SchedulerRefuses", remedy)


@pytest.mark.parametrize(
    ("changes", "headline"),
    [
        ({"ended": ("main", "OOMKilled")}, "has ended (Failed): container main ended: OOMKilled"),
        ({"ended": ("main", "exit code 1"), "failure": "Evicted: x"}, "has ended (Failed)"),
        ({}, "has ended (Failed)"),
    ],
)
def test_a_failed_pod_is_told_which_container_failed(
    changes: dict[str, Any], headline: str
) -> None:
    pod = made("Job", "j", 0, **{**on("gpu-00"), "phase": "Failed"}, **changes)
    answer = explain(Index(Snapshot(pods=(pod,), nodes=FOUR, now=NOW)), pod.ref)
    assert answer
    assert answer.headline == f"j-0 {headline}"


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment"])
def test_replicas_without_a_pod_are_not_placed(kind: str, told: Told) -> None:
    """A StatefulSet creates its second pod once the first one is ready."""
    ref = Ref(kind, NAMESPACE, "web")
    status = WorkloadStatus(ref, replicas=3, created=1)
    answer = told(ref, made(kind, "web", 0, **on("gpu-00")), workload_statuses=(status,))
    assert answer.headline.startswith("web is pending: 1 of 1 pod placed, 2 pods not created yet")
    assert answer.exit_code == 1
    assert ("podManagementPolicy" in answer.outlook) == (kind == "StatefulSet")
    assert answer.outlook.endswith(
        f"find out why: kubectl describe {kind.lower()} web -n inference"
    )


@pytest.mark.parametrize(
    ("created", "running", "unread"),
    [(3, 1, ()), (1, 3, ()), (None, 1, ()), (0, 0, ()), (1, 1, ("pods",))],
)
def test_pods_that_files_lack_may_exist(
    created: int | None, running: int, unread: tuple[str, ...]
) -> None:
    ref = Ref("StatefulSet", NAMESPACE, "web")
    pods = tuple(made("StatefulSet", "web", at, **on("gpu-00")) for at in range(running))
    status = WorkloadStatus(ref, replicas=3, created=created)
    facts = Snapshot(
        pods=pods, workload_statuses=(status,), nodes=FOUR, now=NOW, skipped=frozenset(unread)
    )
    answer = explain(Index(facts), ref)
    assert answer
    assert "not created yet" not in answer.headline


@pytest.mark.parametrize(
    ("changes", "headline"),
    [
        ({"phase": "Failed"}, "has ended (Failed): PodGC: node no longer exists"),
        ({"phase": "Failed", "failure": "Evicted: PodGC"}, "has ended (Failed)"),
        ({"deleting": NOW + 9}, "is being deleted: PodGC: node no longer exists"),
        ({"deleting": NOW + 9, "disrupted": ""}, "is being deleted"),
    ],
)
def test_a_pod_that_a_controller_ends_is_told_of_the_cause(
    changes: dict[str, Any], headline: str
) -> None:
    values = {**on("gpu-00"), "disrupted": "PodGC: node no longer exists", **changes}
    pod = made("Job", "j", 0, **values)
    answer = explain(Index(Snapshot(pods=(pod,), nodes=FOUR, now=NOW)), pod.ref)
    assert answer
    assert answer.headline == f"j-0 {headline}"


def test_a_pod_of_a_daemonset_is_told_of_no_other_node(told: Told) -> None:
    """Its controller adds the affinity to one node."""
    of_node = ((Requirement("kubernetes.io/hostname", "In", ("gpu-00",)),),)
    pod = made("DaemonSet", "probe", 0, shape=replace(shape(1), affinity=of_node))
    other = replace(pod, controller=Ref("Job", NAMESPACE, "probe"))
    for waits, is_free in ((pod, False), (other, True)):
        held = occupant("gpu-00", created=NOW - 9000)
        first = told(waits.ref, waits, held).reasons[0]
        assert first.id == "NoDomainFits"
        assert first.remedy.startswith("Remove the selector") == is_free


# Pods that hold other resources than devices.


def holding(name: str, node: str, kind: str = "Job", namespace: str = NAMESPACE, **of: int) -> Pod:
    """A pod without GPUs that runs on a node."""
    pod = made(kind, name, 0, **on(node), shape=shape(0, **of))
    ref = Ref(kind, namespace, name)
    return replace(pod, namespace=namespace, controller=ref, made_for=(ref,))


def test_the_pods_that_hold_the_cpus_of_free_gpus_are_named(told: Told) -> None:
    """The smallest set of pods that is enough, and no daemon."""
    held = [
        holding("etl", "gpu-00", cpu=56),
        holding("proxy", "gpu-00", "DaemonSet", "kube-system", cpu=1),
        *(holding(f"small-{at}", "gpu-01", cpu=8) for at in range(7)),
        *(holding("full", node, cpu=64) for node in ("gpu-02", "gpu-03")),
    ]
    pod = made("Job", "j", 0, shape=shape(8, cpu=60))
    first = told(pod.ref, pod, *held).reasons[0]
    assert first.id == "OtherResource"
    assert first.remedy == (
        "Request less CPU per pod: at most 8 CPUs are free. Or wait until Job etl (1 pod, there for"
        " 30 minutes) ends and room for 1 more pod is free"
    )


def test_an_empty_node_with_too_few_cpus_is_passed_over(told: Told) -> None:
    small = replace(FOUR[1], allocatable={**FOUR[1].allocatable, "cpu": 8_000})
    pod = made("Job", "j", 0, shape=shape(8, cpu=60))
    held = holding("etl", "gpu-00", cpu=56)
    first = told(pod.ref, pod, held, nodes=(FOUR[0], small)).reasons[0]
    assert first.id == "OtherResource"
    assert "wait until Job etl (1 pod, there for 30 minutes) ends" in first.remedy


def test_a_job_beside_a_statefulset_is_another_workload(told: Told) -> None:
    waits = made("StatefulSet", "web", 0)
    held = [made("Job", "etl", at, **on(node.name)) for at, node in enumerate(FOUR)]
    first = told(waits.ref, waits, *held).reasons[0]
    assert first.remedy.startswith("Wait until Job etl (4 pods, there for 30 minutes) ends")


def test_daemons_are_not_scaled_down_for_pods_without_gpus(told: Told) -> None:
    daemons = [holding("proxy", node.name, "DaemonSet", "kube-system", cpu=1) for node in FOUR]
    held = [holding(f"etl-{node.name}", node.name, cpu=60) for node in FOUR]
    pod = made("Job", "j", 0, shape=shape(0, cpu=8))
    first = told(pod.ref, pod, *daemons, *held).reasons[0]
    assert first.id == "NoDomainFits"
    assert first.remedy == (
        "Wait until room for 1 more pod is free: Job etl-gpu-00 (1 pod, there for 30 minutes), Job"
        " etl-gpu-01 (1 pod, there for 30 minutes) and 2 more hold it"
    )

    pod = made("Job", "j", 0, shape=shape(0, cpu=64))
    first = told(pod.ref, pod, *daemons).reasons[0]
    assert first.remedy == (
        "Request less per pod, or ask the platform team for larger nodes: DaemonSet proxy holds"
        " the room"
    )


def test_the_pod_that_holds_gpus_by_a_claim_is_named(told: Told) -> None:
    part = ResourceSlice("gpu.nvidia.com", "gpu-00", 1, "gpu-00", ("gpu-0", "gpu-1"))
    user = made("Job", "first", 0, **on("gpu-00"), shape=shape(0), claims=(PodClaim("gpu", "g"),))
    claim = ResourceClaim(
        NAMESPACE, "g", devices=(Device("gpu.nvidia.com", "gpu-00", "gpu-0"),), allocated=True
    )
    asked = ResourceClaim(NAMESPACE, "two", classes=("gpu.nvidia.com",) * 2)
    pod = made("Job", "j", 0, shape=shape(0), claims=(PodClaim("gpu", "two"),))
    more = {
        "slices": (part,),
        "claims": (claim, asked),
        "device_classes": (DeviceClass("gpu.nvidia.com", "gpu.nvidia.com"),),
        "nodes": FOUR[:1],
    }
    first = told(pod.ref, pod, user, **more).reasons[0]
    assert first.id == "NoDomainFits"
    assert first.remedy.startswith("Wait until Job first (1 pod, there for 30 minutes) ends")


BY_MODEL = "device.attributes['gpu.nvidia.com'].productName == 'A100'"
NO_DEVICE = "0/4 nodes are available: 4 cannot allocate all claims."
REPAIR = "Ask the platform team to repair the devices with a taint, or add a toleration"
CORRECT = "Correct the selector in ResourceClaim c if no device has these attributes"


@pytest.mark.parametrize(
    ("selectors", "tainted", "is_full", "remedy"),
    [
        pytest.param((BY_MODEL,), (), False, CORRECT, id="a selector"),
        pytest.param((), (("gpu-0", "xid=79:NoSchedule"),), False, REPAIR, id="a taint"),
        pytest.param((), (), False, "Check the ResourceClaim of the pod", id="neither"),
        pytest.param((BY_MODEL,), (), True, "Wait until Job first", id="the device is in use"),
    ],
)
def test_what_helps_if_no_device_can_be_allocated(
    selectors: tuple[str, ...],
    tainted: tuple[tuple[str, str], ...],
    is_full: bool,
    remedy: str,
    told: Told,
) -> None:
    part = ResourceSlice("gpu.nvidia.com", "gpu-00", 1, "gpu-00", ("gpu-0",), tainted=tainted)
    claim = ResourceClaim(NAMESPACE, "c", classes=("gpu.nvidia.com",), selectors=selectors)
    device = (Device("gpu.nvidia.com", "gpu-00", "gpu-0"),) if is_full else ()
    held = ResourceClaim(NAMESPACE, "g", devices=device, allocated=True)
    user = made("Job", "first", 0, **on("gpu-00"), shape=shape(0), claims=(PodClaim("gpu", "g"),))
    asks = {"claims": (PodClaim("gpu", "c"),), "unscheduled": NO_DEVICE, "said_at": NOW - 60}
    pod = made("Job", "j", 0, shape=shape(0), **asks)
    more = {
        "slices": (part,),
        "claims": (claim, held),
        "device_classes": (DeviceClass("gpu.nvidia.com", "gpu.nvidia.com"),),
        "nodes": FOUR[:1],
    }
    first, *others = told(pod.ref, pod, user, **more).reasons
    assert first.remedy.startswith(remedy)
    [refuses] = [reason for reason in (first, *others) if reason.id == "SchedulerRefuses"]
    selects = f"ResourceClaim c selects only devices with {BY_MODEL}"
    assert (selects in refuses.text) is bool(selectors)


@pytest.mark.parametrize(
    ("words", "minimum", "is_told"),
    [
        pytest.param(LACKS, 2, False, id="two pods have a node already"),
        pytest.param(LACKS, 3, True, id="too few nodes for three pods"),
        pytest.param(LACKS, 12, True, id="too few nodes for twelve pods"),
        pytest.param(LACKS, 1, False, id="each pod by itself"),
        pytest.param(LACKS, None, False, id="the basic policy"),
        pytest.param(
            "0/4 nodes are available: 4 Too many pods.", 3, False, id="no resource is missing"
        ),
    ],
)
def test_a_gang_of_kubernetes_needs_room_for_its_pods_at_once(
    words: str, minimum: int | None, is_told: bool, told: Told
) -> None:
    group = WorkloadGroup(NAMESPACE, "ring", minimum=minimum)
    asks = {"workload_group": "ring", "unscheduled": words, "said_at": NOW - 60}
    placed = [made("Job", "j", at, **{"workload_group": "ring", **on("gpu-00")}) for at in (98, 99)]
    pods = [*placed, *(made("Job", "j", at, **asks) for at in range(12))]
    answer = told(Ref("Job", NAMESPACE, "j"), *pods, nodes=FOUR[:2], workload_groups=(group,))
    [refuses] = [reason for reason in answer.reasons if reason.id == "SchedulerRefuses"]
    says = f"PodGroup ring gets nodes only for at least {minimum} of its pods at once (minCount)"
    assert (says in refuses.text) is is_told


# A device plugin that does not run.


@pytest.mark.parametrize(
    ("changes", "is_named"),
    [
        pytest.param({}, True, id="it is pending"),
        pytest.param({"node": "gpu-00", "phase": "Running"}, False, id="it runs"),
        pytest.param({"controller": None}, False, id="it is a pod of somebody"),
        pytest.param({"name": "exporter-x"}, False, id="it is another pod"),
    ],
)
def test_a_device_plugin_that_does_not_run_is_named(
    changes: dict[str, Any], is_named: bool, told: Told
) -> None:
    without = tuple(replace(node, allocatable={"cpu": 64_000, "pods": 110_000}) for node in FOUR)
    ref = Ref("DaemonSet", "kube-system", "nvidia-device-plugin")
    words = "1 node(s) had untolerated taint {gpu: }"
    values = {"name": "nvidia-device-plugin-x", "controller": ref, "unscheduled": words, **changes}
    plugin = Pod("kube-system", uid="uid-plugin", **values)
    pod = made("Job", "j", 0)
    first = told(pod.ref, pod, plugin, nodes=without).reasons[0]
    assert first.id == "NeverFits"
    assert (f"does not run: default-scheduler says: {words}" in first.text) is is_named


# Nodes that an autoscaler announces.


def announced(*, first: float, last: float) -> Event:
    said = "Pod should schedule on: nodeclaim/default-x"
    return Event("uid-j-0", "Nominated", said, NOW - last, "karpenter", first=NOW - first)


CLAIM = Ref("NodeClaim", "", "default-x")
NO_CAPACITY = Event("u", "Failed", "no capacity", NOW - 60, "karpenter", CLAIM, True)


@pytest.mark.parametrize(
    ("first", "last", "begins", "who"),
    [
        pytest.param(300, 60, "has been adding nodes for 5 minutes: ", "wait", id="soon"),
        pytest.param(
            1800,
            60,
            "has announced nodes for 30 minutes, last 60 seconds ago, and none has taken these",
            "platform",
            id="again and again",
        ),
        pytest.param(1800, 1800, "announced nodes 30 minutes ago: ", "platform", id="long ago"),
    ],
)
def test_nodes_that_are_announced_again_and_again_do_not_come(
    first: float, last: float, begins: str, who: str, told: Told
) -> None:
    pod = made("Job", "j", 0, unscheduled=LACKS, said_at=NOW - 60)
    held = [occupant(node.name) for node in FOUR]
    events = (announced(first=first, last=last), NO_CAPACITY)
    answer = told(pod.ref, pod, *held, events=events)
    coming = answer.reasons[[each.id for each in answer.reasons].index("NodesComing")]
    assert coming.text.startswith(f"The autoscaler {begins}")
    assert coming.text.endswith(
        "About NodeClaim default-x, karpenter says: no capacity (60 seconds ago)"
    )
    assert coming.who == who
    assert [each.id for each in answer.reasons].index("SchedulerRefuses") > 0


def test_a_label_that_no_node_has_is_for_the_autoscaler_to_tell_of(told: Told) -> None:
    selects = replace(shape(8), selector=(Requirement("gpu", "In", ("a",)),))
    pod = made("Job", "j", 0, shape=selects)
    said = Event("uid-j-0", "FailedScheduling", "no instance type", NOW - 60, "karpenter")
    assert [each.id for each in told(pod.ref, pod).reasons] == ["NoNodeMatches"]
    assert [each.id for each in told(pod.ref, pod, events=(said,)).reasons] == ["NoNodeGroupHelps"]


KARPENTER = "Failed to schedule pod, "
TOLERATE = "Add a toleration for the taint in the message to the pod template, if the pods may"


@pytest.mark.parametrize(
    ("words", "remedy", "who"),
    [
        (
            f"{KARPENTER}all available instance types exceed limits for nodepool (NodePool=gpu-a)",
            "Ask the platform team to raise spec.limits of NodePool gpu-a",
            "platform",
        ),
        (
            f'{KARPENTER}all available instance types exceed limits for nodepool: "gpu-b"',
            "Ask the platform team to raise spec.limits of NodePool gpu-b",
            "platform",
        ),
        (f"{KARPENTER}did not tolerate taint (taint=gpu:NoSchedule, NodePool=a)", TOLERATE, "you"),
        (
            "pod didn't trigger scale-up: 1 node(s) had untolerated taint {gpu: }, 1 max node group"
            " size reached",
            "Ask the platform team to raise the maximum size of the node group. Or: Add a toleration",
            "platform",
        ),
        (
            "pod didn't trigger scale-up: 2 in backoff after failed scale-up",
            "Ask the platform team why the autoscaler could add no nodes the last time",
            "platform",
        ),
        (
            "pod didn't trigger scale-up: 1 node(s) had volume node affinity conflict",
            "Ask the platform team for nodes where the pod's volume is",
            "platform",
        ),
        (f"{KARPENTER}no instance type has enough resources", "Request resources that", "platform"),
    ],
)
def test_what_helps_depends_on_the_autoscaler_s_words(
    words: str, remedy: str, who: str, told: Told
) -> None:
    pod = made("Job", "j", 0, shape=shape(8, cpu=99))
    reason, source = "NotTriggerScaleUp", "cluster-autoscaler"
    if words.startswith(KARPENTER):
        reason, source = "FailedScheduling", "karpenter"
    event = Event("uid-j-0", reason, words, NOW - 60, source, pod.ref)
    reasons = told(pod.ref, pod, events=(event,)).reasons
    [helpless] = [reason for reason in reasons if reason.id == "NoNodeGroupHelps"]
    assert helpless.remedy.startswith(remedy)
    assert helpless.who == who


@pytest.mark.parametrize(
    ("gpus", "remedy"),
    [
        (1, "Use fewer pods, or ask the platform team for nodes with more of this"),
        (2, "Request less nvidia.com/gpu per pod, use fewer pods, or ask"),
    ],
)
def test_a_pod_cannot_request_less_than_one_device(gpus: int, remedy: str, told: Told) -> None:
    pod = made("Job", "j", 0, shape=shape(gpus), unscheduled=LACKS, said_at=NOW - 60)
    held = [occupant(node.name) for node in FOUR]
    reasons = told(pod.ref, pod, *held).reasons
    assert [reason.id for reason in reasons] == ["NoDomainFits", "SchedulerRefuses"]
    assert reasons[1].remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("changes", "remedy", "restarts"),
    [
        pytest.param(
            {"levels": (HOST,)},
            "Let Kueue choose other nodes, because room is free elsewhere",
            True,
            id="Kueue chose the full node",
        ),
        pytest.param(
            {"flavors": ("h100",)},
            f"Remove the selector {HOST}=gpu-00 (unless Kueue added it for flavor h100) if the pods"
            " may run elsewhere: they would fit now",
            False,
            id="Kueue may have added the labels of a flavor",
        ),
        pytest.param(
            {},
            f"Remove the selector {HOST}=gpu-00 if the pods may run elsewhere: they would fit now",
            False,
            id="Kueue chose nothing",
        ),
    ],
)
def test_pods_on_a_full_node_get_another_one_from_who_chose_it(
    changes: dict[str, Any], remedy: str, restarts: bool, told: Told
) -> None:
    """Kueue can choose one node for two Workloads (kubernetes-sigs/kueue#14570)."""
    selects = replace(shape(8), selector=(Requirement(HOST, "In", ("gpu-00",)),))
    pod = made("Job", "j", 0, shape=selects)
    admitted = (RESERVED, ADMITTED)
    workload = KueueWorkload(NAMESPACE, "w", "lab", owners=(pod.owner,), conditions=admitted)
    workload = replace(workload, **changes)
    held = occupant("gpu-00", created=NOW - 9000)
    answer = told(pod.ref, pod, held, kueue_workloads=(workload,))
    [known] = [reason for reason in answer.reasons if reason.id == "NoDomainFits"]
    assert known.remedy.startswith(remedy)
    assert any('"active": true' in command for command in known.commands) is restarts


# Followers that JobSet creates once their leader has a node.


@pytest.mark.parametrize(
    "words",
    [
        "leader pod not yet scheduled, not creating follower pod",
        "follower pod node selector not set",
    ],
)
def test_followers_without_a_leader_follow_from_why_the_leader_has_no_node(
    words: str, told: Told
) -> None:
    leader = made("JobSet", "sim", 0, unscheduled=LACKS, said_at=NOW - 60)
    job = Ref("Job", NAMESPACE, "sim-w-0")
    event = Event("uid-sim", "FailedCreate", words, NOW - 60, "job-controller", job, True)
    held = [occupant(node.name, created=NOW - 9000) for node in FOUR]
    answer = told(Ref("JobSet", NAMESPACE, "sim"), leader, *held, events=(event,))
    assert [reason.id for reason in answer.reasons] == [
        "NoDomainFits", "SchedulerRefuses", "PodsNotCreated",
    ]  # fmt: skip
    last = answer.reasons[-1]
    assert last.follows
    assert last.text.endswith("JobSet creates the followers once their leader has a node")


# What the kubelet says without events.


@pytest.mark.parametrize("more", [{"skipped": frozenset({"events"})}, {"unseen": {"events": "x"}}])
def test_the_message_of_a_container_needs_no_events(more: dict[str, Any], told: Told) -> None:
    """Files of `kubectl get pods,nodes -o yaml` have no events."""
    stalled = (Stalled("main", "ErrImagePull", "manifest unknown"),)
    pod = made("Job", "j", 0, node="gpu-00", bound=NOW - 600, stalled=stalled)
    answer = told(pod.ref, pod, **more)
    assert [(reason.id, reason.text) for reason in answer.reasons] == [
        (
            "KubeletRefuses",
            "kubelet says: container main, ErrImagePull: manifest unknown. 1 pod has had a node for"
            " 10 minutes and did not start",
        )
    ]
    assert "KubeletRefuses" not in answer.skipped


# Pods that the kubelet has rejected.


def rejected(**more: Any) -> Pod:
    failure = "UnexpectedAdmissionError: no GPU device allocation"
    values = {"phase": "Failed", "failure": failure, "node": "gpu-00", **more}
    return made("RayCluster", "ray", 1, **values)


HEAD = made("RayCluster", "ray", 0, shape=shape(0), **on("gpu-00"))
RAY = Ref("RayCluster", NAMESPACE, "ray")


def test_a_worker_that_was_rejected_and_not_replaced_is_told_although_the_rest_runs(
    told: Told,
) -> None:
    answer = told(RAY, HEAD, rejected())
    assert [(reason.id, reason.severity) for reason in answer.reasons] == [
        ("KubeletRefuses", "warning")
    ]
    assert answer.headline == "ray is placed, with remarks: 1 of 1 pod placed"


@pytest.mark.parametrize(
    "others",
    [
        pytest.param(
            (rejected(), made("RayCluster", "ray", 2, created=NOW - 600, **on("gpu-01"))),
            id="it was replaced",
        ),
        pytest.param((rejected(created=NOW - 9000),), id="it was rejected long ago"),
        pytest.param((), id="nothing was rejected"),
    ],
)
def test_a_workload_whose_pods_were_replaced_is_placed(others: tuple[Pod, ...], told: Told) -> None:
    assert told(RAY, HEAD, *others).reasons == ()


def test_a_pod_that_was_rejected_is_not_placed(told: Told) -> None:
    pod = rejected(owner="", controller=None, made_for=(), created=NOW - 90000)
    answer = told(pod.ref, pod)
    assert [(reason.id, reason.severity) for reason in answer.reasons] == [
        ("KubeletRefuses", "problem")
    ]
    assert answer.headline == "ray-1 has ended (Failed)"
    assert answer.tree.words == "ended (Failed)"


# Messages of schedulers, with and without room.


AFFINITY = "0/4 nodes are available: 1 node(s) didn't match pod affinity rules, 3 Insufficient x."


@pytest.mark.parametrize(
    ("is_full", "remedy"),
    [
        pytest.param(False, "Correct podAffinity in the pod template", id="with room"),
        pytest.param(True, "Request less x per pod", id="without room"),
    ],
)
def test_a_missing_resource_is_no_cause_where_nodes_have_room(
    is_full: bool, remedy: str, told: Told
) -> None:
    pod = made("Job", "j", 0, unscheduled=AFFINITY, said_at=NOW - 60)
    held = [occupant(node.name) for node in FOUR] if is_full else []
    reasons = told(pod.ref, pod, *held).reasons
    [refuses] = [reason for reason in reasons if reason.id == "SchedulerRefuses"]
    assert refuses.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("3 node(s) didn't satisfy existing pods anti-affinity rules", "Scale down the workload"),
        (
            'running Score plugins: plugin "DynamicResources" failed with: number of allocations',
            "Ask the platform team to read the scheduler's log",
        ),
        ("pod group is not ready, 1 Running, 3 minAvailable", "Find out why pods of the group"),
    ],
)
def test_what_helps_depends_on_the_scheduler_s_words(words: str, remedy: str, told: Told) -> None:
    pod = made("Job", "j", 0, unscheduled=words, said_at=NOW - 60)
    assert told(pod.ref, pod).reasons[0].remedy.startswith(remedy)


SELECTOR = "0/4 nodes are available: 1 Too many pods, 3 node(s) didn't match Pod's node selector."


@pytest.mark.parametrize(
    ("host", "remedy"),
    [
        pytest.param("gpu-00", "Ask the platform team to raise maxPods", id="a node matches"),
        pytest.param("gpu-99", "Correct the nodeSelector", id="no node matches"),
    ],
)
def test_a_selector_is_no_cause_where_a_node_matches_it(host: str, remedy: str, told: Told) -> None:
    selects = replace(shape(8), selector=(Requirement(HOST, "In", (host,)),))
    pod = made("Job", "j", 0, unscheduled=SELECTOR, said_at=NOW - 60, shape=selects)
    reasons = told(pod.ref, pod).reasons
    [refuses] = [reason for reason in reasons if reason.id == "SchedulerRefuses"]
    assert refuses.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("pod p(1) is not allowed to use resource claim c(2)", "Remove nodeName from the pod"),
        (
            "Failed to prepare dynamic resources: error creating GPU instance",
            "Ask the platform team to read the log of the DRA driver's kubelet plugin on gpu-00",
        ),
        (
            "Failed to prepare dynamic resources: error adding Node label for ComputeDomain:"
            " label already exists for a different ComputeDomain",
            "Wait until the pods of the other ComputeDomain on gpu-00 have ended: a node is in one",
        ),
        (
            "Failed to prepare dynamic resources: error asserting ComputeDomain's namespace:"
            " ComputeDomain not found: 0a1b",
            "Delete the pods, so that new pods get new claims",
        ),
        (
            "Failed to prepare dynamic resources: the ResourceClaim's namespace is different than"
            " the ComputeDomain's namespace",
            "Use the claim template of a ComputeDomain in the namespace of these pods.",
        ),
        ("Multi-Attach error for volume pvc-1", "Use a volume with the access mode ReadWriteMany"),
        (
            'no runtime for "nvidia" is configured, sandbox',
            "Ask the platform team to configure the",
        ),
    ],
)
def test_what_helps_depends_on_the_kubelet_s_words(words: str, remedy: str, told: Told) -> None:
    late = {"node": "gpu-00", "bound": NOW - 900, "waiting": ("ContainerCreating",)}
    pod = made("Job", "j", 0, **late)
    event = Event("uid-j-0", "FailedMount", words, NOW - 60, "kubelet", pod.ref, True)
    [reason] = told(pod.ref, pod, events=(event,)).reasons
    assert (reason.id, reason.remedy[: len(remedy)]) == ("KubeletRefuses", remedy)


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (
            "Job is invalid: limits: Limit must be set for non overcommitable resources",
            "Set the limit of the resource",
        ),
        ("Job.batch is invalid: spec.x: Required value", "Correct the field"),
        (
            'pods is forbidden: User "x" cannot create resource "pods"',
            "Ask the platform team to grant",
        ),
        ('jobs.batch "a" already exists', "Delete the object that the message names"),
    ],
)
def test_what_helps_depends_on_the_controller_s_words(words: str, remedy: str, told: Told) -> None:
    job = Ref("Job", NAMESPACE, "j")
    event = Event("u", "FailedCreate", words, NOW - 60, "job-controller", job, True)
    assert told(job, events=(event,)).reasons[0].remedy.startswith(remedy)


def test_volcano_is_quoted_about_the_group_that_it_does_not_enqueue(told: Told) -> None:
    job, group = Ref("Job", NAMESPACE, "j"), Ref("PodGroup", NAMESPACE, "pg")
    said = f"PodGroup {NAMESPACE}:pg unschedule,reason: pod group is not ready, 1 minAvailable"
    events = (
        Event("u", "PodGroupPending", said, NOW - 60, "vc-controller-manager", job, True),
        Event("v", "Unschedulable", "queue resource quota insufficient", NOW, "volcano", group),
    )
    [reason] = told(job, events=events).reasons
    assert reason.text.endswith(
        "About PodGroup pg, volcano says: queue resource quota insufficient (0 seconds ago)"
    )
    assert reason.remedy.startswith("Find out why Volcano does not enqueue the PodGroup")


def test_a_suspended_object_is_resumed_by_what_created_it(told: Told) -> None:
    train = Ref("TrainJob", NAMESPACE, "t")
    job = Ref("JobSet", NAMESPACE, "t")
    held = WorkloadStatus(job, suspended="spec.suspend", controller=train)
    [reason] = told(job, workload_statuses=(held,)).reasons
    assert (reason.remedy, reason.who) == (
        "Resume TrainJob t if it is suspended too. Otherwise, set spec.suspend of JobSet t to false",
        "you",
    )
    assert reason.commands == (f"kubectl describe trainjob t -n {NAMESPACE}",)

    kueue = KueueWorkload(NAMESPACE, "trainjob-t-1", "lab", controller=train)
    [reason] = told(job, workload_statuses=(held,), kueue_workloads=(kueue,)).reasons
    assert reason.remedy.startswith("Ask the platform team to read the log of Kueue")


# What cannot exist, and what nobody uses.


def test_a_clique_that_was_scaled_to_zero_is_told_once() -> None:
    router, workers = cliques()
    snapshot = facts(cliques=(router, replace(workers, replicas=0)), pods=pods()[:1])
    reasons = of_set(snapshot).reasons
    assert {reason.id for reason in reasons} == {"MinAboveReplicas"}
    assert reasons[0].remedy == (
        "Set replicas, and the minimum of an autoscaler if there is one, to at least 3"
    )


def test_a_domain_that_no_pod_uses_says_what_makes_it_ready(told: Told) -> None:
    domain = ComputeDomain(NAMESPACE, "cd", "uid-cd", 2, "channel", False)
    answer = told(domain.ref, compute_domains=(domain,))
    assert answer.headline == (
        "No pod uses cd; nodes become ready when pods with ResourceClaimTemplate channel are bound to them"
    )


# Remedies that would do harm.


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("node.kubernetes.io/disk-pressure", "Repair gpu-00: Kubernetes removes the taint"),
        ("node.cloudprovider.kubernetes.io/uninitialized", "Repair gpu-00: Kubernetes removes"),
        ("example.com/team", "Add the toleration {key: example.com/team, operator: Exists,"),
    ],
)
def test_taints_of_kubernetes_are_not_tolerated(key: str, words: str, told: Told) -> None:
    tainted = replace(FOUR[0], taints=(Taint(key, "", "NoSchedule"),))
    pending = made("Job", "a", 0)
    [first, *_] = told(pending.controller or pending.ref, pending, nodes=(tainted,)).reasons
    assert first.id == "NodesUnfit"
    assert first.remedy.startswith(words)
    assert ("toleration" in first.remedy) is key.startswith("example.com")


def test_an_administrator_removes_the_taint_out_of_service() -> None:
    tainted = replace(
        FOUR[0], taints=(Taint("node.kubernetes.io/out-of-service", "", "NoExecute"),)
    )
    pending = made("Job", "a", 0)
    answer = explain(Index(Snapshot(pods=(pending,), nodes=(tainted,), now=NOW)), pending.ref)
    assert answer
    assert answer.reasons[0].remedy == (
        "Remove the taint node.kubernetes.io/out-of-service from gpu-00 once the node has recovered"
    )


@pytest.mark.parametrize(
    ("kind", "count", "deletes"),
    [
        ("StatefulSet", 2, True),
        ("Job", 2, False),
        ("Workflow", 2, False),
        ("StatefulSet", 51, False),
    ],
)
def test_a_command_deletes_few_pods_and_none_of_a_job(kind: str, count: int, deletes: bool) -> None:
    """A deleted pod is a failure of its Job."""
    pods = tuple(made(kind, "a", number) for number in range(count))
    gang = gang_of_pod(Index(Snapshot(pods=pods, now=NOW)), pods[0])
    assert bool(deletion_of(gang, pods)) is deletes


def test_scaling_the_stateful_set_of_a_leaderworkerset_has_no_effect(told: Told) -> None:
    lws = Ref("LeaderWorkerSet", NAMESPACE, "lws")
    of_set = {"made_for": (lws, Ref("StatefulSet", NAMESPACE, "lws")), "owner": "uid-sts"}
    placed = made("StatefulSet", "lws", 0, **of_set, **on("gpu-00"))
    waiting = made("StatefulSet", "lws", 1, **of_set, unscheduled=LACKS, said_at=NOW - 60)
    first = told(lws, placed, waiting, nodes=FOUR[:1]).reasons[0]
    assert first.remedy.startswith("Use fewer replicas or smaller groups of LeaderWorkerSet lws")


KIN = {
    "Job": (
        "Wait until a-0 of the same workload ends, if it can end without the pending pods. If not,"
        " lower spec.parallelism of Job a, or ask the platform team for more nodes"
    ),
    "JobSet": (
        "Wait until a-0 of the same workload ends, if it can end without the pending pods. If not,"
        " use fewer replicas of JobSet a, or ask the platform team for more nodes"
    ),
    "MPIJob": (
        "Use fewer replicas of MPIJob a, or ask the platform team for more nodes: a-0 of the same"
        " workload holds the room"
    ),
    "StatefulSet": (
        "Use fewer replicas of StatefulSet a, or ask the platform team for more nodes: a-0 of the"
        " same workload holds the room and does not end"
    ),
}


@pytest.mark.parametrize(("kind", "remedy"), KIN.items(), ids=KIN)
def test_pods_of_the_own_workload_hold_the_room_until_they_end(
    kind: str, remedy: str, told: Told
) -> None:
    pods = (made(kind, "a", 0, **on("gpu-00")), made(kind, "a", 1))
    first = told(Ref(kind, NAMESPACE, "a"), *pods, nodes=FOUR[:1]).reasons[0]
    assert (
        first.remedy
        == f"{remedy}. If the pods need each other, have them scheduled as one gang, so that none starts alone"
    )


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ("grove-initc", "ends once the PodCliques that start earlier"),
        ("wait-gcs-ready", "ends once the head of the RayCluster answers"),
        ("init-pytorch", "ends once the name of the master pod can be resolved"),
        ("fetch", "The other containers start once this container ends"),
    ],
)
def test_init_containers_of_controllers_wait_for_other_pods(
    container: str, words: str, told: Told
) -> None:
    runs = Stalled(container, RUNS, init=True, since=NOW - 900)
    starting = {**on("gpu-00"), "phase": "Pending", "bound": NOW - 900, "stalled": (runs,)}
    pod = made("RayCluster", "ray", 0, **starting)
    [reason] = told(Ref("RayCluster", NAMESPACE, "ray"), pod).reasons
    assert reason.id == "NotStarted"
    assert words in reason.remedy


def test_a_pod_with_a_node_in_its_template_is_not_blamed_on_the_node(told: Told) -> None:
    failed = {"phase": "Failed", "failure": "OutOfnvidia.com/gpu: Node didn't have enough"}
    pod = made("Job", "a", 0, **{**on("gpu-00"), **failed})
    [reason] = told(pod.ref, pod).reasons
    assert reason.remedy.startswith("Remove nodeName from the pod template")


@pytest.mark.parametrize(
    ("resource", "words"),
    [("memory", "memory"), ("ephemeral-storage", "ephemeral storage")],
)
def test_an_amount_in_bytes_says_of_what(resource: str, words: str, told: Told) -> None:
    asked = {"shape": Shape(((resource, 2 * 1024**4 * 1000),))}
    pod = made("Job", "a", 0, **asked)
    has = replace(FOUR[0], allocatable={**FOUR[0].allocatable, resource: 900 * 1024**3 * 1000})
    first = told(Ref("Job", NAMESPACE, "a"), pod, nodes=(has,)).reasons[0]
    text = f"No node has 2 TiB of {words}, which a pod requests; the largest has 900 GiB"
    assert first.text == text
    assert first.remedy.startswith(f"Request at most 900 GiB of {words} per pod")


# What a scheduler says about claims.


@pytest.mark.parametrize("kind", ["Job", "StatefulSet", "Deployment"])
@pytest.mark.parametrize(
    "words", ['pod "{}": ResourceClaim not created yet', "cannot allocate all claims"]
)
def test_a_missing_template_comes_before_the_scheduler_s_words(
    kind: str, words: str, told: Told
) -> None:
    claims = (PodClaim("ch", "", "channel"),)
    domain = ComputeDomain(NAMESPACE, "cd", template="channel", number=2)
    pods = [
        made(kind, "x", at, claims=claims, unscheduled=words.format(f"x-{at}"), said_at=NOW - 60)
        for at in range(2)
    ]
    answer = told(Ref(kind, NAMESPACE, "x"), *pods, compute_domains=(domain,))
    assert [reason.id for reason in answer.reasons] == ["ClaimMissing", "SchedulerRefuses"]


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("scheduler", ["default-scheduler", "volcano"])
def test_the_own_pods_that_hold_the_room_are_told(number: int, scheduler: str, said: Said) -> None:
    """Another scheduler places the pods of a set one by one."""
    own = pods(shape=shape(8), scheduler=scheduler, group="")
    placed = tuple(replace(pod, **on(f"gpu-0{at}")) for at, pod in enumerate(own[:number]))
    some = facts(pods=(*placed, *own[number:]), nodes=FOUR[:number])
    bare = gang(told=SchedulerConstraint(), groups=(), topology="", scheduler=scheduler)
    few = replace(some, gangs=(bare,), pod_groups=())
    answer = explain(Index(few), Ref("PodGang", NAMESPACE, GANG))
    assert answer
    said(whole(answer))
    (reason,) = [reason for reason in answer.reasons if reason.id == "NeverFits"]
    assert "Even empty" not in reason.text


# Messages of schedulers beside reasons that say more.


@pytest.mark.parametrize(
    ("words", "follows"),
    [
        pytest.param("4 Insufficient nvidia.com/gpu", True, id="room"),
        pytest.param(
            "2 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint {dedicated: x}",
            False,
            id="room and taints",
        ),
        pytest.param(
            "2 Insufficient nvidia.com/gpu, 2 node(s) had volume node affinity conflict",
            False,
            id="room and volumes that no reason names",
        ),
    ],
)
def test_a_scheduler_s_words_follow_if_other_reasons_have_a_better_remedy(
    words: str, follows: bool, told: Told
) -> None:
    job = Ref("Job", NAMESPACE, "j")
    other = tuple(made("Job", "other", at, **on(f"gpu-0{at}")) for at in range(4))
    waiting = made("Job", "j", 0, unscheduled=f"0/4 nodes are available: {words}.", said_at=NOW)
    room, refuses = told(job, waiting, *other).reasons
    assert (room.id, refuses.id) == ("NoDomainFits", "SchedulerRefuses")
    assert refuses.follows is follows


def test_a_volume_in_a_zone_without_gpus_says_more_than_the_scheduler(told: Told) -> None:
    job = Ref("Job", NAMESPACE, "j")
    zone = "topology.kubernetes.io/zone"
    with_gpus = replace(FOUR[0], labels={**FOUR[0].labels, zone: "a"})
    without = Node("cpu-0", {zone: "b"}, allocatable={"cpu": 64_000, "pods": 110_000})
    words = (
        "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had volume node"
        " affinity conflict."
    )
    pod = made("Job", "j", 0, volumes=("data",), unscheduled=words, said_at=NOW - 60)
    volume, refuses = told(
        job,
        pod,
        nodes=(with_gpus, without),
        volume_claims=(
            VolumeClaim(NAMESPACE, "data", phase="Bound", storage_class="gp3", volume="pv1"),
        ),
        storage_classes=(StorageClass("gp3", waits=True),),
        volumes=(Volume("pv1", places=((Requirement(zone, "In", ("b",)),),)),),
    ).reasons
    assert (volume.id, refuses.id) == ("VolumeElsewhere", "SchedulerRefuses")
    assert "Or copy the volume's data, and create PersistentVolumeClaim data again" in volume.remedy
    assert refuses.follows


@pytest.mark.parametrize("upgrades", [True, False])
def test_the_old_cluster_of_a_ray_service_holds_the_room(upgrades: bool, told: Told) -> None:
    service = Ref("RayService", NAMESPACE, "rs")
    old = [replace(pod, made_for=(service, *pod.made_for)) for pod in half("RayCluster", "a", *ALL)]
    new = replace(made("RayCluster", "b", 0), made_for=(service,))
    if not upgrades:
        old = list(half("RayCluster", "a", *ALL))
    first = told(service, *old, new).reasons[0]
    assert first.id == "NoDomainFits"
    told_again = "or delete RayService rs and create it again if it may be down meanwhile"
    assert (told_again in first.remedy) is upgrades
    assert ("Ask the owner of RayCluster a" in first.remedy) is not upgrades

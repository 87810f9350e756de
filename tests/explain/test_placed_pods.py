"""What is said of pods that are placed against constraints, on lost nodes, or not bound.

Tests `app/explain/reasons/placed_pods.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.facts.constraint import SchedulerConstraint
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod, Stalled
from app.facts.kubernetes.selectors import Taint
from tests.explain.fleet import (
    NOW,
    RACK,
    ZONE,
    facts,
    fill,
    gang,
    nodes,
    occupant,
    pcs,
    placed,
    pod_group,
    pods,
    shape,
)
from tests.explain.table.placement import ONE_RUNS
from tests.explain.table.recorded import Asking
from tests.explain.table.row import Changes, changed, event, without
from tests.explain.table.words import HELPER, warned

PART = "replica llm-0-pool-0 must stay in one rack, but its 3 pods are"
ON_THREE = {"pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")}


def lacking(**keys: tuple[str, ...]) -> tuple[Node, ...]:
    """The nodes, some of them without labels: `gpu_01=(RACK,)`."""
    of_nodes = {name.replace("_", "-"): lacks for name, lacks in keys.items()}
    return tuple(
        replace(n, labels={k: v for k, v in n.labels.items() if k not in of_nodes.get(n.name, ())})
        for n in nodes()
    )


CASES: dict[str, tuple[Changes, str]] = {
    "no node of the workers has its rack": (
        {**ON_THREE, "nodes": without(RACK, "gpu-00", "gpu-01", "gpu-02")},
        f"{PART} on gpu-00, gpu-01 and gpu-02, which lack the rack label",
    ),
    "one node of a worker has its rack, and lacks its zone": (
        {**ON_THREE, "nodes": without(ZONE, "gpu-02")},
        f"{PART} in rack zone-a/rack-a1 and on gpu-02, which lacks the label of rack or of a broader level",
    ),
    "one node of a worker lacks its rack, and another one also its zone": (
        {**ON_THREE, "nodes": lacking(gpu_01=(RACK,), gpu_02=(ZONE, RACK))},
        f"{PART} in rack zone-a/rack-a1 and on gpu-01 and gpu-02, which lack the rack label",
    ),
    "two nodes of workers lack the same labels": (
        {**ON_THREE, "nodes": without(RACK, "gpu-01", "gpu-02")},
        f"{PART} in rack zone-a/rack-a1 and on gpu-01 and gpu-02, which lack the rack label",
    ),
    "one node of a worker lacks its rack, and is in another zone by its label": (
        {
            "pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-08"),
            "nodes": without(RACK, "gpu-08"),
        },
        f"{PART} in rack zone-a/rack-a1 and on gpu-08, which lacks the rack label",
    ),
    "the workers are in two racks, and on a node without one": (
        {
            "pods": placed("gpu-00", "gpu-00", "gpu-04", "gpu-05"),
            "nodes": without(RACK, "gpu-05"),
        },
        f"{PART} in 2 racks (zone-a/rack-a1 and zone-a/rack-a2) and on gpu-05, which lacks the rack label",
    ),
    "one of three pods is on each of two nodes that are gone": (
        {"pods": placed("gpu-99", "gpu-98", "gpu-98", "gpu-00")},
        "1 pod of llm-0 is on node gpu-99, which does not exist any more",
    ),
    "nodes of pods are not ready, of one it is known since when": (
        {
            "pods": placed("gpu-01", "gpu-02", "gpu-02", "gpu-00"),
            "nodes": tuple(
                replace(n, ready=False, lost_at=NOW - 1200 if n.name == "gpu-02" else None)
                if n.name in ("gpu-01", "gpu-02")
                else n
                for n in nodes()
            ),
        },
        "1 pod of llm-0 is on node gpu-01, which is not ready",
    ),
    "pods on a node that is not ready have ended": (
        {
            "pods": tuple(
                replace(pod, phase="Succeeded") if pod.node == "gpu-02" else pod
                for pod in placed("gpu-02", "gpu-02", "gpu-01", "gpu-02")
            ),
            "nodes": changed(("gpu-01", "gpu-02"), ready=False),
        },
        "1 pod of llm-0 is on node gpu-01, which is not ready",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "text"), CASES.values(), ids=CASES)
def test_pods_that_are_placed(changes: Changes, text: str, answered: Asking) -> None:
    assert text in [reason.text for reason in answered(facts(**changes)).reasons]


PREFERS: Changes = {
    "gangs": (
        gang(
            groups=(replace(gang().groups[0], told=SchedulerConstraint(ZONE, RACK)),),
            told=SchedulerConstraint(ZONE),
        ),
    ),
    "sets": (pcs(groups=()),),
    "pod_groups": (pod_group(subgroups=()),),
    "pods": placed("gpu-00", "gpu-01", "gpu-02", "gpu-04"),
}


@pytest.mark.parametrize(
    ("busy", "ids"),
    [
        pytest.param(("gpu-00", "gpu-03", "gpu-05", "gpu-06"), [], id="no rack has more room"),
        pytest.param(("gpu-00", "gpu-05", "gpu-06"), ["NotAsPreferred"], id="one has for all"),
        pytest.param(("gpu-00", "gpu-03", "gpu-05"), ["NotAsPreferred"], id="the other one has"),
    ],
)
def test_two_racks_are_as_preferred_if_none_has_room_for_all(
    busy: tuple[str, ...], ids: list[str], answered: Asking
) -> None:
    state = {
        **PREFERS,
        "pods": (*PREFERS["pods"], *map(occupant, busy), *fill("rack-b1", "rack-b2")),
    }
    assert [reason.id for reason in answered(facts(**state)).reasons] == ids


@pytest.mark.parametrize(
    ("busy", "begins"),
    [
        (("gpu-05", "gpu-06"), "Delete all pods of replica llm-0-pool-0 together, so that "),
        (("gpu-03", "gpu-05", "gpu-06"), "Wait until one rack has room for all 3 pods, and then "),
    ],
    ids=["there is room", "there would be room without the router"],
)
def test_the_other_parts_of_a_gang_stay_when_one_is_restarted(
    busy: tuple[str, ...], begins: str, answered: Asking
) -> None:
    """The router and the workers of this gang request 8 GPUs each."""
    router, *workers = placed("gpu-00", "gpu-01", "gpu-02", "gpu-04")
    own = (replace(router, shape=shape(8)), *workers)
    state = {"pods": (*own, *map(occupant, busy), *fill("rack-b1", "rack-b2"))}
    found = {reason.id: reason for reason in answered(facts(**state)).reasons}
    assert found["RequiredViolated"].remedy.startswith(begins)
    fits = begins.startswith("Delete")
    preferring = {reason.id for reason in answered(facts(**PREFERS | state)).reasons}
    assert ("NotAsPreferred" in preferring) is fits


FAILED = "KAI chose a node, but binding failed: waiting for research/r-0 (10 seconds ago). KAI's helper pod r-0"
TAINT = Taint("hpc", "", "NoSchedule")
IMAGE = Stalled("pause", "ImagePullBackOff", 'Back-off pulling image "p:1"')


def helped(helper: Pod, *others: Event, **more: Any) -> Changes:
    """A pod waits for a helper pod of KAI."""
    waits = event(pods()[0].uid, "BindingError", "waiting for research/r-0", "binder")
    return {"events": (waits, *others), "pods": (*pods(), helper), **more}


HELPERS: dict[str, tuple[Changes, str]] = {
    "it is pending, and a scheduler says why": (
        helped(
            replace(
                HELPER,
                node="",
                phase="Pending",
                unscheduled="0/16 nodes are available.",
                said_at=NOW - 30,
                created=NOW - 240,
            )
        ),
        f"{FAILED} (created 4 minutes ago) is Pending without a node; kai-scheduler says: 0/16 nodes are available (30 seconds ago)",
    ),
    "its image can't be pulled": (
        helped(replace(HELPER, phase="Pending", waiting=("ImagePullBackOff",), stalled=(IMAGE,))),
        f"""{FAILED} is ImagePullBackOff on gpu-15; kubelet says: container pause, ImagePullBackOff: Back-off pulling image "p:1\"""",
    ),
    "the kubelet has ended it": (
        helped(replace(HELPER, phase="Failed", failure="OutOfgpu: no.", waiting=("Error",))),
        f"{FAILED} is Failed on gpu-15; the kubelet ended it: OutOfgpu: no",
    ),
    "it does not tolerate a taint that evicts nobody": (
        helped(HELPER, nodes=changed(("gpu-15",), taints=(TAINT, replace(TAINT, key="a")))),
        f"{FAILED} does not tolerate the taints hpc (NoSchedule) and a (NoSchedule) of gpu-15",
    ),
    "a warning about it is quoted first": (
        helped(HELPER, warned(HELPER.ref, HELPER.uid, "Failed", "no memory", "kubelet")),
        f"{FAILED} is Running on gpu-15 now; kubelet says: no memory (60 seconds ago)",
    ),
    "nothing is said of it": (helped(HELPER), f"{FAILED} is Running on gpu-15 now"),
}


@pytest.mark.parametrize(("changes", "text"), HELPERS.values(), ids=HELPERS)
def test_a_helper_pod_that_a_binding_waits_for(
    changes: Changes, text: str, answered: Asking
) -> None:
    reasons = answered(facts(**changes)).reasons
    assert [reason.text for reason in reasons if reason.id == "BindingFailed"] == [text]


@pytest.mark.parametrize(
    ("message", "who"),
    [
        ('pods "x" is forbidden: User "binder" cannot create resource "pods/binding"', "platform"),
        ("waiting for inference/llm-0-router-0", "platform"),
    ],
)
def test_a_binding_that_failed(message: str, who: str, answered: Asking) -> None:
    """The newest message of KAI counts, and a pod of the same namespace is no helper."""
    old = event(pods()[0].uid, "BindingError", "older", "binder")
    events = (
        event(pods()[0].uid, "FailedBinding", message, "binder"),
        replace(old, time=NOW - 500),
    )
    [reason] = answered(facts(events=events)).reasons
    assert (reason.id, reason.who) == ("BindingFailed", who)
    assert reason.text == f"KAI chose a node, but binding failed: {message} (10 seconds ago)"


def test_the_rest_joins_pods_on_a_node_without_a_label(answered: Asking) -> None:
    """Nothing is said of labels while pods of the part are pending: other reasons are."""
    state = {"nodes": without(RACK, "gpu-00"), "pods": (*ONE_RUNS, *fill("rack-a2"))}
    assert "BoundToDomain" in {reason.id for reason in answered(facts(**state)).reasons}


@pytest.mark.parametrize(
    ("state", "remedy"),
    [
        ({"waiting": ("CrashLoopBackOff",)}, "ends: kubectl logs -n research r-0 --previous"),
        ({"phase": "Failed"}, "ends: kubectl logs -n research r-0"),
        ({"waiting": ("ErrImagePull",)}, "does not run: kubectl describe pod -n research r-0"),
        (
            {"phase": "Failed", "failure": "Evicted: no."},
            "does not run: kubectl describe pod -n research r-0",
        ),
    ],
)
def test_the_log_of_a_helper_pod_says_why_it_ends(
    state: dict[str, Any], remedy: str, answered: Asking
) -> None:
    helper = replace(HELPER, **{"phase": "Pending", **state})
    [reason] = answered(facts(**helped(helper))).reasons
    assert reason.remedy == f"Ask the platform team to find out why the helper pod {remedy}"


SCALES = "cluster is scaling up, could not create reservation pod"


@pytest.mark.parametrize(
    ("nodes_of_pods", "text", "who"),
    [
        ((("a", ""),), "has no node: a in namespace kai-scale-adjust", "platform"),
        (
            (("a", ""), ("b", "gpu-01"), ("c", "")),
            "has no node: a and c in namespace kai-scale-adjust",
            "platform",
        ),
        ((("b", "gpu-01"),), "has no node, and there is none now", "wait"),
    ],
    ids=["one", "two", "none any more"],
)
def test_kai_reserves_no_gpu_while_a_scaling_pod_has_no_node(
    nodes_of_pods: tuple[tuple[str, str], ...], text: str, who: str, answered: Asking
) -> None:
    """The scaling pods of other workloads count too."""
    scaling = (
        replace(
            occupant(node, gpus=0, namespace="kai-scale-adjust", name=name, uid=f"uid-{name}"),
            scales_for=("other", "pod"),
        )
        for name, node in nodes_of_pods
    )
    said = event(pods()[0].uid, "BindingError", SCALES, "binder")
    reasons = answered(facts(events=(said,), pods=(*pods(), *scaling))).reasons
    (reason,) = [each for each in reasons if each.id == "BindingFailed"]
    assert (reason.text.partition("scaling pod of KAI ")[2], reason.who) == (text, who)


BINDER = occupant("gpu-15", gpus=0, namespace="kai-scheduler", name="binder-7", uid="uid-binder")
CRASHES = Stalled("binder", "CrashLoopBackOff", restarts=9)


@pytest.mark.parametrize(
    ("number", "since", "binders", "text"),
    [
        (1, 90, (), "KAI chose a node for llm-0-router-0 90 seconds ago"),
        (
            2,
            600,
            (BINDER,),
            "KAI chose a node for llm-0-router-0 and for 1 more pod 10 minutes ago",
        ),
        (
            1,
            7200,
            (replace(BINDER, waiting=("CrashLoopBackOff",), stalled=(CRASHES,)),),
            "Pod binder-7 does not run: Container binder is in CrashLoopBackOff (9 restarts)",
        ),
        (4, 30, (), ""),
    ],
    ids=["one pod", "two pods", "the binder crashes", "not for long"],
)
def test_the_binder_does_not_bind_a_pod(
    number: int, since: float, binders: tuple[Pod, ...], text: str, answered: Asking
) -> None:
    assigned = tuple(
        replace(event(pod.uid, "Scheduled", "Successfully assigned"), time=NOW - since)
        for pod in pods()[:number]
    )
    reasons = answered(facts(events=assigned, pods=(*pods(), *binders))).reasons
    found = [reason.text for reason in reasons if reason.id == "BindingFailed"]
    assert len(found) == bool(text)
    assert not text or text in found[0]

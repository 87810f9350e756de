"""Words about what a pod uses: its group, its volumes, its claims and the daemons of its domain."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import Answer, explain
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.identity import Ref
from app.facts.kai.podgroup import KaiPodGroup, Said
from app.facts.kai.queue import Queue
from app.facts.kubernetes.claim import DeviceClass, ResourceSlice
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.pod import Pod, PodClaim, Stalled, read_pod
from app.facts.kubernetes.volume import StorageClass, VolumeClaim
from app.facts.labels import NVLINK_DOMAIN
from app.facts.nvidia.computedomain import ComputeDomain, DomainNode
from app.rules.mnnvl.claim import CHANNEL_CLASS, DAEMON_CLASS
from tests.explain.fleet import NAMESPACE, NOW, facts, nodes, pod_group, shape
from tests.explain.table.recorded import Asking, whole
from tests.said import Said as Recorded

POD = Pod(NAMESPACE, "late-0", "uid-late", shape=shape(1), created=NOW - 900, said_at=NOW - 60)


def warned(about: Ref, message: str, source: str, uid: str = "uid") -> Event:
    return Event(uid, "Failed", message, NOW - 60, source, about, True)


Asked = Callable[..., Answer]


@pytest.fixture
def asked(said: Recorded) -> Asked:
    """Explains a pod, and compares all that is said with what is recorded."""

    def ask(pod: Pod, **more: Any) -> Answer:
        labelled = (replace(n, labels={**n.labels, NVLINK_DOMAIN: "c.1"}) for n in nodes())
        facts = Snapshot(
            pods=(pod, *more.pop("others", ())), nodes=tuple(labelled), now=NOW, **more
        )
        answer = explain(Index(facts), pod.ref)
        assert answer
        said(whole(answer))
        return answer

    return ask


def test_a_scheduler_is_quoted_about_the_group_of_a_pod(asked: Asked) -> None:
    pod = replace(POD, scheduler="volcano", unscheduled="not ready", other_group="job-1")
    group = Ref("PodGroup", NAMESPACE, "job-1")
    said = warned(group, "queue resource quota insufficient", "volcano")
    [reason, *_] = asked(pod, events=(said,)).reasons
    assert reason.text == (
        "volcano says: not ready (60 seconds ago). About its PodGroup job-1, volcano says: queue"
        " resource quota insufficient (60 seconds ago)"
    )
    assert "raise spec.capability" in reason.remedy


def test_what_provisions_a_volume_is_quoted_before_words_without_a_remedy(asked: Asked) -> None:
    pod = replace(POD, unscheduled="binding volumes: timed out", volumes=("data",))
    claim = VolumeClaim(NAMESPACE, "data", storage_class="late")
    said = warned(claim.ref, "no space left", "csi.example.com")
    answer = asked(
        pod,
        events=(said,),
        volume_claims=(claim,),
        storage_classes=(StorageClass("late", waits=True),),
    )
    assert [reason.id for reason in answer.reasons] == ["VolumeUnbound", "SchedulerRefuses"]
    assert answer.reasons[0].text == (
        "PersistentVolumeClaim data, which 1 pod uses, is not bound: csi.example.com says: no space"
        " left (60 seconds ago)"
    )


def test_a_claim_that_kubernetes_makes_for_a_pod_is_not_to_be_made_by_hand(asked: Asked) -> None:
    spec = {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]}
    pod = replace(read_pod({"metadata": {"namespace": NAMESPACE, "name": "late-0"}, "spec": spec}))
    assert pod.volumes == ("late-0-scratch",)
    [reason, *_] = asked(pod).reasons
    assert (reason.id, reason.text) == (
        "VolumeUnbound",
        "PersistentVolumeClaim late-0-scratch, which 1 pod uses, does not exist yet, although"
        " Kubernetes should create it for the pod",
    )
    assert reason.remedy.startswith("Read the events of the pod")


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        pytest.param(
            "1 node(s) didn't match PersistentVolume's node affinity",
            "Place the pods where their volumes are",
            id="a volume elsewhere, since Kubernetes 1.34",
        ),
        pytest.param(
            "2 node(s) had volume node affinity conflict",
            "Place the pods where their volumes are",
            id="a volume elsewhere",
        ),
        pytest.param(
            "pod has unbound immediate PersistentVolumeClaims. not found",
            "Find out why the PersistentVolumeClaims of the pod are not bound: kubectl describe pvc"
            f" -n {NAMESPACE}",
            id="a claim that is not bound",
        ),
        pytest.param(
            "1 node(s) didn't find available persistent volumes to bind",
            "Ask the platform team for a free PersistentVolume",
            id="no local disk is free",
        ),
        pytest.param(
            "1 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod"
            " access mode",
            "Wait until the other pod that uses the PersistentVolumeClaim has ended",
            id="a claim for one pod",
        ),
        pytest.param(
            "waiting for resource claim controller to create the resource claim for pod claim gpu",
            "Create the ResourceClaimTemplate that the pod names, if it does not exist: kubectl get"
            f" resourceclaimtemplates -n {NAMESPACE}",
            id="a claim that does not exist yet",
        ),
        pytest.param(
            "1 node(s) exceed max volume count", "Use fewer volumes", id="too many disks of a node"
        ),
        pytest.param(
            "1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 2 node(s)"
            " had untolerated taint {dedicated: x}, 1 node(s) had untolerated taint {other: }",
            "Add tolerations for dedicated and other to the pod template",
            id="taints besides that of the control plane",
        ),
        pytest.param(
            "1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }",
            "Add a toleration for node-role.kubernetes.io/control-plane",
            id="only the control plane",
        ),
        pytest.param(
            "1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 2 node(s)"
            " didn't match Pod's node affinity/selector",
            "Correct the nodeSelector",
            id="a control plane, and a selector",
        ),
        pytest.param(
            "2 node(s) had untolerated taint {node.kubernetes.io/not-ready: }",
            "Ask the platform team to repair the nodes with the taint node.kubernetes.io/not-ready",
            id="nodes that are not ready",
        ),
        pytest.param(
            "1 gpu task: <ml/t> can't run on non gpu nodes, node: <n0>",
            "Ask the platform team to label the nodes with node-role.kubernetes.io/gpu-worker",
            id="KAI's nodes for GPUs",
        ),
        pytest.param(
            "1 cpu task: <ml/t> can't run on non cpu nodes, node: <n0>",
            "Ask the platform team to label nodes with node-role.kubernetes.io/cpu-worker",
            id="KAI's nodes without GPUs",
        ),
        *(
            pytest.param(words, "", id=words)
            for words in (
                "1 node(s) didn't satisfy existing pods anti-affinity rules",
                "1 node(s) didn't match pod affinity rules",
                "1 node(s) didn't match pod anti-affinity rules",
                "1 node(s) didn't match pod topology spread constraints",
                "1 node(s) didn't have free ports for the requested pod ports",
                "Missing required configmaps: [data]",
                "1 Too many pods",
                "1 Insufficient cpu, 1 Insufficient nvidia.com/gpu",
                "1 node(s) were unschedulable",
                "1 node(s) had no available volume zone",
                'persistentvolumeclaim "data" not found',
                "cannot allocate all claims",
                "queue resource quota insufficient",
                "running PreFilter plugin x: failed",
                "something else",
            )
        ),
    ],
)
def test_what_helps_is_said_for_messages_of_schedulers(
    words: str, remedy: str, asked: Asked
) -> None:
    reasons = asked(replace(POD, unscheduled=f"0/3 nodes are available: {words}.")).reasons
    [refuses] = [reason for reason in reasons if reason.id == "SchedulerRefuses"]
    assert refuses.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (
            "1 node(s) didn't satisfy existing pods anti-affinity rules",
            "Scale down the workload whose anti-affinity keeps other pods from these nodes",
        ),
        (
            "1 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod"
            " access mode",
            "Wait until the other pod that uses the PersistentVolumeClaim has ended",
        ),
        (
            "pod has unbound immediate PersistentVolumeClaims",
            "Find out why the PersistentVolumeClaims of the pod are not bound",
        ),
        (
            "1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }, 2 node(s) had"
            " untolerated taint {dedicated: x}",
            "Add a toleration for dedicated to the pod template",
        ),
    ],
)
def test_a_message_with_one_cause_has_one_remedy(words: str, remedy: str, asked: Asked) -> None:
    reasons = asked(replace(POD, unscheduled=f"0/3 nodes are available: {words}.")).reasons
    [refuses] = [reason for reason in reasons if reason.id == "SchedulerRefuses"]
    assert refuses.remedy.startswith(remedy)
    assert " Or: " not in refuses.remedy
    assert "not-ready" not in refuses.remedy


def test_tainted_devices_are_named_if_claims_cannot_be_allocated(asked: Asked) -> None:
    pod = replace(POD, unscheduled="0/1 nodes are available: 1 cannot allocate all claims.")
    part = ResourceSlice(
        "gpu.nvidia.com", "n", 1, "n-0", ("gpu-0",), (("gpu-0", "xid=79:NoExecute"),)
    )
    assert (
        asked(pod, slices=(part,))
        .reasons[0]
        .text.endswith("Devices with a taint: gpu-0 of n-0 (xid=79:NoExecute)")
    )
    other = replace(pod, unscheduled="0/1 nodes are available: 1 Insufficient cpu.")
    assert "taint" not in asked(other, slices=(part,)).reasons[0].text


def test_kai_is_not_restarted_because_of_tainted_devices(answered: Asking) -> None:
    """Our checks don't know about such taints: they may be why KAI can't allocate the claims."""
    part = ResourceSlice(
        "gpu.nvidia.com", "n", 1, "n-0", ("gpu-0",), (("gpu-0", "xid=79:NoExecute"),)
    )
    said = Said("Other", "cannot allocate all claims", time=NOW - 9)
    state = {"pod_groups": (pod_group(said=(said,)),)}
    for slices, is_suspected in (((), True), ((part,), False)):
        [reason] = answered(facts(**state, slices=slices)).reasons
        assert ("restart KAI's scheduler" in reason.remedy) == is_suspected
        assert ("According to our checks, the gang fits" in reason.text) == is_suspected
        assert ("Devices with a taint: gpu-0" in reason.text) != is_suspected
        assert reason.who == ("platform" if is_suspected else "you")


def test_a_queue_without_a_parent_is_suspected_if_kai_gives_no_cause(asked: Asked) -> None:
    pod = replace(POD, scheduler="kai-scheduler", group="pg")
    group = KaiPodGroup(
        NAMESPACE, "pg", queue="alone", minimum=1, said=(Said("x", "Unable to schedule", time=NOW),)
    )
    queue = Queue("alone", quota=None, limit=None)
    [reason] = asked(pod, pod_groups=(group,), queues=(queue,)).reasons
    assert "Queue alone has no parent" in reason.text
    assert "spec.parentQueue: alone" in reason.remedy

    below = (replace(queue, parent="root"), Queue("root", quota=None, limit=None))
    [reason] = asked(pod, pod_groups=(group,), queues=below).reasons
    assert "no parent" not in reason.text


DOMAIN = ComputeDomain(
    NAMESPACE, "train", "uid-cd", 0, "channel", False, (DomainNode("gpu-00", False),)
)
USES = replace(
    POD,
    node="gpu-00",
    bound=NOW - 600,
    waiting=("ContainerCreating",),
    claims=(PodClaim("channel", "", "channel"),),
)
DAEMON = Pod("nvidia", "daemon-0", "uid-d", daemon_of="uid-cd", created=NOW - 600)


def about_daemon(asked: Asked, *others: Pod) -> str:
    answer = asked(
        USES,
        others=others,
        compute_domains=(DOMAIN,),
        device_classes=(DeviceClass(CHANNEL_CLASS), DeviceClass(DAEMON_CLASS)),
    )
    [reason] = [reason for reason in answer.reasons if reason.id == "DomainNotReady"]
    return f"{reason.text}; {reason.remedy}"


def test_the_daemons_of_a_domain_are_quoted(asked: Asked) -> None:
    pending = replace(DAEMON, unscheduled="1 node(s) had untolerated taint(s)", said_at=NOW - 60)
    assert (
        "daemon-0 is pending, default-scheduler says: 1 node(s) had untolerated taint(s)"
        in about_daemon(asked, pending)
    )

    image = Stalled("imex", "ImagePullBackOff", 'Back-off pulling image "x:1"')
    without = replace(DAEMON, node="gpu-00", stalled=(image,), waiting=("ImagePullBackOff",))
    words = about_daemon(asked, without)
    assert 'Back-off pulling image "x:1"' in words
    assert "kubectl describe pod -n nvidia daemon-0" in words

    crash = Stalled("imex", "CrashLoopBackOff", restarts=3, ended="exit code 1")
    crashes = replace(
        DAEMON, node="gpu-00", phase="Running", stalled=(crash,), waiting=("CrashLoopBackOff",)
    )
    words = about_daemon(asked, crashes)
    assert "Container imex is in CrashLoopBackOff (3 restarts, exit code 1)" in words
    assert "kubectl logs -n nvidia daemon-0" in words


def test_nodes_without_a_daemon_pod_are_named_next_to_one_that_crashes(asked: Asked) -> None:
    crash = Stalled("imex", "CrashLoopBackOff", restarts=3, ended="exit code 1")
    crashes = replace(
        DAEMON, node="gpu-00", phase="Running", stalled=(crash,), waiting=("CrashLoopBackOff",)
    )
    second = replace(USES, name="second", uid="uid-second", node="gpu-01")
    words = about_daemon(asked, crashes, second)
    assert "gpu-00 and gpu-01 are not ready. Daemon pods that don't run: daemon-0 " in words
    assert "exit code 1). No daemon pod is on gpu-01; Ask" in words


def test_the_kubelet_is_quoted_with_the_cause_and_not_with_its_last_words(asked: Asked) -> None:
    pod = replace(POD, node="gpu-00", bound=NOW - 600, waiting=("ImagePullBackOff",))
    cause = replace(warned(pod.ref, "Failed to pull image x:1", "kubelet", pod.uid), time=NOW - 90)
    repeated = warned(pod.ref, "Error: ImagePullBackOff", "kubelet", pod.uid)
    [reason] = asked(pod, events=(cause, repeated)).reasons
    assert reason.text.startswith("kubelet says: Failed to pull image x:1 (90 seconds ago)")
    [reason] = asked(pod, events=(repeated,)).reasons
    assert reason.text.startswith("kubelet says: Error: ImagePullBackOff (60 seconds ago)")


def test_only_what_the_kubelet_rejected_lately_is_told_of_a_pod_that_waits(asked: Asked) -> None:
    pod = replace(POD, owner="uid-job", unscheduled="1 Insufficient cpu")
    failed = replace(
        pod, name="late-1", uid="uid-1", node="gpu-03", phase="Failed", failure="OutOfcpu: no"
    )
    for age, ids in (
        (4000, ["SchedulerRefuses", "KubeletRefuses"]),
        (90_000, ["SchedulerRefuses"]),
    ):
        answer = asked(pod, others=(replace(failed, created=NOW - age),))
        assert [reason.id for reason in answer.reasons] == ids
    without_cause = replace(failed, failure="", created=NOW - 4000)
    assert len(asked(pod, others=(without_cause,)).reasons) == 1


def test_a_node_that_was_set_by_hand_is_suspected_if_a_volume_is_not_bound(asked: Asked) -> None:
    pod = replace(POD, node="gpu-00", bound=NOW - 600, waiting=("ContainerCreating",))
    for message, advice in (
        ('PVC "data" is not bound', "kubernetes.io/hostname if"),
        ('Multi-Attach error for volume "pv"', "ReadWriteMany"),
        ("MountVolume.SetUp failed", "Correct the volume that the kubelet names"),
    ):
        said = warned(pod.ref, message, "kubelet", pod.uid)
        [reason] = asked(pod, events=(said,)).reasons
        assert advice in reason.remedy

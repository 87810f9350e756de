"""What is said of pods that kubelets reject or do not start, and of containers that do not run.

Tests `app/explain/reasons/pod_starts.py`.
"""

import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import explain
from app.explain.reasons.gpu_sharing import RESERVATIONS
from app.explain.reasons.messages import Words
from app.explain.reasons.pod_starts import _rejection_remedy, _start_remedy
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.identity import Ref
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.pod import UNSTARTED, Pod, Stalled
from tests.explain.fleet import (
    NAMESPACE,
    NOW,
    WORKERS,
    facts,
    nodes,
    occupant,
    placed,
    pods,
)
from tests.explain.table.pod_starts import CRASHES, FETCHES, of_clique, rejected
from tests.explain.table.recorded import Asking, whole
from tests.explain.table.row import Changes, changed, part_of
from tests.explain.table.words import starting
from tests.said import Said

ON_FOUR = ("gpu-00", "gpu-00", "gpu-01", "gpu-02")
JOB = Ref("Job", NAMESPACE, "train")


def bound(*ages: float, **changes: Any) -> tuple[Pod, ...]:
    """The pods, bound this many seconds ago and not started."""
    return tuple(
        replace(pod, bound=NOW - age, **changes) for pod, age in zip(starting(), ages, strict=True)
    )


def warnings(
    *ages: float, words: str = "no memory for {}", reason: str = "FailedMount", of: int = 4
) -> tuple[Event, ...]:
    """The kubelet's warnings about pods, from this many seconds ago."""
    return tuple(
        Event(pod.uid, reason, words.format(pod.name), NOW - age, "kubelet", pod.ref, True)
        for pod, age in zip(pods()[:of], ages, strict=True)
    )


def pulling(reason: str) -> tuple[Event, ...]:
    """What kubelets said 90 and 30 seconds ago about the images of two pods, no warnings."""
    words = 'Pulling image "a"'
    return tuple(
        Event(pod.uid, reason, words, NOW - age, "kubelet", pod.ref)
        for pod, age in zip(pods()[:2], (90, 30), strict=True)
    )


NOT_BEGUN = "and did not start"
CASES: dict[str, tuple[Changes, str]] = {
    "the newest message and the oldest binding count": (
        {"pods": bound(300, 900, 600, 300), "events": warnings(30, 90, 50, 20)},
        f"kubelet says: no memory for {WORKERS}-2 (20 seconds ago). 4 pods have had a node for up to 15 minutes {NOT_BEGUN}",
    ),
    "messages that differ are told apart": (
        {
            "pods": bound(300, 900, 600, 300),
            "events": (*warnings(30, 90, of=2), *warnings(1, 2, 50, 20, words="another")[2:]),
        },
        f"kubelet says: another (20 seconds ago). 2 pods have had a node for up to 10 minutes {NOT_BEGUN}",
    ),
    "only one pod is late": (
        {"pods": bound(60, 61, 60, 60), "events": warnings(5, 6, 7, 8)},
        f"kubelet says: no memory for {WORKERS}-0 (6 seconds ago). 1 pod has had a node for 61 seconds {NOT_BEGUN}",
    ),
    "a claim that can't be prepared counts at once": (
        {
            "pods": bound(5, 5, 5, 5),
            "events": warnings(1, 1, 1, 1, words="no GPU", reason="FailedPrepareDynamicResources"),
        },
        f"kubelet says: no GPU (1 second ago). 4 pods have had a node for up to 5 seconds {NOT_BEGUN}",
    ),
    "pods on a node that is not ready": (
        {
            "pods": bound(600, 600, 600, 600),
            "events": warnings(1, 1, 1, 1, words="no GPU"),
            "nodes": changed(("gpu-00", "gpu-01"), ready=False),
        },
        f"kubelet says: no GPU (1 second ago). 1 pod has had a node for 10 minutes {NOT_BEGUN}",
    ),
    "no message says why": (
        {"pods": bound(600, 900, 61, 60)},
        "3 pods of llm-0 have had a node for up to 15 minutes and did not start: ContainerCreating",
    ),
    "the kubelet pulls an image": (
        {"pods": bound(600, 900, 600, 60), "events": pulling("Pulling")},
        '2 pods of llm-0 wait for an image. kubelet says: Pulling image "a" (90 seconds ago)',
    ),
    "the kubelet has pulled the image": (
        {"pods": bound(600, 900, 600, 60), "events": pulling("Pulled")},
        "3 pods of llm-0 have had a node for up to 15 minutes and did not start: ContainerCreating",
    ),
    "the kubelet pulls the image of only two pods": (
        {"pods": bound(600, 900, 600, 60), "events": pulling("Pulling")},
        "1 pod of llm-0 has had a node for 10 minutes and did not start: ContainerCreating",
    ),
    "no state says why": (
        {"pods": (*bound(600, 900, 61, 60)[:3], replace(bound(0, 0, 0, 61)[3], waiting=()))},
        "1 pod of llm-0 has had a node for 61 seconds and did not start: no state reported",
    ),
    "containers of two pods crash, and another container of a third": (
        {
            "pods": tuple(
                replace(pod, phase="Running", bound=None, waiting=("CrashLoopBackOff",), stalled=(of,))
                for pod, of in zip(
                    starting(),
                    (CRASHES, CRASHES, replace(CRASHES, name="agent", restarts=1), CRASHES),
                    strict=True,
                )
            )
        },
        "Container agent is in CrashLoopBackOff (1 restart, OOMKilled) in 1 pod",
    ),
    "a container of a pod that has not started has no log yet": (
        {"pods": bound(600, 600, 600, 600, stalled=(Stalled("main", "CreateContainerError"),))},
        "Container main is in CreateContainerError in 4 pods",
    ),
    "an init container whose start is not known": (
        {"pods": bound(600, 600, 600, 600, stalled=(replace(FETCHES, since=None),))},
        "Init container fetch-weights has been running in 4 pods",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "text"), CASES.values(), ids=CASES)
def test_pods_that_do_not_start(changes: Changes, text: str, answered: Asking) -> None:
    assert text in [reason.text for reason in answered(facts(**changes)).reasons]


@pytest.mark.parametrize(
    "words",
    [
        "pod x is not allowed to use resource claim y",
        "no such plugin gpu.nvidia.com",
        "Failed to prepare dynamic resources: no",
        'configmap "c" not found',
        "pod has unbound PersistentVolumeClaims",
        "Multi-Attach error for volume v",
        "Failed to pull x:1",
        "Error: InvalidImageName x",
        "MountVolume.SetUp failed",
        "mount failed: exit status 32",
        "Failed to create pod sandbox",
        "network is not ready",
        "CNI plugin not initialized",
        "something else",
    ],
)
def test_what_helps_against_the_words_of_a_kubelet(words: str, answered: Asking) -> None:
    events = warnings(5, 5, 5, 5, words=words)
    state = facts(pods=bound(600, 600, 600, 600), events=events)
    assert [reason.id for reason in answered(state).reasons] == ["KubeletRefuses"]


def failed(failure: str, age: float, number: int = 9, **changes: Any) -> Pod:
    """A pod of the workers that the kubelet has rejected, of a given age."""
    names = {"name": f"{WORKERS}-{number}", "uid": f"uid-{number}"}
    return replace(rejected(failure, created=NOW - age), **{**names, **changes})


def beside(*rejected: Pod, ages: tuple[float, ...] = (840, 840, 840, 840)) -> Changes:
    """Pods of the gang are pending, of these ages."""
    waiting = (replace(pod, created=NOW - age) for pod, age in zip(pods(), ages, strict=True))
    return {"pods": (*of_clique(*waiting), *rejected)}


def running(*rejected: Pod, age: float = 840) -> Changes:
    run = (replace(pod, created=NOW - age) for pod in placed(*ON_FOUR))
    return {"pods": (*of_clique(*run), *rejected)}


def test_the_other_containers_wait_for_a_sidecar_that_does_not_start(answered: Asking) -> None:
    """A sidecar never ends, so nothing waits for its end."""
    sidecar = replace(FETCHES, name="proxy", reason=UNSTARTED, since=NOW - 600)
    state = facts(pods=bound(600, 600, 600, 600, stalled=(sidecar,)))
    [told] = [each for each in answered(state).reasons if each.id == "NotStarted"]
    assert told.text.startswith(
        "Init container proxy has been running for 10 minutes without start"
    )
    assert told.remedy == (
        "Read the log of container proxy. The other containers start once its postStart hook and"
        " its startup probe succeed"
    )
    assert told.commands[0].endswith(" -c proxy")


@pytest.mark.parametrize(
    ("container", "probe", "remedy"),
    [
        ("engine", "startup", "raise failureThreshold of its startupProbe"),
        ("engine", "liveness", "raise failureThreshold of its livenessProbe"),
        ("engine", "readiness", ""),
        ("proxy", "startup", ""),
    ],
)
def test_a_container_that_its_probes_kill_may_only_be_slow(
    container: str, probe: str, remedy: str, answered: Asking
) -> None:
    """A model that loads for longer than the startup probe allows is killed again and again."""
    killed = replace(CRASHES, ended="exit code 137")
    [first, *others] = placed(*ON_FOUR)
    first = replace(first, waiting=("CrashLoopBackOff",), stalled=(killed,))
    said = f"Container {container} failed {probe} probe, will be restarted"
    event = Event(first.uid, "Killing", said, NOW - 60, "kubelet", first.ref, namespace=NAMESPACE)
    state = facts(pods=(first, *others), events=(event,))
    [told] = [each for each in answered(state).reasons if each.id == "ContainerCrashes"]
    assert told.remedy.startswith("Read the log of the last run of container engine")
    assert told.remedy.endswith(remedy)
    assert ("Probe" in told.remedy) == bool(remedy)
    assert (f"kubelet says: {said} (60 seconds ago)" in told.text) == bool(remedy)


DRIVER = "nvidia-container-cli: initialization error: nvml error: driver not loaded"


@pytest.mark.parametrize(
    ("stalled", "remedy", "who"),
    [
        pytest.param(
            replace(CRASHES, reason="RunContainerError", message=DRIVER, ended=""),
            "Ask the platform team to check the NVIDIA driver and the NVIDIA Container Toolkit on",
            "platform",
            id="it is started again",
        ),
        pytest.param(
            replace(CRASHES, ended=f"StartError: {DRIVER}"),
            "Ask the platform team to check the NVIDIA driver and the NVIDIA Container Toolkit on",
            "platform",
            id="the kubelet backs off",
        ),
        pytest.param(
            replace(CRASHES, ended='StartError: exec: "vllm": executable file not found in $PATH'),
            "Correct the command in the pod template",
            "you",
            id="the command is wrong",
        ),
        pytest.param(
            replace(CRASHES, ended="exit code 1"),
            "Read the log of the last run of container engine",
            "you",
            id="it has run",
        ),
    ],
)
def test_a_container_that_cannot_be_started_has_no_log_that_says_why(
    stalled: Stalled, remedy: str, who: str, answered: Asking
) -> None:
    pods = tuple(replace(pod, stalled=(stalled,)) for pod in placed(*ON_FOUR))
    [told] = [each for each in answered(facts(pods=pods)).reasons if each.id == "ContainerCrashes"]
    assert told.remedy.startswith(remedy)
    assert told.who == who
    assert ("kubectl logs" in told.commands[0]) == (who == "you" and "log" in remedy)


OF_NODE = "OutOfcpu: Node didn't have enough resource: cpu"
OF_DEVICE = (
    "UnexpectedAdmissionError: Allocate failed due to requested number of devices unavailable"
)
EVICTED = "Evicted: The node was low on resource: memory."
REJECTIONS: dict[str, tuple[Changes, list[tuple[str, str]]]] = {
    "two pods on a node, for one cause": (
        beside(failed(OF_NODE, 900), failed(OF_NODE, 850, 8)),
        [(f"The kubelet rejected {WORKERS}-8 and {WORKERS}-9 on gpu-03: {OF_NODE} (14 minutes ago)", "problem")],
    ),
    "pods on two nodes": (
        beside(failed(OF_NODE, 900), failed(OF_NODE, 850, 8, node="gpu-04")),
        [
            (f"The kubelet rejected {WORKERS}-9 on gpu-03: {OF_NODE} (15 minutes ago)", "problem"),
            (f"The kubelet rejected {WORKERS}-8 on gpu-04: {OF_NODE} (14 minutes ago)", "problem"),
        ],
    ),
    "what a Job owns is created again by it": (
        beside(failed(OF_NODE, 900, controller=JOB)),
        [(f"The kubelet rejected {WORKERS}-9 on gpu-03: {OF_NODE} (15 minutes ago)", "problem")],
    ),
    "a device plugin has too few devices": (
        beside(failed(OF_DEVICE, 900)),
        [(f"The kubelet rejected {WORKERS}-9 on gpu-03: {OF_DEVICE} (15 minutes ago)", "problem")],
    ),
    "an evicted pod is as old as it is": (
        beside(failed(EVICTED, 900)),
        [(f"The kubelet evicted {WORKERS}-9 on gpu-03: {EVICTED[:-1]}", "problem")],
    ),
    "a new pod is rejected because of a condition of its node": (
        beside(failed("Evicted: The node had condition: [DiskPressure].", 900)),
        [(f"The kubelet rejected {WORKERS}-9 on gpu-03: Evicted: The node had condition: [DiskPressure] (15 minutes ago)", "problem")],
    ),
    "another cause, and no node": (
        beside(failed("Shutdown: no", 900, node="")),
        [(f"The kubelet rejected {WORKERS}-9: Shutdown: no (15 minutes ago)", "problem")],
    ),
    "another cause, on a node": (
        beside(failed("Shutdown: no", 900)),
        [(f"The kubelet rejected {WORKERS}-9 on gpu-03: Shutdown: no (15 minutes ago)", "problem")],
    ),
    "an hour before the oldest pod that is pending": (
        beside(failed(OF_NODE, 4440), ages=(10, 840, 10, 10)),
        [(f"The kubelet rejected {WORKERS}-9 on gpu-03: {OF_NODE} (74 minutes ago)", "problem")],
    ),
    "more than an hour before": (beside(failed(OF_NODE, 4441), ages=(10, 840, 10, 10)), []),
    "another pod of its owner is newer": (running(failed(OF_NODE, 841)), []),
    "no other pod of its owner is newer": (
        running(failed(OF_NODE, 840)),
        [(f"The kubelet rejected {WORKERS}-9 on gpu-03: {OF_NODE} (14 minutes ago)", "warning")],
    ),
    "the newer pod is of another owner": (
        running(failed(OF_NODE, 841, owner="uid-of-another", group="llm-0")),
        [(f"The kubelet rejected {WORKERS}-9 on gpu-03: {OF_NODE} (14 minutes ago)", "warning")],
    ),
    "an hour ago, and nothing has replaced it": (
        running(failed(OF_NODE, 3600), age=7200),
        [(f"The kubelet rejected {WORKERS}-9 on gpu-03: {OF_NODE} (60 minutes ago)", "warning")],
    ),
    "more than an hour ago, and nothing has replaced it": (running(failed(OF_NODE, 3601), age=7200), []),
    "the pods of the gang are of nobody, and one is newer": (
        {"pods": (*placed(*ON_FOUR), failed(OF_NODE, 841, owner="", group="llm-0"))},
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "told"), REJECTIONS.values(), ids=REJECTIONS)
def test_pods_that_the_kubelet_rejects(
    changes: Changes, told: list[tuple[str, str]], answered: Asking
) -> None:
    reasons = answered(facts(**changes)).reasons
    found = [(each.text, each.severity) for each in reasons if each.id == "KubeletRefuses"]
    assert found == told


LOW = "Evicted: The node was low on resource: "
USES = "Container app was using 9Gi, "
RAISE_LIMIT = "Raise limits.ephemeral-storage of the containers, or write less data"
RAISE_REQUEST = "Raise the containers' requests for the resource to the usage in the message"
FIND_USE = "Ask the platform team to find out what uses up the resource in the message on gpu-03"
FIND_CAUSE = "Ask the platform team to find out why gpu-03 has the condition in the message"
ADVICE: dict[str, tuple[str, str, str]] = {
    "an emptyDir is too full": (
        'Evicted: Usage of EmptyDir volume "scratch" exceeds the limit "1Gi".',
        "Raise sizeLimit of the emptyDir volume in the message, or write less data to the volume",
        "you",
    ),
    "a pod writes too much": (
        "Evicted: Pod ephemeral local storage usage exceeds the total limit of containers 1Gi.",
        RAISE_LIMIT,
        "you",
    ),
    "a container writes too much": (
        'Evicted: Container app exceeded its local ephemeral storage limit "1Gi".',
        RAISE_LIMIT,
        "you",
    ),
    "a container uses more than its request": (
        f"{LOW}memory. {USES}request is 1Gi, has larger consumption of memory.",
        RAISE_REQUEST,
        "you",
    ),
    "a container uses more than its request, in older words": (
        f"{LOW}ephemeral-storage. {USES}which exceeds its request of 0.",
        RAISE_REQUEST,
        "you",
    ),
    "no container uses more than its request": (f"{LOW}memory.", FIND_USE, "platform"),
    "there is no request for it": (
        f"{LOW}pids. Threshold quantity: 100, available: 9.",
        FIND_USE,
        "platform",
    ),
    "the node has a condition": (
        "Evicted: The node had condition: [MemoryPressure].",
        FIND_CAUSE,
        "platform",
    ),
    "the node has a condition, in older words": (
        f"{LOW}[DiskPressure].",
        FIND_CAUSE,
        "platform",
    ),
    "the labels of the node have changed": (
        "NodeAffinity: Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match",
        "Correct the nodeSelector or the node affinity in the pod template, or ask the platform"
        " team to correct the labels of gpu-03, which do not match",
        "you",
    ),
    "the pod ran for too long": (
        "DeadlineExceeded: Pod was active on the node longer than the specified deadline",
        "Raise activeDeadlineSeconds in the pod template",
        "you",
    ),
    "no words": (
        "Evicted",
        "Ask the platform team to read the log of the kubelet on gpu-03",
        "platform",
    ),
    "too few devices": (
        "UnexpectedAdmissionError: Allocate failed due to requested number of devices unavailable"
        " for nvidia.com/gpu. Requested: 8, Available: 0, which is unexpected",
        "Ask the platform team to check the device plugin on gpu-03: fewer devices",
        "platform",
    ),
    "too few CPUs": (
        "UnexpectedAdmissionError: Allocate failed due to not enough cpus available",
        "Ask the platform team to check the device plugins and the log of the kubelet on gpu-03",
        "platform",
    ),
}


@pytest.mark.parametrize(("failure", "begin", "who"), ADVICE.values(), ids=ADVICE)
def test_the_remedy_follows_from_the_words_of_the_kubelet(
    failure: str, begin: str, who: str, answered: Asking
) -> None:
    reasons = answered(facts(**beside(failed(failure, 900)))).reasons
    (found,) = (each for each in reasons if each.id == "KubeletRefuses")
    assert found.remedy.startswith(begin)
    assert found.who == who


TOO_FEW = (
    "UnexpectedAdmissionError: Allocate failed due to requested number of devices unavailable for"
    " nvidia.com/gpu. Requested: 1, Available: 0, which is unexpected"
)


def reserving(number: int, **changes: Any) -> Pod:
    """KAI's pod that reserves a GPU of gpu-03, in the name of which pods share it."""
    pod = occupant("gpu-03", number, namespace=RESERVATIONS, group="", gpu_groups=(f"g{number}",))
    name = f"gpu-reservation-{number}"
    fields = {"name": name, "uid": name, "reserves": True, "created": NOW - 7200}
    return replace(pod, **{**fields, **changes})


SHARES = occupant("gpu-03", 5, shape=part_of(0.5), gpu_groups=("g0",))
UNUSED = f"kubectl delete pod -n {RESERVATIONS} gpu-reservation-"


@pytest.mark.parametrize(
    ("others", "commands"),
    [
        pytest.param((reserving(0),), (f"{UNUSED}0",), id="no pod shares the GPU"),
        pytest.param(
            (reserving(0), reserving(1), SHARES),
            (f"{UNUSED}1",),
            id="a pod shares another one",
        ),
        pytest.param(
            (reserving(0), reserving(1)),
            (f"{UNUSED}0 gpu-reservation-1",),
            id="two of them",
        ),
        pytest.param(
            (reserving(0, created=NOW - 60),),
            ("kubectl describe node gpu-03",),
            id="a pod may be about to be bound",
        ),
        pytest.param(
            (reserving(0, namespace="team-x"),),
            ("kubectl describe node gpu-03",),
            id="a pod of a tenant",
        ),
        pytest.param(
            (reserving(0, node="gpu-04"),),
            ("kubectl describe node gpu-03",),
            id="on another node",
        ),
    ],
)
def test_an_unused_reservation_holds_the_gpu_that_the_kubelet_lacks(
    others: tuple[Pod, ...], commands: tuple[str, ...], answered: Asking
) -> None:
    """KAI counts the GPU as free, and sends pod after pod there."""
    changes = beside(failed(TOO_FEW, 900))
    reasons = answered(facts(pods=(*changes["pods"], *others))).reasons
    (found,) = (each for each in reasons if each.id == "KubeletRefuses")
    assert (found.commands, found.who) == (commands, "platform")


@pytest.mark.parametrize(
    ("controller", "again"),
    [
        (None, f"Then create {WORKERS}-8 and {WORKERS}-9 again"),
        (JOB, f"Then create {JOB} again, if no other pods are created"),
        (
            Ref("ReplicaSet", NAMESPACE, "r"),
            f"Then delete {WORKERS}-8 and {WORKERS}-9, so that ReplicaSet r creates other pods:"
            f" kubectl delete pod -n inference {WORKERS}-8 {WORKERS}-9",
        ),
    ],
)
def test_all_rejected_pods_are_replaced(
    controller: Ref | None, again: str, answered: Asking
) -> None:
    both = [failed(OF_NODE, 900, number, controller=controller) for number in (8, 9)]
    reasons = answered(facts(**beside(*both))).reasons
    [found] = [each for each in reasons if each.id == "KubeletRefuses"]
    assert found.remedy.endswith(again)


CLIQUE = Ref("PodClique", NAMESPACE, WORKERS)
SHUTDOWN = "Terminated: Pod was terminated in response to imminent node shutdown."


@pytest.mark.parametrize(
    ("failure", "numbers", "controllers", "remedy"),
    [
        (SHUTDOWN, (8, 9), (None,), f"Create {WORKERS}-8 and {WORKERS}-9 again: gpu-03 was shut down"),
        (SHUTDOWN, (9,), (JOB,), "Wait until its controller has replaced the pod: gpu-03 was shut down"),
        (SHUTDOWN, (8, 9), (JOB,), "Wait until its controller has replaced the pods: gpu-03 was shut"),
        (SHUTDOWN, (9,), (CLIQUE,), f"Delete {WORKERS}-9, so that Grove creates another pod: gpu-03 was"),
        (SHUTDOWN, (8, 9), (CLIQUE,), f"Delete {WORKERS}-8 and {WORKERS}-9, so that Grove creates others"),
        (
            "NodeShutdown: Pod was rejected as the node is shutting down.",
            (8, 9),
            (JOB, Ref("ReplicaSet", NAMESPACE, "r")),
            "Wait until their controllers have replaced the pods: gpu-03 was shutting down",
        ),
        (
            "Preempting: Preempted in order to admit critical pod",
            (9,),
            (None,),
            f"Create {WORKERS}-9 again: the kubelet of gpu-03 needed the room for a critical pod",
        ),
    ],
)  # fmt: skip
def test_pods_that_a_kubelet_ended_are_right_as_they_are(
    failure: str, numbers: tuple[int, ...], controllers: tuple[Ref | None, ...], remedy: str
) -> None:
    owners = itertools.cycle(controllers)
    ended = [failed(failure, 900, number, controller=next(owners)) for number in numbers]
    found, who = _rejection_remedy(ended)
    assert found.startswith(remedy)
    assert who == "you"


def test_a_kubelet_does_not_reject_pods_that_it_ends(answered: Asking) -> None:
    state = facts(**beside(failed(SHUTDOWN, 900)))
    [told] = [each for each in answered(state).reasons if each.id == "KubeletRefuses"]
    assert told.text == f"The kubelet ended {WORKERS}-9 on gpu-03: {SHUTDOWN[:-1]}"


def test_no_command_lists_very_many_pods_or_nodes() -> None:
    """A controller may create new pods for rejected ones until thousands have failed."""
    owner = Ref("ReplicaSet", NAMESPACE, "r")
    rejected = [failed(OF_NODE, 900, number, controller=owner) for number in range(9, 60)]
    remedy, _ = _rejection_remedy(rejected)
    assert remedy.endswith(" and 47 more, so that ReplicaSet r creates other pods")

    words = Words("kubelet", "label already exists for a different ComputeDomain", None)
    many = [replace(pod, node=f"n{number}") for number, pod in enumerate(rejected)]
    remedy, _ = _start_remedy(words, many)
    assert "on n0, n1, n10, n11 and 47 more have ended" in remedy
    assert remedy.endswith(": kubectl label node NODE resource.nvidia.com/computeDomain-")


def test_a_rejected_pod_that_is_asked_for_is_told_of_whatever_its_age(said: Said) -> None:
    pod = failed(OF_NODE, 90_000, owner="", group="")
    answer = explain(Index(Snapshot(pods=(pod,), nodes=nodes(), now=NOW)), pod.ref)
    assert answer
    said(whole(answer))
    assert [reason.severity for reason in answer.reasons] == ["problem"]


@pytest.mark.parametrize(
    ("container", "state", "is_of_grove"),
    [
        ("grove-initc", "ErrImagePull", True),
        ("grove-initc", "ImagePullBackOff", True),
        ("fetch", "ImagePullBackOff", False),
        ("grove-initc", "CreateContainerError", False),
    ],
)
def test_the_image_of_groves_init_container_is_not_in_the_pod_template(
    container: str, state: str, is_of_grove: bool, answered: Asking
) -> None:
    words = "failed to pull ghcr.io/x:1: dial tcp: i/o timeout"
    stalled = (Stalled(container, state, message=words),)
    first = answered(facts(pods=bound(600, 600, 600, 600, stalled=stalled))).reasons[0]
    assert ("GROVE_INIT_CONTAINER_IMAGE" in first.remedy) is is_of_grove
    assert first.remedy.startswith("Ask the platform team which image") is is_of_grove


@pytest.mark.parametrize(
    ("node", "changes", "driver", "is_named"),
    [
        ("gpu-00", {"stalled": (CRASHES,)}, "compute-domain.nvidia.com", True),
        ("gpu-00", {"phase": "Pending"}, "gpu.nvidia.com", True),
        ("gpu-00", {}, "gpu.nvidia.com", False),
        ("gpu-09", {"stalled": (CRASHES,)}, "gpu.nvidia.com", False),
    ],
)
def test_the_pod_of_the_driver_that_the_kubelet_misses_is_named(
    node: str, changes: dict[str, Any], driver: str, is_named: bool, answered: Asking
) -> None:
    words = f"prepare dynamic resources: DRA driver {driver} is not registered"
    plugin = Pod(
        "dra",
        "dra-driver-nvidia-gpu-kubelet-plugin-x",
        uid="uid-plugin",
        controller=Ref("DaemonSet", "dra", "dra-driver-nvidia-gpu-kubelet-plugin"),
        **{"node": node, "phase": "Running", **changes},
    )
    state = facts(
        pods=(*bound(600, 600, 600, 600), plugin), events=warnings(5, 5, 5, 5, words=words)
    )
    first = answered(state).reasons[0]
    assert first.id == "KubeletRefuses"
    assert (f"The driver's pod dra/{plugin.name} on gpu-00 does not run" in first.text) is is_named

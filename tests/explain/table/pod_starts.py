"""Reasons about pods that a controller can't create, a kubelet rejects or a container keeps back."""

from typing import Any

from msgspec.structs import replace

from app.facts.identity import Ref
from app.facts.kai.podgroup import Said
from app.facts.kubernetes.claim import ClaimTemplate
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.pod import RUNS, Leader, Pod, PodClaim, Stalled
from app.facts.kubernetes.workload_status import LEADER_READY, WorkloadStatus
from tests.explain.fleet import (
    NAMESPACE,
    NOW,
    ROUTER,
    WORKERS,
    cliques,
    nodes,
    occupant,
    pcs,
    placed,
    pod_group,
    pods,
    shape,
)
from tests.explain.table.row import Row, changed

FETCHES = Stalled("fetch-weights", RUNS, init=True, since=NOW - 600)
FAILS = Stalled("fetch-weights", "CrashLoopBackOff", init=True, restarts=6, ended="exit code 2")
NO_IMAGE = Stalled("engine", "ImagePullBackOff", 'Back-off pulling image "example.com/engine:9"')
CRASHES = Stalled("engine", "CrashLoopBackOff", restarts=12, ended="OOMKilled")
CLIQUE = Ref("PodClique", NAMESPACE, WORKERS)
LATER = NOW - 30
FIRST = f"{ROUTER}-0"


def warned(about: Ref, uid: str, reason: str, message: str, source: str) -> Event:
    return Event(uid, reason, message, LATER, source, about, True)


def starting(*stalled: Stalled, **changes: Any) -> tuple[Pod, ...]:
    """All pods have had a node for ten minutes, and none is started."""
    on_nodes = placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")
    made = {"phase": "Pending", "waiting": ("PodInitializing",), "bound": NOW - 600}
    return tuple(replace(each, **made, stalled=stalled, **changes) for each in on_nodes)


def running(*stalled: Stalled) -> tuple[Pod, ...]:
    on_nodes = placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")
    reasons = tuple(container.reason for container in stalled)
    made = {"phase": "Running", "stalled": stalled, "waiting": reasons}
    return tuple(replace(each, **made) for each in on_nodes)


def unready(since: float = NOW - 900) -> tuple[Pod, ...]:
    changes = {"unready": "engine", "unready_since": since}
    return tuple(replace(each, **changes) for each in running())


def probed(probe: str, words: str) -> Event:
    said = f"{probe} probe failed: {words}"
    return Event(unready()[0].uid, "Unhealthy", said, LATER, "kubelet", unready()[0].ref, True)


WEB = Ref("StatefulSet", NAMESPACE, "web")


def revised(revision: str, made: tuple[Pod, ...]) -> tuple[Pod, ...]:
    """The first pod is of a StatefulSet."""
    first, *others = made
    of_set = {"made_for": (WEB,), "controller": WEB, "owner": "uid-web"}
    return (replace(first, revision=revision, **of_set), *others)


def of_template(revision: str, made: tuple[Pod, ...]) -> tuple[Pod, ...]:
    """The workers are of this revision."""
    router, *workers = made
    return (router, *(replace(each, revision=revision) for each in workers))


def of_clique(*made: Pod) -> tuple[Pod, ...]:
    return tuple(replace(each, owner="uid-workers") for each in made)


def rejected(failure: str, **changes: Any) -> Pod:
    """A pod that was there before one of the workers."""
    return replace(
        pods()[3],
        name=f"{WORKERS}-9",
        uid="uid-9",
        owner="uid-workers",
        node="gpu-03",
        phase="Failed",
        failure=failure,
        **changes,
    )


NOT_ALIGNED = "TopologyAffinityError: Pod was rejected: no alignment"
NO_CLAIMS = "16 cannot allocate all claims"

LWS = Ref("LeaderWorkerSet", NAMESPACE, "vllm")


def led(*, ready: bool, size: int = 4) -> tuple[Pod, ...]:
    """All pods run, and the first leads a group of a LeaderWorkerSet."""
    first, *others = placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")
    leads = {"leads": Leader(size, ready), "made_for": (LWS,)}
    return (replace(first, **leads), *others)


STARTING = (
    Row(
        "PodsMissing",
        "a set with startupPolicy LeaderReady, whose leader is not ready",
        {
            "pods": led(ready=False),
            "workload_statuses": (WorkloadStatus(LWS, startup=LEADER_READY, group=4),),
        },
        f"{FIRST} is not ready, and its 3 workers do not exist. LeaderWorkerSet vllm creates the workers of a group only once the leader is ready (startupPolicy: LeaderReady)",
        "you",
        {
            "pods": led(ready=False, size=1),
            "workload_statuses": (WorkloadStatus(LWS, startup=LEADER_READY, group=1),),
        },
    ),
    Row(
        "PodsMissing",
        "the policy is not known, and the leader is not ready",
        {"pods": led(ready=False, size=2)},
        f"{FIRST} is not ready, and its worker does not exist. LeaderWorkerSet vllm creates the workers of a group only once the leader is ready, if its startupPolicy is LeaderReady",
        "you",
        {"pods": tuple(replace(each, created=NOW - 30) for each in led(ready=False, size=2))},
    ),
    Row(
        "PodsMissing",
        "the leader is ready",
        {
            "pods": led(ready=True),
            "workload_statuses": (WorkloadStatus(LWS, startup=LEADER_READY, group=4),),
        },
        f"{FIRST} is ready, but its 3 workers do not exist",
        "you",
        {
            "pods": led(ready=True),
            "workload_statuses": (WorkloadStatus(LWS, startup=LEADER_READY, group=4),),
            "events": (
                warned(Ref("StatefulSet", NAMESPACE, "vllm"), "uid-sts", "FailedCreate", "no", "a"),
            ),
        },
    ),
    Row(
        "KubeletRefuses",
        "the kubelet rejected the pod before one that is pending",
        {"pods": (*of_clique(*pods()), rejected(NOT_ALIGNED, created=NOW - 900))},
        f"The kubelet rejected {WORKERS}-9 on gpu-03: {NOT_ALIGNED} (15 minutes ago)",
        "you",
        {"pods": of_clique(*pods())},
        also=("KaiSilent",),
    ),
    Row(
        "KubeletRefuses",
        "the kubelet has no room for what the scheduler placed",
        {"pods": (*of_clique(*pods()), rejected("OutOfcpu: no", created=NOW - 900))},
        f"The kubelet rejected {WORKERS}-9 on gpu-03: OutOfcpu: no (15 minutes ago)",
        "platform",
        {"pods": of_clique(*pods())},
        also=("KaiSilent",),
    ),
    Row(
        "KubeletRefuses",
        "an image can't be pulled, and its events are gone",
        {"pods": starting(NO_IMAGE)},
        "kubelet says: container engine, ImagePullBackOff: Back-off pulling image"
        ' "example.com/engine:9". 4 pods have had a node for up to 10 minutes and did not start',
        "you",
        {"pods": starting(replace(NO_IMAGE, message=""))},
    ),
    Row(
        "NotStarted",
        "an init container has been at work for long",
        {"pods": starting(FETCHES)},
        "Init container fetch-weights has been running for 10 minutes in 4 pods",
        "you",
        {"pods": running()},
    ),
    Row(
        "NotStarted",
        "an init container fails again and again",
        {"pods": starting(FAILS)},
        "Init container fetch-weights is in CrashLoopBackOff (6 restarts, exit code 2) in 4 pods",
        "you",
        {"pods": running()},
    ),
    Row(
        "ContainerCrashes",
        "a container ends again and again",
        {"pods": running(CRASHES)},
        "Container engine is in CrashLoopBackOff (12 restarts, OOMKilled) in 4 pods",
        "you",
        {"pods": running()},
    ),
    Row(
        "PodsNotReady",
        "a readiness probe fails",
        {"pods": unready(), "events": (probed("Readiness", "503"),)},
        "Container engine runs in 4 pods and has not been ready for up to 15 minutes. kubelet says:"
        " Readiness probe failed: 503 (30 seconds ago)",
        "you",
        {"pods": unready(since=NOW - 500), "events": (probed("Readiness", "503"),)},
    ),
    Row(
        "PodsNotReady",
        "a liveness probe restarts the container",
        {"pods": unready(), "events": (probed("Liveness", "EOF"),)},
        "Container engine runs in 1 pod and has not been ready for 15 minutes. kubelet says:"
        " Liveness probe failed: EOF (30 seconds ago)",
        "you",
        {"pods": tuple(replace(each, unready="") for each in unready())},
    ),
    Row(
        "PodsNotReady",
        "a container is not ready for long, and there are no events",
        {"pods": unready()},
        "Container engine runs in 4 pods and has not been ready for up to 15 minutes",
        "you",
        {"pods": running()},
    ),
    Row(
        "OldRevision",
        "a pod of an old revision has no image",
        {
            "pods": revised("web-1", starting(NO_IMAGE)),
            "workload_statuses": (WorkloadStatus(WEB, revision="web-2"),),
        },
        "StatefulSet web has a newer template (revision web-2) than llm-0-router-0, and"
        " replaces a pod only in order and once it is ready (podManagementPolicy: OrderedReady)",
        "you",
        {
            "pods": revised("web-2", starting(NO_IMAGE)),
            "workload_statuses": (WorkloadStatus(WEB, revision="web-2"),),
        },
        also=("KubeletRefuses",),
    ),
    Row(
        "OldRevision",
        "the template of a PodClique was corrected, and Grove waits for somebody to delete its pods",
        {
            "pods": of_template("old", starting(NO_IMAGE)),
            "cliques": cliques(revision="new"),
            "sets": (pcs(updates_on_delete=True),),
        },
        f"3 pods have an old template of {CLIQUE}, and Grove replaces them only after a deletion"
        " (updateStrategy OnDelete)",
        "you",
        {
            "pods": of_template("new", starting(NO_IMAGE)),
            "cliques": cliques(revision="new"),
            "sets": (pcs(updates_on_delete=True),),
        },
        also=("KubeletRefuses",),
    ),
    Row(
        "PodsNotCreated",
        "the gang has its minimum, and no more pods can be created",
        {
            "pods": of_clique(*placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")),
            "events": (
                warned(CLIQUE, "uid-workers", "FailedCreate", "exceeded quota: gpus", "grove"),
            ),
        },
        f"Not all pods of PodGang llm-0 could be created. About {CLIQUE}, grove says: exceeded quota: gpus"
        " (30 seconds ago)",
        "you",
        {
            "pods": tuple(
                replace(each, created=LATER + 1)
                for each in of_clique(*placed("gpu-00", "gpu-00", "gpu-01", "gpu-02"))
            ),
            "events": (
                warned(CLIQUE, "uid-workers", "FailedCreate", "exceeded quota: gpus", "grove"),
            ),
        },
    ),
    Row(
        "PodsNotCreated",
        "a webhook that does not answer keeps more pods from being created",
        {
            "pods": of_clique(*placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")),
            "events": (
                warned(CLIQUE, "uid-workers", "FailedCreate", "failed calling webhook x", "grove"),
            ),
        },
        f"Not all pods of PodGang llm-0 could be created. About {CLIQUE}, grove says: failed calling"
        " webhook x (30 seconds ago)",
        "platform",
        {
            "pods": of_clique(*placed("gpu-00", "gpu-00", "gpu-01", "gpu-02")),
            "events": (warned(CLIQUE, "uid-workers", "Unhealthy", "probe failed", "grove"),),
        },
    ),
    Row(
        "ClaimMissing",
        "Kubernetes may not create the claim of a pod",
        {
            "pods": pods(claims=(PodClaim("gpu", "", "one-gpu"),)),
            "claim_templates": (ClaimTemplate(NAMESPACE, "one-gpu"),),
            "events": tuple(
                warned(
                    each.ref,
                    each.uid,
                    "FailedResourceClaimCreation",
                    "exceeded quota: claims",
                    "resourceclaim_controller",
                )
                for each in pods()
            ),
        },
        "4 pods lack claims that Kubernetes creates from a template; resourceclaim_controller says:"
        " exceeded quota: claims (30 seconds ago)",
        "you",
        {
            "pods": pods(claims=(PodClaim("gpu", "", "one-gpu"),)),
            "claim_templates": (ClaimTemplate(NAMESPACE, "one-gpu"),),
        },
    ),
    Row(
        "OtherResource",
        "nodes with free GPUs run as many pods as they take",
        {
            "nodes": tuple(
                replace(node, allocatable={**node.allocatable, "pods": 1000}) for node in nodes()
            ),
            "pods": (*pods(), *(occupant(node.name, shape=shape(0)) for node in nodes())),
        },
        "GPUs are free, but their nodes take no more pods: gpu-00 takes 1 pod, gpu-01 takes 1 pod"
        " and 14 more",
        "platform",
        {"pods": (*pods(), *(occupant(node.name, shape=shape(0)) for node in nodes()))},
    ),
    Row(
        "KaiRefuses",
        "KAI can't allocate claims, and the devices seem to be free",
        {"pod_groups": (pod_group(said=(Said("Other", NO_CLAIMS, time=NOW - 9),)),)},
        f"KAI says: {NO_CLAIMS} (9 seconds ago). According to our checks, the gang fits in zone-a/rack-a1",
        "platform",
        {
            "pod_groups": (pod_group(said=(Said("Other", NO_CLAIMS, time=NOW - 9),)),),
            "pods": pods(created=NOW - 5),
        },
    ),
    Row(
        "NodeNotReady",
        "it is known since when a node is not ready",
        {
            "pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-01"),
            "nodes": changed(("gpu-01",), ready=False, lost_at=NOW - 1200),
        },
        "2 pods of llm-0 are on node gpu-01, which has not been ready for at least 20 minutes",
        "platform",
        {"pods": placed("gpu-00", "gpu-00", "gpu-01", "gpu-01")},
    ),
)

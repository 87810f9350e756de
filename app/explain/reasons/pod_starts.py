"""Report pods that the kubelet rejects or does not start, and containers that do not run."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from app.base.groups import by_key
from app.explain.gangs.gang import Gang
from app.explain.reasons.compute_domains import (
    compute_domains_of,
    host_managed,
    waits_for_domain,
)
from app.explain.reasons.gates import grouped, pods_in_words, refs
from app.explain.reasons.gpu_sharing import unused_reservations
from app.explain.reasons.messages import (
    CRASHES,
    Advice,
    Words,
    advice_for,
    broken_plugin,
    is_about_a_domain,
    kubelet_words,
    not_running_words,
    one_line,
    stalled_words,
    words_of,
)
from app.explain.reasons.reason import (
    Evidence,
    Reason,
    Reasons,
    Severity,
    Who,
    about,
    ago,
    commands_to_describe,
    counted,
    listed,
    to_describe_pod,
    to_read_log,
    with_age,
)
from app.explain.reasons.restarts import MOST_NAMED, fails_if_deleted
from app.facts.grove.topology import HOSTNAME_KEY
from app.facts.identity import Key, Ref
from app.facts.kinds import POD_CLIQUE
from app.facts.kubernetes.gpus import GPU
from app.facts.kubernetes.pod import DAEMON_OF, RUNS, UNSTARTED, Pod

MOST_STARTING = 60.0
"""The seconds within which a pod with a node starts, if nothing is wrong."""


def kubelet_refuses(gang: Gang) -> Reasons:
    """Report that pods have a node but don't start, and the kubelet says why."""
    told = [
        (words, pod)
        for pod in gang.placed
        if pod.bound is not None and _has_node(gang, pod)
        if (words := kubelet_words(gang.index, pod)) and not is_about_a_domain(words)
        if _is_late(gang, pod) or words.reason in _AT_ONCE
    ]
    for each in by_key(((_alike(words, pod)), (words, pod)) for words, pod in told).values():
        pods = [pod for _, pod in each]
        words = max((words for words, _ in each), key=lambda words: words.time or 0.0)
        have = counted(pods, "pod has", "pods have")
        since = _since_bound(gang, pods)
        text = f"{words.quoted(gang.facts.now)}. {have} had a node for {since} and did not start"
        remedy, who = _start_remedy(words, pods)
        first = min(pods, key=attrgetter("name"))
        see = to_describe_pod(first.ref)
        plugin = _plugin_at_fault(gang, words, pods)
        if plugin:
            which = f"The driver's pod {plugin.namespace}/{plugin.name} on {plugin.node}"
            text += f". {not_running_words(gang.index, plugin, which)}"
            remedy = "Ask the platform team to find out why the driver's pod does not run."
            see = f"kubectl describe pod -n {plugin.namespace} {plugin.name}"
        evidence = Evidence(first.ref, f"event {words.reason}", words.text)
        yield about(
            evidence, "KubeletRefuses", text, remedy, who, objects=refs(pods), commands=(see,)
        )


_PLUGIN = "kubelet-plugin"
"""A text in the names of the pods of NVIDIA's and other DRA drivers that register with kubelets."""


def _plugin_at_fault(gang: Gang, words: Words, pods: Iterable[Pod]) -> Pod | None:
    """Return the driver's pod that does not run, if the kubelet misses the driver, or else None."""
    if "not registered" not in words.text.lower() or "DRA driver" not in words.text:
        return None
    return broken_plugin(gang.index, _PLUGIN, {pod.node for pod in pods})


_AT_ONCE = {"FailedPrepareDynamicResources", "UnexpectedAdmissionError"}
"""The reasons of events that count at once. Others count once a pod has had a node for a minute."""

_OF_GROVE = "grove-initc"
"""The init container that Grove's operator adds to pods with a startup order."""

_STARTS: Advice = (
    (
        ("not allowed to use resource claim",),
        f"Remove nodeName from the pod template, and select the node by its label {HOSTNAME_KEY}"
        " instead: only a scheduler reserves a claim for a pod.",
        "you",
    ),
    (
        ("not registered", "no such plugin"),
        "Ask the platform team to check whether the kubelet plugin of the driver in the message (a"
        " pod of a DaemonSet) runs on {nodes}.",
        "platform",
    ),
    (
        ("label already exists for a different computedomain",),
        "Wait until the pods of the other ComputeDomain on {nodes} have ended: a node is in one"
        " ComputeDomain at a time. If there are no such pods, ask the platform team to remove the"
        f" node label: kubectl label node {{arguments}} {DAEMON_OF}-",
        "you",
    ),
    (
        ("computedomain not found",),
        "Delete the pods, so that new pods get new claims: the ComputeDomain that the existing"
        " claims name was deleted.",
        "you",
    ),
    (
        ("namespace is different than the computedomain",),
        "Use the claim template of a ComputeDomain in the namespace of these pods.",
        "you",
    ),
    (
        ("already allocated by claim",),
        "Wait until the pods of the claim with the uid in the message have ended: a node has one"
        " NVLink channel. To find the claim: kubectl get resourceclaims -A -o"
        " 'custom-columns=UID:.metadata.uid,NAMESPACE:.metadata.namespace,NAME:.metadata.name'. If"
        " there is no such claim, ask the platform team to read the log of the DRA driver's kubelet"
        " plugin on {nodes}.",
        "you",
    ),
    (
        ("host nvidia-imex daemon",),
        "Ask the platform team to start the service nvidia-imex on {nodes}, because NVIDIA's DRA"
        " driver leaves IMEX to the hosts: nvidia-imex-ctl -q must print READY there.",
        "platform",
    ),
    (
        ("gpu config", "config parameters", "mps is not yet supported", "mps sharing is not"),
        "Correct the config of NVIDIA's driver in the ResourceClaim or its template, as the message"
        " says.",
        "you",
    ),
    (
        ("dynamic resources",),
        "Ask the platform team to read the log of the DRA driver's kubelet plugin on {nodes}.",
        "platform",
    ),
    (
        ("unsatisfied condition: cuda",),
        "Use an image with an earlier CUDA version, or ask the platform team to update the driver"
        " of {nodes}.",
        "you",
    ),
    (
        ("nvidia-container-",),
        "Ask the platform team to check the NVIDIA driver and the NVIDIA Container Toolkit on"
        " {nodes}.",
        "platform",
    ),
    (
        ("no runtime for", "runtime handler"),
        "Ask the platform team to configure the container runtime of {nodes} for the runtime class"
        " of the pod, or correct runtimeClassName in the pod template.",
        "platform",
    ),
    (
        ("executable file not found", "container process: exec: "),
        "Correct the command in the pod template: the image cannot run it.",
        "you",
    ),
    (
        ("poststarthook",),
        "Correct lifecycle.postStart in the pod template: the hook failed.",
        "you",
    ),
    (
        ("runasnonroot",),
        "Use an image that does not run as root, or set securityContext.runAsUser in the pod"
        " template to the number of another user.",
        "you",
    ),
    (
        ("no space left on device",),
        "Ask the platform team to free disk space on {nodes}.",
        "platform",
    ),
    (
        ("couldn't find key", "non-existent secret key", "non-existent config key"),
        "Add the key that the kubelet names to the Secret or ConfigMap, or correct the key in the"
        " pod template.",
        "you",
    ),
    (
        ("sa-token-secret-vol",),
        "Ask the platform team to read the log of Grove's operator: it creates this Secret for its"
        f" container {_OF_GROVE}, and creates it again after a change of the PodCliqueSet.",
        "platform",
    ),
    (
        ("secret", "configmap"),
        "Create the Secret or ConfigMap that the kubelet names, with the key that it names, or"
        " correct the name in the pod template.",
        "you",
    ),
    (
        ("not bound", "unbound"),
        f"Select the node by its label {HOSTNAME_KEY} if the pod template sets nodeName:"
        " WaitForFirstConsumer volumes are bound only if a scheduler places the pod. Otherwise, ask"
        " the platform team about the storage.",
        "you",
    ),
    (
        ("multi-attach",),
        "Use a volume with the access mode ReadWriteMany, or keep all pods that use the volume on"
        " one node. If the pod on the other node is no longer needed, delete that pod.",
        "you",
    ),
    (
        ("networkattachmentdefinition", "network-attachment-definition"),
        "Create the NetworkAttachmentDefinition that the kubelet names, or correct the annotation"
        " k8s.v1.cni.cncf.io/networks in the pod template.",
        "you",
    ),
    (
        ("list of registered csi drivers",),
        "Ask the platform team to check the pod of the CSI driver on {nodes}: its kubelet does not"
        " know the driver in the message.",
        "platform",
    ),
    (
        ("sandbox",),
        "Ask the platform team to check the network and the container runtime of {nodes}.",
        "platform",
    ),
    (
        ("toomanyrequests", "too many requests"),
        "Wait until the registry accepts pulls again. If this happens often, use a pull secret of"
        " an account with a higher limit, or an image in another registry.",
        "you",
    ),
    (
        (f"container {_OF_GROVE}, errimage", f"container {_OF_GROVE}, imagepull"),
        "Ask the platform team which image Grove's operator sets for this container"
        " (GROVE_INIT_CONTAINER_IMAGE), and whether {nodes} can pull it: the image is not in the"
        " pod template.",
        "platform",
    ),
    (
        ("failed to do request: ", "pinging container registry"),
        "Correct the name of the registry in the pod template, or ask the platform team why {nodes}"
        " cannot reach the registry.",
        "you",
    ),
    (
        ("pull policy of never",),
        "Set imagePullPolicy in the pod template to IfNotPresent, or ask the platform team to load"
        " the image onto {nodes}.",
        "you",
    ),
    (
        ("no match for platform", "exec format error"),
        "Use an image for the CPU architecture of {nodes}.",
        "you",
    ),
    (("pull", "image"), "Correct the image, or the pull secret, in the pod template.", "you"),
    (
        ("volume", "mount"),
        "Correct the volume that the kubelet names, or ask the platform team about its storage.",
        "you",
    ),
    (
        ("network", "cni"),
        "Ask the platform team to check the network and the container runtime of {nodes}.",
        "platform",
    ),
)
"""Advice on messages of kubelets, in lower case. The first row that applies counts."""

_OTHERWISE: tuple[str, Who] = (
    "Fix the problem that the message describes, or ask the platform team to check {nodes}.",
    "platform",
)
"""Advice on other messages of kubelets."""


def _start_remedy(words: Words, pods: Sequence[Pod]) -> tuple[str, Who]:
    nodes = sorted({pod.node for pod in pods})
    remedy, who = next(advice_for(words.text.lower(), _STARTS), _OTHERWISE)
    arguments = shlex.join(nodes) if len(nodes) <= MOST_NAMED else "NODE"
    return remedy.format(nodes=listed(nodes), arguments=arguments), who


def _since_bound(gang: Gang, pods: Sequence[Pod]) -> str:
    """Return how long pods have had a node, such as `up to 5 minutes` for several pods."""
    longest = ago(gang.facts.now - min(pod.bound or 0.0 for pod in pods))
    return longest if len(pods) == 1 else f"up to {longest}"


def _alike(words: Words, pod: Pod) -> tuple[str, ...]:
    """Return a key for a message about a pod, without the names of the pod, its node and claims."""
    text = words.text
    for own in (pod.uid, pod.name, pod.node, *(claim.claim for claim in pod.claims)):
        text = text.replace(own, "") if own else text
    return words.source, words.reason, text


def _is_late(gang: Gang, pod: Pod) -> bool:
    """Return whether a pod has had a node for longer than `MOST_STARTING`."""
    return pod.bound is not None and pod.bound < gang.facts.now - MOST_STARTING


def not_started(gang: Gang) -> Reasons:
    """Report that pods have had a node for over a minute and do not start, and no warning says why.

    Pods that wait for a ComputeDomain do not count.
    """
    unexplained = [
        pod
        for pod in gang.placed
        if _is_late(gang, pod) and _has_node(gang, pod)
        if not waits_for_domain(gang, pod) and not _has_words(gang, pod)
    ]
    without = [pod for pod in unexplained if not pod.stalled]
    pulling = [(words, pod) for pod in without if (words := _pulling_words(gang, pod))]
    for alike in by_key((_alike(words, pod), (words, pod)) for words, pod in pulling).values():
        longest = min((words for words, _ in alike), key=lambda words: words.time or 0.0)
        yield _pulling(gang, longest, [pod for _, pod in alike])
    others = (pod for pod in without if not _pulling_words(gang, pod))
    for state, pods in grouped((listed(pod.waiting), pod) for pod in others):
        yield _not_started(gang, state, pods)
    for pods in _alike_in_containers(unexplained):
        yield _in_container(gang, "NotStarted", pods)


def container_crashes(gang: Gang) -> Reasons:
    """Report that a container of a running pod does not run, for example because it crashes."""
    running = [pod for pod in gang.placed if pod.phase == "Running"]
    for pods in _alike_in_containers(running):
        yield _in_container(gang, "ContainerCrashes", pods)


def _alike_in_containers(pods: Iterable[Pod]) -> Iterator[list[Pod]]:
    """Yield groups of pods whose first container that doesn't run has the same name and state."""
    pairs = (((pod.stalled[0].name, pod.stalled[0].reason), pod) for pod in pods if pod.stalled)
    yield from by_key(pairs).values()


_OTHERS_WAIT = "The other containers start once this container ends"
_WAITS_FOR = {
    _OF_GROVE: "Grove's init container ends once the PodCliques that start earlier (startsAfter"
    " or startup type InOrder) have their minimum of ready pods: find out why these are not ready",
    "wait-gcs-ready": "KubeRay's init container ends once the head of the RayCluster answers: find"
    " out why the head is not ready",
    "init-pytorch": "The training operator's init container ends once the name of the master pod"
    " can be resolved: find out why the master does not run",
}
"""The remedies for init containers that controllers add to pods, by container name."""


def _in_container(gang: Gang, id: str, pods: Sequence[Pod]) -> Reason:
    first = min(pods, key=attrgetter("name"))
    container = first.stalled[0]
    text = f"{stalled_words(container, gang.facts.now)} in {counted(pods, 'pod')}"
    log = to_read_log(first.ref)
    log += f" -c {shlex.quote(container.name)}"
    remedy = f"Read the log of container {container.name}"
    if not (container.restarts or container.ended or container.reason in (RUNS, UNSTARTED)):
        # It has never run, so there is no log.
        remedy = f"Read the events of the pod to see why container {container.name} cannot run"
        log = to_describe_pod(first.ref)
    # A pod that has started was placed as requested, and a running init container may be normal.
    severity: Severity = "warning" if first.bound is None else "problem"
    if container.reason == RUNS:
        remedy += f". {_WAITS_FOR.get(container.name, _OTHERS_WAIT)}"
        severity = "warning"
    elif container.reason == UNSTARTED:
        remedy += (
            ". The other containers start once its postStart hook and its startup probe succeed"
        )
    elif container.restarts:
        log += " --previous"
        remedy = f"Read the log of the last run of container {container.name}"
    who: Who = "you"
    why = container.message if container.reason != CRASHES else container.ended
    known = next(advice_for(why.lower(), _STARTS), None) if why else None
    if known:  # The container could not be started, so that its log does not say why.
        remedy, who = _start_remedy(Words("kubelet", why), pods)
        log = to_describe_pod(first.ref)
    probe, said = _failed_probe(gang, first)
    if probe:
        text += f". {said}"
        remedy += f". If the container is only too slow, raise failureThreshold of its {probe}Probe"
    if container.ended == "OOMKilled":
        remedy = (
            f"Raise limits.memory of container {container.name}: it was killed because memory ran"
            " out. The log of the killed run may show why"
        )
    evidence = Evidence(first.ref, f"status, container {container.name}", container.reason)
    return about(
        evidence, id, text, remedy, who, objects=refs(pods), commands=(log,), severity=severity
    )


_PROBES = ("startup", "liveness")
"""The probes whose failures make kubelets restart containers."""


def _failed_probe(gang: Gang, pod: Pod) -> tuple[str, str]:
    """Return (probe, message) if the kubelet killed a pod's first stalled container due to a probe.

    Return ("", "") if no event says so.
    """
    name = pod.stalled[0].name
    for event in gang.index.events_about(pod.namespace, pod.uid):
        for probe in _PROBES:
            killed = f"Container {name} failed {probe} probe"
            if event.reason == "Killing" and event.message.startswith(killed):
                return probe, words_of(event, "kubelet").quoted(gang.facts.now)
    return "", ""


def kubelet_rejects(gang: Gang) -> Reasons:
    """Report that the kubelet rejected or evicted pods that the gang lacks now."""
    times = [pod.created for pod in gang.waiting if pod.created is not None]
    since = min(times, default=0.0) - _FAILED_BEFORE
    failed = [pod for pod in failed_pods(gang) if (pod.created or 0.0) >= since]
    severity: Severity = "problem"
    if gang.pods and not gang.waits:
        failed = [pod for pod in failed if not _is_replaced(gang, pod)]
        ended = all(pod.finished for pod in gang.pods)
        severity = "problem" if ended else "warning"
    for pods in by_key(((pod.failure, pod.node), pod) for pod in failed).values():
        first = max(pods, key=lambda pod: pod.created or 0.0)
        on = f" on {first.node}" if first.node else ""
        names = listed(sorted(pod.name for pod in pods))
        if _is_evicted(first.failure):
            text = f"The kubelet evicted {names}{on}: {one_line(first.failure)}"
        elif first.failure.startswith(_ENDED):
            text = f"The kubelet ended {names}{on}: {one_line(first.failure)}"
        else:
            # The age of the pod is shown, because a kubelet rejects a pod soon after its creation.
            text = f"The kubelet rejected {names}{on}: {one_line(first.failure)}"
            text = with_age(text, first.created, gang.facts.now)
        remedy, who = _rejection_remedy(pods)
        commands = commands_to_describe(Ref("Node", "", first.node))
        if "devices unavailable" in first.failure and GPU in first.failure:
            unused = unused_reservations(gang.index, first.node)
            if unused:
                said, remedy, command = unused
                text, who, commands = f"{text}. {said}", "platform", (command,)
        evidence = Evidence(first.ref, "status.reason", first.failure)
        yield about(
            evidence,
            "KubeletRefuses",
            text,
            remedy,
            who,
            objects=refs(pods),
            commands=commands,
            severity=severity,
        )


def _is_replaced(gang: Gang, failed: Pod) -> bool:
    """Return whether a newer pod has replaced a failed one.

    A failed pod that was created over an hour ago, or at an unknown time, counts as replaced,
    unless the user asks about this pod.
    """
    now = gang.facts.now
    if failed.created is None or (now and now - failed.created > _FAILED_BEFORE):
        return failed.ref != gang.ref
    pods = gang.pods if failed.owner == "" else _of_owner(gang, failed.owner)
    return any(
        not pod.finished and (pod.created or 0.0) > failed.created
        for pod in pods
        if pod.key != failed.key
    )


def _of_owner(gang: Gang, owner: str) -> Sequence[Pod]:
    def look() -> Mapping[Key, Sequence[Pod]]:
        return by_key(((pod.namespace, pod.owner), pod) for pod in gang.facts.pods)

    of_owner = gang.index.remembered("pods by owner", look, ["pods"])
    return of_owner.get((gang.namespace, owner), ())


_FAILED_BEFORE = 3600.0
"""The maximum time in seconds between the creation of a failed pod and of its replacement."""
_HAD_CONDITION = ("node had condition: ", "low on resource: [")
"""The texts with which a kubelet rejects a new pod because of a condition of the node.

The second text is from older releases. The reason is `Evicted`, although the pod never ran.
"""
_ENDED = ("Terminated: ", "DeadlineExceeded: ", "Preempting: ")
"""The starts of the failures of pods that a kubelet has ended after they ran."""
_ANY = ("",)
_REJECTIONS: tuple[tuple[str, tuple[str, ...], str, Who], ...] = (
    (
        "OutOf",
        _ANY,
        "Remove nodeName from the pod template if it is set: no scheduler checks whether such a pod"
        " fits. Set requests in the containers if only spec.resources has them: KAI ignores those"
        " of the pod. Otherwise, ask the platform team what else uses {node}: its kubelet sees more"
        " usage than the scheduler. Then {again}",
        "platform",
    ),
    (
        "UnexpectedAdmissionError",
        ("number of devices unavailable",),
        "Ask the platform team to check the device plugin on {node}: fewer devices are available"
        " there than the scheduler counts",
        "platform",
    ),
    (
        "UnexpectedAdmissionError",
        _ANY,
        "Ask the platform team to check the device plugins and the log of the kubelet on {node}",
        "platform",
    ),
    (
        "NodeAffinity",
        _ANY,
        "Correct the nodeSelector or the node affinity in the pod template, or ask the platform"
        " team to correct the labels of {node}, which do not match. If the pod template sets"
        " nodeName, remove it. Then {again}",
        "you",
    ),
    (
        "Terminated",
        ("node shutdown",),
        "{replace}: {node} was shut down",
        "you",
    ),
    (
        "NodeShutdown",
        _ANY,
        "{replace}: {node} was shutting down",
        "you",
    ),
    (
        "Preempting",
        _ANY,
        "{replace}: the kubelet of {node} needed the room for a critical pod",
        "you",
    ),
    (
        "DeadlineExceeded",
        _ANY,
        "Raise activeDeadlineSeconds in the pod template, or find out why the pod takes longer",
        "you",
    ),
    (
        "TopologyAffinityError",
        _ANY,
        "Request GPUs and CPUs that one NUMA node of {node} has, or ask the platform team for nodes"
        " whose topologyManagerPolicy is less strict",
        "you",
    ),
    (
        "Evicted",
        ("of EmptyDir volume",),
        "Raise sizeLimit of the emptyDir volume in the message, or write less data to the volume",
        "you",
    ),
    (
        "Evicted",
        ("exceeds the total limit of containers", "exceeded its local ephemeral storage limit"),
        "Raise limits.ephemeral-storage of the containers, or write less data to their file"
        " systems, logs and emptyDir volumes",
        "you",
    ),
    (
        "Evicted",
        ("exceeds its request of", "larger consumption of"),
        "Raise the containers' requests for the resource to the usage in the message, or ask the"
        " platform team for nodes with more of this resource",
        "you",
    ),
    (
        "Evicted",
        _HAD_CONDITION,
        "Ask the platform team to find out why {node} has the condition in the message",
        "platform",
    ),
    (
        "Evicted",
        ("low on resource: ",),
        "Ask the platform team to find out what uses up the resource in the message on {node}",
        "platform",
    ),
)
"""Advice on failed pods: (start of the failure, texts, remedy, who can act).

The first row counts whose start begins the failure, and one of whose texts is in it. The texts
about evictions are from the kubelet's `pkg/kubelet/eviction/helpers.go`.
"""


def _is_evicted(failure: str) -> bool:
    return failure.startswith("Evicted") and not any(text in failure for text in _HAD_CONDITION)


def _rejection_remedy(pods: Sequence[Pod]) -> tuple[str, Who]:
    """Return the remedy for pods with the same failure on the same node, and who can act."""
    node = pods[0].node or "the node"
    failure = pods[0].failure
    for begin, texts, remedy, who in _REJECTIONS:
        if failure.startswith(begin) and any(text in failure for text in texts):
            remedy = remedy.format(node=node, again=_again(pods), replace=_replace(pods))
            return remedy, who
    return f"Ask the platform team to read the log of the kubelet on {node}", "platform"


def _replace(pods: Sequence[Pod]) -> str:
    """Return the beginning of the remedy for failed pods that need no change."""
    names = listed(sorted(pod.name for pod in pods))
    owners = {pod.controller for pod in pods if pod.controller}
    if not all(pod.controller for pod in pods):
        return f"Create {names} again"
    if any(owner.kind == POD_CLIQUE.kind for owner in owners):
        # Grove does not replace a pod while the pod exists.
        return (
            f"Delete {names}, so that Grove creates {'another pod' if len(pods) == 1 else 'others'}"
        )
    controllers = "its controller has" if len(owners) == 1 else "their controllers have"
    return f"Wait until {controllers} replaced {'the pod' if len(pods) == 1 else 'the pods'}"


def _again(pods: Sequence[Pod]) -> str:
    """Return how to replace failed pods."""
    names = sorted(pod.name for pod in pods)
    controllers = sorted({pod.controller for pod in pods if pod.controller})
    owners = listed(map(str, controllers))
    if any(map(fails_if_deleted, pods)):
        return f"create {owners} again, if no other pods are created"
    if all(pod.controller for pod in pods):
        create = "creates" if len(controllers) == 1 else "create"
        advice = f"delete {listed(names)}, so that {owners} {create} other pods"
        if len(names) > MOST_NAMED:
            return advice
        namespace = shlex.quote(pods[0].namespace)
        return f"{advice}: kubectl delete pod -n {namespace} {shlex.join(names)}"
    return f"create {listed(names)} again"


def failed_pods(gang: Gang) -> list[Pod]:
    """Return the pods of a gang's owners or PodGroup that the kubelet rejected or evicted.

    If the gang is a single pod, the pod itself counts too.
    """

    def look() -> Mapping[object, list[Pod]]:
        keys = (
            (key, pod)
            for pod in gang.facts.pods
            if pod.failure
            for key in (pod.ref, pod.owner, (pod.namespace, pod.group))
        )
        return by_key(keys)

    failed = gang.index.remembered("failed pods", look, ["pods"])
    if not failed:
        return []
    wanted: list[object] = [gang.ref, *(pod.owner for pod in gang.pods if pod.owner)]
    wanted += [gang.pod_group.key] if gang.pod_group else []
    return list({pod.key: pod for key in wanted for pod in failed.get(key, ())}.values())


def _has_words(gang: Gang, pod: Pod) -> bool:
    words = kubelet_words(gang.index, pod)
    return words is not None and not is_about_a_domain(words)


def _has_node(gang: Gang, pod: Pod) -> bool:
    """Return whether the node of a pod exists and is ready."""
    position = gang.domains.positions.get(pod.node)
    return position is not None and gang.domains.nodes[position].ready


def _pulling_words(gang: Gang, pod: Pod) -> Words | None:
    """Return the kubelet's newest message about a pod if it pulls an image, or None."""
    events = gang.index.events_about(pod.namespace, pod.uid)
    newest = next((event for event in events if event.source == "kubelet"), None)
    return words_of(newest) if newest and newest.reason == "Pulling" else None


def _pulling(gang: Gang, words: Words, pods: Sequence[Pod]) -> Reason:
    """Return the reason for pods whose image the kubelet still pulls, as `words` say."""
    wait = f"{pods_in_words(gang, pods)} {'waits' if len(pods) == 1 else 'wait'}"
    first = min(pods, key=attrgetter("name"))
    nodes = listed(sorted({pod.node for pod in pods}))
    return about(
        Evidence(first.ref, f"event {words.reason}", words.text),
        "NotStarted",
        f"{wait} for an image. {words.quoted(gang.facts.now)}",
        "Wait until the image is pulled. If this takes long, use a smaller image or a closer"
        f" registry, or ask the platform team to load the image onto {nodes} in advance",
        "wait",
        objects=refs(pods),
        commands=(to_describe_pod(first.ref),),
        severity="warning",
    )


def _not_started(gang: Gang, state: str, pods: list[Pod]) -> Reason:
    have = f"{pods_in_words(gang, pods)} {'has' if len(pods) == 1 else 'have'}"
    text = (
        f"{have} had a node for {_since_bound(gang, pods)} and did not start:"
        f" {state or 'no state reported'}"
    )
    first = min(pods, key=attrgetter("name"))
    evidence = Evidence(first.ref, "status.containerStatuses[].state.waiting.reason", state)
    see = to_describe_pod(first.ref)
    remedy = "Read the kubelet's messages in the events of the pod"
    if any(host_managed(gang.index, domain) for domain in compute_domains_of(gang)):
        nodes = listed(sorted({pod.node for pod in pods}))
        remedy += (
            f". Also check that nvidia-imex-ctl -q prints READY on {nodes}, because the hosts run"
            " IMEX"
        )

    return about(evidence, "NotStarted", text, remedy, "you", objects=refs(pods), commands=(see,))

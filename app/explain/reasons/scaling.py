"""Report messages of autoscalers: nodes are being added, or no node group can help.

Sources: `processors/status/eventing_scale_up_processor.go` of Cluster Autoscaler (16c271a3), and
`pkg/controllers/provisioning/scheduling/events.go` of Karpenter (22664681). Only Google's
autoscaler writes FailedScaleUp.

An autoscaler sees no request in a pod that shares GPUs. So KAI's node-scale-adjuster creates a
scaling pod that requests whole GPUs (`pkg/nodescaleadjuster` of KAI at d5bc503a). Messages about
the scaling pod count for the pods that share GPUs.
"""

import re
from collections.abc import Iterator, Sequence

from app.explain.gangs.gang import Gang
from app.explain.reasons.gates import refs
from app.explain.reasons.messages import Advice, advice_for, is_of_autoscaler, words_about
from app.explain.reasons.reason import Evidence, Reasons, Who, about, ago, counted
from app.facts.identity import Ref
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.pod import Pod

_COMING = ("TriggeredScaleUp", "Nominated")
_FAILED = "FailedScaleUp"
_HELPLESS = ("NotTriggerScaleUp", _FAILED, "FailedScheduling")
_LATE = 900.0
"""The seconds after which autoscalers give up on a node that has not joined."""


def nodes_coming(gang: Gang) -> Reasons:
    """Report that an autoscaler is adding nodes for pending pods, according to its newest message.

    If KAI has requested a node with a scaling pod and no autoscaler has answered, yield a note.
    """
    told = _with_reason(gang, _COMING)
    now = gang.facts.now
    times = [event.time for _, event in told if event.time is not None]
    begin = [time for pod, _ in told for time in _announced(gang, pod)]
    age = now - min(begin) if begin and now else 0.0
    coming = f"has been adding nodes for {ago(age)}" if age else "is adding nodes"

    remedy = "Wait until the new nodes have joined"
    who: Who = "wait"
    if age > _LATE:
        coming = f"announced nodes {ago(age)} ago"
        last = now - max(times, default=0.0)
        if last < _LATE:
            coming = (
                f"has announced nodes for {ago(age)}, last {ago(last)} ago, and none has taken"
                " these pods"
            )
        remedy = (
            "Ask the platform team whether the nodes have joined, and to read the autoscaler's log"
        )
        who = "platform"

    for evidence, objects in _newest_message(gang, told):
        said = f"{evidence.value}{_about_helper(evidence.object, objects)}"
        text = f"The autoscaler {coming}: {said}"
        text += _about_claim(gang, evidence.value)
        yield about(evidence, "NodesComing", text, remedy, who, objects=objects)
    if not told:
        yield from _unanswered(gang)


def _announced(gang: Gang, pod: Pod) -> Iterator[float]:
    """Yield when an autoscaler first announced nodes for a pod: a time for each of its events."""
    for event in gang.index.events_about(pod.namespace, pod.uid):
        if is_of_autoscaler(event) and event.reason in _COMING:
            yield from filter(None, (event.first or event.time,))


def _about_claim(gang: Gang, said: str) -> str:
    """Return a sentence with the newest warning about the NodeClaim that `said` names, or ""."""
    name = said.partition("nodeclaim/")[2].partition(",")[0].strip()
    words = words_about(gang.index, Ref("NodeClaim", "", name)) if name else None
    return f". About NodeClaim {name}, {words.quoted(gang.facts.now)}" if words else ""


def _about_helper(ref: Ref, objects: Sequence[Ref]) -> str:
    """Return a note that `ref` is KAI's scaling pod, or "" if `ref` is one of `objects`."""
    return "" if ref in objects else f" (about {ref.namespace}/{ref.name}, KAI's scaling pod)"


def _unanswered(gang: Gang) -> Reasons:
    """Yield a note if KAI has requested a node and no autoscaler has answered."""
    asking = [pod for pod in _scaling_pods(gang) if not pod.node and pod.is_alive]
    if not asking or any(_latest(gang, pod) for pod in (*gang.waiting, *asking)):
        return
    first = min(asking, key=lambda pod: pod.created or 0.0)
    asks = "asks for a node"
    if first.created is not None and gang.facts.now:
        asks = f"has been asking for a node for {ago(gang.facts.now - first.created)}"
    text = (
        f"KAI {asks} with its scaling pod {first.namespace}/{first.name}, and no autoscaler has"
        " answered"
    )
    remedy = "Ask the platform team whether an autoscaler runs, and whether it watches that pod"
    evidence = Evidence(first.ref, "status.phase", first.phase)
    objects = refs(pod for pod in gang.waiting if pod.shape.part)
    yield about(evidence, "NodesComing", text, remedy, "platform", objects=objects, severity="note")


def no_node_group_helps(gang: Gang) -> Reasons:
    """Report that an autoscaler adds no nodes for pending pods, according to its newest message."""
    for evidence, objects in _newest_message(gang, _with_reason(gang, _HELPLESS)):
        remedy, who = _help_for(evidence.value)
        if evidence.field.endswith(_FAILED):
            remedy = (
                "Ask the platform team why no nodes could be created (for example, because of a"
                " quota at the cloud provider)"
            )
            who = "platform"
        said = f"{evidence.value}{_about_helper(evidence.object, objects)}"
        text = f"The autoscaler adds no nodes for {counted(objects, 'pod')}: {said}"
        yield about(evidence, "NoNodeGroupHelps", text, remedy, who, objects=objects)


_HELPS: Advice = (
    (
        ("exceed limits for nodepool", "would exceed limits"),
        "Ask the platform team to raise spec.limits of NodePool {pool}",
        "platform",
    ),
    (
        ("max node group size reached",),
        "Ask the platform team to raise the maximum size of the node group",
        "platform",
    ),
    (
        ("max cluster ", "max total nodes"),
        "Ask the platform team to raise the autoscaler's limits for the whole cluster",
        "platform",
    ),
    (
        ("in backoff after failed scale-up",),
        "Ask the platform team why the autoscaler could add no nodes the last time, for example"
        " because of a quota or missing capacity at the cloud provider",
        "platform",
    ),
    (
        ("did not tolerate", "untolerated taint"),
        "Add a toleration for the taint in the message to the pod template, if the pods may use"
        " nodes with it",
        "you",
    ),
    (
        ("volume node affinity", "volume zone"),
        "Ask the platform team for nodes where the pod's volume is (kubectl get pv -o yaml shows"
        " its zone)",
        "platform",
    ),
)
"""Advice on messages of autoscalers, from `core/scaleup/orchestrator` of Cluster Autoscaler, the
plugins of kube-scheduler, and `pkg/controllers/provisioning/scheduling` of Karpenter.
"""


def _help_for(said: str) -> tuple[str, Who]:
    """Return the remedy for an autoscaler's message that it adds no nodes, and who can act.

    A message has a cause for each node group. The remedies for the first two known causes are
    joined, and who can act is that of the first one.
    """
    known = list(advice_for(said, _HELPS))[:2]
    if not known:
        remedy = (
            "Request resources that a node group offers, or ask the platform team for another node"
            " group or a higher maximum size of one"
        )
        return remedy, "platform"
    limited = _LIMITED.search(said)
    pool = limited[1] if limited else "in the message"
    return ". Or: ".join(remedy.format(pool=pool) for remedy, _ in known), known[0][1]


_LIMITED = re.compile(r'limits for nodepool:? ?"?\(?(?:NodePool=)?([\w.-]{1,253})')
"""Finds the NodePool whose limits Karpenter would exceed, in its old and new messages."""


def nodes_are_added(gang: Gang) -> bool:
    """Return whether an autoscaler's newest message about a pending pod says that it adds nodes."""
    return bool(_with_reason(gang, _COMING))


def autoscaler_speaks(gang: Gang) -> bool:
    """Return whether an autoscaler has written about pending pods, so that it may add nodes."""
    return any(_latest(gang, pod) for pod in (*gang.waiting, *_scaling_pods(gang)))


def _latest(gang: Gang, pod: Pod) -> Event | None:
    return next(filter(is_of_autoscaler, gang.index.events_about(pod.namespace, pod.uid)), None)


def _scaling_pods(gang: Gang) -> list[Pod]:
    """Return the pods with which KAI requests nodes for the gang's pending pods that share GPUs.

    If none is for a pod of this gang, return all scaling pods. KAI creates only as many scaling
    pods as all pods need GPUs in total (`pkg/nodescaleadjuster/scale_adjuster` of KAI), so a
    scaling pod for another gang counts for this one too.
    """
    sharing = {pod.key for pod in gang.waiting if pod.shape.part}
    if not sharing:
        return []
    scaling = gang.index.scaling_pods
    return [pod for pod in scaling if pod.scales_for in sharing] or list(scaling)


def _with_reason(gang: Gang, reasons: tuple[str, ...]) -> list[tuple[Pod, Event]]:
    """Return (pod, event) for each pod whose newest event from an autoscaler has one of `reasons`.

    The pods are pending pods of the gang and KAI's scaling pods for them. Newest events come first.
    """
    latest = ((pod, _latest(gang, pod)) for pod in (*gang.waiting, *_scaling_pods(gang)))
    told = [(pod, event) for pod, event in latest if event and event.reason in reasons]
    return sorted(told, key=lambda each: -(each[1].time or 0.0))


def _newest_message(
    gang: Gang, told: list[tuple[Pod, Event]]
) -> Iterator[tuple[Evidence, tuple[Ref, ...]]]:
    """Yield the newest event, the first of `told`, as evidence, and the pending pods of all events.

    If one of the events is about a scaling pod, all pending pods that share GPUs are included.
    """
    for pod, event in told[:1]:
        words = " ".join(event.message.split())
        pods = {each for each, _ in told if not each.is_helper}
        if len(pods) < len(told):
            pods |= {each for each in gang.waiting if each.shape.part}
        yield Evidence(pod.ref, f"event {event.reason}", words), refs(pods)

"""Reasons in messages of autoscalers: nodes are being added, or no node group can help.

Sources: `processors/status/eventing_scale_up_processor.go` of Cluster Autoscaler (16c271a3), and
`pkg/controllers/provisioning/scheduling/events.go` of Karpenter (22664681). Only Google's
autoscaler writes FailedScaleUp.
"""

from collections.abc import Iterator

from app.explain.gangs.gang import Gang
from app.explain.reasons.gates import refs
from app.explain.reasons.messages import is_of_autoscaler
from app.explain.reasons.reason import Evidence, Reasons, Who, about, ago, counted
from app.facts.identity import Ref
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.pod import Pod

_COMING = ("TriggeredScaleUp", "Nominated")
_HELPLESS = ("NotTriggerScaleUp", "FailedScaleUp", "FailedScheduling")
_LATE = 900.0
"""Seconds after which both autoscalers give up on a node that has not joined."""


def nodes_coming(gang: Gang) -> Reasons:
    """The newest message of an autoscaler says that it adds nodes for pods."""
    told = _told(gang, _COMING)
    times = [event.time for _, event in told if event.time is not None]
    age = gang.facts.now - min(times) if times and gang.facts.now else 0.0
    coming = f"have been on their way for {ago(age)}" if age else "are on their way"

    remedy = "Wait until the new nodes have joined"
    who: Who = "wait"
    if age > _LATE:
        coming = f"were on their way {ago(age)} ago"
        remedy = (
            "Ask the platform team whether the nodes have joined, and to read the autoscaler's log"
        )
        who = "platform"

    for evidence, objects in _shown(told):
        text = f"Nodes {coming}: {evidence.value}"
        yield about(evidence, "NodesComing", text, remedy, who, objects=objects)


def no_node_group_helps(gang: Gang) -> Reasons:
    """The newest message of an autoscaler says that no node that it can add would help."""
    remedy = (
        "Request what a node group offers, or ask the platform team for another node group or a"
        " higher maximum"
    )
    for evidence, objects in _shown(_told(gang, _HELPLESS)):
        text = f"No node group can help {counted(objects, 'pod')}: {evidence.value}"
        yield about(evidence, "NoNodeGroupHelps", text, remedy, "platform", objects=objects)


def _told(gang: Gang, reasons: tuple[str, ...]) -> list[tuple[Pod, Event]]:
    """Return pending pods whose newest event of an autoscaler has one of these reasons."""
    latest = (
        (pod, next(filter(is_of_autoscaler, gang.index.events.get(pod.uid, ())), None))
        for pod in gang.waiting
    )
    return [(pod, event) for pod, event in latest if event and event.reason in reasons]


def _shown(told: list[tuple[Pod, Event]]) -> Iterator[tuple[Evidence, tuple[Ref, ...]]]:
    """Yield the message of the first event, and all pods; nothing if there are none."""
    for pod, event in told[:1]:
        words = " ".join(event.message.split())
        yield Evidence(pod.ref, f"event {event.reason}", words), refs(pod for pod, _ in told)

"""What autoscalers say of pods that wait: that nodes are on their way, or that none can help.

Sources: `processors/status/eventing_scale_up_processor.go` of Cluster Autoscaler (16c271a3), and
`pkg/controllers/provisioning/scheduling/events.go` of Karpenter (22664681). Only Google's
autoscaler writes FailedScaleUp.
"""

from collections.abc import Iterator

from app.explain.gangs.gang import Gang
from app.explain.reasons.gates import refs
from app.explain.reasons.reason import Evidence, Reasons, Who, about, ago, counted
from app.explain.reasons.said import is_of_autoscaler
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.pod import Pod
from app.facts.named import Ref

_COMING = ("TriggeredScaleUp", "Nominated")
_HELPLESS = ("NotTriggerScaleUp", "FailedScaleUp", "FailedScheduling")
_LATE = 900.0
"""Seconds after which both autoscalers give up on a node that has not joined."""


def nodes_coming(gang: Gang) -> Reasons:
    """The last that an autoscaler said of a pod is that it adds a node for it."""
    told = _told(gang, _COMING)
    times = [event.time for _, event in told if event.time is not None]
    age = gang.facts.now - min(times) if times and gang.facts.now else 0.0
    coming = f"have been on their way for {ago(age)}" if age else "are on their way"

    remedy = "wait until they have joined"
    who: Who = "wait"
    if age > _LATE:
        coming = f"were on their way {ago(age)} ago"
        remedy = "see whether they have joined; if not, see the log of the autoscaler"
        who = "platform"

    for evidence, objects in _shown(told):
        text = f"Nodes {coming}: {evidence.value}"
        yield about(evidence, "NodesComing", text, remedy, who, objects=objects)


def no_node_group_helps(gang: Gang) -> Reasons:
    """The last that an autoscaler said of a pod is that no node that it could add would help."""
    remedy = "ask for what a node group has, or have one made, or its maximum raised"
    for evidence, objects in _shown(_told(gang, _HELPLESS)):
        text = f"No node group can help {counted(objects, 'pod')}: {evidence.value}"
        yield about(evidence, "NoNodeGroupHelps", text, remedy, "platform", objects=objects)


def _told(gang: Gang, reasons: tuple[str, ...]) -> list[tuple[Pod, Event]]:
    """Return the pods that wait of which an autoscaler last gave one of these reasons, with it."""
    latest = (
        (pod, next(filter(is_of_autoscaler, gang.index.events.get(pod.uid, ())), None))
        for pod in gang.waiting
    )
    return [(pod, event) for pod, event in latest if event and event.reason in reasons]


def _shown(told: list[tuple[Pod, Event]]) -> Iterator[tuple[Evidence, tuple[Ref, ...]]]:
    """Yield the words of one event, and all pods; nothing if there are none."""
    for pod, event in told[:1]:
        words = " ".join(event.message.split())
        yield Evidence(pod.ref, f"event {event.reason}", words), refs(pod for pod, _ in told)

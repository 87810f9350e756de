"""PodCliqueSets that another controller has created, such as Dynamo's operator.

Tests `_naming_makers` in `app/explain/reasons/table.py`, and the words about them of other reasons.
"""

import pytest

from app.explain.reasons.reason import DYNAMO_QUEUE
from app.facts.grove.podcliqueset import read_set_with_status
from app.facts.identity import Ref
from app.facts.kubernetes.event import Event
from app.facts.kubernetes.pod import Stalled
from tests.explain.fleet import NAMESPACE, NOW, SET, facts, pcs, placed, pod_group, pods, shape
from tests.explain.table.recorded import Asking

GRAPH = Ref("DynamoGraphDeployment", NAMESPACE, "llm")
SERVICE = Ref("NIMService", NAMESPACE, "chat")


@pytest.mark.parametrize("maker", [GRAPH, SERVICE, None])
def test_the_object_to_change_is_the_one_that_created_the_set(
    maker: Ref | None, answered: Asking
) -> None:
    state = facts(pods=pods(shape=shape(9)), sets=(pcs(maker=maker),))
    first = answered(state).reasons[0]
    assert first.id == "NeverFits"
    words = f"Change {maker}, because its controller may overwrite changes to PodCliqueSet {SET}"
    assert first.remedy.endswith(words) is (maker is not None)


def test_it_is_not_named_where_nothing_is_changed(answered: Asking) -> None:
    crash = Stalled("main", "CrashLoopBackOff", restarts=3)
    running = placed("gpu-00", "gpu-01", "gpu-02", "gpu-03", stalled=(crash,))
    reasons = answered(facts(pods=running, sets=(pcs(maker=GRAPH),))).reasons
    assert reasons[0].id == "ContainerCrashes"
    assert not any(str(GRAPH) in reason.remedy for reason in reasons)


@pytest.mark.parametrize(
    ("maker", "where"),
    [
        (GRAPH, f"annotation {DYNAMO_QUEUE} of {GRAPH}"),
        (SERVICE, "label kai.scheduler/queue of the workload"),
        (None, "label kai.scheduler/queue of the workload"),
    ],
)
@pytest.mark.parametrize("queue", ["dynamo", "gpu-intensive"])
def test_a_queue_is_set_where_dynamo_reads_it(
    maker: Ref | None, where: str, queue: str, answered: Asking
) -> None:
    state = facts(sets=(pcs(maker=maker),), pod_groups=(pod_group(queue=queue),))
    first = answered(state).reasons[0]
    assert first.id == "QueueMissing"
    assert first.remedy.startswith(f"Set the {where} and spec.queue of its PodGroup to ")
    assert first.remedy.endswith(f". Or ask the platform team to create queue {queue}")


def test_the_controller_among_the_owners_counts() -> None:
    owners = [
        {"kind": "ConfigMap", "name": "x", "uid": "u"},
        {"kind": "DynamoGraphDeployment", "name": "llm", "uid": "v", "controller": True},
    ]
    metadata = {"name": "llm", "namespace": NAMESPACE, "ownerReferences": owners}
    assert read_set_with_status({"metadata": metadata}).maker == GRAPH
    assert (
        read_set_with_status({"metadata": {**metadata, "ownerReferences": owners[:1]}}).maker
        is None
    )


@pytest.mark.parametrize(
    ("words", "maker", "remedy"),
    [
        ("no KAI queue is configured on PodCliqueSet a/b", None, "label kai.scheduler/queue of"),
        (
            "conflicting KAI queues on PodCliqueSet a/b",
            GRAPH,
            f"annotation {DYNAMO_QUEUE} of {GRAPH}",
        ),
        ("topology name cannot be empty", GRAPH, "Fix the problem that Grove's message describes"),
    ],
)
def test_groves_backend_says_why_it_creates_no_podgroup(
    words: str, maker: Ref | None, remedy: str, answered: Asking
) -> None:
    said = Event("uid-gang", "KAIBackendMappingFailed", words, NOW - 60, "grove-operator")
    state = facts(pod_groups=(), sets=(pcs(maker=maker),), events=(said,))
    first = answered(state).reasons[0]
    assert first.id == "WorkloadMissing"
    assert first.text.endswith(f"which does not exist; Grove says: {words} (60 seconds ago)")
    assert remedy in first.remedy


@pytest.mark.parametrize(
    ("words", "who"),
    [
        ('admission webhook "vpodgroup.kb.io" denied the request: subgroup "w": no', "platform"),
        ('admission webhook "validate.kyverno.svc-fail" denied the request: no', "platform"),
        ("unknown topology", "you"),
    ],
)
def test_users_cannot_change_a_podgroup_that_a_webhook_denies(
    words: str, who: str, answered: Asking
) -> None:
    ungrouped = pods(group="")
    events = tuple(
        Event(pod.uid, "PodGrouperWarning", words, NOW - 60, "pod-grouper") for pod in ungrouped
    )
    first = answered(facts(pods=ungrouped, pod_groups=(), events=events)).reasons[0]
    assert (first.id, first.who) == ("NotGrouped", who)
    assert first.remedy.startswith("Ask the platform team") is (who == "platform")

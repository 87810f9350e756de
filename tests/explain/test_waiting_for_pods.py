"""Remedies about pods that hold the room: whether they end, are stuck in that, or are evicted."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.answers.answer import explain
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot
from app.facts.identity import Ref
from app.facts.kai.podgroup import KaiPodGroup
from app.facts.kai.queue import Queue
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod
from app.facts.kubernetes.selectors import Requirement
from tests.explain.fleet import NAMESPACE, NOW, nodes, shape
from tests.explain.table.recorded import whole
from tests.explain.table.row import part_of
from tests.said import Said

JOB = Ref("Job", "research", "sweep")
ONE = replace(nodes()[0], name="n-1")
OTHER = replace(nodes()[1], name="n-2")
HOLDER = Pod(
    "research",
    "sweep-0",
    "uid-sweep",
    node="n-1",
    scheduler="default-scheduler",
    shape=shape(8),
    phase="Running",
    created=NOW - 7200,
    controller=JOB,
)
WAITING = Pod(
    NAMESPACE,
    "late-0",
    "uid-late",
    scheduler="default-scheduler",
    shape=shape(8),
    unscheduled="0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
    said_at=NOW - 60,
    created=NOW - 900,
)


def queue(name: str, quota: int) -> Queue:
    return Queue(name, parent="root", quota=quota, limit=None)


Remedy = Callable[..., str]


@pytest.fixture
def remedy(said: Said) -> Remedy:
    """Says what NoDomainFits says for a pod while another one has the GPUs. All is recorded."""

    def ask(holder: Pod, *, on: tuple[Node, ...] = (ONE,), waiting: Pod = WAITING) -> str:
        facts = Snapshot(pods=(holder, waiting), nodes=on, now=NOW)
        answer = explain(Index(facts), waiting.ref)
        assert answer
        [found] = [reason for reason in answer.reasons if reason.id == "NoDomainFits"]
        said(whole(answer))
        return found.remedy

    return ask


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "Wait until Job research/sweep (1 pod, there for 2 hours) ends"),
        (
            {"deleting": NOW - 600, "finalizers": ("example.com/keep",)},
            "Ask the owner of the finalizer example.com/keep to remove it from research/sweep-0,"
            " terminating for 10 minutes",
        ),
        (
            {"deleting": NOW - 600, "finalizers": ("example.com/keep", "example.com/save")},
            "Ask the owner of the finalizers example.com/keep and example.com/save to remove them"
            " from research/sweep-0, terminating for 10 minutes",
        ),
        (
            {"deleting": NOW - 600},
            "Ask the platform team why research/sweep-0, terminating for 10 minutes, does not end"
            ": kubectl describe pod -n research sweep-0",
        ),
        (
            {"deleting": NOW + 20, "grace": 30},
            "Wait for 1 terminating pod to end (research/sweep-0, terminating for 10 seconds)",
        ),
        (
            {
                "deleting": NOW + 20,
                "grace": 30,
                "finalizers": ("batch.kubernetes.io/job-tracking",),
            },
            "Wait for 1 terminating pod to end (research/sweep-0, terminating for 10 seconds)",
        ),
        (
            {"deleting": NOW - 60, "grace": 540},
            "Wait for 1 terminating pod to end (research/sweep-0, terminating for 10 minutes)",
        ),
    ],
    ids=[
        "it runs",
        "a finalizer keeps it",
        "two finalizers keep it",
        "it does not end",
        "in its grace period",
        "in its grace period, with the finalizer of all pods of Jobs",
        "late",
    ],
)
def test_the_remedy_depends_on_whether_the_pod_ends(
    changes: dict[str, Any], says: str, remedy: Remedy
) -> None:
    assert says in remedy(replace(HOLDER, **changes))


def test_pods_that_reserve_a_shared_gpu_are_not_waited_for(said: Said) -> None:
    """The only GPU of a node is shared: half of it is used, and a pod asks for more than half."""
    small = replace(ONE, allocatable={**ONE.allocatable, "nvidia.com/gpu": 1000})
    half = replace(HOLDER, shape=part_of(0.5), gpu_groups=("g",), group="pg-half", controller=None)
    reserves = replace(HOLDER, name="reserves-g", uid="r", shape=shape(1), reserves=True)
    asks = replace(WAITING, shape=part_of(0.8), scheduler="kai-scheduler", group="pg-late")
    own = KaiPodGroup(NAMESPACE, "pg-late", queue="a", minimum=1)
    facts = Snapshot(
        pods=(half, reserves, asks),
        pod_groups=(own, KaiPodGroup("research", "pg-half", queue="a", minimum=1)),
        queues=(queue("a", 4000), Queue("root", quota=None, limit=None)),
        nodes=(small,),
        now=NOW,
    )
    answer = explain(Index(facts), asks.ref)
    assert answer
    said(whole(answer))
    [found] = [reason.remedy for reason in answer.reasons if reason.id == "NoDomainFits"]
    assert "Wait until PodGroup research/pg-half" in found
    assert "sweep" not in found


def test_a_selector_without_which_pods_fit_is_named(remedy: Remedy) -> None:
    pinned = replace(shape(8), selector=(Requirement("tier", "In", ("gold",)),))
    gold = replace(ONE, labels={**ONE.labels, "tier": "gold"})
    free = replace(OTHER, labels={"tier": "silver"})
    words = "Remove the selector tier=gold if the pods may run elsewhere: they would fit now"
    assert words in remedy(HOLDER, on=(gold, free), waiting=replace(WAITING, shape=pinned))
    assert words not in remedy(HOLDER, on=(gold,), waiting=replace(WAITING, shape=pinned))


def test_nobody_is_waited_for_whom_kai_evicts_at_once(said: Said) -> None:
    """Queue `b` has all GPUs, twice its quota; a gang of `a` asks for what is its own."""
    running = [
        replace(
            HOLDER,
            name=f"b-{n}",
            uid=f"uid-{n}",
            scheduler="kai-scheduler",
            group=f"pg-{n}",
            shape=shape(4),
            controller=None,
        )
        for n in range(2)
    ]
    groups = [KaiPodGroup("research", f"pg-{n}", queue="b", minimum=1) for n in range(2)]
    asks = replace(WAITING, scheduler="kai-scheduler", group="pg-late", shape=shape(4))
    own = KaiPodGroup(NAMESPACE, "pg-late", queue="a", minimum=1)
    root = Queue("root", quota=None, limit=None)
    facts = Snapshot(
        pods=(*running, asks),
        pod_groups=(*groups, own),
        queues=(root, queue("a", 4000), queue("b", 4000)),
        nodes=(ONE,),
        now=NOW,
    )
    answer = explain(Index(facts), asks.ref)
    assert answer
    said(whole(answer))
    remedies = {reason.id: reason.remedy for reason in answer.reasons}
    assert remedies["NoDomainFits"] == (
        "Wait: queue b is above its fair share, and KAI may evict its pods"
    )
    assert "FairShare" in remedies

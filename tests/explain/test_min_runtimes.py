"""The minimum runtimes for which KAI does not evict gangs that it has started.

Tests `app/explain/state/min_runtimes.py`, and what `app/explain/reasons/queue.py` says of them. The
rules are those of `pkg/scheduler/plugins/minruntime` of KAI.
"""

import pytest
from msgspec.structs import replace

from app.explain.state.index import Index
from app.explain.state.min_runtimes import spared_from_preemption, spared_from_reclaim
from app.facts.kai.podgroup import KaiPodGroup, Said, read_kai_pod_group
from app.facts.kai.queue import Queue, read_queue
from app.facts.kai.shard import Shard, read_shard
from app.facts.kubernetes.workload import PriorityClass
from tests.explain.fleet import NOW, facts, fill, pod_group, pods
from tests.explain.table.queues import FIXED, SHARED, batch
from tests.explain.table.recorded import Asking
from tests.explain.table.row import FULL

HOUR = 3600.0
TREE = (
    Queue("root"),
    Queue("dept-a", "root"),
    Queue("a-1", "dept-a"),
    Queue("dept-b", "root"),
    Queue("b-1", "dept-b"),
    Queue("b-2", "dept-b"),
    Queue("other"),
    Queue("o-1", "other"),
)
RAN = KaiPodGroup("x", "victim", queue="b-1", started=NOW - HOUR)


def tree(**after: float) -> tuple[Queue, ...]:
    """The queues, some with both minimum runtimes: `dept_b=7200`."""
    named = {name.replace("_", "-"): seconds for name, seconds in after.items()}
    return tuple(
        replace(queue, reclaim_after=named[queue.name], preempt_after=named[queue.name])
        if queue.name in named
        else queue
        for queue in TREE
    )


@pytest.mark.parametrize(
    ("queues", "by", "left"),
    [
        pytest.param(tree(), "a-1", 0, id="none is set"),
        pytest.param(tree(b_1=4 * HOUR), "b-2", 3 * HOUR, id="of a sibling"),
        pytest.param(tree(b_1=4 * HOUR), "a-1", 0, id="too far below the common queue"),
        pytest.param(tree(dept_b=2 * HOUR), "a-1", HOUR, id="right below the common queue"),
        pytest.param(tree(root=2 * HOUR), "a-1", HOUR, id="above it"),
        pytest.param(tree(root=9 * HOUR, dept_b=HOUR), "a-1", 0, id="it is over"),
        pytest.param(tree(dept_b=9 * HOUR), "o-1", 0, id="between top-level queues"),
        pytest.param(tree(root=2 * HOUR), "o-1", HOUR, id="of a top-level queue"),
    ],
)
def test_which_queue_spares_from_reclaim(queues: tuple[Queue, ...], by: str, left: float) -> None:
    index = Index(facts(queues=queues, pod_groups=(RAN,)))
    assert spared_from_reclaim(index, RAN, by) == left


@pytest.mark.parametrize(
    ("queues", "left"),
    [
        (tree(), 0),
        (tree(b_1=3 * HOUR, root=9 * HOUR), 2 * HOUR),
        (tree(dept_b=2 * HOUR), HOUR),
        (tree(b_1=0, dept_b=2 * HOUR), 0),
    ],
)
def test_which_queue_spares_from_preemption(queues: tuple[Queue, ...], left: float) -> None:
    index = Index(facts(queues=queues, pod_groups=(RAN,)))
    assert spared_from_preemption(index, RAN) == left


def test_a_shard_has_the_default() -> None:
    shards = Shard("default", reclaim_after=2 * HOUR, preempt_after=3 * HOUR), Shard("p", "gold")
    index = Index(facts(queues=TREE, pod_groups=(RAN,), shards=shards))
    assert spared_from_reclaim(index, RAN, "a-1") == HOUR
    assert spared_from_preemption(index, RAN) == 2 * HOUR
    assert spared_from_preemption(index, replace(RAN, started=None)) == 0


def test_what_is_read() -> None:
    spec = {"reclaimMinRuntime": "1h30m", "preemptMinRuntime": "90s"}
    queue = read_queue({"metadata": {"name": "q"}, "spec": spec})
    assert (queue.reclaim_after, queue.preempt_after) == (5400, 90)
    assert read_queue({"metadata": {"name": "q"}}).reclaim_after is None
    shard = read_shard({"metadata": {"name": "s"}, "spec": {"minRuntime": spec}})
    assert (shard.reclaim_after, shard.preempt_after) == (5400, 90)
    annotations = {"kai.scheduler/last-start-timestamp": "2026-11-28T11:00:00Z"}
    metadata = {"name": "g", "namespace": "x", "annotations": annotations}
    assert read_kai_pod_group({"metadata": metadata}).started == 1795863600


def spared(*queues: Queue, **after: float) -> tuple[Queue, ...]:
    return tuple(replace(queue, **after) if queue.name != "root" else queue for queue in queues)


@pytest.mark.parametrize(
    ("after", "text"),
    [
        (
            4 * HOUR,
            "Queue team-b uses 24 GPUs more than its fair share, but reclaimMinRuntime keeps KAI"
            " from evicting its pods for another 3 hours",
        ),
        (
            HOUR + 120,
            "Queue team-b uses 24 GPUs more than its fair share, but reclaimMinRuntime keeps KAI"
            " from evicting its pods for another 2 minutes",
        ),
        (HOUR, "Queue team-b uses 24 GPUs more than its fair share"),
    ],
)
def test_kai_does_not_reclaim_from_a_gang_that_started_recently(
    after: float, text: str, answered: Asking
) -> None:
    changes = {
        "pod_groups": (
            pod_group(),
            replace(batch("team-b"), started=NOW - HOUR, minimum=len(FULL)),
        ),
        "queues": spared(Queue("root"), *SHARED[1:], reclaim_after=after),
        "pods": (*pods(), *FULL),
    }
    found = {reason.id: reason for reason in answered(facts(**changes)).reasons}
    assert found["FairShare"].text == text
    waits = "at the earliest" in found["FairShare"].remedy
    assert waits is ("at the earliest" in found["NoDomainFits"].remedy) is (after > HOUR)


def test_pods_beyond_a_minimum_are_not_spared(answered: Asking) -> None:
    """KAI may reclaim the pods of an elastic gang beyond its minimum at any time."""
    elastic = replace(batch("team-b"), started=NOW - 60, minimum=1)
    changes = {
        "pod_groups": (pod_group(), elastic),
        "queues": spared(Queue("root"), *SHARED[1:], reclaim_after=HOUR),
        "pods": (*pods(), *FULL),
    }
    reasons = answered(facts(**changes)).reasons
    [reason] = [reason for reason in reasons if reason.id == "FairShare"]
    assert reason.text == "Queue team-b uses 24 GPUs more than its fair share"


@pytest.mark.parametrize(
    ("after", "of_kai", "told"),
    [
        (2 * HOUR, (), ", but not for another 60 minutes (preemptMinRuntime of its queue)"),
        (2 * HOUR, (Said("OverLimit", "w"),), ", but not for another 60 minutes"),
        (HOUR, (), ""),
    ],
)
def test_kai_does_not_preempt_a_gang_that_started_recently(
    after: float, of_kai: tuple[Said, ...], told: str, answered: Asking
) -> None:
    held = fill("rack-a1", "rack-a2")
    changes = {
        "pods": (*pods(), *held),
        "priorities": (PriorityClass("urgent", 75),),
        "pod_groups": (
            pod_group(priority_class="urgent", said=of_kai),
            replace(batch("team-llm"), started=NOW - HOUR, minimum=len(held)),
        ),
        "queues": (Queue("root"), Queue("team-llm", "root", None, 64_000, preempt_after=after)),
    }
    [reason, *_] = answered(facts(**changes)).reasons
    assert reason.id == "LowerPriority"
    assert reason.remedy.startswith(f"Wait: KAI may preempt {len(held)} pods of batch-eval{told}")
    assert ("preemptMinRuntime" in reason.remedy) is bool(told)


@pytest.mark.parametrize(
    ("quota", "words"),
    [
        (8_000, "uses 128 GPUs for non-preemptible pods, above its quota of 8 GPUs"),
        (0, "uses 128 GPUs for non-preemptible pods, above its quota of 0 GPUs"),
        (128_000, "uses 128 GPUs for non-preemptible pods, within its quota of 128 GPUs"),
    ],
)
def test_kai_reclaims_no_pods_that_are_not_preemptible(
    quota: int, words: str, answered: Asking
) -> None:
    """The quota of a queue was lowered while its pods ran."""
    changes = {
        "pod_groups": (pod_group(), batch("team-b", FIXED)),
        "queues": (
            Queue("root"),
            Queue("team-llm", "root", 32_000),
            Queue("team-b", "root", quota),
        ),
        "pods": (*pods(), *FULL),
    }
    reasons = answered(facts(**changes)).reasons
    [reason] = [reason for reason in reasons if reason.id == "WithinQuota"]
    assert reason.text.startswith(f"KAI reclaims nothing for this gang: queue team-b {words}")
    assert "scale down" in reason.remedy
    assert "lower the quota" not in reason.remedy
    assert ("preemptible" in reason.remedy) is (quota < 128_000)


@pytest.mark.parametrize(
    ("quota", "schedulers", "text"),
    [
        (32_000, ("default-scheduler",), "16 pods of default-scheduler hold GPUs"),
        (32_000, ("default-scheduler", "volcano"), "16 pods of default-scheduler and volcano hold"),
        (32_000, ("kai-scheduler",), ""),
        (8_000, ("default-scheduler",), ""),
    ],
    ids=["of one scheduler", "of two schedulers", "KAI placed them", "above the quota"],
)
def test_kai_reclaims_no_pods_of_other_schedulers(
    quota: int, schedulers: tuple[str, ...], text: str, answered: Asking
) -> None:
    held = tuple(
        replace(pod, scheduler=schedulers[number % len(schedulers)], group="")
        for number, pod in enumerate(FULL)
    )
    queues = Queue("root"), Queue("team-llm", "root", quota), Queue("team-b", "root", 8_000)
    changes = {"pod_groups": (pod_group(),), "queues": queues, "pods": (*pods(), *held)}
    reasons = answered(facts(**changes)).reasons
    found = [reason.text for reason in reasons if reason.id == "WithinQuota"]
    assert len(found) == bool(text)
    assert not text or text in found[0]

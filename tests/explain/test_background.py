"""Background pods, which KAI evicts for any other pod whose room they use.

Tests `app/explain/state/background.py` and `app/explain/reasons/background.py`.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from app.explain.gangs.gang import Pods
from app.explain.queue_order.usage import accounts_of
from app.explain.reasons.reason import Reason
from app.explain.state.index import Index
from app.facts.kai.queue import Queue
from app.facts.kai.shard import Shard, read_shard
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import read_pod
from tests.explain.fleet import GPU, RACKS, answer, facts, fill, nodes, pod_group, pods, shape

LABEL = "kai.scheduler/background"


def background(*racks: str) -> Pods:
    return tuple(replace(pod, background=True) for pod in fill(*racks))


def reasons(**changes: Any) -> dict[str, Reason]:
    of = {"pods": (*pods(), *background(*RACKS))} | changes
    return {reason.id: reason for reason in answer(facts(**of)).reasons}


def shard(**spec: Any) -> Shard:
    return read_shard({"metadata": {"name": "default"}, "spec": spec})


def plugin(**setting: Any) -> dict[str, Any]:
    return {"plugins": {"backgroundpods": setting}}


@pytest.mark.parametrize(
    ("scheduler", "annotations", "is_background"),
    [
        ("kai-scheduler", {"pod-group-name": "pg"}, True),
        ("default-scheduler", {}, False),
        ("kai-scheduler", {"pod-group-name": ""}, False),
    ],
)
def test_only_pods_that_kai_groups_are_background_pods(
    scheduler: str, annotations: dict[str, str], is_background: bool
) -> None:
    """KAI never evicts the pods of other schedulers, whatever their labels."""
    metadata = {"name": "check", "labels": {LABEL: "true"}, "annotations": annotations}
    assert read_pod({"metadata": metadata, "spec": {"schedulerName": scheduler}}).background is (
        is_background
    )


@pytest.mark.parametrize(
    ("spec", "has_background", "sets"),
    [
        ({}, True, ()),
        (plugin(enabled=True), True, ()),
        (plugin(arguments={"labelSelector": f"{LABEL}=true"}), True, ()),
        (plugin(enabled=False), False, ()),
        (plugin(arguments={"labelSelector": "check=x"}), False, ("plugins (backgroundpods)",)),
    ],
)
def test_a_shard_says_whether_its_scheduler_has_background_pods(
    spec: dict[str, Any], has_background: bool, sets: tuple[str, ...]
) -> None:
    """Which pods another selector matches is not known, so the prediction names the setting."""
    found = shard(**spec)
    assert (found.has_background, found.sets) == (has_background, sets)


def test_the_gang_is_placed_next_and_the_pods_that_leave_for_it_are_named() -> None:
    note = reasons()["BackgroundPods"]
    assert note.text == (
        "3 background pods run where the gang would be placed (research/batch-gpu-01-0 on gpu-01, research/batch-gpu-02-0 on gpu-02"
        " and research/batch-gpu-03-0 on gpu-03). KAI 0.18 and later evict background pods to make room"
    )
    assert note.severity == "note"
    assert note.remedy == "Ask the platform team to stop these pods if KAI is older than 0.18"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"pods": (*pods(), *background("rack-a1"))}, id="other racks are empty"),
        pytest.param({"pods": pods()}, id="there are none"),
        pytest.param(
            {"pods": (*pods(scheduler="volcano"), *background(*RACKS))}, id="KAI does not place it"
        ),
        pytest.param(
            {"pods": (*pods(), *(replace(pod, shape=shape(0)) for pod in background(*RACKS)))},
            id="there is room beside them",
        ),
        pytest.param({"pods": (*pods(), *fill(*RACKS))}, id="the gang has no place"),
    ],
)
def test_nobody_is_named_if_the_gang_does_not_need_their_room(changes: dict[str, Any]) -> None:
    assert "BackgroundPods" not in reasons(**changes)


def in_pool(name: str) -> tuple[Node, ...]:
    return tuple(replace(n, labels={**n.labels, "kai.scheduler/node-pool": name}) for n in nodes())


@pytest.mark.parametrize(
    ("pool", "off", "fits"),
    [("", "", False), ("", "gold", True), ("gold", "gold", False), ("gold", "", True)],
)
def test_a_shard_without_background_pods_keeps_them_on_the_nodes_of_its_pool(
    pool: str, off: str, fits: bool
) -> None:
    found = reasons(
        nodes=in_pool(pool) if pool else nodes(),
        pod_groups=(pod_group(pool=pool),),
        queues=(Queue("root", pool=pool), Queue("team-llm", "root", pool=pool)),
        shards=(shard(partitionLabelValue=off, **plugin(enabled=False)),),
    )
    assert ("NoDomainFits" not in found) is fits
    assert ("BackgroundPods" in found) is fits


def test_an_index_follows_a_shard_that_changes() -> None:
    def used(index: Index) -> int:
        return index.used.get("gpu-00", {}).get(GPU, 0)

    given = facts(pods=(*pods(), *background(*RACKS)))
    index = Index(given)
    assert used(index) == 0
    off = replace(given, shards=(shard(**plugin(enabled=False)),))
    index.follow(off)
    assert (used(index), index.given) == (8000, off)
    index.follow(given)
    assert used(index) == 0


@pytest.mark.parametrize(("is_background", "used"), [(True, 0.0), (False, 16.0)])
def test_background_pods_use_nothing_of_their_queue(is_background: bool, used: float) -> None:
    own = tuple(
        replace(pod, background=is_background, namespace="inference", group="llm-0")
        for pod in fill("rack-a1", but=("gpu-00", "gpu-01"))
    )
    index = Index(facts(pods=(*pods(), *own)))
    assert accounts_of(index, "")["team-llm"].allocated[0] == used


def test_a_status_that_counts_background_pods_is_not_called_stale() -> None:
    """KAI's queue controller counts them, and its scheduler does not."""
    full = Queue("team-llm", "root", quota=24_000, limit=24_000, allocated=24_000)
    of = {"queues": (Queue("root"), full), "pods": pods()}
    assert "QueueStatusStale" in reasons(**of)
    own = tuple(
        replace(pod, background=True, namespace="inference", group="llm-0")
        for pod in fill("rack-a1")
    )
    assert "QueueStatusStale" not in reasons(**of | {"pods": (*pods(), *own)})

"""The condition LevelsCovered: written once, merged, and looked at again when nodes change.

Tests `app/reconcilers/conditions.py`.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from app.facts.kinds import CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING
from app.facts.rows import BINDINGS, NODES
from app.kube.api import NotFound, Object, ObjectRef, Rejected
from app.kube.competing_writers import TOLERATED, Rewrites
from app.kube.events import Recorder
from app.objects.resource import EVENT
from app.reconcilers.conditions import LevelCoverageReconciler, subscribe_coverage
from tests import builders
from tests.cluster.offline import OfflineCluster

KEY = ("", "gb200")
BINDING = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "ClusterTopologyBinding",
    "metadata": {"name": "gb200"},
    "spec": {"levels": [{"domain": "rack", "key": "example.com/rack"}]},
}
RACKED = builders.node("one", **{"example__com_rack": "r1"})
BARE = builders.node("two")
THEIRS = {"type": "SchedulerTopologyDrift", "status": "False", "reason": "InSync", "message": ""}


def system(*objects: Object, **options: Any) -> tuple[OfflineCluster, LevelCoverageReconciler]:
    cluster = OfflineCluster(objects, **options)
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    recorder = Recorder(cluster.client, "test")
    return cluster, LevelCoverageReconciler(
        cluster.client, cluster.facts, recorder, Rewrites(clock=lambda: 0.0), now=lambda: now
    )


def conditions(cluster: OfflineCluster) -> list[Object]:
    (stored,) = cluster.client.objects(CLUSTER_TOPOLOGY_BINDING)
    entries: list[Object] = stored.get("status", {}).get("conditions", [])
    return entries


async def test_it_is_written_once_beside_the_conditions_of_others() -> None:
    stored = {**BINDING, "status": {"conditions": [THEIRS]}}
    cluster, reconciler = system(stored, RACKED, BARE)
    assert await reconciler.reconcile(KEY) is None
    theirs, ours = conditions(cluster)
    assert theirs == THEIRS
    assert (ours["type"], ours["status"], ours["reason"]) == (
        "LevelsCovered",
        "False",
        "NodesLackLevel",
    )
    running = asyncio.create_task(reconciler.events.run())
    await reconciler.events.written()
    running.cancel()
    assert [event["reason"] for event in cluster.client.objects(EVENT)] == ["LevelsNotCovered"]
    before = len(cluster.client.writes())
    await reconciler.reconcile(KEY)
    assert len(cluster.client.writes()) == before


async def test_all_levels_covered() -> None:
    cluster, reconciler = system(BINDING, RACKED)
    await reconciler.reconcile(KEY)
    assert [(each["status"], each["reason"]) for each in conditions(cluster)] == [
        ("True", "NodesHaveLevels")
    ]


@pytest.mark.parametrize(
    ("objects", "key"),
    [
        pytest.param([BINDING], KEY, id="no nodes"),
        pytest.param([BINDING, BARE], ("", "other"), id="an unknown topology"),
    ],
)
async def test_nothing_is_said(objects: list[Object], key: tuple[str, str]) -> None:
    cluster, reconciler = system(*objects)
    await reconciler.reconcile(key)
    assert cluster.client.writes() == []


@pytest.mark.parametrize("error", [NotFound("no status", code=404), Rejected("no", code=403)])
async def test_a_status_that_cannot_be_written_is_no_failure(error: Any) -> None:
    cluster, reconciler = system(BINDING, BARE)
    cluster.client.fail_next("patch", CLUSTER_TOPOLOGY_BINDING, error)
    assert await reconciler.reconcile(KEY) is None
    assert conditions(cluster) == []


async def test_one_that_is_being_deleted_is_left_alone() -> None:
    with_finalizer = {**BINDING, "metadata": {"name": "gb200", "finalizers": ["a/b"]}}
    cluster, reconciler = system(with_finalizer, BARE)
    await cluster.client.delete(ObjectRef(CLUSTER_TOPOLOGY_BINDING, "gb200"))
    before = len(cluster.client.writes())
    await reconciler.reconcile(KEY)
    assert len(cluster.client.writes()) == before


async def test_the_managed_cluster_topology_has_it_in_the_design() -> None:
    cluster, reconciler = system(builders.cluster_topology("grove-topology", rack="k/rack"), BARE)
    assert reconciler.all_keys() == [("", "grove-topology")]
    await reconciler.reconcile(("", "grove-topology"))
    (stored,) = cluster.client.objects(CLUSTER_TOPOLOGY)
    assert [each["reason"] for each in stored["status"]["conditions"]] == ["NoNodeHasLevel"]


def test_topologies_that_are_not_known_are_no_keys() -> None:
    _, reconciler = system(BARE)  # topology is enabled, and there is none
    assert reconciler.all_keys() == []


class Queue:
    """What is to be looked at, and when."""

    def __init__(self, reconciler: LevelCoverageReconciler) -> None:
        self.reconciler = reconciler
        self.added: list[tuple[tuple[str, str], float]] = []

    def add(self, key: tuple[str, str], *_: object) -> None:
        self.added.append((key, 0.0))

    def add_after(self, key: tuple[str, str], seconds: float) -> None:
        self.added.append((key, seconds))


def test_nodes_and_topologies_lead_to_a_look() -> None:
    cluster, reconciler = system(BINDING)
    queue = Queue(reconciler)
    subscribe_coverage(queue, cluster.stores)  # type: ignore[arg-type]
    cluster.stores[BINDINGS].note(
        {**BINDING, "metadata": {"name": "other", "resourceVersion": "999"}}
    )
    assert queue.added == [(("", "other"), 0.0)]
    cluster.stores[NODES].note({**BARE, "metadata": {**BARE["metadata"], "resourceVersion": "999"}})
    assert queue.added[1:] == [(KEY, 10.0), (("", "other"), 10.0)]


async def test_a_condition_that_another_writer_keeps_changing_is_left_for_a_while() -> None:
    cluster, reconciler = system(BINDING, RACKED)
    for _ in range(TOLERATED):
        assert await reconciler.reconcile(KEY) is None
        ref = ObjectRef(CLUSTER_TOPOLOGY_BINDING, "gb200")
        await cluster.client.patch(ref, {"status": {"conditions": []}}, subresource="status")
    assert await reconciler.reconcile(KEY) is not None
    assert conditions(cluster) == []

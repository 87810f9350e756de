"""The managed ClusterTopology at start: made, corrected, deleted, and what happens when that fails."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from app.cluster.leader_rows import read_topology_status
from app.cluster.view import ClusterView, dialect_of
from app.facts.grove.podcliqueset import read_pod_clique_set
from app.facts.grove.topology import ClusterTopology, Level, read_cluster_topology
from app.facts.kai.topology import KaiTopology
from app.facts.kinds import CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING
from app.kube.api import Conflict, NotFound, NotServed, ObjectRef, Rejected, Unavailable
from app.kube.competing_writers import Rewrites
from app.kube.events import Recorder
from app.kube.store import WatchStore
from app.objects.resource import EVENT
from app.reconcilers.cluster_topology import (
    REJECTED_SECONDS,
    ClusterTopologyReconciler,
    CreationFailed,
)
from app.reconcilers.writing import Writing
from app.rules.dialects.bindings import BINDINGS
from app.rules.dialects.dialect import Dialect
from app.stores.stores import fill
from tests import builders
from tests.kube import virtual
from tests.kube.memory.client import MemoryClient
from tests.rules.dialects.around import Around

KEY = ("", "grove-topology")
LEVELS = (Level("rack", "k/rack"), Level("host", "k/host"))
WANTED = builders.cluster_topology("grove-topology", rack="k/rack", host="k/host")
OTHER = builders.cluster_topology("grove-topology", zone="k/zone")


class Seen(Around):
    """The dialect of what `client` serves."""

    def __init__(self, client: MemoryClient) -> None:
        super().__init__()
        self._client = client

    def dialect(self) -> Dialect:
        return dialect_of(self._client)


def reconciler_of(
    client: MemoryClient,
    levels: Sequence[Level] | None = LEVELS,
    cache: WatchStore[ClusterTopology] | None = None,
) -> ClusterTopologyReconciler:
    cache = WatchStore(read_cluster_topology) if cache is None else cache
    statuses = WatchStore(read_topology_status)
    fill(statuses, client.objects(CLUSTER_TOPOLOGY))
    rewrites = Rewrites(tolerated=2, window=60, clock=lambda: 0.0)
    recorder = Recorder(client, "test")
    topology = cast(ClusterView, Seen(client))
    return ClusterTopologyReconciler(
        Writing(client, recorder, rewrites), "grove-topology", levels, cache, statuses, topology
    )


def levels_of(client: MemoryClient) -> list[Any]:
    return [topology["spec"]["levels"] for topology in client.objects(CLUSTER_TOPOLOGY)]


@pytest.mark.parametrize(
    ("objects", "levels", "left", "writes"),
    [
        pytest.param([], LEVELS, [WANTED["spec"]["levels"]], ["create"], id="made"),
        pytest.param([OTHER], LEVELS, [WANTED["spec"]["levels"]], ["patch"], id="corrected"),
        pytest.param([WANTED], LEVELS, [WANTED["spec"]["levels"]], [], id="right already"),
        pytest.param([WANTED], None, [], ["delete"], id="deleted where topology is disabled"),
        pytest.param([], None, [], [], id="absent, as it should be"),
    ],
)
@pytest.mark.statement("1.2", "1.10", "1.71", "1.79")
async def test_it_is_as_the_configuration_wants_it(
    objects: Any, levels: Any, left: Any, writes: list[str]
) -> None:
    client = MemoryClient(objects)
    assert await reconciler_of(client, levels).reconcile(KEY) is None
    assert levels_of(client) == left
    assert [call.verb for call in client.writes()] == writes


@pytest.mark.statement("1.7", "1.8")
def test_only_the_managed_one_is_ours() -> None:
    assert reconciler_of(MemoryClient()).all_keys() == [KEY]


async def test_without_groves_crds_it_waits_quietly() -> None:
    client = MemoryClient()
    del client.served[CLUSTER_TOPOLOGY]
    await reconciler_of(client).settle(10, lambda: 0.0)
    with pytest.raises(NotServed):
        await client.get(ObjectRef(CLUSTER_TOPOLOGY, "grove-topology"))


async def test_one_that_is_being_deleted_is_waited_for() -> None:
    with_finalizer = {**WANTED, "metadata": {**WANTED["metadata"], "finalizers": ["a/b"]}}
    client = MemoryClient([with_finalizer])
    await client.delete(ObjectRef(CLUSTER_TOPOLOGY, "grove-topology"))
    with pytest.raises(Conflict):
        await reconciler_of(client).reconcile(KEY)
    await reconciler_of(client, None).reconcile(KEY)
    assert [call.verb for call in client.writes()] == ["delete"]


async def test_one_that_is_being_deleted_does_not_end_the_process(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Finalizers may keep it for any time, and all other writes need verdicts meanwhile."""
    client = MemoryClient([{**WANTED, "metadata": {**WANTED["metadata"], "finalizers": ["a/b"]}}])
    await client.delete(ObjectRef(CLUSTER_TOPOLOGY, "grove-topology"))
    await reconciler_of(client).settle(0, lambda: 0.0)
    assert (
        "could not be written, will retry: ClusterTopology grove-topology is being deleted"
        in caplog.text
    )


@pytest.mark.statement("1.55")
def test_a_failure_is_tried_again_until_it_goes_through() -> None:
    client = MemoryClient()
    client.fail_next(
        "create",
        CLUSTER_TOPOLOGY,
        Unavailable("our webhook is not reachable yet", code=500),
        times=3,
    )

    async def settled() -> float:
        await reconciler_of(client).settle(60, lambda: 0.0)
        return virtual.now()

    assert virtual.run(settled()) == 0.5 + 1 + 2
    assert levels_of(client) == [WANTED["spec"]["levels"]]


@pytest.mark.statement("1.44")
def test_a_failure_that_stays_ends_after_the_configured_time() -> None:
    client = MemoryClient()
    client.fail_next(
        "create", CLUSTER_TOPOLOGY, Rejected("no such permission", code=403), times=1000
    )

    async def settled() -> float:
        with pytest.raises(
            CreationFailed, match='ClusterTopology "grove-topology" within 60 seconds: no such'
        ):
            await reconciler_of(client).settle(60, lambda: 0.0)
        return virtual.now()

    assert virtual.run(settled()) == 60


@pytest.mark.statement("1.80", "1.95")
async def test_a_deletion_that_fails_is_not_fatal(caplog: pytest.LogCaptureFixture) -> None:
    client = MemoryClient([WANTED])
    client.fail_next("delete", CLUSTER_TOPOLOGY, Rejected("no such permission", code=403))
    await reconciler_of(client, None).settle(60, lambda: 0.0)
    assert "could not be deleted, will retry: no such permission" in caplog.text
    assert levels_of(client) == [WANTED["spec"]["levels"]]


async def test_a_deletion_that_somebody_else_was_quicker_with_is_done() -> None:
    client = MemoryClient([WANTED])
    client.fail_next("delete", CLUSTER_TOPOLOGY, NotFound("gone", code=404))
    assert await reconciler_of(client, None).reconcile(KEY) is None


def test_a_creation_whose_answer_got_lost_is_not_made_twice() -> None:
    client = MemoryClient()
    client.fail_next("create", CLUSTER_TOPOLOGY, Unavailable("broken pipe"), after_effect=True)
    virtual.run(reconciler_of(client).settle(60, lambda: 0.0))
    assert [call.verb for call in client.writes()] == ["create"]


@pytest.mark.parametrize("objects", [[], [OTHER]], ids=["made", "corrected"])
async def test_what_is_written_is_in_the_cache_before_other_reconcilers_look(objects: Any) -> None:
    cache: WatchStore[ClusterTopology] = WatchStore(read_cluster_topology)
    await reconciler_of(MemoryClient(objects), cache=cache).settle(60, lambda: 0.0)
    stored = cache.get(*KEY)
    assert stored is not None
    assert stored.levels == LEVELS


async def test_somebody_who_keeps_changing_the_levels_is_not_fought() -> None:
    """The event says the same each time, so that it is counted."""
    now = 0.0
    client = MemoryClient([WANTED])
    reconciler = reconciler_of(client)
    reconciler.writing.rewrites.clock = lambda: now
    results = []
    for moment in (0.0, 1.0, 2.0, 5.0):
        now = moment
        await client.patch(ObjectRef(CLUSTER_TOPOLOGY, "grove-topology"), {"spec": OTHER["spec"]})
        results.append(await reconciler.reconcile(KEY))
    assert results == [None, None, 58, 55]
    assert (levels_of(client), reconciler.writing.rewrites.fights) == ([OTHER["spec"]["levels"]], 2)
    assert (await reasons(client, reconciler)).count("ClusterTopologyContested") == 1


@pytest.mark.parametrize("levels", [LEVELS, None], ids=["topology enabled", "topology disabled"])
async def test_a_stored_one_stays_as_it_is_where_bindings_are_served(levels: Any) -> None:
    client = MemoryClient([OTHER])
    client.served[CLUSTER_TOPOLOGY_BINDING] = "v1alpha1"
    await reconciler_of(client, levels).reconcile(KEY)
    assert [call for call in client.writes() if call.resource is CLUSTER_TOPOLOGY] == []


class Today(Seen):
    """Bindings are served."""

    def dialect(self) -> Dialect:
        return BINDINGS


def todays(
    client: MemoryClient, levels: Sequence[Level] | None = LEVELS, **around: Any
) -> ClusterTopologyReconciler:
    client.served[CLUSTER_TOPOLOGY_BINDING] = "v1alpha1"
    seen = Today(client)
    for name, value in around.items():
        setattr(seen, name, value)
    cache: WatchStore[ClusterTopology] = WatchStore(read_cluster_topology)
    return ClusterTopologyReconciler(
        Writing(client, Recorder(client, "test")),
        "grove-topology",
        levels,
        cache,
        WatchStore(read_topology_status),
        cast(ClusterView, seen),
    )


def binding(*levels: Level) -> Any:
    spec = {
        "levels": [{"domain": level.domain, "key": level.key} for level in levels],
        "schedulerTopologyBindings": [],
    }
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": "grove-topology"},
        "spec": spec,
    }


async def reasons(client: MemoryClient, reconciler: ClusterTopologyReconciler) -> list[str]:
    running = asyncio.create_task(reconciler.writing.events.run())
    await reconciler.writing.events.written()
    running.cancel()
    return [event["reason"] for event in client.objects(EVENT)]


@pytest.mark.parametrize(
    ("stored", "levels", "left", "writes"),
    [
        pytest.param(None, LEVELS, LEVELS, ["create"], id="made"),
        pytest.param(LEVELS[:1], LEVELS, LEVELS, ["patch"], id="corrected"),
        pytest.param(LEVELS, LEVELS, LEVELS, [], id="right already"),
        pytest.param(
            LEVELS[:1], None, LEVELS[:1], [], id="an administrator's where topology is disabled"
        ),
        pytest.param(None, None, None, [], id="none where topology is disabled"),
    ],
)
async def test_the_managed_binding(stored: Any, levels: Any, left: Any, writes: list[str]) -> None:
    client = MemoryClient()
    reconciler = todays(client, levels)
    if stored is not None:
        client.load([binding(*stored)])
    assert await reconciler.reconcile(KEY) is None
    kept = client.objects(CLUSTER_TOPOLOGY_BINDING)
    assert [obj["spec"]["levels"] for obj in kept] == (
        [] if left is None else [binding(*left)["spec"]["levels"]]
    )
    assert [call.verb for call in client.writes()] == writes


async def test_a_binding_that_would_stop_groves_operator_is_not_made() -> None:
    client = MemoryClient()
    reconciler = todays(client, kai={"grove-topology": KaiTopology("grove-topology")})
    assert await reconciler.reconcile(KEY) == REJECTED_SECONDS
    assert client.objects(CLUSTER_TOPOLOGY_BINDING) == []
    assert await reasons(client, reconciler) == ["TopologyNotWritten"]


async def test_levels_in_use_stay_in_the_managed_binding() -> None:
    client = MemoryClient()
    pcs = builders.pod_clique_set("train")
    pcs["spec"]["template"]["topologyConstraint"] = {
        "topologyName": "grove-topology",
        "pack": {"required": "zone"},
    }
    reconciler = todays(client, sets=[read_pod_clique_set(pcs)])
    client.load([binding(Level("zone", "k/zone"), *LEVELS)])
    assert await reconciler.reconcile(KEY) == REJECTED_SECONDS
    assert client.writes() == []


async def test_a_binding_that_cannot_be_made_does_not_end_the_process() -> None:
    client = MemoryClient()
    reconciler = todays(client)
    client.fail_next("create", CLUSTER_TOPOLOGY_BINDING, Unavailable("down", code=500))
    await reconciler.settle(0, lambda: 0.0)
    assert client.objects(CLUSTER_TOPOLOGY_BINDING) == []


async def test_a_change_of_the_dialect_is_an_event() -> None:
    client = MemoryClient([WANTED])
    reconciler = reconciler_of(client)
    await reconciler.reconcile(KEY)
    await reconciler.reconcile(KEY)
    assert await reasons(client, reconciler) == []
    client.served[CLUSTER_TOPOLOGY_BINDING] = "v1alpha1"
    await reconciler.reconcile(KEY)
    assert await reasons(client, reconciler) == ["DialectChanged"]
    (event,) = client.objects(EVENT)
    assert event["regarding"]["name"] == "clustertopologybindings.grove.io"


@pytest.mark.statement("1.9")
async def test_a_cluster_topology_that_was_managed_under_another_name_is_reported_once() -> None:
    client = MemoryClient(
        [
            builders.cluster_topology("former", host="kubernetes.io/hostname"),
            builders.cluster_topology("of-a-user", host="kubernetes.io/hostname"),
        ]
    )
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await client.patch(ObjectRef(CLUSTER_TOPOLOGY, "former"), ready, subresource="status")
    reconciler = reconciler_of(client)
    await reconciler.reconcile(KEY)
    await reconciler.reconcile(KEY)
    running = asyncio.create_task(reconciler.writing.events.run())
    await reconciler.writing.events.written()
    running.cancel()
    assert [
        (event["regarding"]["name"], event["reason"], event["note"])
        for event in client.objects(EVENT)
    ] == [
        (
            "former",
            "TopologyLeftOver",
            "this ClusterTopology was managed before clusterTopology.name was changed to"
            " grove-topology, and is no longer protected. If no workload uses it, delete it together"
            " with its KAI Topology: kubectl delete clustertopologies.grove.io former",
        )
    ]
    assert {"former", "of-a-user"} <= {
        topology["metadata"]["name"] for topology in client.objects(CLUSTER_TOPOLOGY)
    }


async def test_a_binding_has_only_the_levels_that_kai_allows() -> None:
    client = MemoryClient([])
    levels = (Level("host", "kubernetes.io/hostname"), Level("numa", "k/numa"))
    await todays(client, levels).reconcile(KEY)
    (stored,) = client.objects(CLUSTER_TOPOLOGY_BINDING)
    assert stored["spec"]["levels"] == [{"domain": "host", "key": "kubernetes.io/hostname"}]

"""The KAI Topology over a cluster in memory: faults, and clusters whose CRDs lack something."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from app.cluster.view import dialect_of
from app.facts.kinds import CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING, KAI_TOPOLOGY
from app.kube.api import Conflict, NotFound, Object, ObjectRef, Rejected, Unavailable
from app.kube.competing_writers import Rewrites
from app.kube.events import Recorder
from app.objects.resource import EVENT
from app.reconcilers.kai_topology import AGAIN_SECONDS, KaiTopologyReconciler
from app.reconcilers.writing import Writing
from tests import builders
from tests.kube.memory.client import MemoryClient

KEY = ("", "grove-topology")
TOPOLOGY = builders.cluster_topology("grove-topology", host="kubernetes.io/hostname", rack="k/rack")
LEVELS = [{"nodeLabel": "k/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]


def reconciler_of(client: MemoryClient, rewrites: Rewrites | None = None) -> KaiTopologyReconciler:
    now = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
    return KaiTopologyReconciler(
        Writing(client, Recorder(client, "test"), rewrites or Rewrites()),
        "grove-topology",
        dialect=lambda: dialect_of(client),
        now=lambda: now,
    )


CONTESTED = "ClusterTopologyContested"


def ready(client: MemoryClient) -> tuple[str, str]:
    (stored,) = client.objects(CLUSTER_TOPOLOGY)
    (condition,) = stored["status"]["conditions"]
    return condition["status"], condition["message"]


def kai(*keys: str, uid: str = "", finalizers: tuple[str, ...] = ()) -> Object:
    reference = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "name": "grove-topology",
        "uid": uid,
    }
    metadata: Object = {"name": "grove-topology", "finalizers": list(finalizers)}
    metadata["ownerReferences"] = [{**reference, "controller": True}] if uid else []
    levels = [{"nodeLabel": key} for key in keys]
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": metadata,
        "spec": {"levels": levels},
    }


def uid_of(client: MemoryClient) -> str:
    return str(client.objects(CLUSTER_TOPOLOGY)[0]["metadata"]["uid"])


async def reasons(client: MemoryClient, reconciler: KaiTopologyReconciler) -> list[str]:
    running = asyncio.create_task(reconciler.writing.events.run())
    await reconciler.writing.events.written()
    running.cancel()
    return [event["reason"] for event in client.objects(EVENT)]


@pytest.mark.statement("1.35", "1.39", "1.45", "1.62", "1.77", "1.188")
async def test_a_write_that_fails_is_said_and_raised_and_the_next_look_puts_it_right() -> None:
    client = MemoryClient([TOPOLOGY])
    client.fail_next("create", KAI_TOPOLOGY, Unavailable("down", code=500))
    reconciler = reconciler_of(client)
    with pytest.raises(Unavailable):
        await reconciler.reconcile(KEY)
    assert ready(client) == ("False", "KAI Topology could not be read or written: down")
    (stored,) = client.objects(CLUSTER_TOPOLOGY)
    assert stored["status"]["lastErrors"] == [
        {
            "code": "KAI_TOPOLOGY_CREATE_ERROR",
            "description": "KAI Topology could not be read or written: down",
            "observedAt": "2026-11-21T12:00:00Z",
        }
    ]
    assert await reconciler.reconcile(KEY) is None
    assert ready(client)[0] == "True"
    assert "lastErrors" not in client.objects(CLUSTER_TOPOLOGY)[0]["status"]


async def test_killed_between_delete_and_create_the_next_leader_creates() -> None:
    client = MemoryClient([TOPOLOGY])
    client.load([kai("k/old", uid=uid_of(client))])
    client.fail_next("create", KAI_TOPOLOGY, Unavailable("killed"))
    with pytest.raises(Unavailable):
        await reconciler_of(client).reconcile(KEY)
    assert client.objects(KAI_TOPOLOGY) == []
    await reconciler_of(client).reconcile(KEY)
    assert [topology["spec"]["levels"] for topology in client.objects(KAI_TOPOLOGY)] == [LEVELS]


async def test_one_that_a_finalizer_holds_is_waited_for() -> None:
    client = MemoryClient([TOPOLOGY])
    client.load([kai("k/old", uid=uid_of(client), finalizers=("a/b",))])
    reconciler = reconciler_of(client)
    assert await reconciler.reconcile(KEY) == AGAIN_SECONDS
    assert ready(client) == ("Unknown", 'KAI Topology "grove-topology" is being deleted')
    assert await reconciler.reconcile(KEY) == AGAIN_SECONDS
    await client.patch(
        ObjectRef(KAI_TOPOLOGY, "grove-topology"), {"metadata": {"finalizers": None}}
    )
    assert await reconciler.reconcile(KEY) is None
    assert ready(client)[0] == "True"


async def test_one_of_a_former_cluster_topology_is_left_to_the_garbage_collector() -> None:
    client = MemoryClient([TOPOLOGY])
    client.load([kai("k/rack", uid="a former one's")])
    assert await reconciler_of(client).reconcile(KEY) == AGAIN_SECONDS
    assert ready(client)[0] == "Unknown"
    assert [call.resource for call in client.writes()] == [CLUSTER_TOPOLOGY]


NO_STATUS = "the CRD clustertopologies.grove.io has no status subresource. Install the CRD of grove-admission: kubectl apply -k manifests/crds. Until then, KAI Topologies are still synced, but only events show the result. The unwritten condition Ready says: "


async def notes(
    client: MemoryClient, reconciler: KaiTopologyReconciler
) -> list[tuple[str, str, int]]:
    """Reason, note and count of each event, sorted."""
    await reasons(client, reconciler)
    events = client.objects(EVENT)
    return sorted(
        (event["reason"], event["note"], event.get("series", {"count": 1})["count"])
        for event in events
    )


async def test_a_crd_without_status_is_reported_once_and_the_sync_goes_on() -> None:
    client = MemoryClient([TOPOLOGY], without_status=[CLUSTER_TOPOLOGY])
    reconciler = reconciler_of(client)
    for _ in range(3):  # the watches of both objects ask for further looks after each sync
        assert await reconciler.reconcile(KEY) is None
    assert [topology["spec"]["levels"] for topology in client.objects(KAI_TOPOLOGY)] == [LEVELS]
    assert reconciler.statuses_lost == 3
    assert await notes(client, reconciler) == [
        ("StatusNotWritten", f"{NO_STATUS}KAI Topology matches the ClusterTopology", 1)
    ]


async def test_a_crd_without_status_is_reported_again_if_the_condition_is_another() -> None:
    client = MemoryClient([TOPOLOGY], without_status=[CLUSTER_TOPOLOGY])
    client.load([kai("k/theirs")])
    reconciler = reconciler_of(client)
    for _ in range(2):
        await reconciler.reconcile(KEY)
    await client.delete(ObjectRef(KAI_TOPOLOGY, "grove-topology"))
    await reconciler.reconcile(KEY)
    theirs = 'KAI Topology "grove-topology" exists and is not controlled by this ClusterTopology, so it is left unchanged. If nothing else needs it, run: kubectl delete topologies.kai.scheduler grove-topology. grove-admission then creates it again'
    assert await notes(client, reconciler) == [
        ("StatusNotWritten", NO_STATUS + theirs, 1),
        ("StatusNotWritten", f"{NO_STATUS}KAI Topology matches the ClusterTopology", 1),
        ("TopologyCreationOrUpdateFailed", theirs, 1),
    ]


async def test_a_status_that_is_refused_is_reported_with_the_api_servers_reason() -> None:
    client = MemoryClient([TOPOLOGY])
    client.fail_next("patch", CLUSTER_TOPOLOGY, Rejected("may not patch the status", code=403))
    reconciler = reconciler_of(client)
    await reconciler.reconcile(KEY)
    assert await notes(client, reconciler) == [
        (
            "StatusNotWritten",
            "the API server rejected the status: may not patch the status. The unwritten condition Ready says: KAI Topology matches the ClusterTopology",
            1,
        )
    ]


class DeletingClient(MemoryClient):
    """Deletes an object just before its status is written."""

    async def patch(self, ref: ObjectRef, patch: Any, **options: Any) -> Object:
        await self.delete(ref)
        return await super().patch(ref, patch, **options)


async def test_a_topology_that_is_deleted_while_its_status_is_written_is_not_reported() -> None:
    client = DeletingClient([TOPOLOGY])
    reconciler = reconciler_of(client)
    assert await reconciler.reconcile(KEY) is None
    assert (reconciler.statuses_lost, await notes(client, reconciler)) == (0, [])


async def test_somebody_who_changes_it_again_and_again_is_not_fought() -> None:
    client = MemoryClient([TOPOLOGY])
    now = 0.0
    reconciler = reconciler_of(client, rewrites=Rewrites(tolerated=2, window=60, clock=lambda: now))
    results = []
    for moment in (0.0, 1.0, 2.0, 5.0):
        now = moment
        for topology in client.objects(KAI_TOPOLOGY):
            await client.delete(ObjectRef(KAI_TOPOLOGY, topology["metadata"]["name"]))
        client.load([kai("k/theirs", uid=uid_of(client))])
        results.append(await reconciler.reconcile(KEY))
    assert results == [None, None, 58, 55]
    assert sorted(await reasons(client, reconciler)) == [
        "KAITopologyContested",
        "KAITopologyReset",
        "TopologyCreationOrUpdateFailed",
    ]


async def test_a_topology_that_changed_while_its_status_was_written_is_looked_at_again() -> None:
    client = MemoryClient([TOPOLOGY])
    client.fail_next("patch", CLUSTER_TOPOLOGY, Conflict("changed", code=409, reason="Conflict"))
    reconciler = reconciler_of(client)
    with pytest.raises(Conflict):
        await reconciler.reconcile(KEY)
    assert await reconciler.reconcile(KEY) is None
    assert ready(client)[0] == "True"


async def test_without_the_managed_topology_there_is_nothing_to_do() -> None:
    client = MemoryClient([builders.cluster_topology("other", rack="k/rack")])
    reconciler = reconciler_of(client)
    assert await reconciler.reconcile(KEY) is None
    assert client.writes() == []
    assert reconciler.all_keys() == [KEY]


async def test_one_that_is_being_deleted_is_left_alone() -> None:
    client = MemoryClient(
        [{**TOPOLOGY, "metadata": {**TOPOLOGY["metadata"], "finalizers": ["a/b"]}}]
    )
    await client.delete(ObjectRef(CLUSTER_TOPOLOGY, "grove-topology"))
    assert await reconciler_of(client).reconcile(KEY) is None
    assert client.objects(KAI_TOPOLOGY) == []


ALL = ("k/rack", "kubernetes.io/hostname")
CREATE = ("create", KAI_TOPOLOGY)
DELETE = ("delete", KAI_TOPOLOGY)
SAY = ("patch", CLUSTER_TOPOLOGY)


@pytest.mark.parametrize(
    ("stored_levels", "owned", "status", "writes"),
    [
        pytest.param(None, True, "True", [CREATE, SAY], id="made"),
        pytest.param(ALL, True, "True", [SAY], id="the same is left"),
        pytest.param(
            ("k/old",),
            True,
            "True",
            [DELETE, CREATE, SAY],
            id="other levels are recreated, never patched",
        ),
        pytest.param(
            ALL[::-1], True, "True", [DELETE, CREATE, SAY], id="another order is another topology"
        ),
        pytest.param(("k/theirs",), False, "False", [SAY], id="somebody else's is left alone"),
    ],
)
async def test_what_differs_is_written_once(
    stored_levels: tuple[str, ...] | None, owned: bool, status: str, writes: list[Any]
) -> None:
    client = MemoryClient([TOPOLOGY])
    if stored_levels is not None:
        client.load([kai(*stored_levels, uid=uid_of(client) if owned else "")])
    reconciler = reconciler_of(client)
    await reconciler.reconcile(KEY)
    assert ready(client)[0] == status
    assert [(call.verb, call.resource) for call in client.writes()] == writes
    client.calls.clear()
    await reconciler.reconcile(KEY)
    assert client.writes() == []


async def test_one_that_somebody_else_was_quicker_to_delete_is_no_failure() -> None:
    client = MemoryClient([TOPOLOGY])
    client.load([kai("k/old", uid=uid_of(client))])
    client.fail_next("delete", KAI_TOPOLOGY, NotFound("gone", code=404))
    assert await reconciler_of(client).reconcile(KEY) == AGAIN_SECONDS
    assert ready(client)[0] == "Unknown"


async def test_one_that_was_replaced_since_it_was_read_is_not_deleted() -> None:
    client = MemoryClient([TOPOLOGY])
    client.load([kai("k/old", uid=uid_of(client))])
    client.fail_next("delete", KAI_TOPOLOGY, Conflict("another uid", code=409, reason="Conflict"))
    with pytest.raises(Conflict):
        await reconciler_of(client).reconcile(KEY)
    assert "status" not in client.objects(CLUSTER_TOPOLOGY)[0]


class _GivenAway(MemoryClient):
    """A cluster in which an administrator takes the owner from a KAI Topology, after it was read."""

    async def get(self, ref: ObjectRef, **options: Any) -> Object:
        stored = await super().get(ref, **options)
        if ref.resource == KAI_TOPOLOGY and stored["metadata"].get("ownerReferences"):
            await self.patch(ref, {"metadata": {"ownerReferences": []}})
        return stored


async def test_one_that_is_given_away_since_it_was_read_is_not_deleted() -> None:
    client = _GivenAway([TOPOLOGY])
    client.load([kai("k/old", uid=uid_of(client))])
    with pytest.raises(Conflict):
        await reconciler_of(client).reconcile(KEY)
    await reconciler_of(client).reconcile(KEY)
    assert [stored["spec"] for stored in client.objects(KAI_TOPOLOGY)] == [
        {"levels": [{"nodeLabel": "k/old"}]}
    ]
    assert ready(client)[0] == "False"


async def test_a_creation_whose_answer_got_lost_is_found_by_the_next_look() -> None:
    client = MemoryClient([TOPOLOGY])
    client.fail_next("create", KAI_TOPOLOGY, Unavailable("broken pipe"), after_effect=True)
    reconciler = reconciler_of(client)
    with pytest.raises(Unavailable):
        await reconciler.reconcile(KEY)
    assert await reconciler.reconcile(KEY) is None
    assert ready(client)[0] == "True"


async def test_conditions_of_others_stay() -> None:
    theirs = {
        "type": "Theirs",
        "status": "True",
        "reason": "X",
        "message": "",
        "lastTransitionTime": "t",
    }
    client = MemoryClient([{**TOPOLOGY, "status": {"conditions": [theirs]}}])
    await reconciler_of(client).reconcile(KEY)
    conditions = client.objects(CLUSTER_TOPOLOGY)[0]["status"]["conditions"]
    assert [condition["type"] for condition in conditions] == ["Theirs", "Ready"]
    assert conditions[0] == theirs


async def test_it_belongs_to_grove_where_bindings_are_served() -> None:
    client = MemoryClient([TOPOLOGY, kai("k/other", uid="theirs")])
    client.served[CLUSTER_TOPOLOGY_BINDING] = "v1alpha1"
    assert await reconciler_of(client).reconcile(KEY) is None
    assert client.writes() == []


async def test_aliases_of_levels_are_peoples() -> None:
    client = MemoryClient([TOPOLOGY])
    stored = kai("k/rack", "kubernetes.io/hostname", uid=uid_of(client))
    stored["spec"]["levels"][0]["alias"] = "rack"
    client.load([stored])
    await reconciler_of(client).reconcile(KEY)
    assert [call.resource for call in client.writes() if call.resource is KAI_TOPOLOGY] == []
    assert client.objects(KAI_TOPOLOGY)[0]["spec"] == stored["spec"]


FORGED = {"type": "Ready", "status": "True", "reason": "TopologyReady", "message": "all is well"}


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"conditions": [FORGED]}, id="Ready is True over a failure"),
        pytest.param({"conditions": []}, id="Ready is gone"),
        pytest.param({"observedGeneration": 99}, id="another generation"),
        pytest.param({"lastErrors": None}, id="the errors are gone"),
        pytest.param({"lastErrors": [{"code": "THEIRS"}]}, id="another error"),
    ],
)
@pytest.mark.statement("1.54")
async def test_a_status_that_somebody_else_writes_is_repaired(status: Object) -> None:
    client = MemoryClient([TOPOLOGY])
    client.load([kai("theirs")])
    reconciler = reconciler_of(client)
    await reconciler.reconcile(KEY)
    right = client.objects(CLUSTER_TOPOLOGY)[0]["status"]
    ref = ObjectRef(CLUSTER_TOPOLOGY, "grove-topology")
    await client.patch(ref, {"status": status}, subresource="status")
    await reconciler.reconcile(KEY)
    assert client.objects(CLUSTER_TOPOLOGY)[0]["status"] == right
    assert (right["conditions"][0]["status"], right["lastErrors"][0]["code"]) == (
        "False",
        "KAI_TOPOLOGY_CREATE_ERROR",
    )


async def test_a_status_that_somebody_keeps_changing_is_said_and_left_for_a_while() -> None:
    client = MemoryClient([TOPOLOGY])
    now = 0.0
    reconciler = reconciler_of(client, Rewrites(tolerated=2, window=60, clock=lambda: now))
    ref = ObjectRef(CLUSTER_TOPOLOGY, "grove-topology")
    pauses = []
    for moment in (0.0, 1.0, 2.0, 5.0):
        now = moment
        pauses.append(await reconciler.reconcile(KEY))
        await client.patch(ref, {"status": {"conditions": [FORGED]}}, subresource="status")
    assert pauses == [None, None, 58, 55]
    counts = [count for reason, _, count in await notes(client, reconciler) if reason == CONTESTED]
    assert counts == [2]

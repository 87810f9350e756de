"""PodCliqueSets are told whether their topology constraints can be met.

Tests `app/reconcilers/conditions.py`.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from app.cluster.view import ClusterView
from app.facts.grove.podcliqueset import PodCliqueSet, read_pod_clique_set
from app.facts.grove.topology import ClusterTopology, Level
from app.facts.kinds import POD_CLIQUE_SET
from app.kube.api import Conflict, Key, NotFound, Object, ObjectRef, Unavailable
from app.kube.store import WatchStore
from app.reconcilers.conditions import ConstraintStatusReconciler
from app.rules.dialects.bindings import BINDINGS
from app.rules.dialects.design import DESIGN, UNSERVED
from app.rules.dialects.dialect import Dialect
from tests.builders import managed, pod_clique_set
from tests.kube.memory.client import MemoryClient
from tests.rules.dialects.around import Around

KEY: Key = ("ml", "train")
ENABLED = managed("grove-topology", levels=(Level("zone", "k/zone"), Level("host", "k/host")))
DISABLED = managed("grove-topology", enabled=False)
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SINCE = "2026-01-01T00:00:00Z"
TIMED = "2026-11-21T12:00:00Z"

THEIRS = {
    "type": "Theirs",
    "status": "True",
    "reason": "Fine",
    "message": "",
    "lastTransitionTime": SINCE,
}


def condition(status: str, reason: str, message: str, since: str = SINCE) -> Object:
    return {
        "type": "TopologyConstraintSatisfied",
        "status": status,
        "observedGeneration": 1,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    }


VALID = condition(
    "True",
    "TopologyConstraintsValid",
    "All topology constraints name levels of the ClusterTopology",
)
OFF = condition(
    "False", "TopologyDisabled", "Topology support disabled in operator configuration", TIMED
)
MISSING = condition(
    "False",
    "TopologyLevelNotFound",
    "Topology level 'rack' not found in ClusterTopology 'grove-topology'. Topology constraint will be ignored. Please remove packDomain or update ClusterTopology.",
    TIMED,
)
UNTOLD = condition(
    "Unknown",
    "TopologyUnknown",
    "The managed ClusterTopology does not exist or has no levels yet",
    TIMED,
)


@dataclass
class Seen(Around):
    """What the caches say of the managed ClusterTopology; None while they can't."""

    now: ClusterTopology | None = None
    speaks: Dialect = DESIGN

    def dialect(self) -> Dialect:
        return self.speaks

    def topology(self) -> ClusterTopology:
        if self.now is None:
            raise Unavailable("not yet")
        return self.now


class System:
    """A PodCliqueSet with `domain` and `conditions`, as the cluster and the cache have it."""

    def __init__(
        self,
        topology: ClusterTopology | None,
        domain: str | None,
        conditions: list[Object] | None = None,
    ) -> None:
        pcs = pod_clique_set("train", domain=domain)
        pcs["metadata"]["namespace"] = "ml"
        if conditions is not None:
            pcs["status"] = {"conditions": conditions, "replicas": 3}
        self.client = MemoryClient([pcs])
        self.seen = Seen(now=topology)
        self.sets: WatchStore[PodCliqueSet] = WatchStore(read_pod_clique_set)
        self.relist()
        self.reconciler = ConstraintStatusReconciler(
            self.client, self.sets, cast(ClusterView, self.seen), now=lambda: NOW
        )

    def relist(self) -> None:
        """The cache sees what the cluster has."""
        self.sets.begin_list()
        self.sets.take_listed(self.client.objects(POD_CLIQUE_SET))
        self.sets.drop_unlisted(self.sets.known_keys(), "0")
        self.sets.end_list("0")

    async def step(self) -> list[str]:
        """The verbs of the calls that it took."""
        self.client.calls.clear()
        assert await self.reconciler.reconcile(KEY) is None
        return [call.verb for call in self.client.calls]

    def status(self) -> dict[str, Any] | None:
        (pcs,) = self.client.objects(POD_CLIQUE_SET)
        return pcs.get("status")


@pytest.mark.parametrize(
    ("topology", "domain", "before", "after"),
    [
        pytest.param(ENABLED, "zone", [], [{**VALID, "lastTransitionTime": TIMED}], id="met"),
        pytest.param(DISABLED, "zone", [VALID], [OFF], id="topology was switched off"),
        pytest.param(ENABLED, "rack", [VALID], [MISSING], id="a level has gone"),
        pytest.param(None, "zone", [VALID], [UNTOLD], id="it can't be told"),
        pytest.param(
            ENABLED,
            "zone",
            [OFF],
            [{**VALID, "lastTransitionTime": TIMED}],
            id="topology was switched on",
        ),
        pytest.param(DISABLED, "rack", [MISSING], [OFF], id="the time stays where the status does"),
        pytest.param(
            ENABLED,
            "rack",
            [THEIRS, VALID],
            [THEIRS, MISSING],
            id="others' conditions stay, in order",
        ),
        pytest.param(
            ENABLED, None, [THEIRS, VALID], [THEIRS], id="without constraints it is taken back"
        ),
    ],
)
@pytest.mark.statement("1.125")
async def test_what_differs_is_written(
    topology: ClusterTopology | None, domain: str | None, before: list[Object], after: list[Object]
) -> None:
    system = System(topology, domain, before)
    assert await system.step() == ["get", "patch"]
    assert system.status() == {"conditions": after, "replicas": 3}
    assert await system.step() == [], "the cache knows what was written"


async def test_taking_back_the_last_condition_leaves_no_empty_list() -> None:
    system = System(ENABLED, None, [VALID])
    await system.step()
    assert system.status() == {"replicas": 3}


@pytest.mark.parametrize(
    ("topology", "domain", "before"),
    [
        pytest.param(ENABLED, "zone", [VALID], id="it is said already"),
        pytest.param(ENABLED, None, [THEIRS], id="a set without constraints gets no condition"),
        pytest.param(DISABLED, None, None, id="nor with topology disabled, nor a status"),
    ],
)
async def test_where_nothing_differs_no_call_is_made(
    topology: ClusterTopology | None, domain: str | None, before: list[Object] | None
) -> None:
    assert await System(topology, domain, before).step() == []


async def test_a_set_that_the_cache_lags_behind_is_judged_as_it_is_stored() -> None:
    system = System(ENABLED, "rack", [VALID])
    await system.client.patch(
        ObjectRef(POD_CLIQUE_SET, "train", "ml"),
        {"spec": {"template": {"topologyConstraint": None}}},
    )
    await system.step()
    assert system.status() == {"replicas": 3}


async def test_what_another_leader_has_said_meanwhile_is_not_written_again() -> None:
    system = System(ENABLED, "rack", [VALID])
    said = {"status": {"conditions": [MISSING]}}
    await system.client.patch(ObjectRef(POD_CLIQUE_SET, "train", "ml"), said, subresource="status")
    assert await system.step() == ["get"]


async def test_a_set_that_changes_between_read_and_write_is_not_overwritten() -> None:
    system = System(ENABLED, "rack", [THEIRS])
    system.client.fail_next(
        "patch", POD_CLIQUE_SET, Conflict("changed", code=409, reason="Conflict")
    )
    with pytest.raises(Conflict):
        await system.reconciler.reconcile(KEY)
    assert system.status() == {"conditions": [THEIRS], "replicas": 3}


async def test_a_set_that_has_gone_is_passed_over() -> None:
    system = System(ENABLED, "rack", [VALID])
    system.client.fail_next("get", POD_CLIQUE_SET, NotFound("gone", code=404))
    assert await system.step() == ["get"]
    await system.client.delete(ObjectRef(POD_CLIQUE_SET, "train", "ml"))
    system.relist()
    assert await system.step() == []


async def test_a_set_that_is_being_deleted_is_left_in_peace() -> None:
    system = System(ENABLED, "rack", [VALID])
    await system.client.patch(
        ObjectRef(POD_CLIQUE_SET, "train", "ml"), {"metadata": {"finalizers": ["example.com/slow"]}}
    )
    await system.client.delete(ObjectRef(POD_CLIQUE_SET, "train", "ml"))
    assert await system.step() == ["get"]
    system.relist()
    assert await system.step() == []


async def test_where_grove_has_its_own_condition_none_is_written_and_a_former_one_of_ours_is_taken_back() -> (
    None
):
    system = System(ENABLED, "zone", [THEIRS, VALID])
    system.seen.speaks = BINDINGS
    assert await system.step() == ["get", "patch"]
    assert system.status() == {"conditions": [THEIRS], "replicas": 3}
    system.relist()
    assert await system.step() == []


async def test_without_a_topology_api_the_condition_is_written() -> None:
    system = System(None, "zone", [THEIRS])
    system.seen.speaks = UNSERVED
    assert await system.step() == ["get", "patch"]
    assert system.status() == {"conditions": [THEIRS, UNTOLD], "replicas": 3}

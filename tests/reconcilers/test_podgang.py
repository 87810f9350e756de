"""PodGangs over a cluster in memory: what is written, what is not, and what a crash between two
writes leaves.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from app.cluster import owners
from app.cluster.cluster import Cluster
from app.cluster.filled import fill_from
from app.cluster.leader_rows import CLIQUES
from app.facts.kinds import CLUSTER_TOPOLOGY_BINDING, COMPUTE_DOMAIN, POD_GANG, RESOURCE_CLAIM
from app.facts.rows import CLAIMS, DOMAINS, GANGS, SETS, TOPOLOGIES
from app.kube.api import (
    ClusterError,
    Conflict,
    Object,
    ObjectRef,
    Page,
    Selection,
    Unavailable,
)
from app.kube.competing_writers import Rewrites
from app.kube.events import Recorder
from app.kube.loop import Loop
from app.objects.resource import EVENT, Resource
from app.reconcilers.podgang import (
    CONTESTED_SECONDS,
    UNTIL_GIVEN_BACK_SECONDS,
    PodGangReconciler,
    subscribe,
    subscribe_to_resources,
)
from app.reconcilers.writing import Writing
from app.stores.stores import Stores, fill
from tests import builders
from tests.cluster.offline import configured
from tests.kube.memory.client import EVERYTHING, MemoryClient

RACK = "example.com/rack"
HOST = "kubernetes.io/hostname"
TOPOLOGY = builders.cluster_topology("grove-topology", rack=RACK, host=HOST)
KEY = ("ns", "train-0")


def in_namespace(obj: Object, uid: str = "", **metadata: Any) -> Object:
    metadata = {**obj["metadata"], "namespace": "ns", **({"uid": uid} if uid else {}), **metadata}
    return {**obj, "metadata": metadata}


def pcs(domain: str | None = "rack", name: str = "train") -> Object:
    return in_namespace(builders.pod_clique_set(name, domain=domain), uid=f"uid-{name}")


def gang(name: str = "train-0", uid: str = "uid-gang", **metadata: Any) -> Object:
    labels = builders.labels("train", 0, name)
    return in_namespace(builders.pod_gang(name, labels, "train-0-worker"), uid, **metadata)


def resource(kind: Resource, owner: Object | None, name: str = "train-0", **labels: str) -> Object:
    """A resource that our webhook made for `train-0`, owned by `owner`."""
    owners = [] if owner is None else [owner]
    all_labels = {
        **builders.labels("train", 0, "train-0"),
        "grove.io/mnnvl-managed": "true",
        **labels,
    }
    metadata = {"name": name, "namespace": "ns", "labels": all_labels, "ownerReferences": owners}
    return {"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata, "spec": {}}


def owner(kind: str, name: str, uid: str) -> Object:
    group = "scheduler.grove.io" if kind == "PodGang" else "grove.io"
    version = {"apiVersion": f"{group}/v1alpha1", "kind": kind, "name": name, "uid": uid}
    return {**version, "controller": True, "blockOwnerDeletion": True}


BY_PCS = owner("PodCliqueSet", "train", "uid-train")
OURS = owner("PodGang", "train-0", "uid-gang")
BOTH = (resource(COMPUTE_DOMAIN, BY_PCS), resource(RESOURCE_CLAIM, BY_PCS))


class World:
    """A cluster in memory, caches filled from it once, and a reconciler: one life of a leader."""

    def __init__(
        self, client: MemoryClient, *, enabled: bool = True, rewrites: Rewrites | None = None
    ) -> None:
        self.client = client

        cluster = Cluster(client, configured("grove-topology", enabled))
        fill_from(cluster, client.objects)
        self.stores = cluster.stores
        facts = cluster.facts
        self.gangs = self.stores[GANGS]
        self.events = Recorder(client, "test")
        self.gives_back = False
        self.reconciler = PodGangReconciler(
            Writing(client, self.events, rewrites or Rewrites()),
            self.gangs,
            facts,
            cluster.owners,
            gives_back=lambda: self.gives_back,
        )
        self.cliques = Stores((CLIQUES,))[CLIQUES]

    async def reconcile(self) -> float | None:
        """One step, and another one after a change of the PodGang, as in the loop."""
        before = self.version()
        again = await self.reconciler.reconcile(KEY)
        if self.version() == before:
            return again
        return await self.reconciler.reconcile(KEY)

    def version(self) -> str | None:
        gang = self.gangs.get(*KEY)
        return gang.resource_version if gang else None

    async def happened(self) -> list[str]:
        """The reasons of the events recorded."""
        running = asyncio.create_task(self.events.run())
        await self.events.written()
        running.cancel()
        return [event["reason"] for event in self.client.objects(EVENT)]

    def stored(self) -> Object:
        return next(
            podgang
            for podgang in self.client.objects(POD_GANG)
            if podgang["metadata"]["name"] == "train-0"
        )

    def owners(self) -> dict[str, list[str]]:
        kinds = (COMPUTE_DOMAIN, RESOURCE_CLAIM)
        return {
            f"{kind.kind} {obj['metadata']['name']}": [
                ref["uid"] for ref in obj["metadata"]["ownerReferences"]
            ]
            for kind in kinds
            for obj in self.client.objects(kind)
        }

    def writes(self) -> list[tuple[str, str]]:
        return [
            (call.verb, call.resource.kind)
            for call in self.client.writes()
            if call.resource != EVENT
        ]


def world_of(*objects: Object, **options: Any) -> World:
    return World(MemoryClient(objects), **options)


def packs(stored: Object) -> list[Any]:
    spec = stored["spec"]
    return [
        part.get("topologyConstraint", {}).get("packConstraint")
        for part in (spec, *spec["podgroups"])
    ]


async def test_one_patch_writes_all_that_differs_and_a_second_look_nothing() -> None:
    marked = gang(annotations={"grove.io/mnnvl-resources-adopted": "false"})
    world = world_of(TOPOLOGY, pcs(), marked, *BOTH)
    assert await world.reconcile() is None
    assert packs(world.stored()) == [{"required": RACK, "preferred": HOST}, {"preferred": HOST}]
    assert world.stored()["metadata"]["annotations"] == {
        "grove.io/topology-name": "grove-topology",
        "grove.io/mnnvl-resources-adopted": "true",
    }
    assert world.owners() == {
        "ComputeDomain train-0": ["uid-gang"],
        "ResourceClaim train-0": ["uid-gang"],
    }
    assert world.writes() == [
        ("patch", "ComputeDomain"),
        ("patch", "ResourceClaim"),
        ("patch", "PodGang"),
    ]
    assert await world.happened() == ["MnnvlResourcesAdopted"]
    before = len(world.client.calls)
    assert await world.reconcile() is None
    assert len(world.client.calls) == before


async def test_very_many_resources_are_adopted_in_several_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owners, "IN_A_STEP", 3)
    marked = gang(annotations={"grove.io/mnnvl-resources-adopted": "false"})
    many = [resource(COMPUTE_DOMAIN, BY_PCS, f"train-0-{number}") for number in range(8)]
    labelled = [
        {**obj, "metadata": {**obj["metadata"], "labels": {**obj["metadata"]["labels"], **NAMED}}}
        for obj in many
    ]
    world = world_of(TOPOLOGY, pcs(), marked, *labelled)
    pauses = [await world.reconciler.reconcile(KEY) for _ in range(3)]
    assert pauses == [0.0, 0.0, None]
    assert set(map(tuple, world.owners().values())) == {("uid-gang",)}


NAMED = {"grove.io/podgang": "train-0"}
"""The label of an earlier version."""


@pytest.mark.statement("2.86")
async def test_a_podgang_is_marked_before_it_owns_anything() -> None:
    """Its deletion calls our webhook only if it is marked, whenever this process ends."""
    world = world_of(TOPOLOGY, pcs(), gang(), *BOTH)
    await world.reconciler.reconcile(KEY)
    assert world.writes() == [("patch", "PodGang")]
    assert world.stored()["metadata"]["annotations"]["grove.io/mnnvl-resources-adopted"] == "false"

    await world.reconciler.reconcile(KEY)
    assert world.writes()[1:] == [
        ("patch", "ComputeDomain"),
        ("patch", "ResourceClaim"),
        ("patch", "PodGang"),
    ]
    assert world.stored()["metadata"]["annotations"]["grove.io/mnnvl-resources-adopted"] == "true"


async def test_a_preferred_level_that_hinders_is_removed_once() -> None:
    """As an earlier version has written it: two pods of 8 GPUs and one of 1, on three nodes of 8."""
    mixed = pcs(domain=None)
    leader = mixed["spec"]["template"]["cliques"][1]
    leader["spec"]["podSpec"] = builders.pod_spec(**{"nvidia.com/gpu": "1"})
    labels = builders.labels("train", 0, "train-0")
    names = ("train-0-worker", "train-0-pool-0-leader")
    stored = in_namespace(builders.pod_gang("train-0", labels, *names), "uid-gang")
    stored["metadata"]["annotations"] = {"grove.io/topology-name": "grove-topology"}
    for holder in (stored["spec"], *stored["spec"]["podgroups"]):
        holder["topologyConstraint"] = {"packConstraint": {"preferred": HOST}}

    world = world_of(TOPOLOGY, mixed, stored)
    await world.reconcile()
    assert packs(world.stored()) == [None, {"preferred": HOST}, {"preferred": HOST}]
    assert world.writes() == [("patch", "PodGang")]
    await world.reconcile()
    assert world.writes() == [("patch", "PodGang")]


async def test_a_podgang_has_the_constraints_of_its_set_and_not_of_a_former_one() -> None:
    """The set was deleted and created again, and the cache still has the former one."""
    world = World(MemoryClient([pcs(), gang(ownerReferences=[BY_PCS]), TOPOLOGY]))
    former = pcs(domain=None)
    fill(world.stores[SETS], [in_namespace(former, uid="former")])
    await world.reconcile()
    assert world.stored()["spec"]["topologyConstraint"]["packConstraint"]["required"] == RACK


async def test_what_others_wrote_into_the_podgang_stays() -> None:
    theirs = gang(annotations={"theirs": "1"})
    theirs["spec"]["podgroups"][0]["podReferences"] = [{"name": "p", "namespace": "ns"}]
    theirs["spec"]["topologyConstraint"] = {"theirs": 2, "packConstraint": {"theirs": 3}}
    world = world_of(TOPOLOGY, pcs(), theirs)
    await world.reconcile()
    stored = world.stored()
    assert stored["metadata"]["annotations"] == {
        "theirs": "1",
        "grove.io/topology-name": "grove-topology",
    }
    assert stored["spec"]["podgroups"][0]["podReferences"] == [{"name": "p", "namespace": "ns"}]
    assert packs(stored)[0] == {"theirs": 3, "required": RACK, "preferred": HOST}


async def test_a_podgang_that_changed_meanwhile_is_not_overwritten() -> None:
    world = world_of(TOPOLOGY, pcs(), gang())
    await world.client.patch(
        ObjectRef(POD_GANG, "train-0", "ns"), {"spec": {"priorityClassName": "high"}}
    )
    with pytest.raises(Conflict):
        await world.reconcile()
    assert packs(world.stored()) == [None, None]


@pytest.mark.parametrize(
    ("objects", "options", "expected"),
    [
        pytest.param(
            [pcs()], {}, [{"theirs": 1}, None], id="no ClusterTopology yet: nothing is touched"
        ),
        pytest.param(
            [TOPOLOGY],
            {},
            [{"theirs": 1, "preferred": HOST}, {"preferred": HOST}],
            id="no PodCliqueSet",
        ),
        pytest.param(
            [pcs()],
            {"enabled": False},
            [{"theirs": 1}, None],
            id="switched off: what is not ours stays",
        ),
    ],
)
async def test_what_is_not_known_takes_nothing_away(
    objects: list[Object], options: Any, expected: list[Any]
) -> None:
    stored = gang()
    stored["spec"]["topologyConstraint"] = {"packConstraint": {"theirs": 1}}
    world = world_of(stored, *objects, **options)
    await world.reconcile()
    assert packs(world.stored()) == expected


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([], id="one that is gone"),
        pytest.param(
            [gang(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["a/b"])],
            id="one that is going",
        ),
    ],
)
async def test_nothing_is_written_to(objects: list[Object]) -> None:
    world = world_of(TOPOLOGY, pcs(), *objects, *BOTH)
    assert await world.reconcile() is None
    assert world.writes() == []


@pytest.mark.parametrize(
    ("owners", "expected"),
    [
        pytest.param(None, "uid-gang", id="nobody's is taken"),
        pytest.param(BY_PCS, "uid-gang", id="its PodCliqueSet's is taken"),
        pytest.param(
            owner("PodGang", "train-0", "uid-before"), "uid-gang", id="its former self's is taken"
        ),
        pytest.param(owner("PodGang", "train-1", "uid-1"), "uid-1", id="another PodGang's is not"),
        pytest.param(owner("Pod", "p", "uid-p"), "uid-p", id="one made for a Pod is not"),
        pytest.param(
            {**owner("Job", "j", "uid-j"), "apiVersion": "batch/v1"}, "uid-j", id="a Job's is not"
        ),
    ],
)
@pytest.mark.statement("2.84")
async def test_whose_resources_are_adopted(owners: Object | None, expected: str) -> None:
    world = world_of(TOPOLOGY, pcs(), gang(), resource(COMPUTE_DOMAIN, owners))
    await world.reconcile()
    assert world.owners() == {"ComputeDomain train-0": [expected]}


@pytest.mark.statement("2.87")
async def test_in_later_dialects_nothing_is_adopted_and_the_annotation_goes_with_the_last_resource() -> (
    None
):
    annotations = {"grove.io/mnnvl-resources-adopted": "true"}
    stored = gang(annotations=annotations)
    owned = resource(COMPUTE_DOMAIN, OURS)
    world = World(MemoryClient([TOPOLOGY, pcs(), stored, owned, BOTH[1]], served=BINDINGS))
    await world.reconcile()
    assert world.writes() == []
    given_back = {**owned, "metadata": {**owned["metadata"], "ownerReferences": [BY_PCS]}}
    world.stores[DOMAINS].note(_newer(given_back))
    await world.reconcile()
    assert world.writes() == [("patch", "PodGang")]
    assert world.stored()["metadata"]["annotations"] == {}


async def test_an_annotation_is_removed_once_everything_is_given_back() -> None:
    stored = gang(annotations={"grove.io/mnnvl-resources-adopted": "true"})
    world = World(MemoryClient([TOPOLOGY, pcs(), stored, *BOTH], served=BINDINGS))
    world.gives_back = True
    before = len(world.client.calls)
    assert await world.reconcile() == UNTIL_GIVEN_BACK_SECONDS
    assert len(world.client.calls) == before
    world.gives_back = False
    assert await world.reconcile() is None
    assert world.writes() == [("patch", "PodGang")]
    assert world.stored()["metadata"]["annotations"] == {}


@pytest.mark.parametrize("has_more", [False, True], ids=["", "beside a claim on its way out"])
async def test_what_the_cache_does_not_show_is_given_back_before_the_annotation_goes(
    has_more: bool,
) -> None:
    stored = gang(annotations={"grove.io/mnnvl-resources-adopted": "true"})
    owned = resource(COMPUTE_DOMAIN, OURS, "train-0-cd")
    going = resource(RESOURCE_CLAIM, OURS, "train-0-mnnvl-claim")
    going["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}
    more = [going] if has_more else []
    world = World(MemoryClient([TOPOLOGY, pcs(), stored, owned, *more], served=BINDINGS))
    world.stores[DOMAINS].forget()
    fill(world.stores[DOMAINS], [])
    await world.reconcile()
    assert world.writes() == [("patch", "ComputeDomain"), ("patch", "PodGang")]
    assert world.owners()["ComputeDomain train-0-cd"] == ["uid-train"]
    assert world.stored()["metadata"]["annotations"] == {}
    assert await world.happened() == ["MnnvlResourcesGivenBack"]


async def test_a_podgang_that_is_gone_behind_the_cache_takes_nothing() -> None:
    world = world_of(TOPOLOGY, pcs(), gang(), *BOTH)
    await world.client.delete(ObjectRef(POD_GANG, "train-0", "ns"))
    assert await world.reconcile() is None
    assert world.owners() == {
        "ComputeDomain train-0": ["uid-train"],
        "ResourceClaim train-0": ["uid-train"],
    }


@pytest.mark.parametrize(
    "before", [BY_PCS, owner("PodGang", "train-0", "uid-new")], ids=["not yet", "already"]
)
async def test_a_podgang_made_anew_behind_the_cache_keeps_its_resources(before: Object) -> None:
    world = world_of(
        TOPOLOGY, pcs(), gang(), resource(COMPUTE_DOMAIN, before), resource(RESOURCE_CLAIM, before)
    )
    await world.client.delete(ObjectRef(POD_GANG, "train-0", "ns"))
    world.client.load([gang(uid="uid-new")])
    await world.reconciler.reconcile(KEY)
    uid = before["uid"]
    assert world.owners() == {"ComputeDomain train-0": [uid], "ResourceClaim train-0": [uid]}
    await world.reconcile()
    assert world.owners() == {
        "ComputeDomain train-0": ["uid-new"],
        "ResourceClaim train-0": ["uid-new"],
    }


class Overtaken(MemoryClient):
    """While the answer about a PodGang is on its way, that one goes, and the next of its name takes
    what it finds.
    """

    world: World | None = None

    async def get(self, ref: ObjectRef, **options: Any) -> Object:
        answer = await super().get(ref, **options)
        if self.world is not None and ref.resource == POD_GANG:
            await self.delete(ref)
            self.load([gang(uid="uid-new")])
            taken = {"metadata": {"ownerReferences": [owner("PodGang", ref.name, "uid-new")]}}
            for kind, fact in ((COMPUTE_DOMAIN, DOMAINS), (RESOURCE_CLAIM, CLAIMS)):
                patched = await self.patch(ObjectRef(kind, ref.name, "ns"), taken)
                self.world.stores[fact].note(patched)
        return answer


async def test_what_the_next_podgang_took_while_the_answer_was_on_its_way_is_not_taken_back() -> (
    None
):
    client = Overtaken([TOPOLOGY, pcs(), gang(), *BOTH])
    client.world = world = World(client)
    with pytest.raises(Conflict):
        await world.reconcile()
    assert world.owners() == {
        "ComputeDomain train-0": ["uid-new"],
        "ResourceClaim train-0": ["uid-new"],
    }


async def test_what_a_podgang_still_owns_is_left_to_the_reconciler_of_resources() -> None:
    stored = gang(annotations={"grove.io/mnnvl-resources-adopted": "true"})
    owned = resource(COMPUTE_DOMAIN, OURS, "train-0-cd")
    world = World(MemoryClient([TOPOLOGY, pcs(), stored, owned], served=BINDINGS))
    assert await world.reconcile() is None
    assert world.writes() == []


async def test_in_the_design_nothing_is_read_before_the_annotation_goes() -> None:
    stored = gang(annotations={"grove.io/mnnvl-resources-adopted": "true"})
    world = world_of(TOPOLOGY, pcs(None), stored)
    await world.reconcile()
    assert [(call.verb, call.resource) for call in world.client.calls] == [("patch", POD_GANG)]
    assert "grove.io/mnnvl-resources-adopted" not in world.stored()["metadata"]["annotations"]


class Adopting(MemoryClient):
    """Another replica, which does not know the upgrade yet, adopts what has just been listed."""

    world: World | None = None

    async def list(self, selection: Selection, **options: Any) -> Page:
        page = await super().list(selection, **options)
        if self.world is not None and selection.resource == COMPUTE_DOMAIN:
            taken = {"metadata": {"ownerReferences": [OURS]}}
            patched = await self.patch(ObjectRef(COMPUTE_DOMAIN, "train-0-cd", "ns"), taken)
            self.world.stores[DOMAINS].note(patched)
        return page


async def test_the_annotation_stays_if_the_podgang_has_got_a_resource_meanwhile() -> None:
    stored = gang(annotations={"grove.io/mnnvl-resources-adopted": "true"})
    domain = resource(COMPUTE_DOMAIN, BY_PCS, "train-0-cd")
    client = Adopting([TOPOLOGY, pcs(), stored, domain], served=BINDINGS)
    client.world = world = World(client)
    assert await world.reconciler.reconcile(KEY) is None
    assert world.writes() == [("patch", "ComputeDomain")]


class Upgraded(MemoryClient):
    """Grove is upgraded while the answer about a PodGang is on its way."""

    async def get(self, ref: ObjectRef, **options: Any) -> Object:
        answer = await super().get(ref, **options)
        if ref.resource == POD_GANG:
            self.served = dict(BINDINGS)
        return answer


async def test_in_an_upgrade_nothing_more_is_adopted_and_all_is_given_back() -> None:
    """Also what the caches don't show yet, before the annotation is removed."""
    stored = gang(annotations={"grove.io/mnnvl-resources-adopted": "false"})
    client = Upgraded([TOPOLOGY, pcs(), stored, resource(COMPUTE_DOMAIN, BY_PCS, "train-0-cd")])
    world = World(client)
    client.load([resource(RESOURCE_CLAIM, OURS, "train-0-mnnvl-claim")])
    await world.reconciler.reconcile(KEY)
    assert world.writes() == [("patch", "ResourceClaim"), ("patch", "PodGang")]
    assert world.owners() == {
        "ComputeDomain train-0-cd": ["uid-train"],
        "ResourceClaim train-0-mnnvl-claim": ["uid-train"],
    }
    assert world.stored()["metadata"]["annotations"] == {}


async def test_a_resource_that_somebody_else_controls_is_said_once() -> None:
    world = world_of(
        TOPOLOGY, pcs(), gang(), resource(COMPUTE_DOMAIN, owner("PodGang", "train-1", "uid-1"))
    )
    await world.reconcile()
    await world.reconcile()
    assert await world.happened() == ["MnnvlResourcesForeign"]
    (event,) = world.client.objects(EVENT)
    assert event["note"].endswith("PodCliqueSet: kubectl -n ns edit computedomain train-0")
    assert "series" not in event
    assert world.stored()["metadata"]["annotations"]["grove.io/mnnvl-resources-adopted"] == "false"


async def test_base_and_scaled_podgangs_take_just_their_own() -> None:
    scaled = {
        "grove.io/podgang": "train-0-pool-0",
        "grove.io/pcsg-name": "pool",
        "grove.io/pcsg-replica-index": "1",
    }
    world = world_of(
        TOPOLOGY, pcs(), gang(), *BOTH, resource(COMPUTE_DOMAIN, BY_PCS, "train-0-pool-1", **scaled)
    )
    await world.reconcile()
    assert world.owners()["ComputeDomain train-0-pool-1"] == ["uid-train"]
    assert world.owners()["ComputeDomain train-0"] == ["uid-gang"]


CRASHES: list[tuple[str, Resource, bool]] = [
    ("patch", COMPUTE_DOMAIN, False),
    ("patch", COMPUTE_DOMAIN, True),
    ("patch", RESOURCE_CLAIM, False),
    ("patch", RESOURCE_CLAIM, True),
    ("patch", POD_GANG, False),
    ("patch", POD_GANG, True),
]


@pytest.mark.untraced
@pytest.mark.parametrize(("verb", "kind", "after_effect"), CRASHES)
@pytest.mark.parametrize(
    "error", [Unavailable("down", code=500), Conflict("changed", code=409, reason="Conflict")]
)
async def test_whatever_write_fails_or_is_lost_on_its_way_the_next_leader_ends_in_the_same_state(
    verb: str, kind: Resource, after_effect: bool, error: ClusterError
) -> None:
    client = MemoryClient([TOPOLOGY, pcs(), gang(), *BOTH])
    client.fail_next(verb, kind, error, after_effect=after_effect)
    with pytest.raises(ClusterError):
        await World(client).reconcile()
    second = World(client)
    await second.reconcile()
    assert second.owners() == {
        "ComputeDomain train-0": ["uid-gang"],
        "ResourceClaim train-0": ["uid-gang"],
    }
    assert second.stored()["metadata"]["annotations"]["grove.io/mnnvl-resources-adopted"] == "true"
    assert packs(second.stored()) == [{"required": RACK, "preferred": HOST}, {"preferred": HOST}]
    third = World(client)
    before = len(client.writes())
    await third.reconcile()
    assert len(client.writes()) == before


class Contrary(MemoryClient):
    """Something takes our constraints away with each write, as a stale webhook would."""

    async def patch(self, ref: ObjectRef, *arguments: Any, **options: Any) -> Object:
        stored = await super().patch(ref, *arguments, **options)
        if ref.resource != POD_GANG:
            return stored
        gang_ref = ObjectRef(POD_GANG, "train-0", "ns")
        return await super().patch(gang_ref, {"spec": {"topologyConstraint": None}})


async def test_a_fight_is_seen_said_and_not_fought() -> None:
    world = World(
        Contrary([TOPOLOGY, pcs(), gang()]),
        rewrites=Rewrites(tolerated=3, window=60, clock=lambda: 0.0),
    )
    steps = [await world.reconciler.reconcile(KEY) for _ in range(6)]
    assert steps == [CONTESTED_SECONDS] * 4 + [60, 60]
    # the first wrote more than what was taken away
    assert world.writes().count(("patch", "PodGang")) == 2 * 4
    assert await world.happened() == ["PodGangContested"]
    assert world.reconciler.writing.rewrites.fights == 2


@pytest.mark.statement("1.137")
async def test_a_podcliqueset_that_is_changed_again_and_again_is_no_fight() -> None:
    world = world_of(
        TOPOLOGY, pcs("rack"), gang(), rewrites=Rewrites(tolerated=2, window=60, clock=lambda: 0.0)
    )
    for domain, key in (("rack", RACK), ("host", HOST), (None, None), ("rack", RACK)):
        (changed,) = world.client.load([pcs(domain)])
        world.stores[SETS].note(changed)
        assert await world.reconcile() is None
        assert packs(world.stored())[0] == {"preferred": HOST} | ({"required": key} if key else {})


@pytest.mark.parametrize(
    ("change", "keys"),
    [
        pytest.param(
            lambda world: world.gangs.note(_newer(gang(uid="other"))), [KEY], id="the PodGang"
        ),
        pytest.param(
            lambda world: world.stores[SETS].note(_newer(pcs("host"))), [KEY], id="its PodCliqueSet"
        ),
        pytest.param(
            lambda world: world.stores[SETS].note(_newer(pcs("host", "other"))),
            [],
            id="another PodCliqueSet",
        ),
        pytest.param(
            lambda world: world.stores[TOPOLOGIES].note(_newer(_other_levels())),
            [KEY],
            id="the ClusterTopology",
        ),
        pytest.param(
            lambda world: world.stores[DOMAINS].note(
                _newer(resource(COMPUTE_DOMAIN, BY_PCS, "train-0-cd"))
            ),
            [KEY],
            id="a resource of it",
        ),
        pytest.param(
            lambda world: world.stores[CLAIMS].note(_newer(_without_podgang())),
            [KEY],
            id="one that names no PodGang",
        ),
    ],
)
def test_what_a_podgang_depends_on_leads_to_a_look_at_it(
    change: Callable[[World], None], keys: Iterable[tuple[str, str]]
) -> None:
    world = world_of(TOPOLOGY, pcs(), gang())
    looked: list[tuple[str, str]] = []

    class Noted(Loop):
        def add(self, key: tuple[str, str], *_: object) -> None:
            looked.append(key)

    loop = Noted(world.reconciler)
    subscribe(loop, world.stores, "grove-topology")
    subscribe_to_resources(loop, world.stores, world.cliques)
    change(world)
    assert looked == keys
    assert world.reconciler.all_keys() == [KEY]


def _newer(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": "1000"}}


def _other_levels() -> Object:
    return builders.cluster_topology("grove-topology", rack=RACK)


def _without_podgang() -> Object:
    claim = resource(RESOURCE_CLAIM, BY_PCS, "train-0-mnnvl-claim")
    del claim["metadata"]["labels"]["grove.io/podgang"]
    return claim


BINDINGS = {**EVERYTHING, CLUSTER_TOPOLOGY_BINDING: "v1alpha1"}
"""A cluster that serves both of Grove's topology APIs."""


@pytest.mark.parametrize("enabled", [True, False], ids=["topology enabled", "topology disabled"])
@pytest.mark.parametrize(
    "constrained", [True, False], ids=["with Grove's constraints", "without constraints"]
)
async def test_grove_writes_the_constraints_itself_where_bindings_are_served(
    enabled: bool, constrained: bool
) -> None:
    stored = gang(annotations={"grove.io/topology-name": "theirs"})
    if constrained:
        stored["spec"]["topologyConstraint"] = {"packConstraint": {"required": RACK}}
        stored["spec"]["topologyConstraintGroupConfigs"] = [
            {"name": "g", "podGroupNames": ["train-0-worker"]}
        ]
    world = World(MemoryClient([TOPOLOGY, pcs(), stored], served=BINDINGS), enabled=enabled)
    await world.reconcile()
    assert world.writes() == []
    assert world.stored()["spec"] == stored["spec"]


async def test_constraints_are_ours_again_once_bindings_are_no_longer_served() -> None:
    world = World(MemoryClient([TOPOLOGY, pcs(), gang()], served=BINDINGS))
    await world.reconcile()
    assert world.writes() == []
    del world.client.served[CLUSTER_TOPOLOGY_BINDING]
    await world.reconcile()
    assert world.writes() == [("patch", "PodGang")]


async def test_without_any_topology_api_constraints_stay_as_they_are() -> None:
    stored = gang()
    stored["spec"]["topologyConstraint"] = {"packConstraint": {"required": RACK}}
    served = {
        resource: version
        for resource, version in BINDINGS.items()
        if "clustertopolog" not in resource.plural
    }
    world = World(MemoryClient([pcs(), stored], served=served), enabled=False)
    await world.reconcile()
    assert world.writes() == []

"""MNNVL resources over a cluster in memory: what is made again, what is taken away, and what is
left alone.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from jsonpatch import apply_patch

from app.cluster.cluster import Cluster
from app.cluster.filled import fill_from
from app.cluster.leader_rows import CLIQUES, UNIT_PODS
from app.cluster.pods import ClaimUsers
from app.cluster.units import UnitOwners
from app.facts.kinds import (
    CLUSTER_TOPOLOGY_BINDING,
    COMPUTE_DOMAIN,
    POD_CLIQUE,
    POD_CLIQUE_SCALING_GROUP,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GANG_MAP,
    RESOURCE_CLAIM,
)
from app.facts.rows import CLAIMS, DOMAINS, GANGS, SETS
from app.kube.api import (
    Conflict,
    Object,
    ObjectRef,
    Page,
    Rejected,
    Selection,
    Unavailable,
    WatchEvent,
)
from app.kube.competing_writers import Rewrites
from app.kube.discovery import Discovery
from app.kube.events import Recorder
from app.kube.loop import Loop
from app.objects.resource import EVENT, POD
from app.objects.shape import labels_of
from app.reconcilers.mnnvl_resources import (
    IN_USE_SECONDS,
    NOT_OURS_SECONDS,
    SETTLE_SECONDS,
    MnnvlResourcesReconciler,
    subscribe,
    subscribe_to_apis,
)
from app.reconcilers.writing import Writing
from app.rules.mnnvl.plan import desired_resource
from app.stores.stores import Stores, fill
from tests import builders
from tests.builders import injection_into
from tests.cluster.offline import configured
from tests.kube.memory.client import EVERYTHING, MemoryClient

KEY = ("ns", "train-0")
AFTER = 300.0


def pcs(uid: str = "u", **metadata: Any) -> Object:
    obj = builders.pod_clique_set("train")
    return {**obj, "metadata": {**obj["metadata"], "namespace": "ns", "uid": uid, **metadata}}


def clique(
    name: str = "train-0-worker", mode: Any = "shared", uid: str = "u", **metadata: Any
) -> Object:
    """A PodClique as it is stored after admission."""
    obj = builders.pod_clique(name, builders.labels("train", 0, "train-0"))
    owner = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "train", "uid": uid}
    obj["metadata"] |= {"namespace": "ns", "ownerReferences": [owner], **metadata}
    patched: dict[str, Any] = apply_patch(obj, list(injection_into(obj, "ns", mode).patch))
    return patched


PLAN = injection_into(clique(), "ns", "shared").plan
assert PLAN is not None
DOMAIN = desired_resource(PLAN, COMPUTE_DOMAIN, "v1beta1")
CLAIM = desired_resource(PLAN, RESOURCE_CLAIM, "v1")
DELETED: Any = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}


def changed(obj: Object, **metadata: Any) -> Object:
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


def pod(name: str, phase: str = "Running") -> Object:
    claims = [{"name": "mnnvl", "resourceClaimName": "train-0-mnnvl-claim"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"resourceClaims": claims},
        "status": {"phase": phase},
    }


class World:
    """A cluster in memory, caches filled from it once, and a reconciler: one life of a leader."""

    def __init__(
        self,
        *objects: Object,
        collect_after: float = AFTER,
        later: bool = False,
        client: type[MemoryClient] = MemoryClient,
    ) -> None:
        self.now = 0.0
        signs = (CLUSTER_TOPOLOGY_BINDING, POD_GANG_MAP) if later else ()
        served = {**EVERYTHING, **dict.fromkeys(signs, "v1alpha1")}
        self.client = client(objects, served=served)
        cluster = Cluster(self.client, configured("grove-topology", False))
        fill_from(cluster, self.client.objects)
        self.stores = cluster.stores
        self.owners = cluster.owners
        self.cliques = Stores((CLIQUES,))[CLIQUES]
        fill(self.cliques, self.client.objects(POD_CLIQUE))
        self.pods = Stores((UNIT_PODS,))[UNIT_PODS]
        self.pods_changed()
        self.events = Recorder(self.client, "test")
        self.rewrites = Rewrites(tolerated=2, clock=lambda: self.now)
        self.reconciler = MnnvlResourcesReconciler(
            Writing(self.client, self.events, self.rewrites),
            self.cliques,
            cluster.facts,
            self.stores,
            cluster.resources,
            self.owners,
            pods=self.pods,
            units=UnitOwners(self.client),
            users=ClaimUsers(self.client, lambda: self.now, lambda: 0.0),
            collect_after=collect_after,
            clock=lambda: self.now,
        )

    def pods_changed(self) -> None:
        """The cache of Pods shows what is stored."""
        self.pods.forget()
        pods = self.client.objects(POD)
        fill(self.pods, [pod for pod in pods if "grove.io/mnnvl-unit" in labels_of(pod)])

    async def look(self, later: float = 0.0, key: tuple[str, str] = KEY) -> float | None:
        self.now += later
        return await self.reconciler.reconcile(key)

    def writes(self) -> list[tuple[str, str]]:
        return [
            (call.verb, call.resource.kind)
            for call in self.client.writes()
            if call.resource != EVENT
        ]

    async def happened(self) -> list[str]:
        running = asyncio.create_task(self.events.run())
        await self.events.written()
        running.cancel()
        return sorted(event["reason"] for event in self.client.objects(EVENT))


CREATE_DOMAIN = ("create", "ComputeDomain")
CREATE_CLAIM = ("create", "ResourceClaim")


@pytest.mark.parametrize(
    ("objects", "writes"),
    [
        pytest.param([pcs(), clique()], [CREATE_DOMAIN, CREATE_CLAIM], id="both are missing"),
        pytest.param([pcs(), clique(), DOMAIN], [CREATE_CLAIM], id="the claim is missing"),
        pytest.param([pcs(), clique(), CLAIM], [CREATE_DOMAIN], id="the ComputeDomain is missing"),
        pytest.param(
            [pcs(), clique(mode="template")], [CREATE_DOMAIN], id="a template needs no claim"
        ),
        pytest.param(
            [pcs(), clique(mode="template"), clique("train-0-leader")],
            [CREATE_DOMAIN, CREATE_CLAIM],
            id="a template beside a shared claim",
        ),
        pytest.param([pcs(), clique(), DOMAIN, CLAIM], [], id="all is there"),
        pytest.param(
            [pcs(), clique(), changed(DOMAIN, **DELETED), CLAIM],
            [],
            id="the old one is on its way out",
        ),
        pytest.param([pcs(), clique(**DELETED)], [], id="the PodClique is being deleted"),
        pytest.param([pcs("new"), clique()], [], id="the PodClique is of a former set"),
        pytest.param([pcs(**DELETED), clique()], [], id="the set is being deleted"),
        pytest.param([clique()], [], id="the set is unknown"),
    ],
)
async def test_what_is_made_again(objects: list[Object], writes: list[tuple[str, str]]) -> None:
    world = World(*objects)
    assert await world.look() is None
    assert world.writes() == writes
    assert await world.look() is None
    assert world.writes() == writes
    assert await world.happened() == (["MnnvlResourcesRestored"] if writes else [])
    for event in world.client.objects(EVENT):
        assert event["note"].startswith("created missing resources that PodCliques use: ")


async def test_what_is_made_again_is_what_admission_made() -> None:
    world = World(pcs(), clique())
    await world.look()
    for resource, admitted in ((COMPUTE_DOMAIN, DOMAIN), (RESOURCE_CLAIM, CLAIM)):
        (restored,) = world.client.objects(resource)
        metadata = {key: restored["metadata"][key] for key in admitted["metadata"]}
        assert {**restored, "metadata": metadata} == admitted


async def test_what_the_cache_does_not_show_is_not_made_twice() -> None:
    world = World(pcs(), clique())
    world.client.load([DOMAIN, CLAIM])
    assert await world.look() is None
    assert await world.happened() == []
    assert [len(world.stores[DOMAINS]), len(world.stores[CLAIMS])] == [1, 1]


async def test_a_foreign_object_in_the_way_is_reported_once() -> None:
    world = World(pcs(), clique())
    world.client.load([changed(DOMAIN, labels={})])
    for _ in range(2):
        assert await world.look() == NOT_OURS_SECONDS
    assert await world.happened() == ["MnnvlResourcesMissing"]
    (event,) = world.client.objects(EVENT)
    assert "series" not in event
    assert event["note"].startswith(
        'ComputeDomain "train-0-cd" exists in namespace ns, but was not created for this'
    )
    await world.client.delete(ObjectRef(COMPUTE_DOMAIN, "train-0-cd", "ns"))
    assert await world.look() is None
    assert await world.happened() == ["MnnvlResourcesMissing", "MnnvlResourcesRestored"]


async def test_an_api_that_is_missing_is_reported() -> None:
    world = World(pcs(), clique())
    del world.client.served[COMPUTE_DOMAIN]
    assert await world.look() == NOT_OURS_SECONDS
    assert await world.happened() == ["MnnvlResourcesMissing"]


async def test_what_is_deleted_again_and_again_is_left_alone_for_a_while() -> None:
    world = World(pcs(), clique(mode="template"))
    for _ in range(2):
        assert await world.look() is None
        (domain,) = world.client.objects(COMPUTE_DOMAIN)
        await world.client.delete(ObjectRef(COMPUTE_DOMAIN, "train-0-cd", "ns"))
        gone = {**domain["metadata"], "resourceVersion": "999999"}
        world.stores[DOMAINS].apply(WatchEvent("DELETED", {**domain, "metadata": gone}))
        world.stores[DOMAINS]._version = 0
    assert await world.look() == 120.0
    assert await world.happened() == ["MnnvlResourcesContested", "MnnvlResourcesRestored"]
    assert await world.look(later=120.0) is None
    assert world.client.objects(COMPUTE_DOMAIN) != []


async def test_a_failing_api_server_is_asked_again() -> None:
    world = World(pcs(), clique())
    world.client.fail_next("create", RESOURCE_CLAIM, Unavailable("down", code=503))
    with pytest.raises(Unavailable, match="down"):
        await world.look()
    assert await world.look() is None
    assert len(world.client.objects(RESOURCE_CLAIM)) == 1


@pytest.mark.parametrize(
    ("rejection", "events"),
    [
        (Rejected("exceeded quota: claims", code=403), ["MnnvlResourcesMissing"]),
        (Rejected("spec.channel: Required value", code=422), ["MnnvlResourcesMissing"]),
        (Rejected("Unauthorized", code=401), []),
    ],
)
async def test_what_the_api_server_rejects_is_reported_once_and_tried_again(
    rejection: Rejected, events: list[str]
) -> None:
    world = World(pcs(), clique())
    for _ in range(2):
        world.client.fail_next("create", COMPUTE_DOMAIN, rejection)
        with pytest.raises(Rejected):
            await world.look()
    assert await world.happened() == events
    assert await world.look() is None
    assert await world.happened() == [*events, "MnnvlResourcesRestored"]


DELETE_BOTH = [("delete", "ResourceClaim"), ("delete", "ComputeDomain")]


async def test_what_nobody_asks_for_is_taken_away_after_a_while() -> None:
    world = World(pcs(), DOMAIN, CLAIM)
    assert await world.look() == AFTER
    assert await world.look(later=200.0) == 100.0
    assert world.client.calls == []
    assert await world.look(later=100.0) is None
    assert world.writes() == DELETE_BOTH
    assert await world.happened() == ["MnnvlResourcesCollected"]
    (event,) = world.client.objects(EVENT)
    assert event["regarding"]["name"] == "train"
    assert "ResourceClaim train-0-mnnvl-claim, ComputeDomain train-0-cd" in event["note"]


async def test_a_deletion_is_reported_even_if_the_next_one_fails() -> None:
    world = World(pcs(), DOMAIN, CLAIM)
    await world.look()
    world.client.fail_next("delete", COMPUTE_DOMAIN, Unavailable("down", code=503))
    with pytest.raises(Unavailable, match="down"):
        await world.look(later=AFTER)
    assert await world.happened() == ["MnnvlResourcesCollected"]
    (event,) = world.client.objects(EVENT)
    assert event["note"].endswith(" needs: ResourceClaim train-0-mnnvl-claim")


async def test_a_shared_claim_is_taken_away_once_all_podcliques_name_the_template() -> None:
    running = pod("running")
    running["spec"]["resourceClaims"] = [
        {"name": "mnnvl", "resourceClaimTemplateName": "train-0-mnnvl-template"}
    ]
    world = World(pcs(), DOMAIN, CLAIM, clique(mode="template"), running)
    assert await world.look() == AFTER
    assert await world.look(later=AFTER) is None
    assert world.writes() == [("delete", "ResourceClaim")]


class WithManyPods(MemoryClient):
    """What `arriving` does happens while Pods are listed."""

    arriving: Callable[[], None]

    async def list(
        self, selection: Selection, *, limit: int = 500, continue_token: str = ""
    ) -> Page:
        if selection.resource == POD:
            self.arriving()
        return await super().list(selection, limit=limit, continue_token=continue_token)


@pytest.mark.parametrize(
    ("arrived", "writes"),
    [
        pytest.param([clique()], [], id="both are needed again"),
        pytest.param(
            [clique(mode="template")], [("delete", "ResourceClaim")], id="only the ComputeDomain is"
        ),
        pytest.param([], [("delete", "ResourceClaim"), ("delete", "ComputeDomain")], id="none"),
    ],
)
async def test_what_is_needed_again_while_pods_are_listed_stays(
    arrived: list[Object], writes: list[tuple[str, str]]
) -> None:
    world = World(pcs(), DOMAIN, CLAIM, client=WithManyPods)
    assert isinstance(world.client, WithManyPods)
    world.client.arriving = lambda: fill(world.cliques, arrived)
    await world.look()
    await world.look(later=AFTER)
    assert world.writes() == writes


async def test_a_shared_claim_stays_while_one_podclique_names_it() -> None:
    world = World(pcs(), DOMAIN, CLAIM, clique(mode="template"), clique("train-0-leader"))
    assert await world.look() is None
    assert await world.look(later=2 * AFTER) is None
    assert world.writes() == []


async def test_a_compute_domain_keeps_its_time_if_it_is_needed_longer_than_the_claim() -> None:
    world = World(pcs(), DOMAIN, CLAIM, clique(mode="template"), pod("running"))
    await world.look()
    assert await world.look(later=AFTER) == IN_USE_SECONDS
    fill(world.cliques, [])
    world.cliques.begin_list()
    world.cliques.drop_unlisted(world.cliques.known_keys(), "99999")
    assert await world.look() == AFTER


async def test_whoever_asks_again_begins_anew() -> None:
    world = World(pcs(), DOMAIN, CLAIM)
    assert await world.look() == AFTER
    fill(world.cliques, [clique()])
    assert await world.look(later=200.0) is None
    world.cliques.forget()
    fill(world.cliques, [])
    assert await world.look(later=200.0) == AFTER
    assert world.client.calls == []


@pytest.mark.parametrize(
    ("objects", "again"),
    [
        pytest.param([pod("user")], IN_USE_SECONDS, id="a pod names it"),
        pytest.param([pod("user", "Pending")], IN_USE_SECONDS, id="a pod that waits names it"),
        pytest.param([pod("done", "Succeeded")], None, id="a pod that has ended names it"),
        pytest.param(
            [{**CLAIM, "status": {"reservedFor": [{"name": "x"}]}}],
            IN_USE_SECONDS,
            id="a pod reserves it",
        ),
    ],
)
async def test_what_a_pod_uses_stays(objects: list[Object], again: float | None) -> None:
    world = World(pcs(), DOMAIN, CLAIM, *objects)
    await world.look()
    assert await world.look(later=AFTER) == again
    assert world.writes() == ([] if again else DELETE_BOTH)


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(
            changed(
                DOMAIN, labels={**DOMAIN["metadata"]["labels"], "app.kubernetes.io/managed-by": "x"}
            ),
            id="somebody's",
        ),
        pytest.param(
            changed(DOMAIN, ownerReferences=[{"kind": "Pod", "name": "p", "uid": "p"}]),
            id="made for a pod",
        ),
        pytest.param(changed(DOMAIN, **DELETED), id="on its way out"),
        pytest.param(changed(DOMAIN, name="other"), id="of another name"),
    ],
)
async def test_what_is_not_ours_is_never_taken_away(obj: Object) -> None:
    world = World(pcs(), obj)
    await world.look()
    await world.look(later=AFTER)
    assert world.writes() == []


async def test_nothing_is_taken_away_where_that_is_switched_off() -> None:
    world = World(pcs(), DOMAIN, CLAIM, collect_after=0.0)
    assert await world.look() is None
    assert await world.look(later=1e6) is None
    assert world.client.calls == []


async def test_what_has_gone_meanwhile_needs_no_deletion() -> None:
    world = World(pcs(), DOMAIN, CLAIM)
    await world.look()
    await world.client.delete(ObjectRef(RESOURCE_CLAIM, "train-0-mnnvl-claim", "ns"))
    assert await world.look(later=AFTER) is None
    assert world.writes() == DELETE_BOTH


async def test_what_changes_in_that_moment_stays() -> None:
    world = World(pcs(), DOMAIN, CLAIM)
    await world.look()
    world.client.fail_next(
        "delete", RESOURCE_CLAIM, Conflict("changed", code=409, reason="Conflict")
    )
    with pytest.raises(Conflict):
        await world.look(later=AFTER)
    assert len(world.client.objects(COMPUTE_DOMAIN)) == 1


async def test_without_an_owner_there_is_nobody_to_tell() -> None:
    world = World(changed(DOMAIN, ownerReferences=[]), changed(CLAIM, ownerReferences=[]))
    await world.look()
    await world.look(later=AFTER)
    assert world.writes() == DELETE_BOTH
    assert await world.happened() == []


async def test_nothing_is_done_before_podcliques_are_known() -> None:
    world = World(pcs(), DOMAIN, CLAIM)
    world.cliques.forget()
    assert await world.look() == SETTLE_SECONDS
    world.cliques.mark_not_served()
    assert await world.look(later=AFTER) is None
    assert world.client.calls == []


async def test_every_page_of_pods_is_looked_at() -> None:
    world = World(
        pcs(), DOMAIN, CLAIM, *(pod(f"done-{n:03}", "Failed") for n in range(600)), pod("last")
    )
    await world.look()
    assert await world.look(later=AFTER) == IN_USE_SECONDS
    assert {call.resource for call in world.client.calls} == {POD}


async def test_resources_that_wait_for_the_same_pods_share_a_list_that_becomes_rarer() -> None:
    """400 ComputeDomains with our labels and 14 Pods led to 9 lists of all Pods a second."""
    domains = [
        changed(
            DOMAIN,
            name=f"train-{n}-cd",
            labels={**labels_of(DOMAIN), "grove.io/pcs-replica-index": str(n)},
        )
        for n in range(400)
    ]
    claims = [
        {"name": f"c{n}", "resourceClaimTemplateName": f"train-{n}-mnnvl-template"}
        for n in range(400)
    ]
    user = {**pod("user"), "spec": {"resourceClaims": claims}}
    world = World(pcs(), *domains, user)
    keys = sorted(world.reconciler.all_keys())
    assert len(keys) == 400
    for key in keys:
        await world.look(key=key)

    lists: list[int] = []
    world.now += AFTER
    for _ in range(120):  # an hour
        before = len(world.client.calls)
        for key in keys:
            assert await world.look(key=key) == IN_USE_SECONDS
        lists.append(len(world.client.calls) - before)
        world.now += IN_USE_SECONDS
    assert lists[:8] == [1, 1, 0, 1, 0, 0, 0, 1]
    assert sum(lists) < 15

    await world.client.delete(ObjectRef(POD, "user", "ns"))
    world.now += 600
    for key in keys:
        assert await world.look(key=key) is None
    assert world.client.objects(COMPUTE_DOMAIN) == []


class Added(Loop):
    """Records what is looked at."""

    def __init__(self, world: World) -> None:
        super().__init__(world.reconciler)
        self.keys: dict[Any, float] = {}

    def add(self, key: Any, *_: object) -> None:
        self.keys[key] = 0.0

    def add_after(self, key: Any, seconds: float) -> None:
        self.keys.setdefault(key, seconds)


@pytest.mark.parametrize(
    ("store", "events"),
    [
        pytest.param(CLIQUES, [("ADDED", clique())], id="a PodClique comes"),
        pytest.param(DOMAINS, [("ADDED", DOMAIN)], id="a ComputeDomain comes"),
        pytest.param(CLAIMS, [("ADDED", CLAIM), ("DELETED", CLAIM)], id="a claim goes"),
        pytest.param(SETS, [("MODIFIED", pcs(uid="new"))], id="the set is recreated"),
    ],
)
async def test_what_leads_to_a_look(store: Any, events: Iterable[tuple[Any, Object]]) -> None:
    world = World(pcs(), clique("train-0-leader")) if store is SETS else World()
    loop = Added(world)
    subscribe(loop, world.cliques, world.pods, world.stores, world.owners)
    changing: Any = world.cliques if store is CLIQUES else world.stores[store]
    for number, (kind, obj) in enumerate(events):
        changing.apply(
            WatchEvent(kind, changed(obj, namespace="ns", resourceVersion=str(100 + number)))
        )
    assert loop.keys == {KEY: SETTLE_SECONDS}


async def test_a_resource_that_is_deleted_leads_to_a_look() -> None:
    stored = changed(DOMAIN, namespace="ns", resourceVersion="100")
    world = World(pcs(), clique(), stored)
    loop = Added(world)
    subscribe(loop, world.cliques, world.pods, world.stores, world.owners)
    world.stores[DOMAINS].apply(WatchEvent("DELETED", stored))
    assert loop.keys == {KEY: SETTLE_SECONDS}


async def test_a_resource_with_a_name_of_no_unit_leads_to_no_look() -> None:
    stored = changed(CLAIM, name="generated", namespace="ns", resourceVersion="100")
    world = World()
    loop = Added(world)
    subscribe(loop, world.cliques, world.pods, world.stores, world.owners)
    world.stores[CLAIMS].apply(WatchEvent("ADDED", stored))
    assert loop.keys == {}


async def test_an_api_that_is_installed_leads_to_a_look_at_everything() -> None:
    world = World(pcs(), clique())
    loop = Added(world)
    answers: dict[str, Object] = {"/apis": {"groups": []}}

    async def read(path: str) -> Object:
        return answers[path]

    discovery = Discovery(read, (COMPUTE_DOMAIN,))
    await discovery.refresh()
    subscribe_to_apis(loop, discovery)
    group = COMPUTE_DOMAIN.group
    version = COMPUTE_DOMAIN.versions[0]
    answers["/apis"] = {"groups": [{"name": group, "versions": [{"version": version}]}]}
    answers[f"/apis/{group}/{version}"] = {"resources": [{"name": COMPUTE_DOMAIN.plural}]}
    await discovery.refresh()
    assert loop.keys == {KEY: SETTLE_SECONDS}


async def test_all_keys_are_those_of_cliques_and_of_resources() -> None:
    other = changed(DOMAIN, name="train-1-cd")
    world = World(pcs(), clique(), other, changed(CLAIM, name="generated"))
    assert world.reconciler.all_keys() == {KEY, ("ns", "train-1")}


async def test_a_missing_resource_is_made_as_soon_as_a_list_shows_its_podclique_after_the_api_came_back() -> (
    None
):
    world = World(pcs(), clique())
    world.cliques.mark_not_served()
    world.cliques.begin_list()
    world.cliques.take_listed(world.client.objects(POD_CLIQUE))
    assert await world.look() is None
    assert world.writes() == [CREATE_DOMAIN, CREATE_CLAIM]


async def test_a_process_that_leads_again_waits_again_before_it_takes_anything_away() -> None:
    world = World(pcs(), DOMAIN, CLAIM)
    assert await world.look() == AFTER
    world.reconciler.begin()
    assert await world.look(later=2 * AFTER) == AFTER
    assert world.writes() == []


# Two sets whose names make the same base name.

SHARED_KEY = ("ns", "train-0-pool-2")


def set_called(name: str, uid: str, **metadata: Any) -> Object:
    obj = builders.pod_clique_set(name)
    return {**obj, "metadata": {**obj["metadata"], "namespace": "ns", "uid": uid, **metadata}}


def in_group(name: str) -> Object:
    """A PodClique of the set `train`, whose scaling group owns it."""
    labels = builders.labels("train", 0, "train-0", "pool", 2)
    obj = builders.pod_clique(f"train-0-pool-2-{name}", labels, scope="scalingGroupReplica")
    return claimed(obj, POD_CLIQUE_SCALING_GROUP.owner_reference("train-0-pool", "group"))


def of_other(name: str) -> Object:
    """A PodClique of the set `train-0-pool`."""
    labels = builders.labels("train-0-pool", 2, "train-0-pool-2")
    obj = builders.pod_clique(f"train-0-pool-2-{name}", labels)
    return claimed(obj, POD_CLIQUE_SET.owner_reference("train-0-pool", "other"))


def claimed(obj: Object, owner: Object) -> Object:
    obj["metadata"] |= {"namespace": "ns", "ownerReferences": [owner]}
    patched: dict[str, Any] = apply_patch(obj, list(injection_into(obj, "ns", "shared").patch))
    return patched


OTHER = set_called("train-0-pool", "other")
OTHER_PLAN = injection_into(of_other("a"), "ns", "shared").plan
assert OTHER_PLAN is not None


@pytest.mark.parametrize(
    ("objects", "owner"),
    [
        pytest.param([pcs(), OTHER], ("train", "u"), id="the first by its name"),
        pytest.param([OTHER], ("train-0-pool", "other"), id="the other does not exist"),
        pytest.param(
            [pcs(**DELETED), OTHER], ("train-0-pool", "other"), id="the other is being deleted"
        ),
        pytest.param(
            [pcs(), OTHER, desired_resource(OTHER_PLAN, COMPUTE_DOMAIN, "v1beta1")],
            ("train-0-pool", "other"),
            id="the one that has the ComputeDomain",
        ),
    ],
)
@pytest.mark.parametrize("names", ["ab", "ba"])
async def test_of_two_sets_one_gets_what_both_would_name_alike(
    objects: list[Object], owner: tuple[str, str], names: str
) -> None:
    world = World(*objects, in_group(names[0]), of_other(names[1]))
    await world.reconciler.reconcile(SHARED_KEY)
    (made,) = world.client.objects(RESOURCE_CLAIM)
    (reference,) = made["metadata"]["ownerReferences"]
    assert (reference["name"], reference["uid"]) == owner
    assert made["metadata"]["labels"]["grove.io/pcs-name"] == owner[0]


# Given back.


def podgang(name: str = "train-0", uid: str = "g", set_uid: str = "u") -> Object:
    obj = builders.pod_gang(name, builders.gang_labels("train"), "train-0-worker")
    owner = POD_CLIQUE_SET.owner_reference("train", set_uid)
    obj["metadata"] |= {"namespace": "ns", "uid": uid, "ownerReferences": [owner]}
    return obj


def owned(obj: Object, *owners: Object) -> Object:
    return changed(obj, ownerReferences=list(owners))


def of_gone_anchor(obj: Object) -> Object:
    """`obj` as an earlier version left it."""
    anchor = "train-0-1700000000000000000"
    labels = {**obj["metadata"]["labels"], "grove.io/podgang": anchor}
    return changed(obj, labels=labels, ownerReferences=[POD_GANG.owner_reference(anchor, "gone")])


BY_GANG = POD_GANG.owner_reference("train-0", "g")
BY_TAIL = POD_GANG.owner_reference("train-0-1700000000000000001-pool-2", "tail")
OWNED = [owned(DOMAIN, BY_GANG), owned(CLAIM, BY_GANG)]
GIVEN = [("patch", "ComputeDomain"), ("patch", "ResourceClaim")]


@pytest.mark.parametrize(
    ("objects", "writes"),
    [
        pytest.param([pcs(), podgang(), clique(), *OWNED], GIVEN, id="a PodGang owns both"),
        pytest.param([pcs(), podgang(), *OWNED], GIVEN, id="no PodClique asks for them any more"),
        pytest.param([pcs(), clique(), *OWNED], GIVEN, id="the PodGang is gone"),
        pytest.param(
            [pcs(), podgang(), clique(), owned(DOMAIN, BY_TAIL), CLAIM],
            GIVEN[:1],
            id="a tail owns the ComputeDomain of its replica",
        ),
        pytest.param(
            [pcs(), podgang(), clique(), owned(DOMAIN), CLAIM], GIVEN[:1], id="nobody owns one"
        ),
        pytest.param(
            [pcs(), podgang(), clique(), of_gone_anchor(DOMAIN), CLAIM],
            GIVEN[:1],
            id="after a rollback, it names an anchor that is gone",
        ),
        pytest.param([pcs(), podgang(), clique(), DOMAIN, CLAIM], [], id="the set owns both"),
        pytest.param(
            [pcs("new"), podgang(set_uid="u"), *OWNED], [], id="the PodGang is of a former set"
        ),
        pytest.param([pcs(**DELETED), podgang(), *OWNED], [], id="the set is being deleted"),
        pytest.param([podgang(), *OWNED], [], id="the set is gone"),
    ],
)
async def test_what_podgangs_own_is_given_back(
    objects: list[Object], writes: list[tuple[str, str]]
) -> None:
    world = World(*objects, later=True)
    await world.look()
    assert world.writes() == writes
    await world.look()
    assert world.writes() == writes
    assert await world.happened() == ["MnnvlResourcesGivenBack"] * len(writes)


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param([], id="the set is gone"),
        pytest.param([pcs(**DELETED)], id="the set is being deleted"),
        pytest.param([pcs("new")], id="the set was recreated"),
    ],
)
async def test_what_was_orphaned_is_not_given_to_a_set_that_only_the_cache_has(
    stored: list[Object],
) -> None:
    """The garbage collector would delete it under pods that were to stay (--cascade=orphan)."""
    world = World(*stored, clique(), owned(DOMAIN), owned(CLAIM), later=True)
    fill(world.stores[SETS], [pcs()])
    await world.look()
    assert world.writes() == []


async def test_in_the_design_podgangs_keep_what_they_own() -> None:
    world = World(pcs(), podgang(), clique(), *OWNED)
    await world.look()
    assert world.writes() == []


async def test_what_is_given_back_is_the_same_object() -> None:
    """An upgrade in place changes no uid, no reservation and no label of an earlier version."""
    reserved = {"allocation": {"devices": {}}, "reservedFor": [{"resource": "pods", "uid": "p"}]}
    labels = {**CLAIM["metadata"]["labels"], "grove.io/podgang": "train-0"}
    stored = owned(changed({**CLAIM, "status": reserved}, labels=labels, uid="kept"), BY_GANG)
    world = World(pcs(), podgang(), clique(), DOMAIN, stored, later=True)
    await world.look()
    (claim,) = world.client.objects(RESOURCE_CLAIM)
    assert claim["metadata"]["ownerReferences"] == [POD_CLIQUE_SET.owner_reference("train", "u")]
    assert (claim["metadata"]["uid"], claim["metadata"]["labels"]) == ("kept", labels)
    assert claim["status"] == reserved


async def test_a_resource_of_a_podgang_is_looked_at_at_once() -> None:
    world = World(pcs(), podgang(), later=True)
    loop = Added(world)
    subscribe(loop, world.cliques, world.pods, world.stores, world.owners)
    stored = changed(OWNED[0], namespace="ns", resourceVersion="100")
    world.stores[DOMAINS].apply(WatchEvent("ADDED", stored))
    assert loop.keys[KEY] == 0.0


async def test_an_orphan_of_a_former_set_gives_its_resources_back_at_once() -> None:
    """The garbage collector takes the former set out of its references after the new one is made."""
    world = World(pcs("new"), podgang(set_uid="u"), owned(DOMAIN, BY_GANG), later=True)
    loop = Added(world)
    subscribe(loop, world.cliques, world.pods, world.stores, world.owners)
    orphan = changed(podgang(), ownerReferences=[], resourceVersion="100")
    world.stores[GANGS].apply(WatchEvent("MODIFIED", orphan))
    assert loop.keys[KEY] == 0.0
    await world.look()
    assert world.writes() == GIVEN[:1]


async def test_resources_of_podgangs_can_be_listed_before_the_sets() -> None:
    """Caches are filled at the same time, and whoever listens must not end a list."""
    world = World(later=True)
    subscribe(Added(world), world.cliques, world.pods, world.stores, world.owners)
    world.stores[SETS].forget()
    fill(world.stores[DOMAINS], [changed(OWNED[0], namespace="ns", resourceVersion="100")])
    assert world.stores[DOMAINS].synced

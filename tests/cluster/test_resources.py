"""The races around ComputeDomains and ResourceClaims, over a cluster in memory.

Tests `app/stores/stores.py`.
"""

import asyncio
import copy
from typing import Any

import pytest
from msgspec.structs import replace

from app.cluster.resources import NotOurs
from app.facts.grove.podcliqueset import MOST_PARTS
from app.facts.grove.unit_member import read_carrier_of_pod
from app.facts.identity import Place
from app.facts.kinds import (
    COMPUTE_DOMAIN,
    LEADER_WORKER_SET,
    POD_CLIQUE_SET,
    POD_GANG,
    RESOURCE_CLAIM,
)
from app.facts.rows import CLAIMS, DOMAINS, SETS
from app.kube.api import Conflict, ObjectRef, Unavailable, WatchEvent
from app.kube.store import WatchStore
from app.rules.mnnvl.claim import CliqueFacts, inject
from app.rules.mnnvl.plan import Plan, desired_resource
from app.stores.stores import fill
from tests import pods
from tests.builders import injection_into
from tests.cluster.mnnvl import (
    BY_GANG,
    BY_SET,
    DELETED,
    GANG,
    LABELS,
    MANAGED,
    SET,
    claim,
    domain,
    gang,
)
from tests.cluster.offline import OfflineCluster


def plan(owner: str | None = "u") -> Plan:
    references = (
        [{**BY_SET, "uid": owner}]
        if owner
        else [{"kind": "PodCliqueScalingGroup", "name": "x", "uid": "y"}]
    )
    container = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
    metadata = {
        "name": "pcs-0-worker",
        "labels": LABELS,
        "annotations": {"grove.io/mnnvl-enabled": "true"},
        "ownerReferences": references,
    }
    injection = injection_into(
        {"metadata": metadata, "spec": {"podSpec": {"containers": [container]}}}, "ns", "shared"
    )
    assert injection.plan is not None
    return injection.plan


def changed(**changes: Any) -> dict[str, Any]:
    """Changes of a plan whose PodClique is another one."""
    return {"member": replace(plan().member, **changes)}


def unseen(cluster: OfflineCluster, *objects: dict[str, Any]) -> OfflineCluster:
    """`cluster` with objects that its caches haven't seen."""
    cluster.client.load(objects)
    return cluster


def verbs(cluster: OfflineCluster) -> list[str]:
    return [f"{call.verb} {call.resource.kind}" for call in cluster.client.calls]


async def test_both_are_made_and_the_next_clique_asks_nobody() -> None:
    cluster = OfflineCluster([SET])
    assert not cluster.resources.is_ensured(plan())
    created = await cluster.resources.ensure(plan(), dry_run=False)
    assert [obj["metadata"]["name"] for obj in created] == ["pcs-0-cd", "pcs-0-mnnvl-claim"]
    assert verbs(cluster) == ["get PodCliqueSet", "create ComputeDomain", "create ResourceClaim"]
    assert cluster.resources.is_ensured(plan())
    assert len(cluster.client.calls) == 3


async def test_both_are_made_in_the_versions_that_the_cluster_serves() -> None:
    cluster = OfflineCluster([SET])
    versions = {COMPUTE_DOMAIN: "v1beta9", RESOURCE_CLAIM: "v1beta2", POD_CLIQUE_SET: "v1alpha1"}
    cluster.client.served.update(versions)
    for obj in await cluster.resources.ensure(plan(), dry_run=True):
        resource = COMPUTE_DOMAIN if obj["kind"] == "ComputeDomain" else RESOURCE_CLAIM
        assert obj["apiVersion"] == f"{resource.group}/{versions[resource]}"
        # the garbage collector does not find an owner in another version
        (owner,) = obj["metadata"]["ownerReferences"]
        assert owner["apiVersion"] == "grove.io/v1alpha1"


async def test_twenty_at_once_make_one_of_each() -> None:
    cluster = OfflineCluster([SET])
    made = await asyncio.gather(
        *(cluster.resources.ensure(plan(), dry_run=False) for _ in range(20))
    )
    assert sum(map(len, made)) == 2
    assert len(cluster.client.writes()) == 2


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        pytest.param({"scope": "clique"}, "request", id="another scope"),
        pytest.param({"device_class": "example.com/other"}, "request", id="another DeviceClass"),
        pytest.param(changed(namespace="other"), "exist", id="a namespace without the set"),
        pytest.param(changed(place=Place("pcs", "1")), "request", id="a replica beyond the set"),
        pytest.param(changed(owner_uid="invented"), "deleted", id="an invented uid"),
        pytest.param(
            changed(place=Place("gone", "0"), owner_uid="invented"), "exist", id="an invented set"
        ),
    ],
)
async def test_what_the_stored_set_does_not_ask_for_is_left_to_the_leader(
    changes: dict[str, Any], why: str
) -> None:
    forged = replace(plan(), **changes)
    for cluster in (OfflineCluster([SET]), unseen(OfflineCluster(), SET)):
        with pytest.raises(Unavailable, match=why):
            await cluster.resources.ensure(forged, dry_run=False)
        assert cluster.client.writes() == []


async def test_a_set_that_is_being_deleted_gets_no_new_resources() -> None:
    """Its cache may still have it as it was."""
    leaving: Any = copy.deepcopy(SET)
    leaving["metadata"]["deletionTimestamp"] = "2026-11-28T10:00:00Z"
    for cluster in (OfflineCluster([leaving]), unseen(OfflineCluster([SET]), leaving)):
        with pytest.raises(Unavailable, match="is being deleted"):
            await cluster.resources.ensure(plan(), dry_run=False)
        assert cluster.client.writes() == []


async def test_the_parts_of_an_oversized_set_are_not_read_for_a_review() -> None:
    many: Any = copy.deepcopy(SET)
    many["spec"]["template"]["cliques"] *= MOST_PARTS + 1
    cluster = unseen(OfflineCluster([SET]), many)
    with pytest.raises(Unavailable, match="more than 128 cliques and scaling groups"):
        await cluster.resources.ensure(plan(), dry_run=False)
    assert cluster.client.writes() == []


async def test_a_template_needs_no_claim() -> None:
    cluster = OfflineCluster([SET])
    templated = replace(plan(), mode="template")
    await cluster.resources.ensure(templated, dry_run=False)
    assert verbs(cluster) == ["get PodCliqueSet", "create ComputeDomain"]
    assert cluster.resources.is_ensured(templated)


async def test_a_dry_run_looks_and_makes_nothing() -> None:
    cluster = OfflineCluster([SET])
    planned = await cluster.resources.ensure(plan(), dry_run=True)
    assert [obj["kind"] for obj in planned] == ["ComputeDomain", "ResourceClaim"]
    assert verbs(cluster) == ["get ComputeDomain", "get ResourceClaim"]
    assert not cluster.resources.is_ensured(plan())


async def test_what_another_server_made_first_counts() -> None:
    cluster = unseen(OfflineCluster([SET]), domain(), claim())
    assert await cluster.resources.ensure(plan(), dry_run=False) == []
    assert verbs(cluster) == [
        "get PodCliqueSet",
        "create ComputeDomain",
        "get ComputeDomain",
        "create ResourceClaim",
        "get ResourceClaim",
    ]
    assert cluster.resources.is_ensured(plan())


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("labels", "named"),
    [
        pytest.param({}, "ComputeDomain", id="somebody's"),
        pytest.param(
            {**MANAGED, "grove.io/pcs-name": "other"}, "ComputeDomain", id="another set's"
        ),
    ],
)
async def test_what_is_not_ours_is_refused_by_name(labels: Any, named: str, dry_run: bool) -> None:
    for cluster in (
        OfflineCluster([SET, domain(labels=labels)]),
        unseen(OfflineCluster([SET]), domain(labels=labels)),
    ):
        with pytest.raises(NotOurs, match=f'{named} "pcs-0-cd" exists in namespace ns'):
            await cluster.resources.ensure(plan(), dry_run=dry_run)
        assert cluster.client.objects(RESOURCE_CLAIM) == []


async def test_what_is_not_ours_is_forgotten_once_it_is_gone() -> None:
    """The watch sees only what carries our label: it would never tell that a cached stranger has
    gone.
    """
    cluster = unseen(OfflineCluster([SET]), domain(labels={}))
    for dry_run in (False, True):
        with pytest.raises(NotOurs):
            await cluster.resources.ensure(plan(), dry_run=dry_run)
    await cluster.client.delete(ObjectRef(COMPUTE_DOMAIN, "pcs-0-cd", "ns"))
    made = await cluster.resources.ensure(plan(), dry_run=False)
    assert [obj["kind"] for obj in made] == ["ComputeDomain", "ResourceClaim"]


async def test_a_scaling_group_s_resources_are_not_shared_with_a_clique_of_such_a_name() -> None:
    grouped = {**MANAGED, "grove.io/pcsg-name": "group", "grove.io/pcsg-replica-index": "0"}
    cluster = OfflineCluster([SET, domain(labels=grouped)])
    with pytest.raises(NotOurs, match="was not created for this PodCliqueSet replica"):
        await cluster.resources.ensure(plan(), dry_run=False)


FORMER = {**BY_SET, "uid": "previous"}


@pytest.mark.parametrize(
    ("objects", "text"),
    [
        pytest.param([SET, domain(**DELETED)], "is being deleted", id="on its way out"),
        pytest.param(
            [SET, domain([{**BY_SET, "uid": "old"}])], "an owner that is gone", id="of a former set"
        ),
        pytest.param(
            [SET, domain([BY_GANG])], "an owner that is gone", id="of a PodGang that is gone"
        ),
        pytest.param(
            [SET, domain([{**BY_GANG, "uid": "old"}]), GANG],
            "an owner that is gone",
            id="of a former PodGang",
        ),
        pytest.param(
            [SET, domain([BY_GANG]), {**GANG, "metadata": {**GANG["metadata"], **DELETED}}],  # type: ignore[dict-item]
            "an owner that is gone",
            id="of a PodGang on its way out",
        ),
        pytest.param(
            [
                SET,
                domain([BY_GANG]),
                {**GANG, "metadata": {**GANG["metadata"], "ownerReferences": [FORMER]}},  # type: ignore[dict-item]
            ],
            "an owner that is gone",
            id="of a PodGang of a former set",
        ),
    ],
)
async def test_what_will_not_stay_is_tried_again(objects: list[Any], text: str) -> None:
    for cluster in (OfflineCluster(objects), unseen(OfflineCluster(), *objects)):
        assert not cluster.resources.is_ensured(plan())
        with pytest.raises(Unavailable, match=text):
            await cluster.resources.ensure(plan(), dry_run=False)


@pytest.mark.parametrize(
    "owners",
    [
        pytest.param([BY_SET], id="its set"),
        pytest.param([BY_GANG], id="its PodGang"),
        pytest.param([], id="nobody"),
        pytest.param(
            [{"kind": "Thing", "name": "t", "uid": "t"}], id="something that we don't know"
        ),
    ],
)
async def test_what_is_owned_by_the_living_is_used(owners: Any) -> None:
    objects = [SET, GANG, domain(owners), claim(owners)]
    cluster = OfflineCluster(objects)
    assert await cluster.resources.ensure(plan(), dry_run=False) == []
    behind = unseen(OfflineCluster([domain(owners), claim(owners)]), SET, GANG)
    assert await behind.resources.ensure(plan(), dry_run=False) == []
    assert behind.client.writes() == []


@pytest.mark.parametrize("cached", [True, False])
async def test_a_scaling_group_has_a_set_behind_it(cached: bool) -> None:
    cluster = OfflineCluster([SET]) if cached else unseen(OfflineCluster(), SET)
    made = await cluster.resources.ensure(plan(owner=None), dry_run=False)
    assert [obj["metadata"]["ownerReferences"][0]["uid"] for obj in made] == ["u", "u"]
    reads = [call for call in cluster.client.calls if call.resource == POD_CLIQUE_SET]
    assert len(reads) == 1


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([], id="no set"),
        pytest.param(
            [{**SET, "metadata": {**SET["metadata"], **DELETED}}],  # type: ignore[dict-item]
            id="a set on its way out",
        ),
    ],
)
async def test_no_owner_no_resources(objects: list[Any]) -> None:
    cluster = OfflineCluster(objects)
    with pytest.raises(Unavailable, match='PodCliqueSet "pcs", which would own'):
        await cluster.resources.ensure(plan(owner=None), dry_run=False)
    assert cluster.client.writes() == []


@pytest.mark.parametrize("missing", [COMPUTE_DOMAIN, RESOURCE_CLAIM])
async def test_an_api_that_is_not_installed_is_a_refusal(missing: Any) -> None:
    cluster = OfflineCluster([SET])
    del cluster.client.served[missing]
    step = "install NVIDIA's DRA driver" if missing is COMPUTE_DOMAIN else "enable dynamic resource"
    with pytest.raises(NotOurs, match=f"{missing.kind} is not an API of this cluster .*{step}"):
        await cluster.resources.ensure(plan(), dry_run=False)
    assert cluster.client.calls == []


async def test_a_failing_cluster_leaves_nothing_claimed() -> None:
    cluster = OfflineCluster([SET])
    cluster.client.fail_next("create", RESOURCE_CLAIM, Unavailable("down", code=503))
    with pytest.raises(Unavailable, match="down"):
        await cluster.resources.ensure(plan(), dry_run=False)
    assert not cluster.resources.is_ensured(plan())
    assert [obj["kind"] for obj in await cluster.resources.ensure(plan(), dry_run=False)] == [
        "ResourceClaim"
    ]


async def test_there_and_gone_again_is_tried_again() -> None:
    cluster = OfflineCluster([SET])
    cluster.client.fail_next(
        "create", COMPUTE_DOMAIN, Conflict("exists", code=409, reason="AlreadyExists")
    )
    with pytest.raises(Unavailable, match="existed and has just been deleted"):
        await cluster.resources.ensure(plan(), dry_run=False)


def behind(cluster: OfflineCluster, resource: Any) -> OfflineCluster:
    """`cluster` whose cache of `resource` hasn't got its first list."""
    row = DOMAINS if resource is COMPUTE_DOMAIN else CLAIMS
    cluster.stores[row].forget()
    return cluster


@pytest.mark.parametrize("resource", [COMPUTE_DOMAIN, RESOURCE_CLAIM])
async def test_an_unfilled_cache_is_a_later_try(resource: Any) -> None:
    cluster = behind(OfflineCluster([SET, GANG, domain(), claim()]), resource)
    text = f"the cache of {resource} is not filled yet"
    with pytest.raises(Unavailable, match=text):
        cluster.resources.is_ensured(plan())
    with pytest.raises(Unavailable, match=text):
        cluster.owners.states_of(gang())
    with pytest.raises(Unavailable, match=text):
        await cluster.owners.adopt(gang(), dry_run=False)
    assert cluster.client.calls == []


async def test_a_dry_run_gives_what_a_live_one_makes() -> None:
    planned = await OfflineCluster([SET]).resources.ensure(plan(), dry_run=True)
    made = await OfflineCluster([SET]).resources.ensure(plan(), dry_run=False)
    filled_in = ("uid", "resourceVersion", "creationTimestamp", "generation")
    for obj in made:
        obj["metadata"] = {
            name: value for name, value in obj["metadata"].items() if name not in filled_in
        }
    assert planned == made


async def test_half_of_it_there_makes_the_other_half() -> None:
    cluster = OfflineCluster([SET, domain()])
    assert [obj["kind"] for obj in await cluster.resources.ensure(plan(), dry_run=False)] == [
        "ResourceClaim"
    ]
    assert verbs(cluster) == ["get PodCliqueSet", "create ResourceClaim"]


async def test_an_answer_that_was_lost_is_found_at_the_next_try() -> None:
    cluster = OfflineCluster([SET])
    cluster.client.fail_next(
        "create", COMPUTE_DOMAIN, Unavailable("cut", code=0), after_effect=True
    )
    with pytest.raises(Unavailable, match="cut"):
        await cluster.resources.ensure(plan(), dry_run=False)
    assert [obj["kind"] for obj in await cluster.resources.ensure(plan(), dry_run=False)] == [
        "ResourceClaim"
    ]
    assert len(cluster.client.objects(COMPUTE_DOMAIN)) == 1


async def test_a_first_try_that_fails_does_not_hold_up_the_others() -> None:
    cluster = OfflineCluster([SET])
    cluster.client.fail_next("create", COMPUTE_DOMAIN, Unavailable("down", code=503))
    tries = (cluster.resources.ensure(plan(), dry_run=False) for _ in range(3))
    first, *others = await asyncio.gather(*tries, return_exceptions=True)
    assert isinstance(first, Unavailable)
    assert sorted(len(created) for created in others if isinstance(created, list)) == [0, 2]
    assert cluster.resources._in_flight == {}


async def test_a_stranger_who_waits_for_the_api_server_lets_nobody_wait() -> None:
    cluster = OfflineCluster([SET])
    stranger = cluster.resources.ensure(plan(), dry_run=False, doubt="it may be anybody's")
    assert stranger.send(None) is None  # a call, which is never answered
    async with asyncio.timeout(240):
        assert len(await cluster.resources.ensure(plan(), dry_run=False)) == 2
    stranger.close()


async def test_a_cancelled_try_lets_the_next_one_in() -> None:
    cluster = OfflineCluster([SET])
    task = asyncio.ensure_future(cluster.resources.ensure(plan(), dry_run=False))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(240):
        await cluster.resources.ensure(plan(), dry_run=False)
    assert cluster.resources.is_ensured(plan())


def forget(cluster: OfflineCluster, resource: Any, obj: dict[str, Any]) -> None:
    """Lets the cache see that `obj` was deleted."""
    store = cluster.stores.by_name()[resource.plural]
    assert isinstance(store, WatchStore)
    store.apply(
        WatchEvent("DELETED", {**obj, "metadata": {**obj["metadata"], "resourceVersion": "999"}})
    )


async def test_a_replica_that_goes_and_comes_back_waits_for_the_collector() -> None:
    cluster = OfflineCluster([SET, GANG])
    await cluster.resources.ensure(plan(), dry_run=False)
    await cluster.owners.adopt(gang(), dry_run=False)
    await cluster.client.delete(ObjectRef(POD_GANG, "pcs-0", "ns"))
    forget(cluster, POD_GANG, GANG)
    with pytest.raises(
        Unavailable, match='ComputeDomain "pcs-0-cd" belongs to an owner that is gone'
    ):
        await cluster.resources.ensure(plan(), dry_run=False)
    assert [kind.kind for kind, _ in cluster.client.collect_garbage()] == [
        "ComputeDomain",
        "ResourceClaim",
    ]
    forget(cluster, COMPUTE_DOMAIN, domain())
    forget(cluster, RESOURCE_CLAIM, claim())
    assert len(await cluster.resources.ensure(plan(), dry_run=False)) == 2


@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_set_with_the_right_name_and_another_uid_is_another_set(dry_run: bool) -> None:
    newer = {**SET, "metadata": {**SET["metadata"], "uid": "new"}}  # type: ignore[dict-item]
    cluster = OfflineCluster([newer, domain(), claim()])
    assert not cluster.resources.is_ensured(plan())
    with pytest.raises(Unavailable, match="belongs to an owner that is gone"):
        await cluster.resources.ensure(plan(), dry_run=dry_run)
    assert cluster.client.writes() == []


@pytest.mark.parametrize("which", [COMPUTE_DOMAIN, RESOURCE_CLAIM])
async def test_a_read_of_an_owner_that_fails_is_no_absence(which: Any) -> None:
    made = (
        [domain([BY_GANG]), claim([BY_GANG])]
        if which is COMPUTE_DOMAIN
        else [domain(), claim([BY_GANG])]
    )
    cluster = OfflineCluster([SET, *made])
    cluster.client.fail_next("get", POD_GANG, Unavailable("API server down", code=503))
    with pytest.raises(Unavailable, match="API server down"):
        await cluster.resources.ensure(plan(), dry_run=False)


@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_clique_of_a_former_set_makes_nothing(dry_run: bool) -> None:
    cluster = OfflineCluster([SET])
    with pytest.raises(Unavailable, match='belongs to a deleted PodCliqueSet "pcs"'):
        await cluster.resources.ensure(plan(owner="previous"), dry_run=dry_run)
    assert cluster.client.writes() == []
    assert len(await cluster.resources.ensure(plan(owner="u"), dry_run=dry_run)) == 2


@pytest.mark.parametrize("owner", ["u", None], ids=["of the set", "of a scaling group"])
async def test_the_owner_is_the_set_that_is_stored_and_not_a_former_one(owner: str | None) -> None:
    """The set was deleted and created again, and the cache still has the former one."""
    cluster = OfflineCluster([SET])
    former = {**SET["metadata"], "uid": "previous"}  # type: ignore[dict-item]
    fill(cluster.stores[SETS], [{**SET, "metadata": former}])
    created = await cluster.resources.ensure(plan(owner=owner), dry_run=False)
    owners = [obj["metadata"]["ownerReferences"][0]["uid"] for obj in created]
    assert owners == ["u", "u"]


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param([], id="gone"),
        pytest.param([SET | {"metadata": {**SET["metadata"], **DELETED}}], id="being deleted"),  # type: ignore[dict-item]
        pytest.param([SET | {"metadata": {**SET["metadata"], "uid": "new"}}], id="created again"),  # type: ignore[dict-item]
    ],
)
async def test_nothing_is_restored_for_a_set_that_only_the_cache_has(stored: list[Any]) -> None:
    """The garbage collector would delete it again and again, maybe under the first pods."""
    cluster = OfflineCluster(stored)
    fill(cluster.stores[SETS], [SET])
    with pytest.raises(
        Unavailable, match='PodCliqueSet "pcs", which would own the MNNVL resources, is gone'
    ):
        await cluster.resources.restore(plan())
    assert cluster.client.writes() == []


# Units of Pods.


def unit() -> Plan:
    """The plan of a Pod of a LeaderWorkerSet, with the owner that controls it."""
    carrier = read_carrier_of_pod(pods.pod("lws-worker"), "ns")
    plan = inject(carrier, None, CliqueFacts(), "template").plan
    assert plan is not None
    return plan.owned_by("leaderworkerset-a", LEADER_WORKER_SET)


def of_unit(uid: str = "leaderworkerset-a", /, **metadata: Any) -> dict[str, Any]:
    made = desired_resource(unit().owned_by(uid, LEADER_WORKER_SET), COMPUTE_DOMAIN, "v1beta1")
    return {**made, "metadata": {**made["metadata"], "namespace": "ns", **metadata}}


async def test_a_unit_has_one_compute_domain_that_its_owner_owns() -> None:
    cluster = OfflineCluster(pods.owners())
    (created,) = await cluster.resources.ensure(unit(), dry_run=False)
    (owner,) = created["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("LeaderWorkerSet", "leaderworkerset-a")
    assert cluster.resources.is_ensured(unit())
    assert await cluster.resources.ensure(unit(), dry_run=False) == []


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        pytest.param([], "which would own the MNNVL resources, is gone", id="its owner is gone"),
        pytest.param(
            [*pods.owners(), of_unit(**DELETED)],
            "create the Pod again",
            id="going",
        ),
        pytest.param(
            [*pods.owners(), of_unit("former")],
            "belongs to an owner that is gone",
            id="of a former owner",
        ),
        pytest.param(
            [*pods.owners(), of_unit(labels={})], "was not created for this unit", id="somebody's"
        ),
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_pod_whose_unit_can_not_be_set_up_is_refused(
    stored: list[Any], text: str, dry_run: bool
) -> None:
    """Its claims never change, so it must not be created now."""
    cluster = OfflineCluster(stored)
    with pytest.raises(NotOurs, match=text):
        await cluster.resources.ensure(unit(), dry_run=dry_run)
    assert not cluster.resources.is_ensured(unit())
    assert cluster.client.writes() == []


@pytest.mark.parametrize("lives", [True, False])
async def test_a_missing_compute_domain_of_a_unit_is_restored_while_its_owner_lives(
    lives: bool,
) -> None:
    cluster = OfflineCluster(pods.owners() if lives else [])
    if lives:
        assert len(await cluster.resources.restore(unit())) == 1
        return
    with pytest.raises(Unavailable, match="is gone"):
        await cluster.resources.restore(unit())


@pytest.mark.parametrize("objects", [[SET], [SET, domain(), claim()]], ids=["none", "both"])
async def test_a_doubtful_review_is_left_to_the_leader_only_if_something_is_missing(
    objects: list[Any],
) -> None:
    cluster = OfflineCluster(objects)
    ask = cluster.resources.ensure(plan(), dry_run=False, doubt="anybody may have sent it")
    if len(objects) > 1:
        assert await ask == []
    else:
        with pytest.raises(Unavailable, match="anybody may have sent it"):
            await ask
    assert cluster.client.writes() == []


async def test_what_is_there_is_not_restored() -> None:
    cluster = OfflineCluster([SET, domain()])
    (created,) = await cluster.resources.restore(plan())
    assert created["kind"] == "ResourceClaim"
    assert await cluster.resources.restore(plan()) == []
    taken = OfflineCluster([SET, domain(labels={})])
    with pytest.raises(NotOurs, match="exists in namespace ns"):
        await taken.resources.restore(plan())

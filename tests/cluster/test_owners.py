"""The adoption of ComputeDomains and ResourceClaims by PodGangs, over a cluster in memory."""

import contextlib
from typing import Any, Literal

import pytest

from app.cluster import owners
from app.cluster.cluster import Cluster
from app.cluster.filled import fill_from
from app.config.schema import Configuration, Mnnvl
from app.facts.grove.podgang import read_gang
from app.facts.kinds import (
    CLUSTER_TOPOLOGY_BINDING,
    COMPUTE_DOMAIN,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GANG_MAP,
    RESOURCE_CLAIM,
)
from app.facts.nvidia.computedomain import read_mnnvl_resource
from app.facts.rows import DOMAINS
from app.kube.api import Conflict, NotFound, ObjectRef, WatchEvent
from app.objects.resource import Resource
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
from tests.cluster.watched import WatchedMemory
from tests.kube.memory.client import EVERYTHING

OWNED = {**BY_GANG, "blockOwnerDeletion": True}
"""The reference that an adoption writes."""
BINDING = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "ClusterTopologyBinding",
    "metadata": {"name": "b"},
    "spec": {"levels": []},
}
"""With it, the dialect is `bindings`."""


async def test_a_gang_adopts_what_is_its_own() -> None:
    other = domain(
        name="pcs-1-cd",
        labels={**MANAGED, "grove.io/pcs-replica-index": "1", "grove.io/podgang": "pcs-1"},
    )
    cluster = OfflineCluster([SET, GANG, domain(), claim(), other])
    written = await cluster.owners.adopt(gang(), dry_run=False)
    assert [obj["metadata"]["name"] for obj in written] == ["pcs-0-cd", "pcs-0-mnnvl-claim"]
    for resource in (COMPUTE_DOMAIN, RESOURCE_CLAIM):
        owners = cluster.client.objects(resource)[0]["metadata"]["ownerReferences"]
        assert owners == [OWNED]
    assert cluster.client.objects(COMPUTE_DOMAIN)[1]["metadata"]["ownerReferences"] == [BY_SET]
    assert cluster.owners.states_of(gang()).keys() == {"owned"}
    assert await cluster.owners.adopt(gang(), dry_run=False) == []


async def test_a_gang_is_known_by_its_name_where_its_labels_say_no_more_than_its_set() -> None:
    labels = {"app.kubernetes.io/part-of": "pcs"}
    grove = read_gang({"metadata": {**GANG["metadata"], "labels": labels}}, "ns")  # type: ignore[dict-item]
    cluster = OfflineCluster([SET, GANG, domain(), claim()])
    written = await cluster.owners.adopt(grove, dry_run=False)
    assert [obj["metadata"]["name"] for obj in written] == ["pcs-0-cd", "pcs-0-mnnvl-claim"]


async def test_a_resource_that_names_no_podgang_goes_by_the_designs_labels() -> None:
    unnamed = {key: value for key, value in MANAGED.items() if key != "grove.io/podgang"}
    cluster = OfflineCluster([SET, GANG, domain(labels=unnamed)])
    (written,) = await cluster.owners.adopt(gang(), dry_run=False)
    assert written["metadata"]["ownerReferences"] == [OWNED]


async def test_a_gang_never_takes_what_another_controls() -> None:
    owners = [{**BY_GANG, "name": "pcs-1", "uid": "x"}]
    cluster = OfflineCluster([SET, GANG, domain(owners)])
    assert await cluster.owners.adopt(gang(), dry_run=False) == []
    assert cluster.client.writes() == []


@pytest.mark.parametrize("sets", [[SET], []], ids=["it was recreated", "it is gone"])
async def test_a_gang_of_a_former_set_takes_nothing(sets: list[Any]) -> None:
    """The garbage collector will delete the PodGang with everything that it owns."""
    former = {**BY_SET, "uid": "former"}
    doomed = {**GANG, "metadata": {**GANG["metadata"], "ownerReferences": [former]}}  # type: ignore[dict-item]
    cluster = OfflineCluster([*sets, doomed, domain(), claim()])
    assert await cluster.owners.adopt(read_gang(doomed, "ns"), dry_run=False) == []
    assert cluster.client.writes() == []


FOREIGN = {"apiVersion": "example.com/v1", "kind": "PodCliqueSet", "name": "pcs", "uid": "z"}


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        pytest.param(
            domain([BY_SET, FOREIGN]),
            [{**BY_SET, "apiVersion": "grove.io/v1beta1"}, FOREIGN],
            id="one in a version that is not served, beside one that we don't know",
        ),
        pytest.param(
            claim([{**BY_GANG, "apiVersion": "scheduler.grove.io/v9", "blockOwnerDeletion": True}]),
            [{**BY_GANG, "blockOwnerDeletion": True}],
            id="a PodGang of a later release that was rolled back",
        ),
        pytest.param(domain([FOREIGN]), None, id="another kind of the same name"),
        pytest.param(domain([BY_SET], **DELETED), None, id="a resource that is being deleted"),
        pytest.param(domain([BY_SET], labels={}), None, id="a resource that is not ours"),
        pytest.param(domain([]), None, id="without an owner"),
    ],
)
async def test_owners_are_named_in_the_version_that_is_served(stored: Any, expected: Any) -> None:
    cluster = OfflineCluster([SET, GANG, stored])
    cluster.client.served[POD_CLIQUE_SET] = "v1beta1"
    cluster.client.served[POD_GANG] = "v1alpha1"
    resource = COMPUTE_DOMAIN if stored["kind"] == "ComputeDomain" else RESOURCE_CLAIM
    (there,) = cluster.client.objects(resource)
    changed = await cluster.owners.name_as_served(read_mnnvl_resource(there))
    before = stored["metadata"]["ownerReferences"]
    (now,) = cluster.client.objects(resource)
    assert now["metadata"]["ownerReferences"] == (before if expected is None else expected)
    assert (changed is None) is (expected is None)
    assert len(cluster.client.writes()) == (0 if expected is None else 1)


async def test_a_dry_adoption_writes_nothing() -> None:
    cluster = OfflineCluster([SET, GANG, domain()])
    (planned,) = await cluster.owners.adopt(gang(), dry_run=True)
    assert planned["metadata"]["ownerReferences"] == [OWNED]
    assert cluster.client.writes() == []


async def test_an_adoption_is_of_what_was_read() -> None:
    cluster = OfflineCluster([SET, GANG, domain()])
    await cluster.client.patch(
        ObjectRef(COMPUTE_DOMAIN, "pcs-0-cd", "ns"), {"metadata": {"labels": {"a": "b"}}}
    )
    with pytest.raises(Conflict):
        await cluster.owners.adopt(gang(), dry_run=False)
    assert cluster.client.objects(COMPUTE_DOMAIN)[0]["metadata"]["ownerReferences"] == [BY_SET]


async def test_what_is_gone_can_not_be_adopted() -> None:
    cluster = OfflineCluster([SET, GANG, domain()])
    await cluster.client.delete(ObjectRef(COMPUTE_DOMAIN, "pcs-0-cd", "ns"))
    with pytest.raises(NotFound):
        await cluster.owners.adopt(gang(), dry_run=False)


async def test_the_rest_is_left_when_one_adoption_is_crossed() -> None:
    cluster = OfflineCluster([SET, GANG, domain(), claim()])
    cluster.client.fail_next(
        "patch", RESOURCE_CLAIM, Conflict("changed", code=409, reason="Conflict")
    )
    with pytest.raises(Conflict):
        await cluster.owners.adopt(gang(), dry_run=False)
    states = {
        state: [mnnvl_resource.kind for mnnvl_resource in mnnvl_resources]
        for state, mnnvl_resources in cluster.owners.states_of(gang()).items()
    }
    assert states == {"owned": ["ComputeDomain"], "adoptable": ["ResourceClaim"]}
    assert [obj["kind"] for obj in await cluster.owners.adopt(gang(), dry_run=False)] == [
        "ResourceClaim"
    ]


GENERATED = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": True}


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(domain(**DELETED), id="on its way out"),
        pytest.param(domain(labels={**LABELS}), id="not managed by us"),
        pytest.param(
            domain(labels={**MANAGED, "grove.io/podgang": "pcs-0-group-0"}),
            id="made for a scaled one",
        ),
        pytest.param(claim([GENERATED]), id="made by Kubernetes for one pod"),
        pytest.param(
            domain([{"kind": "Thing", "name": "t", "uid": "t", "controller": True}]),
            id="somebody else's",
        ),
        pytest.param(domain(namespace="other"), id="in another namespace"),
    ],
)
async def test_a_gang_leaves_alone_what_is_not_its_own(stored: Any) -> None:
    cluster = OfflineCluster([SET, GANG, stored])
    assert await cluster.owners.adopt(gang(), dry_run=False) == []
    assert cluster.client.calls == []


async def test_what_somebody_takes_out_of_our_hands_does_not_stay_in_the_cache() -> None:
    """Who removes our label is seen by the watch, which then shows nothing of it any more."""
    cluster = OfflineCluster([SET, GANG, domain([BY_GANG]), BINDING])
    domains = cluster.stores[DOMAINS]
    stored = domains.get("ns", "pcs-0-cd")
    pcs = cluster.facts.cached_set("ns", "pcs")
    assert stored is not None
    assert pcs is not None
    ref = ObjectRef(COMPUTE_DOMAIN, "pcs-0-cd", "ns")
    labels = {"grove.io/mnnvl-managed": None}
    taken = await cluster.client.patch(ref, {"metadata": {"labels": labels}})
    await cluster.client.patch(ref, {"metadata": {"annotations": {"mine": "now"}}})
    assert await cluster.owners.give_back(stored, pcs) is None
    domains.apply(WatchEvent("DELETED", taken))
    assert domains.get("ns", "pcs-0-cd") is None


class Late(WatchedMemory):
    """A client that has not seen the APIs of later releases of Grove yet."""

    def served_version(self, resource: Resource) -> str | None:
        return EVERYTHING.get(resource)


@pytest.mark.parametrize("later", [None, CLUSTER_TOPOLOGY_BINDING, POD_GANG_MAP], ids=str)
@pytest.mark.parametrize("configured", ["auto", "PodGang"])
async def test_a_gang_adopts_nothing_if_discovery_is_late_after_an_upgrade(
    later: Resource | None, configured: Literal["auto", "PodGang"]
) -> None:
    """Another replica already gives everything back, unless PodGangs are to own it anyway."""
    client = Late([SET, GANG, domain()])
    if later is not None:
        client.served[later] = "v1alpha1"
    cluster = Cluster(client, Configuration(mnnvl=Mnnvl(owner=configured)), client.discovery)
    fill_from(cluster, client.objects)
    written = await cluster.owners.adopt(gang(), dry_run=False)
    assert len(written) == (0 if later is not None and configured == "auto" else 1)


def test_a_podgang_counts_by_its_uid_and_until_it_is_deleted() -> None:
    def cached(uid: str, **metadata: Any) -> bool:
        obj = {**GANG, "metadata": {**GANG["metadata"], **metadata}}  # type: ignore[dict-item]
        owners = OfflineCluster([SET, obj]).owners
        return owners.cached_gang("ns", gang().name, uid) is not None

    assert cached(gang().uid)
    assert not cached("another")
    assert not cached(gang().uid, deletionTimestamp="2026-11-28T12:00:00Z")
    assert OfflineCluster([SET]).owners.cached_gang("ns", gang().name, gang().uid) is None


async def test_everything_is_given_back_by_the_replica_that_the_labels_name() -> None:
    """The end of a long name is a hash, which may look like another replica."""
    name = "pcs-7"
    hashed = {**GANG, "metadata": {**GANG["metadata"], "name": name}}  # type: ignore[dict-item]
    owned = domain([{**BY_GANG, "name": name}])
    cluster = OfflineCluster([BINDING, SET, hashed, owned])
    (given,) = await cluster.owners.give_back_all_of(read_gang(hashed, "ns"))
    assert given["metadata"]["name"] == "pcs-0-cd"
    (reference,) = given["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["uid"]) == ("PodCliqueSet", "u")


async def test_everything_is_given_back_from_every_page_of_a_list() -> None:
    """What the labels select is listed in pages; the first page may have nothing to give back."""
    others = [
        domain(name=f"a-{number}", labels={**MANAGED, "grove.io/podgang": "pcs-0"})
        for number in range(600)
    ]
    cluster = OfflineCluster([BINDING, SET, GANG, domain([BY_GANG]), *others])
    given = await cluster.owners.give_back_all_of(gang())
    assert [obj["metadata"]["name"] for obj in given] == ["pcs-0-cd"]


# Given back to the set, in a later dialect.


def of_set(**metadata: Any) -> dict[str, Any]:
    return {**SET, "metadata": {**SET["metadata"], **metadata}}  # type: ignore[dict-item]


def of_gang(**metadata: Any) -> dict[str, Any]:
    return {**GANG, "metadata": {**GANG["metadata"], **metadata}}  # type: ignore[dict-item]


FORMER_SET = {**BY_SET, "uid": "former"}


@pytest.mark.parametrize(
    ("objects", "is_given"),
    [
        pytest.param([SET, GANG, domain([BY_GANG])], True, id="a PodGang owns it"),
        pytest.param([SET, domain([BY_GANG])], True, id="a PodGang that is gone"),
        pytest.param([SET, GANG, domain([BY_SET])], False, id="the set owns it"),
        pytest.param([GANG, domain([BY_GANG])], False, id="the set is not known"),
        pytest.param([of_set(**DELETED), domain([BY_GANG])], False, id="the set is being deleted"),
        pytest.param(
            [SET, of_gang(ownerReferences=[FORMER_SET]), domain([BY_GANG])],
            False,
            id="a PodGang of a former set",
        ),
        pytest.param(
            [SET, of_gang(ownerReferences=[FORMER_SET], uid="next"), domain([BY_GANG])],
            True,
            id="another PodGang of its name is of a former set",
        ),
    ],
)
async def test_a_resource_goes_back_to_its_set(objects: list[Any], is_given: bool) -> None:
    cluster = OfflineCluster([BINDING, *objects])
    stored = cluster.stores[DOMAINS].get("ns", "pcs-0-cd")
    assert stored is not None
    pcs = cluster.owners.set_of(stored)
    assert (pcs is not None) is is_given
    if pcs is not None:
        changed = await cluster.owners.give_back(stored, pcs)
        assert changed is not None
        (owner,) = changed["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("PodCliqueSet", "u")
        assert cluster.owners.set_of(read_mnnvl_resource(changed)) is None


CROSSED = Conflict("changed", code=409, reason="Conflict")


@pytest.mark.parametrize(
    ("times", "is_given"), [(1, True), (2, True), (3, False)], ids=["once", "twice", "for good"]
)
async def test_a_resource_that_changes_meanwhile_is_read_again(times: int, is_given: bool) -> None:
    cluster = OfflineCluster([BINDING, SET, GANG, domain([BY_GANG])])
    stored = cluster.stores[DOMAINS].get("ns", "pcs-0-cd")
    pcs = cluster.facts.cached_set("ns", "pcs")
    assert stored is not None
    assert pcs is not None
    cluster.client.fail_next("patch", COMPUTE_DOMAIN, CROSSED, times=times)
    with contextlib.nullcontext() if is_given else pytest.raises(Conflict, match="keeps changing"):
        assert await cluster.owners.give_back(stored, pcs) is not None
    (now,) = cluster.client.objects(COMPUTE_DOMAIN)
    (owner,) = now["metadata"]["ownerReferences"]
    assert owner["kind"] == ("PodCliqueSet" if is_given else "PodGang")


@pytest.mark.parametrize("meanwhile", ["gone", "created again", "given back"])
async def test_what_another_has_done_meanwhile_is_left_alone(meanwhile: str) -> None:
    cluster = OfflineCluster([BINDING, SET, GANG, domain([BY_GANG])])
    stored = cluster.stores[DOMAINS].get("ns", "pcs-0-cd")
    pcs = cluster.facts.cached_set("ns", "pcs")
    assert stored is not None
    assert pcs is not None
    ref = ObjectRef(COMPUTE_DOMAIN, "pcs-0-cd", "ns")
    if meanwhile == "given back":
        await cluster.client.patch(ref, {"metadata": {"ownerReferences": [BY_SET]}})
    else:
        await cluster.client.delete(ref)
    if meanwhile == "created again":
        await cluster.client.create(COMPUTE_DOMAIN, domain([BY_GANG]), "ns")
    before = cluster.client.objects(COMPUTE_DOMAIN)
    assert await cluster.owners.give_back(stored, pcs) is None
    assert cluster.client.objects(COMPUTE_DOMAIN) == before


@pytest.mark.parametrize("lives", [True, False])
async def test_what_has_no_owner_is_given_only_to_a_set_that_lives(lives: bool) -> None:
    """A set that is deleted with --cascade=orphan leaves it without an owner."""
    cluster = OfflineCluster([BINDING, SET, domain([])])
    stored = cluster.stores[DOMAINS].get("ns", "pcs-0-cd")
    pcs = cluster.facts.cached_set("ns", "pcs")
    assert stored is not None
    assert pcs is not None
    if not lives:
        await cluster.client.delete(ObjectRef(POD_CLIQUE_SET, "pcs", "ns"))
    assert (await cluster.owners.give_back(stored, pcs) is not None) is lives


@pytest.mark.parametrize(
    ("objects", "lives"),
    [
        pytest.param([SET, GANG], True, id="both are there"),
        pytest.param([SET, of_gang(uid="next")], False, id="another PodGang of its name"),
        pytest.param([SET], False, id="the PodGang is gone"),
        pytest.param([GANG], False, id="the set is gone"),
        pytest.param([of_set(**DELETED), GANG], False, id="the set is being deleted"),
        pytest.param(
            [SET, of_gang(ownerReferences=[FORMER_SET])], False, id="it was of a former set"
        ),
    ],
)
@pytest.mark.parametrize("is_cached", [True, False])
async def test_the_set_of_a_stored_podgang(
    objects: list[Any], lives: bool, is_cached: bool
) -> None:
    cluster = OfflineCluster([BINDING, *objects] if is_cached else [BINDING])
    if not is_cached:
        cluster.client.load(objects)
    assert (await cluster.owners.living_set_of(gang()) is not None) is lives
    given = await cluster.owners.give_back_all_of(gang())
    assert given == []


def test_a_bounded_number_of_resources_is_looked_up_for_a_gang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tenants decide on their number. The one that the name of the gang leads to is always found."""
    monkeypatch.setattr(owners, "MOST_OF_GANG", 5)
    labels = {**domain()["metadata"]["labels"], "grove.io/podgang": gang().name}
    many = [domain(name=f"a-{number}-cd", uid=str(number), labels=labels) for number in range(12)]
    cluster = OfflineCluster([SET, GANG, *many, domain()])
    states = cluster.owners.states_of(gang())
    found = [stored.name for of_state in states.values() for stored in of_state]
    assert len(found) == 6
    assert domain()["metadata"]["name"] in found


async def test_a_gang_adopts_a_bounded_number_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tenants decide on their number, and others wait for the calls meanwhile."""
    monkeypatch.setattr(owners, "IN_A_STEP", 5)
    stored = [domain(name=f"pcs-0-{number}-cd", uid=str(number)) for number in range(12)]
    cluster = OfflineCluster([SET, GANG, *stored])
    numbers = [len(await cluster.owners.adopt(gang(), dry_run=False)) for _ in range(4)]
    assert numbers == [5, 5, 2, 0]

"""The deletion of a PodGang that owns MNNVL resources, where Grove replaces PodGangs.

Tests `app/webhooks/podgang.py`.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.cluster.owners import MnnvlOwners
from app.facts.kinds import (
    ALL,
    CLUSTER_TOPOLOGY_BINDING,
    COMPUTE_DOMAIN,
    POD_CLIQUE_SET,
    POD_GANG,
    RESOURCE_CLAIM,
)
from app.facts.rows import CLAIMS, DOMAINS, GANGS, SETS
from app.kube.api import ClusterError, Conflict, NotServed, Rejected, Unavailable
from app.kube.discovery import Discovery
from app.stores.stores import fill
from tests import builders
from tests.cluster.offline import OfflineCluster
from tests.reviews import Caller, load

PATH = "/validate/podgang"
LATER: Any = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}
Object = dict[str, Any]


def reference(kind: str, name: str, uid: str) -> Object:
    resource = POD_GANG if kind == POD_GANG.kind else POD_CLIQUE_SET
    return resource.owner_reference(name, uid)


def pcs(**metadata: Any) -> Object:
    obj = builders.pod_clique_set("train")
    obj["metadata"] |= {"namespace": "ml", "uid": "uid-set", **metadata}
    return obj


def gang(**metadata: Any) -> Object:
    obj = builders.pod_gang("train-0", builders.gang_labels("train"), "train-0-worker")
    obj["metadata"] |= {
        "namespace": "ml",
        "uid": "uid-gang",
        "annotations": {"grove.io/mnnvl-resources-adopted": "true"},
        "ownerReferences": [reference("PodCliqueSet", "train", "uid-set")],
        **metadata,
    }
    return obj


def resource(kind: str, name: str, uid: str = "uid-gang") -> Object:
    group = "resource.nvidia.com/v1beta1" if kind == "ComputeDomain" else "resource.k8s.io/v1"
    labels = {**builders.labels("train", 0, "train-0"), "grove.io/mnnvl-managed": "true"}
    owner = reference("PodGang", "train-0", uid)
    metadata = {"name": name, "namespace": "ml", "labels": labels, "ownerReferences": [owner]}
    return {"apiVersion": group, "kind": kind, "metadata": metadata, "spec": {}}


OWNED = (
    resource("ComputeDomain", "train-0-cd"),
    resource("ResourceClaim", "train-0-mnnvl-claim"),
)


def caller(
    *objects: Object,
    later: bool = True,
    read: Callable[[str], Awaitable[Object]] | None = None,
) -> Caller:
    """Asks in a cluster with PodGangs that Grove replaces, or of the design if not `later`.

    `read` answers for the API server what it serves at this moment.
    """
    cluster = OfflineCluster(objects)
    if later:
        cluster.client.served[CLUSTER_TOPOLOGY_BINDING] = "v1alpha1"
    if read is not None:
        discovery = Discovery(read, ALL)
        cluster.owners = MnnvlOwners(
            cluster.client, cluster.facts, cluster.stores, discovery=discovery
        )
    return Caller(cluster)


def deletion(obj: Object | None = None, **request: Any) -> Object:
    review = load("grove-616762f7/podgang-deletion.legacy-in-migration")
    stored = gang() if obj is None else obj
    review["request"] |= {
        "name": stored["metadata"]["name"],
        "namespace": "ml",
        "oldObject": stored,
        **request,
    }
    return review


def owners(asking: Caller) -> dict[str, list[str]]:
    """The uids of the owners of each resource, by its kind."""
    client = asking.cluster.client
    made = [*client.objects(COMPUTE_DOMAIN), *client.objects(RESOURCE_CLAIM)]
    return {
        obj["kind"]: [owner["uid"] for owner in obj["metadata"]["ownerReferences"]] for obj in made
    }


BY_GANG = {"ComputeDomain": ["uid-gang"], "ResourceClaim": ["uid-gang"]}
BY_SET = {"ComputeDomain": ["uid-set"], "ResourceClaim": ["uid-set"]}


async def test_a_migration_deletes_no_resource_of_running_pods() -> None:
    asking = caller(pcs(), gang(), *OWNED)
    response = await asking.ask(PATH, deletion())
    assert response == {"uid": response["uid"], "allowed": True}
    assert owners(asking) == BY_SET


async def test_the_label_of_a_podgang_names_its_replica_if_its_name_was_shortened() -> None:
    labels = {**builders.gang_labels("train"), "grove.io/podcliqueset-replica-index": "0"}
    renamed = gang(name="train-1-hash", labels=labels)
    owned = [
        {**obj, "metadata": {**obj["metadata"], "ownerReferences": [owner]}}
        for obj in OWNED
        for owner in [reference("PodGang", "train-1-hash", "uid-gang")]
    ]
    asking = caller(pcs(), renamed, *owned)
    assert (await asking.ask(PATH, deletion(renamed)))["allowed"]
    assert owners(asking) == BY_SET


async def test_a_bulk_deletion_has_no_name() -> None:
    asking = caller(pcs(), gang(), *OWNED)
    review = deletion()
    del review["request"]["name"]
    assert (await asking.ask(PATH, review))["allowed"]
    assert owners(asking) == BY_SET


@pytest.mark.parametrize(
    ("objects", "request_"),
    [
        pytest.param((gang(), *OWNED), {}, id="the set is gone"),
        pytest.param((pcs(**LATER), gang(), *OWNED), {}, id="the set is being deleted"),
        pytest.param((pcs(uid="uid-new"), gang(), *OWNED), {}, id="the set was created again"),
        pytest.param((pcs(), gang(), *OWNED), {"dryRun": True}, id="a dry run"),
        pytest.param((pcs(), *OWNED), {}, id="the PodGang is gone"),
    ],
)
async def test_a_deletion_that_is_allowed_and_changes_nothing(
    objects: tuple[Object, ...], request_: Object
) -> None:
    asking = caller(*objects)
    assert (await asking.ask(PATH, deletion(**request_)))["allowed"]
    assert asking.cluster.client.writes() == []
    assert owners(asking) == BY_GANG


async def test_in_the_design_the_resources_go_with_their_podgang() -> None:
    asking = caller(pcs(), gang(), *OWNED, later=False)
    assert (await asking.ask(PATH, deletion()))["allowed"]
    assert asking.cluster.client.calls == []


DOWN = Unavailable("down", code=503)


def grove_api(*plurals: str) -> Callable[[str], Awaitable[Object]]:
    """An API server whose version of Grove's API has `plurals`."""

    async def read(path: str) -> Object:
        return {"resources": [{"name": plural} for plural in plurals]}

    return read


def failing(problem: ClusterError) -> Callable[[str], Awaitable[Object]]:
    async def read(path: str) -> Object:
        raise problem

    return read


@pytest.mark.parametrize(
    ("read", "message"),
    [
        pytest.param(
            grove_api("podgangs", "podgangmaps"),
            'PodGang "train-0" may own MNNVL resources, which must be given to the PodCliqueSet first, because Grove has just been upgraded (dialect "epochs"): try again in a few seconds',
            id="PodGangMaps",
        ),
        pytest.param(
            grove_api("podgangs", "clustertopologybindings"),
            'PodGang "train-0" may own MNNVL resources, which must be given to the PodCliqueSet first, because Grove has just been upgraded (dialect "bindings"): try again in a few seconds',
            id="bindings",
        ),
        pytest.param(
            failing(DOWN),
            'PodGang "train-0" may own MNNVL resources, and the release of Grove could not be read (down): try again',
            id="not known",
        ),
    ],
)
async def test_an_upgrade_that_discovery_has_not_seen_yet(
    read: Callable[[str], Awaitable[Object]], message: str
) -> None:
    asking = caller(pcs(), gang(), *OWNED, later=False, read=read)
    response = await asking.ask(PATH, deletion())
    assert (response["allowed"], response["status"]["code"]) == (False, 503)
    assert response["status"]["message"] == message


@pytest.mark.parametrize(
    ("objects", "read"),
    [
        pytest.param((pcs(), gang(), *OWNED), grove_api("podgangs"), id="the release is the same"),
        pytest.param(
            (pcs(), gang(), *OWNED), failing(Rejected("no", code=403)), id="it may not be read"
        ),
        pytest.param((gang(), *OWNED), failing(DOWN), id="the set is gone"),
        pytest.param((pcs(**LATER), gang(), *OWNED), failing(DOWN), id="the set is being deleted"),
    ],
)
async def test_in_the_design_no_deletion_waits_for_ever(
    objects: tuple[Object, ...], read: Callable[[str], Awaitable[Object]]
) -> None:
    asking = caller(*objects, later=False, read=read)
    assert (await asking.ask(PATH, deletion()))["allowed"]
    assert asking.cluster.client.writes() == []


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param(gang(uid="invented"), id="an invented uid"),
        pytest.param(gang(uid=""), id="no uid"),
        pytest.param(gang(name="train-1"), id="the uid of another PodGang"),
        pytest.param(
            gang(labels={"app.kubernetes.io/part-of": "other"}, ownerReferences=[]), id="labels"
        ),
    ],
)
async def test_a_forged_deletion_gives_nothing_away(forged: Object) -> None:
    """What is right in the review is true of the stored PodGang too, and so does no harm."""
    other = builders.pod_clique_set("other")
    other["metadata"] |= {"namespace": "ml", "uid": "uid-other"}
    asking = caller(pcs(), other, gang(), *OWNED)
    assert (await asking.ask(PATH, deletion(forged)))["allowed"]
    assert owners(asking) in (BY_GANG, BY_SET)
    assert (owners(asking) == BY_SET) == (
        forged["metadata"]["uid"] == "uid-gang" and forged["metadata"]["name"] == "train-0"
    )


async def test_it_is_denied_until_everything_is_given_back() -> None:
    asking = caller(pcs(), gang(), *OWNED)
    asking.cluster.client.fail_next("patch", RESOURCE_CLAIM, Unavailable("down", code=503))
    response = await asking.ask(PATH, deletion())
    assert (response["allowed"], response["status"]["code"]) == (False, 503)
    assert (
        response["status"]["message"]
        == 'PodGang "train-0" may still own MNNVL resources, which could not be given to the PodCliqueSet first (down): try again'
    )
    assert (await asking.ask(PATH, deletion()))["allowed"]
    assert owners(asking) == BY_SET


async def test_a_missing_right_is_said() -> None:
    asking = caller(pcs(), gang(), *OWNED)
    asking.cluster.client.fail_next("patch", COMPUTE_DOMAIN, Rejected("no", code=403))
    response = await asking.ask(PATH, deletion())
    assert (response["allowed"], response["status"]["code"]) == (False, 500)


def is_changed_meanwhile(asking: Caller) -> None:
    """The claim has another version than the caches have: a pod has reserved it."""
    client = asking.cluster.client
    (claim,) = client.objects(RESOURCE_CLAIM)
    client.load([{**claim, "status": {"reservedFor": [{"uid": "p"}]}}])


def is_made_again(asking: Caller) -> None:
    """The ComputeDomain is another one than the caches have, and changes while it is written."""
    client = asking.cluster.client
    client.fail_next("patch", COMPUTE_DOMAIN, Conflict("other", code=409))
    (domain,) = client.objects(COMPUTE_DOMAIN)
    client.load([{**domain, "metadata": {**domain["metadata"], "uid": "made-again"}}])


def was_of_the_set(asking: Caller) -> None:
    """The caches don't show yet that the PodGang owns anything."""
    for row in (DOMAINS, CLAIMS):
        store = asking.cluster.stores[row]
        by_set = {"ownerReferences": [reference("PodCliqueSet", "train", "uid-set")]}
        stored = asking.cluster.client.objects(row.resource)
        fill(store, [{**obj, "metadata": {**obj["metadata"], **by_set}} for obj in stored])


def is_not_known(asking: Caller) -> None:
    """The caches don't have the resources yet."""
    is_not_filled(asking)
    for row in (DOMAINS, CLAIMS):
        fill(asking.cluster.stores[row], [])


def is_not_filled(asking: Caller) -> None:
    for row in (DOMAINS, CLAIMS):
        asking.cluster.stores[row].forget()


def has_a_former_set(asking: Caller) -> None:
    """The set was deleted and created again, and the cache still has the former one."""
    fill(asking.cluster.stores[SETS], [pcs(uid="uid-former", **LATER)])


@pytest.mark.parametrize(
    "otherwise",
    [
        is_changed_meanwhile,
        is_made_again,
        was_of_the_set,
        is_not_known,
        is_not_filled,
        has_a_former_set,
    ],
)
async def test_what_a_podgang_owns_is_read_from_the_api_server(
    otherwise: Callable[[Caller], None],
) -> None:
    asking = caller(pcs(), gang(), *OWNED)
    otherwise(asking)
    assert (await asking.ask(PATH, deletion()))["allowed"]
    assert owners(asking) == BY_SET


PROXY = NotServed("404 page not found", code=404)
"""What a proxy answers while an API server restarts, and an API server without that version."""


@pytest.mark.parametrize("verb", ["list", "patch"])
@pytest.mark.parametrize("error", [Unavailable("down", code=503), PROXY], ids=["503", "404"])
async def test_while_it_cannot_be_read_or_written_nothing_is_deleted(
    error: ClusterError, verb: str
) -> None:
    asking = caller(pcs(), gang(), OWNED[1])
    asking.cluster.client.fail_next(verb, RESOURCE_CLAIM, error)
    assert (await asking.ask(PATH, deletion()))["status"]["code"] == 503
    assert owners(asking) == {"ResourceClaim": ["uid-gang"]}
    assert (await asking.ask(PATH, deletion()))["allowed"]
    assert owners(asking) == {"ResourceClaim": ["uid-set"]}


async def test_an_api_that_is_not_installed_has_nothing_to_give_back() -> None:
    asking = caller(pcs(), gang(), OWNED[1])
    del asking.cluster.client.served[COMPUTE_DOMAIN]
    assert (await asking.ask(PATH, deletion()))["allowed"]
    assert owners(asking) == {"ResourceClaim": ["uid-set"]}


async def test_what_keeps_changing_is_tried_again_later() -> None:
    asking = caller(pcs(), gang(), *OWNED)
    for _ in range(3):
        asking.cluster.client.fail_next("patch", COMPUTE_DOMAIN, Conflict("other", code=409))
    response = await asking.ask(PATH, deletion())
    assert response["status"]["code"] == 503
    assert "ComputeDomain train-0-cd keeps changing" in response["status"]["message"]


async def test_a_podgang_that_the_cache_lacks_is_read() -> None:
    asking = caller(pcs(), gang(), *OWNED)
    asking.cluster.stores[GANGS].forget()
    assert (await asking.ask(PATH, deletion()))["allowed"]
    assert owners(asking) == BY_SET


@pytest.mark.parametrize("namespace", [None, "", 7])
async def test_a_podgang_is_in_a_namespace(namespace: Any) -> None:
    response = await caller(pcs()).ask(PATH, deletion(namespace=namespace))
    assert response["status"]["code"] == 400

"""When a PodGang takes the MNNVL resources of its PodCliques, and which reviews let it take nothing.

Tests `app/webhooks/podgang.py`.
"""

from typing import Any

import pytest
from jsonpatch import apply_patch

from app.facts.kinds import COMPUTE_DOMAIN, POD_GANG, RESOURCE_CLAIM
from app.facts.rows import (
    CLAIMS,
    DOMAINS,
)
from app.kube.api import ClusterError, Conflict, ObjectRef, Rejected, Unavailable
from tests.reviews import Caller, cluster, load, patch_of

ADOPTED = "grove.io/mnnvl-resources-adopted"


def gang() -> dict[str, Any]:
    """The stored PodGang that podgang.update replaces, as our webhook has marked it."""
    stored: dict[str, Any] = load("podgang.update")["request"]["oldObject"]
    metadata = stored["metadata"]
    metadata["annotations"] = {**metadata.get("annotations", {}), ADOPTED: "false"}
    return stored


async def with_resources(caller: Caller) -> dict[str, Any]:
    """Makes the resources of distributed-training-0, and gives its PodGang as an UPDATE."""
    await caller.ask("/mutate/podclique", load("podclique.replica-scope-0-worker"))
    return load("podgang.update")


def owners(caller: Caller) -> list[Any]:
    made = [
        *caller.cluster.client.objects(COMPUTE_DOMAIN),
        *caller.cluster.client.objects(RESOURCE_CLAIM),
    ]
    return [
        [(owner["kind"], owner["uid"]) for owner in obj["metadata"]["ownerReferences"]]
        for obj in made
    ]


async def mutated(caller: Caller, review: dict[str, Any]) -> Any:
    """Asks for the verdict on a PodGang, and gives the object with the patch of the answer."""
    patch = patch_of(await caller.ask("/mutate/podgang", review))
    return apply_patch(review["request"]["object"], patch)


@pytest.mark.statement("2.83")
async def test_a_new_gang_waits_for_its_resources() -> None:
    caller = Caller()
    await with_resources(caller)
    created = load("podgang.replica-0")
    after = await mutated(caller, created)
    assert after["metadata"]["annotations"][ADOPTED] == "false"
    assert {kind for ((kind, _),) in owners(caller)} == {"PodCliqueSet"}


async def test_a_stored_gang_takes_them() -> None:
    caller = Caller(cluster(gang()))
    updated = await with_resources(caller)
    uid = updated["request"]["object"]["metadata"]["uid"]
    after = await mutated(caller, updated)
    assert after["metadata"]["annotations"][ADOPTED] == "true"
    assert owners(caller) == [[("PodGang", uid)], [("PodGang", uid)]]
    updated["request"]["object"] = after
    assert await caller.ask("/mutate/podgang", updated) == {
        "uid": updated["request"]["uid"],
        "allowed": True,
    }


async def test_an_update_with_the_uid_of_an_exported_gang_leaves_the_resources_with_the_stored_one() -> (
    None
):
    caller = Caller(cluster(gang()))
    updated = await with_resources(caller)
    uid = updated["request"]["oldObject"]["metadata"]["uid"]
    updated["request"]["object"]["metadata"]["uid"] = "from-an-export"
    await caller.ask("/mutate/podgang", updated)
    assert owners(caller) == [[("PodGang", uid)], [("PodGang", uid)]]


def forged(name: str) -> dict[str, Any]:
    """A review that nobody's API server sent: an UPDATE of a PodGang that differs from the stored
    one.
    """
    review = load("podgang.update")
    for part in ("object", "oldObject"):
        metadata = review["request"][part]["metadata"]
        if name == "an invented uid":
            metadata["uid"] = "c0ffee00-0000-4000-8000-000000000000"
        elif name == "the uid of another PodGang":
            metadata["name"] = review["request"]["name"] = "other-0"
            metadata["labels"] |= {"grove.io/pcs-name": "distributed-training"}
        elif name == "no uid":
            del metadata["uid"]
    return review


@pytest.mark.parametrize("name", ["an invented uid", "the uid of another PodGang", "no uid"])
async def test_a_forged_gang_takes_nothing(name: str) -> None:
    caller = Caller(cluster(gang()))
    await with_resources(caller)
    before = len(caller.cluster.client.writes())

    response = await caller.ask("/mutate/podgang", forged(name))

    assert response["allowed"] is True
    assert caller.cluster.client.writes()[before:] == []
    assert {kind for ((kind, _),) in owners(caller)} == {"PodCliqueSet"}


async def test_a_review_with_forged_labels_takes_nothing_that_the_stored_gang_does_not() -> None:
    other = gang()
    other["metadata"] |= {"name": "other-0", "uid": "of-the-other", "labels": {}}
    caller = Caller(cluster(gang(), other))
    await with_resources(caller)
    for resource in (COMPUTE_DOMAIN, RESOURCE_CLAIM):
        (obj,) = caller.cluster.client.objects(resource)
        caller.cluster.stores[DOMAINS if resource is COMPUTE_DOMAIN else CLAIMS].note(obj)
    review = load("podgang.update")
    for part in ("object", "oldObject"):
        review["request"][part]["metadata"] |= {"name": "other-0", "uid": "of-the-other"}
    review["request"]["name"] = "other-0"

    await caller.ask("/mutate/podgang", review)

    assert {kind for ((kind, _),) in owners(caller)} == {"PodCliqueSet"}


async def test_a_review_without_a_token_adopts_nothing() -> None:
    caller = Caller(cluster(gang()))
    updated = await with_resources(caller)
    stranger = Caller(caller.cluster, is_trusted=False)

    response = await stranger.ask("/mutate/podgang", updated)

    after = apply_patch(updated["request"]["object"], patch_of(response))
    assert after["metadata"]["annotations"][ADOPTED] == "false"
    assert {kind for ((kind, _),) in owners(caller)} == {"PodCliqueSet"}


async def test_a_gang_that_is_gone_and_still_cached_takes_nothing() -> None:
    caller = Caller(cluster(gang()))
    updated = await with_resources(caller)
    metadata = gang()["metadata"]
    await caller.cluster.client.delete(ObjectRef(POD_GANG, metadata["name"], metadata["namespace"]))

    await caller.ask("/mutate/podgang", updated)

    assert {kind for ((kind, _),) in owners(caller)} == {"PodCliqueSet"}


@pytest.mark.parametrize("uid", ["from-an-export", None])
async def test_a_new_gang_takes_nothing_whatever_its_uid(uid: Any) -> None:
    caller = Caller()
    await with_resources(caller)
    created = load("podgang.replica-0")
    created["request"]["object"]["metadata"]["uid"] = uid
    after = await mutated(caller, created)
    assert after["metadata"]["annotations"][ADOPTED] == "false"
    assert {kind for ((kind, _),) in owners(caller)} == {"PodCliqueSet"}


async def test_a_dry_update_answers_the_same_and_takes_nothing() -> None:
    caller = Caller(cluster(gang()))
    updated = await with_resources(caller)
    updated["request"]["dryRun"] = True
    after = await mutated(caller, updated)
    assert after["metadata"]["annotations"][ADOPTED] == "true"
    assert {kind for ((kind, _),) in owners(caller)} == {"PodCliqueSet"}


async def test_a_claim_of_truth_without_resources_is_taken_away() -> None:
    created = load("podgang.replica-0")
    created["request"]["object"]["metadata"]["annotations"] = {ADOPTED: "true"}
    after = apply_patch(
        created["request"]["object"], patch_of(await Caller().ask("/mutate/podgang", created))
    )
    assert ADOPTED not in after["metadata"]["annotations"]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(Conflict("changed", code=409, reason="Conflict"), id="somebody crossed it"),
        pytest.param(Unavailable("slow down", code=429), id="the API server is busy"),
        pytest.param(Rejected("a policy says no", code=403), id="it is forbidden"),
    ],
)
async def test_an_adoption_that_fails_is_the_reconcilers_and_holds_nothing_up(
    error: ClusterError,
) -> None:
    caller = Caller(cluster(gang()))
    updated = await with_resources(caller)
    caller.cluster.client.fail_next("patch", COMPUTE_DOMAIN, error)
    response = await caller.ask("/mutate/podgang", updated)
    after = apply_patch(updated["request"]["object"], patch_of(response))
    assert response["allowed"] is True
    assert after["metadata"]["annotations"][ADOPTED] == "false"


async def test_what_is_stored_stays_while_the_caches_show_nothing() -> None:
    updated = load("podgang.update")
    for part in ("object", "oldObject"):
        metadata = updated["request"][part]["metadata"]
        metadata["annotations"] = {**metadata.get("annotations", {}), ADOPTED: "true"}
    after = await mutated(Caller(), updated)
    assert after["metadata"]["annotations"][ADOPTED] == "true"

"""Pods that are read in pages: those without a claim, and those that still use one.

Tests `app/cluster/held_claims.py`.
"""

from typing import Any

from app.cluster.held_claims import claims_held_in_deletion, read_deletion
from app.cluster.pods import MOST_UNCHANGED_SECONDS, SHARED_SECONDS, ClaimUsers, pods_without_claim
from app.kube.api import Object
from app.objects.resource import POD
from tests import builders
from tests.kube.memory.client import MemoryClient

GANG = {"grove.io/podgang": "g"}
CLAIM = {"name": "mnnvl", "resourceClaimName": "train-0-mnnvl-claim"}


def pod(name: str, namespace: str = "ns", *claims: Object, **fields: Any) -> Object:
    owner = {"apiVersion": "v1", "kind": "PodClique", "name": f"of-{name}", "uid": "c"}
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": fields.pop("labels", GANG),
        "ownerReferences": [owner],
        **fields.pop("metadata", {}),
    }
    spec = {**builders.pod_spec(), "resourceClaims": list(claims)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, **fields}


def held(namespace: str, name: str, *pods: str, deleting: bool = True) -> Object:
    metadata: Object = {"name": name, "namespace": namespace}
    if deleting:
        metadata["deletionTimestamp"] = "2026-11-28T12:00:00Z"
    reserved = [{"resource": "pods", "name": pod, "uid": pod} for pod in pods]
    return {"metadata": metadata, "status": {"reservedFor": reserved}}


async def test_pods_without_a_claim_are_found_by_namespace_and_podclique() -> None:
    client = MemoryClient(
        [
            pod("bare"),
            pod("bare", "other"),
            pod("elsewhere", "not-asked"),
            pod("claimed", "ns", CLAIM),
            pod("ended", status={"phase": "Succeeded"}),
            pod("alone", labels={}),
        ]
    )
    assert await pods_without_claim(client, ["other", "ns", "ns"]) == {
        ("ns", "of-bare"): ["bare"],
        ("other", "of-bare"): ["bare"],
    }
    assert [call.namespace for call in client.calls] == ["ns", "other"]


async def test_a_claim_in_deletion_is_held_by_pods_that_last() -> None:
    client = MemoryClient(
        [
            pod("a"),
            pod("b"),
            pod("ended", status={"phase": "Failed"}),
            pod("going", metadata={"deletionTimestamp": "2026-11-28T12:00:00Z"}),
            pod("x", "other"),
        ]
    )
    claims = [
        held("ns", "both", "b", "a", "ended"),
        held("ns", "going", "going", "ended"),
        held("ns", "stays", "a", deleting=False),
        held("ns", "of-another-namespace", "x"),
        held("other", "there", "x"),
    ]
    deletions = filter(None, map(read_deletion, claims))
    assert await claims_held_in_deletion(client, deletions) == [
        (("ns", "both"), ["a", "b"]),
        (("other", "there"), ["x"]),
    ]


class Users:
    """The users of claims, with a clock that a test sets."""

    def __init__(self, *objects: Object) -> None:
        self.now = 100.0
        self.client = MemoryClient(objects)
        self.users = ClaimUsers(self.client, lambda: self.now, lambda: 0.5)

    async def use(self, name: str, namespace: str = "ns") -> tuple[bool, int]:
        """Whether a Pod uses a claim, and how many lists that has taken."""
        before = len(self.client.calls)
        used = await self.users.use_any(namespace, {name}, lambda namespace: {"used", "template"})
        return used, len(self.client.calls) - before


async def waits(users: Users, count: int) -> list[float]:
    """How long the claim "used" counts as used without another list, so many times."""
    found = []
    for _ in range(count):
        begun = users.now
        while (await users.use("used"))[1] == 0:
            users.now += 0.25
        found.append(users.now - begun)
    return found


async def test_claims_and_templates_that_pods_use_are_known_from_one_list() -> None:
    template = {"name": "mnnvl", "resourceClaimTemplateName": "template"}
    claim = {"name": "mnnvl", "resourceClaimName": "used"}
    users = Users(pod("a", "ns", claim), pod("b", "ns", template), pod("c", "other"))
    assert await users.use("used") == (True, 1)
    assert await users.use("template") == (True, 0)
    assert await users.use("free") == (False, 0)
    assert await users.use("used", "other") == (False, 1)


async def test_that_none_uses_a_claim_is_known_for_five_seconds() -> None:
    users = Users(pod("a"))
    assert await users.use("used") == (False, 1)
    users.now += SHARED_SECONDS - 0.1
    assert await users.use("used") == (False, 0)
    users.now += 0.1
    assert await users.use("used") == (False, 1)


async def test_the_pods_of_a_namespace_are_listed_for_a_tenth_of_the_time() -> None:
    users = Users(pod("a"))
    listed = users.client.list

    async def slow(*arguments: Any, **options: Any) -> Any:
        users.now += 20.0
        return await listed(*arguments, **options)

    users.client.list = slow  # type: ignore[method-assign]
    assert await users.use("used") == (False, 1)
    begun = users.now
    while (answer := await users.use("used"))[1] == 0:
        assert answer == (True, 0), "not known, so it counts as used"
        users.now += 1.0
    assert (answer, users.now - 20.0 - begun) == ((False, 1), 180.0)


async def test_a_claim_in_use_counts_as_used_for_longer_and_longer() -> None:
    users = Users(pod("a", "ns", {"name": "mnnvl", "resourceClaimName": "used"}))
    assert await users.use("used") == (True, 1)
    found = await waits(users, 8)
    assert found == [22.5, 45.0, 90.0, 180.0, 360.0, 450.0, 450.0, 450.0]
    assert max(found) <= MOST_UNCHANGED_SECONDS


async def test_once_other_claims_are_used_they_are_looked_for_often_again() -> None:
    users = Users(pod("a", "ns", {"name": "mnnvl", "resourceClaimName": "used"}))
    await users.use("used")
    assert await waits(users, 3) == [22.5, 45.0, 90.0]
    template = {"name": "mnnvl", "resourceClaimTemplateName": "template"}
    await users.client.create(POD, pod("b", "ns", template), "ns")
    assert await waits(users, 3) == [180.0, 22.5, 45.0]


async def test_what_was_read_in_an_earlier_term_is_forgotten() -> None:
    users = Users(pod("a"))
    await users.use("used")
    users.users.forget()
    assert await users.use("used") == (False, 1)
    assert [call.resource for call in users.client.calls] == [POD, POD]

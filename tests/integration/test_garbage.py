"""What an owner leaves behind is collected, and nothing else."""

import pytest

from app.facts.kinds import COMPUTE_DOMAIN, POD_CLIQUE_SET
from app.kube.api import Object, ObjectRef
from app.objects.resource import SECRET
from scripts.apiserver.admission_server import ApiServer
from tests import builders
from tests.integration.system import Users, eventually, is_gone, names

pytestmark = pytest.mark.untraced


@pytest.fixture(autouse=True)
def _collector(api: ApiServer) -> None:
    if not api.collects_garbage:
        pytest.skip(
            "needs a garbage collector: no kube-controller-manager beside the API server's binaries"
        )


def reference(owner: Object, **more: object) -> Object:
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        **more,
    }


def secret(name: str, *owners: Object) -> Object:
    return {"metadata": {"name": name, "ownerReferences": list(owners)}}


async def test_what_an_owner_had_goes_with_it_and_what_another_has_too_stays(
    clients: Users, namespace: str
) -> None:
    first = await clients.admin.create(POD_CLIQUE_SET, builders.pod_clique_set("one"), namespace)
    second = await clients.admin.create(POD_CLIQUE_SET, builders.pod_clique_set("two"), namespace)
    await clients.admin.create(SECRET, secret("single", reference(first)), namespace)
    await clients.admin.create(
        SECRET, secret("shared", reference(first), reference(second)), namespace
    )
    await clients.admin.create(SECRET, secret("free"), namespace)
    await clients.admin.delete(ObjectRef(POD_CLIQUE_SET, "one", namespace))

    async def left() -> list[str]:
        return [
            name
            for name in await names(clients.admin, SECRET, namespace)
            if name != "kube-root-ca.crt"
        ]

    assert await eventually(left, lambda remaining: remaining == ["free", "shared"]) == [
        "free",
        "shared",
    ]

    async def owners() -> list[str]:
        shared = await clients.admin.get(ObjectRef(SECRET, "shared", namespace))
        return [ref["name"] for ref in shared["metadata"]["ownerReferences"]]

    assert await eventually(owners, lambda owner_names: owner_names == ["two"]) == ["two"]


async def test_an_owner_of_that_name_with_another_uid_keeps_nothing(
    clients: Users, namespace: str
) -> None:
    owner = await clients.admin.create(POD_CLIQUE_SET, builders.pod_clique_set("one"), namespace)
    stale = reference(owner, uid="00000000-0000-0000-0000-000000000001")
    await clients.admin.create(SECRET, secret("stale", stale), namespace)
    await clients.admin.create(SECRET, secret("kept", reference(owner)), namespace)

    async def is_collected() -> bool:
        return await is_gone(clients.admin, SECRET, "stale", namespace)

    assert await eventually(is_collected)
    assert not await is_gone(clients.admin, SECRET, "kept", namespace)


async def test_a_finalizer_holds_what_is_collected(clients: Users, namespace: str) -> None:
    owner = await clients.admin.create(POD_CLIQUE_SET, builders.pod_clique_set("one"), namespace)
    domain = {
        "metadata": {
            "name": "held",
            "ownerReferences": [reference(owner, controller=True, blockOwnerDeletion=True)],
            "finalizers": ["example.com/hold"],
        },
        "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "x"}}},
    }
    await clients.admin.create(COMPUTE_DOMAIN, domain, namespace)
    await clients.admin.delete(ObjectRef(POD_CLIQUE_SET, "one", namespace))

    async def deleting() -> object:
        return (await clients.admin.get(ObjectRef(COMPUTE_DOMAIN, "held", namespace)))[
            "metadata"
        ].get("deletionTimestamp")

    assert await eventually(deleting)
    await clients.admin.patch(
        ObjectRef(COMPUTE_DOMAIN, "held", namespace), {"metadata": {"finalizers": None}}
    )
    assert await is_gone(clients.admin, COMPUTE_DOMAIN, "held", namespace)


async def test_a_namespace_takes_along_what_is_in_it(clients: Users, namespace: str) -> None:
    await clients.admin.create(SECRET, secret("inside"), namespace)
    await clients.call("DELETE", f"/api/v1/namespaces/{namespace}")

    async def is_collected() -> bool:
        return await is_gone(clients.admin, SECRET, "inside", namespace)

    assert await eventually(is_collected)

"""The design's MNNVL life cycle with our server, its reconcilers and a garbage collector: create,
adopt, scale, delete.

Grove's operator is played by the test: it creates PodCliques and PodGangs, and deletes them when a
set is scaled down.
"""

import pytest
import pytest_asyncio

from app.facts.kinds import COMPUTE_DOMAIN, POD_CLIQUE, POD_CLIQUE_SET, POD_GANG, RESOURCE_CLAIM
from app.facts.rows import SETS, TOPOLOGIES
from app.kube.api import Object, ObjectRef, Selection
from app.server.serve import Running
from scripts.apiserver.admission_server import ApiServer
from tests import builders
from tests.integration.system import Users, eventually, names

pytestmark = [pytest.mark.untraced, pytest.mark.usefixtures("served")]

KINDS = (COMPUTE_DOMAIN, RESOURCE_CLAIM)


@pytest.fixture(autouse=True)
def _collector(api: ApiServer) -> None:
    if not api.collects_garbage:
        pytest.skip(
            "needs a garbage collector: no kube-controller-manager beside the API server's binaries"
        )


class Grove:
    """The operator's part, for the PodCliqueSet `train` in one namespace."""

    def __init__(self, clients: Users, namespace: str) -> None:
        self._clients = clients
        self._namespace = namespace

    async def clique(
        self, name: str, gang: str, scope: str, group: str | None = None, index: int = 0
    ) -> None:
        replica = int(gang.split("-")[1])
        labels = builders.labels("train", replica, gang, group, index, grove=True)
        await self._clients.operator.create(
            POD_CLIQUE, builders.pod_clique(name, labels, scope=scope), self._namespace
        )

    async def gang(self, name: str, *podgroups: str) -> Object:
        gang = builders.pod_gang(name, builders.gang_labels("train"), *podgroups)
        return await self._clients.operator.create(POD_GANG, gang, self._namespace)

    async def delete(self, *objects: tuple[str, str]) -> None:
        for kind, name in objects:
            resource = POD_GANG if kind == "gang" else POD_CLIQUE
            await self._clients.operator.delete(ObjectRef(resource, name, self._namespace))

    async def owners(self) -> dict[str, str]:
        """Who owns what, by the name of the resource: `PodGang train-0`."""
        owners: dict[str, str] = {}
        for kind in KINDS:
            for item in (await self._clients.operator.list(Selection(kind, self._namespace))).items:
                (owner,) = item["metadata"]["ownerReferences"]
                owners[item["metadata"]["name"]] = f"{owner['kind']} {owner['name']}"
        return owners

    async def adopted(self, gang: str) -> str | None:
        stored = await self._clients.operator.get(ObjectRef(POD_GANG, gang, self._namespace))
        value: str | None = (
            stored["metadata"].get("annotations", {}).get("grove.io/mnnvl-resources-adopted")
        )
        return value

    async def until_owners(self, expected: dict[str, str]) -> None:
        assert await eventually(self.owners, lambda owners: owners == expected) == expected

    async def until_adopted(self, gang: str) -> None:
        assert (
            await eventually(lambda: self.adopted(gang), lambda adopted: adopted == "true")
            == "true"
        )


@pytest_asyncio.fixture(loop_scope="module")
async def grove(clients: Users, served: Running, namespace: str) -> Grove:
    await clients.user.create(POD_CLIQUE_SET, builders.pod_clique_set("train"), namespace)

    async def is_known() -> bool:
        stores = served.cluster.stores
        return stores[SETS].get(namespace, "train") is not None and len(stores[TOPOLOGIES]) > 0

    await eventually(is_known)
    return Grove(clients, namespace)


def both(base: str, owner: str) -> dict[str, str]:
    return {f"{base}-cd": owner, f"{base}-mnnvl-claim": owner}


@pytest.mark.parametrize("first", ["cliques", "gang"])
@pytest.mark.statement(
    "2.4", "2.17", "2.19", "2.22", "2.25", "2.55", "2.85", "2.88", "2.90", "2.92", "2.106"
)
async def test_replica_scope_from_creation_to_deletion(
    clients: Users, grove: Grove, namespace: str, first: str
) -> None:
    async def replica(number: int) -> None:
        gang = f"train-{number}"
        cliques = [f"train-{number}-worker", f"train-{number}-leader"]
        if first == "gang":
            await grove.gang(gang, *cliques)
        for name in cliques:
            await grove.clique(name, gang, "replica")
        if first == "cliques":
            await grove.gang(gang, *cliques)
        await grove.until_adopted(gang)

    await replica(0)
    await grove.until_owners(both("train-0", "PodGang train-0"))
    await replica(1)
    await grove.until_owners(
        both("train-0", "PodGang train-0") | both("train-1", "PodGang train-1")
    )
    for number, left in ((1, both("train-0", "PodGang train-0")), (0, {})):
        cliques = [("clique", f"train-{number}-{name}") for name in ("worker", "leader")]
        await grove.delete(*cliques, ("gang", f"train-{number}"))
        await grove.until_owners(left)


@pytest.mark.statement("2.14", "2.29", "2.31", "2.34", "2.37")
async def test_clique_scope_has_a_domain_for_each_clique(grove: Grove) -> None:
    for name in ("train-0-worker", "train-0-leader"):
        await grove.clique(name, "train-0", "clique")
    await grove.gang("train-0", "train-0-worker", "train-0-leader")
    await grove.until_adopted("train-0")
    owned = "PodGang train-0"
    await grove.until_owners(both("train-0-worker", owned) | both("train-0-leader", owned))
    await grove.delete(
        ("clique", "train-0-worker"), ("clique", "train-0-leader"), ("gang", "train-0")
    )
    await grove.until_owners({})


@pytest.mark.statement("2.41", "2.43", "2.46", "2.49")
async def test_base_and_scaled_podgangs_of_a_scaling_group_own_just_their_own(grove: Grove) -> None:
    """minAvailable 1: replica 0 of the group is in the base PodGang, 1 and 2 have one of their own,
    counted from 0.
    """
    gangs = {0: "train-0", 1: "train-0-pool-0", 2: "train-0-pool-1"}
    for index, gang in gangs.items():
        await grove.clique(
            f"train-0-pool-{index}-leader", gang, "scalingGroupReplica", "pool", index
        )
    await grove.gang("train-0", "train-0-pool-0-leader")
    for index in (1, 2):
        await grove.gang(gangs[index], f"train-0-pool-{index}-leader")
    expected = {
        index: both(f"train-0-pool-{index}", f"PodGang {gang}") for index, gang in gangs.items()
    }
    await grove.until_owners(expected[0] | expected[1] | expected[2])
    for gang in gangs.values():
        await grove.until_adopted(gang)
    await grove.delete(("clique", "train-0-pool-2-leader"), ("gang", "train-0-pool-1"))
    await grove.until_owners(expected[0] | expected[1])
    await grove.clique("train-0-pool-2-leader", "train-0-pool-1", "scalingGroupReplica", "pool", 2)
    await grove.gang("train-0-pool-1", "train-0-pool-2-leader")
    await grove.until_owners(expected[0] | expected[1] | expected[2])
    await grove.delete(("clique", "train-0-pool-0-leader"), ("gang", "train-0"))
    await grove.until_owners(expected[1] | expected[2])


@pytest.mark.statement("2.95")
async def test_a_podgang_made_anew_takes_over_from_its_former_self(
    clients: Users, grove: Grove, namespace: str
) -> None:
    await grove.clique("train-0-worker", "train-0", "replica")
    await grove.gang("train-0", "train-0-worker")
    await grove.until_adopted("train-0")
    domain = await clients.operator.get(ObjectRef(COMPUTE_DOMAIN, "train-0-cd", namespace))
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    await clients.operator.patch(ObjectRef(POD_GANG, "train-0", namespace), hold)
    await grove.delete(("gang", "train-0"))
    await clients.operator.patch(
        ObjectRef(POD_GANG, "train-0", namespace), {"metadata": {"finalizers": None}}
    )
    again = await grove.gang("train-0", "train-0-worker")
    uid = again["metadata"]["uid"]

    async def settled() -> bool:
        """Adopted by the new one, or collected with the old one: never left to an owner that is
        gone.
        """
        for kind in KINDS:
            for item in (await clients.operator.list(Selection(kind, namespace))).items:
                if item["metadata"]["ownerReferences"][0]["uid"] != uid:
                    return False
        return True

    assert await eventually(settled)
    assert domain["metadata"]["ownerReferences"][0]["uid"] != uid


async def test_what_is_not_ours_is_never_taken(
    clients: Users, grove: Grove, namespace: str
) -> None:
    other = await clients.user.create(POD_CLIQUE_SET, builders.pod_clique_set("other"), namespace)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "p",
        "uid": other["metadata"]["uid"],
        "controller": True,
    }
    labels = {**builders.labels("train", 0, "train-0"), "grove.io/mnnvl-managed": "true"}
    claim = {
        "metadata": {
            "name": "generated-for-a-pod",
            "labels": labels,
            "ownerReferences": [pod],
            "finalizers": ["a/b"],
        },
        "spec": {},
    }
    await clients.user.create(RESOURCE_CLAIM, claim, namespace)
    await grove.clique("train-0-worker", "train-0", "replica")
    await grove.gang("train-0", "train-0-worker")
    await grove.until_adopted("train-0")
    owners = await grove.owners()
    assert owners == {**both("train-0", "PodGang train-0"), "generated-for-a-pod": "Pod p"}
    free = {"metadata": {"finalizers": None}}
    await clients.user.patch(ObjectRef(RESOURCE_CLAIM, "generated-for-a-pod", namespace), free)


async def test_a_podgang_without_mnnvl_resources_gets_no_annotation(
    clients: Users, grove: Grove, namespace: str
) -> None:
    await grove.gang("train-0", "train-0-worker")
    assert await grove.adopted("train-0") is None
    assert await names(clients.operator, COMPUTE_DOMAIN, namespace) == []

"""MNNVL resources that heal: what stored PodCliques use is made again, what nobody asks for is
taken away, and nothing is in the way of Grove's operator meanwhile.

Grove's operator, the scheduler and the controllers of claims and pods are played by the tests.
"""

import itertools

import pytest
import pytest_asyncio

from app.config.read import read_configuration
from app.config.schema import Configuration
from app.facts.kinds import (
    COMPUTE_DOMAIN,
    DEVICE_CLASS,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GANG,
    RESOURCE_CLAIM,
)
from app.facts.rows import DEVICE_CLASSES, SETS
from app.kube.api import ClusterError, NotFound, Object, ObjectRef, Selection
from app.objects.resource import EVENT, POD, Resource
from app.server.serve import Running
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.processes import free_port
from tests import builders
from tests.integration.conftest import CONFIGURATION
from tests.integration.system import Users, eventually, is_gone

pytestmark = [pytest.mark.untraced, pytest.mark.usefixtures("served")]

COLLECT = "mnnvl: {{collectAfterSeconds: 1}}\n"
KINDS = (COMPUTE_DOMAIN, RESOURCE_CLAIM)
PROTECTED = "resource.kubernetes.io/delete-protection"
SHARED = [{"name": "mnnvl", "resourceClaimName": "train-0-mnnvl-claim"}]
_PODS = itertools.count(1)


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return read_configuration((CONFIGURATION + COLLECT).format(port=free_port()), "test")


class Cluster:
    """Grove's operator, pods and their claims in one namespace, for the PodCliqueSet `train`."""

    def __init__(self, clients: Users, served: Running, namespace: str) -> None:
        self.clients = clients
        self.served = served
        self.namespace = namespace

    async def create_set(self, **annotations: str) -> Object:
        pcs = builders.pod_clique_set("train", mnnvl=True, replicas=3)
        pcs["metadata"]["annotations"] |= {
            f"grove.io/mnnvl-{key}": value for key, value in annotations.items()
        }
        stored = await self.clients.user.create(POD_CLIQUE_SET, pcs, self.namespace)
        uid = stored["metadata"]["uid"]

        async def is_known() -> bool:
            known = self.served.cluster.stores[SETS].get(self.namespace, "train")
            return known is not None and known.uid == uid

        await eventually(is_known)
        return stored

    async def clique(
        self, name: str, replica: int = 0, *, annotated: bool = True, scope: str = "replica"
    ) -> Object:
        labels = builders.labels("train", replica, f"train-{replica}", grove=True)
        obj = builders.pod_clique(f"train-{replica}-{name}", labels, scope=scope)
        if not annotated:
            del obj["metadata"]["annotations"]
        return await self.clients.operator.create(POD_CLIQUE, obj, self.namespace)

    async def reset(self, name: str, **annotations: str) -> Object:
        """An update of a PodClique as Grove's operator makes it: with the spec of its template."""
        prefixed = {f"grove.io/mnnvl-{key}": value for key, value in annotations.items()}
        patch = {
            "metadata": {"annotations": prefixed},
            "spec": {"podSpec": {**builders.pod_spec(), "resourceClaims": None}},
        }
        return await self.clients.operator.patch(ObjectRef(POD_CLIQUE, name, self.namespace), patch)

    async def gang(self, replica: int = 0) -> Object:
        name = f"train-{replica}"
        obj = builders.pod_gang(name, builders.gang_labels("train"), f"{name}-worker")
        return await self.clients.operator.create(POD_GANG, obj, self.namespace)

    async def pod_holding(self, claim: str) -> str:
        """A running pod that reserves `claim`, which is protected from then on."""
        name = f"pod-{next(_PODS)}"
        spec = {
            "containers": [{"name": "main", "image": "registry.example/main:1"}],
            "resourceClaims": [{"name": "mnnvl", "resourceClaimName": claim}],
        }
        pod = await self.clients.admin.create(
            POD, {"metadata": {"name": name}, "spec": spec}, self.namespace
        )
        await self.clients.admin.patch(
            ObjectRef(RESOURCE_CLAIM, claim, self.namespace),
            {"metadata": {"finalizers": [PROTECTED]}},
        )
        user = {"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}
        status = {"status": {"allocation": {}, "reservedFor": [user]}}
        await self.clients.admin.patch(
            ObjectRef(RESOURCE_CLAIM, claim, self.namespace), status, subresource="status"
        )
        return name

    async def end_pod(self, name: str, claim: str) -> None:
        """The pod goes, and its reservation with it."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}?gracePeriodSeconds=0"
        await self.clients.answer("admin", "DELETE", path)
        status: Object = {"status": {"reservedFor": None, "allocation": None}}
        await self.clients.admin.patch(
            ObjectRef(RESOURCE_CLAIM, claim, self.namespace), status, subresource="status"
        )
        await self.clients.admin.patch(
            ObjectRef(RESOURCE_CLAIM, claim, self.namespace), {"metadata": {"finalizers": None}}
        )

    async def uids(self) -> dict[str, str]:
        """The ComputeDomains and claims that are not being deleted, with their uids."""
        items = [
            item
            for kind in KINDS
            for item in (await self.clients.operator.list(Selection(kind, self.namespace))).items
        ]
        return {
            item["metadata"]["name"]: item["metadata"]["uid"]
            for item in items
            if not item["metadata"].get("deletionTimestamp")
        }

    async def owners(self) -> dict[str, str]:
        items = [
            item
            for kind in KINDS
            for item in (await self.clients.operator.list(Selection(kind, self.namespace))).items
        ]
        return {
            item["metadata"]["name"]: item["metadata"]["ownerReferences"][0]["uid"]
            for item in items
        }

    async def until_owned(self, uid: str, *bases: str) -> None:
        expected = {name: uid for base in bases for name in both(base)}
        assert await eventually(self.owners, lambda owners: owners == expected) == expected

    async def events(self) -> set[str]:
        items = (await self.clients.admin.list(Selection(EVENT, self.namespace))).items
        return {item["reason"] for item in items if item["regarding"]["kind"] == "PodCliqueSet"}

    async def until_event(self, reason: str) -> None:
        assert await eventually(self.events, lambda reasons: reason in reasons)


def both(base: str) -> list[str]:
    return [f"{base}-cd", f"{base}-mnnvl-claim"]


def claims_of(pod_clique: Object) -> object:
    return pod_clique["spec"]["podSpec"].get("resourceClaims")


@pytest_asyncio.fixture(loop_scope="module")
async def cluster(clients: Users, served: Running, namespace: str) -> Cluster:
    return Cluster(clients, served, namespace)


@pytest.fixture
def _collector(api: ApiServer) -> None:
    if not api.collects_garbage:
        pytest.skip(
            "needs a garbage collector: no kube-controller-manager beside the API server's binaries"
        )


async def test_the_deadlock_claims_that_running_pods_reserve_are_being_deleted(
    cluster: Cluster,
) -> None:
    """Grove's operator goes on: its updates are answered, other replicas come, and the claim is
    there again at last.
    """
    await cluster.create_set()
    await cluster.clique("worker")
    gang = (await cluster.gang())["metadata"]["uid"]
    await cluster.until_owned(gang, "train-0")
    before = await cluster.uids()
    claim = "train-0-mnnvl-claim"
    pods = [await cluster.pod_holding(claim) for _ in range(2)]
    for kind, name in zip(KINDS, both("train-0"), strict=True):
        await cluster.clients.admin.delete(ObjectRef(kind, name, cluster.namespace))
    expected = {"train-0-cd"}
    assert set(await eventually(cluster.uids, lambda uids: set(uids) == expected)) == expected
    assert claims_of(await cluster.reset("train-0-worker")) == SHARED
    assert claims_of(await cluster.clique("leader")) == SHARED
    assert claims_of(await cluster.clique("worker", 1)) == [
        {"name": "mnnvl", "resourceClaimName": "train-1-mnnvl-claim"}
    ]
    stored = await cluster.clients.admin.get(ObjectRef(RESOURCE_CLAIM, claim, cluster.namespace))
    assert stored["metadata"]["uid"] == before[claim]
    await cluster.clients.admin.delete(ObjectRef(POD, pods[0], cluster.namespace))
    await cluster.end_pod(pods[1], claim)
    expected = {*both("train-0"), *both("train-1")}
    after = await eventually(cluster.uids, lambda uids: set(uids) == expected)
    assert {after[name] for name in both("train-0")}.isdisjoint(before.values())
    owners = await eventually(
        cluster.owners, lambda owners: {owners[name] for name in both("train-0")} == {gang}
    )
    assert len(owners) == 4
    await cluster.until_event("MnnvlResourcesRestored")


@pytest.mark.statement("2.91", "2.93")
async def test_the_leak_a_set_is_scaled_from_one_to_three_and_back(cluster: Cluster) -> None:
    """Replicas 1 and 2 are gone before they had a PodGang; a pod of replica 2 takes its time."""
    await cluster.create_set()
    for replica in (0, 1, 2):
        await cluster.clique("worker", replica)
    gang = (await cluster.gang())["metadata"]["uid"]
    pod = await cluster.pod_holding("train-2-mnnvl-claim")
    for replica in (1, 2):
        await cluster.clients.operator.delete(
            ObjectRef(POD_CLIQUE, f"train-{replica}-worker", cluster.namespace)
        )
    expected = {*both("train-0"), *both("train-2")}
    kept = await eventually(cluster.uids, lambda uids: set(uids) == expected)
    await cluster.until_event("MnnvlResourcesCollected")
    assert await cluster.uids() == kept
    await cluster.end_pod(pod, "train-2-mnnvl-claim")
    await cluster.until_owned(gang, "train-0")


async def test_the_leak_the_scope_is_changed(cluster: Cluster) -> None:
    """What the PodGang owns already goes too, once no pod holds it."""
    await cluster.create_set()
    await cluster.clique("worker")
    gang = (await cluster.gang())["metadata"]["uid"]
    await cluster.until_owned(gang, "train-0")
    pod = await cluster.pod_holding("train-0-mnnvl-claim")
    changed = await cluster.reset("train-0-worker", scope="clique")
    assert claims_of(changed) == [
        {"name": "mnnvl", "resourceClaimName": "train-0-worker-mnnvl-claim"}
    ]
    await cluster.until_owned(gang, "train-0", "train-0-worker")
    await cluster.end_pod(pod, "train-0-mnnvl-claim")
    await cluster.until_owned(gang, "train-0-worker")


async def test_a_changed_scope_is_in_nobodys_way_until_the_operator_writes_the_spec(
    cluster: Cluster,
) -> None:
    await cluster.create_set()
    await cluster.clique("worker")
    patch = {
        "metadata": {
            "annotations": {"grove.io/mnnvl-scope": "clique"},
            "finalizers": ["example.com/hold"],
        }
    }
    stored = await cluster.clients.user.patch(
        ObjectRef(POD_CLIQUE, "train-0-worker", cluster.namespace), patch
    )
    assert claims_of(stored) == SHARED
    free = {"metadata": {"finalizers": None}}
    assert (
        claims_of(
            await cluster.clients.user.patch(
                ObjectRef(POD_CLIQUE, "train-0-worker", cluster.namespace), free
            )
        )
        == SHARED
    )


@pytest.mark.parametrize("deleted", [*KINDS, None], ids=["ComputeDomain", "ResourceClaim", "both"])
@pytest.mark.statement("2.94")
async def test_what_is_deleted_by_hand_is_made_again(
    cluster: Cluster, deleted: Resource | None
) -> None:
    await cluster.create_set()
    await cluster.clique("worker")
    gang = (await cluster.gang())["metadata"]["uid"]
    await cluster.until_owned(gang, "train-0")
    before = await cluster.uids()
    for kind, name in zip(KINDS, both("train-0"), strict=True):
        if deleted in (kind, None):
            await cluster.clients.admin.delete(ObjectRef(kind, name, cluster.namespace))

    def is_anew(uids: dict[str, str]) -> bool:
        changed = sum(uids.get(name) not in (None, uid) for name, uid in before.items())
        return changed == (2 if deleted is None else 1)

    assert await eventually(cluster.uids, is_anew)
    await cluster.until_owned(gang, "train-0")


@pytest.mark.usefixtures("_collector")
async def test_a_podgang_that_is_made_anew_has_its_resources(cluster: Cluster) -> None:
    pcs = (await cluster.create_set())["metadata"]["uid"]
    await cluster.clique("worker")
    gang = (await cluster.gang())["metadata"]["uid"]
    await cluster.until_owned(gang, "train-0")
    await cluster.clients.operator.delete(ObjectRef(POD_GANG, "train-0", cluster.namespace))
    await cluster.until_owned(pcs, "train-0")
    await cluster.until_owned((await cluster.gang())["metadata"]["uid"], "train-0")


@pytest.mark.usefixtures("_collector")
async def test_a_set_that_is_made_anew_has_its_own_resources(cluster: Cluster) -> None:
    """Those of the former set are collected with it, while the PodCliques of the new one come."""
    await cluster.create_set()
    await cluster.clique("worker")
    await cluster.clients.user.delete(ObjectRef(POD_CLIQUE_SET, "train", cluster.namespace))
    await cluster.clients.operator.delete(
        ObjectRef(POD_CLIQUE, "train-0-worker", cluster.namespace)
    )
    await eventually(
        lambda: is_gone(cluster.clients.operator, POD_CLIQUE_SET, "train", cluster.namespace)
    )
    pcs = (await cluster.create_set())["metadata"]["uid"]
    assert claims_of(await cluster.clique("worker")) == SHARED
    await cluster.until_owned(pcs, "train-0")


async def test_a_set_that_comes_after_its_cliques_gets_their_resources(cluster: Cluster) -> None:
    assert claims_of(await cluster.clique("worker")) == SHARED
    assert await cluster.uids() == {}
    await cluster.until_owned((await cluster.create_set())["metadata"]["uid"], "train-0")


async def test_a_foreign_object_in_the_way_is_reported_and_left_alone(cluster: Cluster) -> None:
    await cluster.create_set()
    await cluster.clique("worker")
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    await cluster.clients.admin.patch(
        ObjectRef(COMPUTE_DOMAIN, "train-0-cd", cluster.namespace), hold
    )
    await cluster.clients.admin.delete(ObjectRef(COMPUTE_DOMAIN, "train-0-cd", cluster.namespace))
    unlabelled = {"metadata": {"finalizers": None, "labels": {"grove.io/mnnvl-managed": None}}}
    await cluster.clients.admin.patch(
        ObjectRef(COMPUTE_DOMAIN, "train-0-cd", cluster.namespace), unlabelled
    )
    channel = {"channel": {"resourceClaimTemplate": {"name": "theirs"}}}
    foreign = {"metadata": {"name": "train-0-cd"}, "spec": {"numNodes": 4, **channel}}
    try:
        await cluster.clients.user.create(COMPUTE_DOMAIN, foreign, cluster.namespace)
    except ClusterError:
        return  # ours was there again before
    await cluster.until_event("MnnvlResourcesMissing")
    stored = await cluster.clients.user.get(
        ObjectRef(COMPUTE_DOMAIN, "train-0-cd", cluster.namespace)
    )
    assert stored["spec"]["numNodes"] == 4


@pytest.mark.statement("2.2", "2.13")
async def test_annotations_of_the_set_count(cluster: Cluster) -> None:
    pcs = (await cluster.create_set(enabled="true", scope="clique"))["metadata"]["uid"]
    made = await cluster.clique("worker", annotated=False)
    assert claims_of(made) == [{"name": "mnnvl", "resourceClaimName": "train-0-worker-mnnvl-claim"}]
    await cluster.until_owned(pcs, "train-0-worker")


@pytest.mark.statement("2.68")
async def test_the_form_of_claim_follows_the_device_classes(cluster: Cluster) -> None:
    names = ("compute-domain-default-channel.nvidia.com", "compute-domain.nvidia.com")
    classes = cluster.served.cluster.stores[DEVICE_CLASSES]
    await cluster.create_set()

    async def exist(*expected: str) -> None:
        for name in names:
            try:
                await cluster.clients.admin.get(ObjectRef(DEVICE_CLASS, name))
            except NotFound:
                if name in expected:
                    await cluster.clients.admin.create(
                        DEVICE_CLASS, {"metadata": {"name": name}, "spec": {}}
                    )
                continue
            if name not in expected:
                await cluster.clients.admin.delete(ObjectRef(DEVICE_CLASS, name))

        async def known() -> set[str]:
            return {name for _, name in classes.known_keys()}

        await eventually(known, lambda class_names: class_names == set(expected))

    template = [{"name": "mnnvl", "resourceClaimTemplateName": "train-0-mnnvl-template"}]
    await exist(names[0])
    try:
        assert claims_of(await cluster.clique("worker")) == template
        assert set(await cluster.uids()) == {"train-0-cd"}
        await exist(*names)
        assert claims_of(await cluster.clique("leader")) == SHARED
        assert claims_of(await cluster.reset("train-0-worker")) == template
    finally:
        await exist()

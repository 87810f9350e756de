"""Webhooks off, Grove's operator writes, webhooks on: every claim comes back, no running pod is
touched, and the tools say at each moment what is the case.

Grove's operator and what runs pods are played by the tests.
"""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from io import StringIO

import pytest
import pytest_asyncio

from app.audit.auditor import Auditor
from app.audit.claims import LACKS
from app.audit.progress import Progress
from app.config.schema import Configuration
from app.doctor.claims import check_lost_claims
from app.facts.kinds import POD_CLIQUE, POD_CLIQUE_SET
from app.facts.rows import SETS
from app.kube.api import Object, ObjectRef, Selection
from app.objects.resource import EVENT, MUTATING_WEBHOOKS, POD, VALIDATING_WEBHOOKS
from app.server.serve import Running
from app.webhooks.configurations import NAME
from scripts.apiserver.admission_server import ApiServer, configurations_of, unregistered
from tests import builders
from tests.integration.system import Users, eventually
from tests.integration.tried import tried

pytestmark = pytest.mark.untraced

NAMES = ["train-0-leader", "train-0-worker"]
OUTSIDE = "Pod {} lacks the PodClique's claim, and so cannot use NVLink between nodes"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(
    api: ApiServer, configuration: Configuration, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Running]:
    """Our server, ready, but without webhook configurations."""
    async with unregistered(
        api, configuration, tmp_path_factory.mktemp("served"), readable=False
    ) as served:
        yield served


class Cluster:
    """A PodCliqueSet `train` in one namespace, and what Grove's operator does for it."""

    def __init__(
        self, clients: Users, served: Running, configuration: Configuration, namespace: str
    ) -> None:
        self.admin = clients.admin
        self.grove = clients.operator
        self.namespace = namespace
        self._api = clients.api
        self._served = served
        self._configuration = configuration
        self._number = 0

    async def switch_on(self) -> None:
        bundle = self._served.certificate.ca_bundle() or b""
        await self._api.apply(configurations_of(self._served, bundle))

    async def switch_off(self) -> None:
        """Does what the README says."""
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            await self.admin.delete(ObjectRef(resource, NAME))

    async def create_set(self) -> None:
        pcs = builders.pod_clique_set("train")
        pcs["metadata"]["annotations"] = {"grove.io/mnnvl-enabled": "true"}
        await self.admin.create(POD_CLIQUE_SET, pcs, self.namespace)

        async def is_known() -> bool:
            stored = self._served.cluster.stores[SETS]
            return stored.get(self.namespace, "train") is not None

        await eventually(is_known)

    async def create_cliques(self) -> None:
        """One inherits the annotation, and the other has its own scope."""
        for name in NAMES:
            labels = builders.labels("train", 0, "train-0", grove=True)
            obj = builders.pod_clique(name, labels, scope="clique")
            if name == NAMES[0]:
                del obj["metadata"]["annotations"]
            await self.grove.create(POD_CLIQUE, obj, self.namespace)

    async def reset(self) -> None:
        """Grove's next write: the spec of each PodClique is that of its template."""
        patch = {"spec": {"podSpec": {**builders.pod_spec(), "resourceClaims": None}}}
        for name in NAMES:
            await self.grove.patch(ObjectRef(POD_CLIQUE, name, self.namespace), patch)

    async def specs(self) -> dict[str, Object]:
        items = (await self.admin.list(Selection(POD_CLIQUE, self.namespace))).items
        return {item["metadata"]["name"]: item["spec"]["podSpec"] for item in items}

    async def start_pod(self, clique: str) -> str:
        """Grove's operator makes a Pod from the stored PodClique, and a kubelet runs it."""
        self._number += 1
        name = f"{clique}-{self._number}"
        stored = await self.admin.get(ObjectRef(POD_CLIQUE, clique, self.namespace))
        owner = {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": clique}
        metadata = {
            "name": name,
            "labels": {**stored["metadata"]["labels"], "grove.io/podclique": clique},
            "ownerReferences": [{**owner, "uid": stored["metadata"]["uid"]}],
        }
        await self.admin.create(
            POD, {"metadata": metadata, "spec": stored["spec"]["podSpec"]}, self.namespace
        )
        status = {"status": {"phase": "Running"}}
        await self.admin.patch(ObjectRef(POD, name, self.namespace), status, subresource="status")
        return name

    async def end_pod(self, name: str) -> None:
        """A Pod that is bound to no node is gone at once."""
        await self.admin.delete(ObjectRef(POD, name, self.namespace))

    async def pods(self) -> dict[str, str]:
        items = (await self.admin.list(Selection(POD, self.namespace))).items
        return {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}

    async def audit(self) -> dict[str, tuple[str, ...]]:
        """The problems of each PodClique."""
        now = datetime.now(UTC)
        auditor = Auditor(self.admin, self._configuration, Progress(StringIO()).show, now)
        findings = [finding async for finding in auditor.findings(self.namespace)]
        return {
            finding.name: finding.problems
            for finding in findings
            if finding.kind == POD_CLIQUE.kind
        }

    async def doctor(self) -> list[str]:
        """The problems of claims in this namespace."""
        return [
            check.message
            for check in await check_lost_claims(self.admin)
            if f"{self.namespace}/" in check.message
        ]

    async def events(self) -> dict[str, str]:
        items = (await self.admin.list(Selection(EVENT, self.namespace))).items
        return {item["reason"]: item["note"] for item in items if "Claim" in item["reason"]}

    def missing(self) -> float:
        samples = self._served.leader.samples() if self._served.leader is not None else ()
        return sum(sample.value for sample in samples if sample.name == "mnnvl_claims_missing")


@pytest_asyncio.fixture(loop_scope="module")
async def cluster(
    clients: Users, served: Running, configuration: Configuration, namespace: str
) -> Cluster:
    return Cluster(clients, served, configuration, namespace)


async def test_claims_come_back_and_the_tools_tell_the_truth(cluster: Cluster) -> None:
    await cluster.create_set()
    await cluster.switch_on()
    await eventually(lambda: is_called(cluster))
    await cluster.create_cliques()
    admitted = await cluster.specs()
    assert all("resourceClaims" in spec for spec in admitted.values())
    for name in NAMES:
        await cluster.start_pod(name)
    running = await cluster.pods()
    assert (await cluster.audit(), await cluster.doctor()) == ({}, [])

    await cluster.switch_off()
    await eventually(lambda: is_called(cluster), lambda called: not called)
    await cluster.reset()
    assert all("resourceClaims" not in spec for spec in (await cluster.specs()).values())
    assert await cluster.audit() == dict.fromkeys(NAMES, (LACKS,))
    assert [message.partition(":")[0] for message in await cluster.doctor()] == [
        "PodCliques without their MNNVL claim, whose new Pods run outside of their NVLink domain"
    ]
    events = await eventually(cluster.events, lambda events: "MnnvlClaimsMissing" in events)
    assert "the webhook that injects the claim is not called" in events["MnnvlClaimsMissing"]
    assert cluster.missing() == 2
    await cluster.end_pod(f"{NAMES[1]}-2")
    outside = await cluster.start_pod(NAMES[1])

    await cluster.switch_on()
    assert await eventually(cluster.specs, lambda specs: specs == admitted) == admitted
    assert await cluster.pods() == {
        f"{NAMES[0]}-1": running[f"{NAMES[0]}-1"],
        outside: (await cluster.pods())[outside],
    }
    events = await eventually(cluster.events, lambda events: "MnnvlPodsWithoutClaim" in events)
    assert f"was restored: {outside}. Delete" in events["MnnvlPodsWithoutClaim"]
    assert await cluster.audit() == {NAMES[1]: (OUTSIDE.format(outside),)}
    assert [
        message.endswith(f": {cluster.namespace}/{outside}") for message in await cluster.doctor()
    ] == [True]
    assert cluster.missing() == 0

    await cluster.end_pod(outside)
    await cluster.start_pod(NAMES[1])
    assert (await cluster.audit(), await cluster.doctor()) == ({}, [])
    await cluster.reset()
    assert await cluster.specs() == admitted
    await cluster.switch_off()


async def is_called(cluster: Cluster) -> bool:
    """Whether the API server calls our webhook: a change of webhooks takes it up to a second."""
    labels = builders.labels("train", 0, "train-0", grove=True)
    obj = builders.pod_clique("train-0-probe", labels)
    answer = await tried(cluster.grove, POD_CLIQUE, obj, cluster.namespace)
    return "resourceClaims" in answer["spec"]["podSpec"]

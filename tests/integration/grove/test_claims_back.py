"""Webhooks off, a change, webhooks on, beside Grove's real operator: the claims are back in all
PodCliques, and no Pod was restarted.
"""

import asyncio

import pytest

from app.facts.kinds import POD_CLIQUE, POD_CLIQUE_SET
from app.kube.api import Object, ObjectRef, Selection
from app.objects.resource import EVENT, MUTATING_WEBHOOKS, POD, VALIDATING_WEBHOOKS
from app.server.serve import Running
from app.webhooks.configurations import NAME
from scripts.apiserver.admission_server import ApiServer, configurations_of
from tests.integration.grove.claims import claims_of_pods
from tests.integration.grove.operator import GroveOperator
from tests.integration.grove.test_mnnvl_examples import annotated, example
from tests.integration.system import Users, eventually

pytestmark = pytest.mark.untraced

SETTLED_SECONDS = 15
SET = "distributed-training"
CLAIMS = {
    f"{SET}-{replica}-{clique}": f"{SET}-{replica}"
    for replica in range(3)
    for clique in ("worker", "parameter-server")
}
"""The base name of the claim of each PodClique, with three replicas of six Pods."""


class Workload:
    """The PodCliqueSet in one namespace."""

    def __init__(self, clients: Users, namespace: str) -> None:
        self.admin = clients.admin
        self._clients = clients
        self._namespace = namespace

    async def claimed(self) -> dict[str, bool]:
        """Whether each PodClique has a claim."""
        items = (await self.admin.list(Selection(POD_CLIQUE, self._namespace))).items
        return {
            item["metadata"]["name"]: "resourceClaims" in item["spec"]["podSpec"] for item in items
        }

    async def running(self) -> dict[str, str]:
        """The uids of the Pods that run and are not being deleted."""
        items = (await self.admin.list(Selection(POD, self._namespace), limit=0)).items
        return {
            item["metadata"]["name"]: item["metadata"]["uid"]
            for item in items
            if item["status"]["phase"] == "Running" and "deletionTimestamp" not in item["metadata"]
        }

    async def until_running(self, count: int) -> dict[str, str]:
        return await eventually(self.running, lambda pods: len(pods) == count)

    async def scale(self, replicas: int) -> None:
        path = f"/apis/grove.io/v1alpha1/namespaces/{self._namespace}/podcliquesets/{SET}"
        await self._clients.answer("user", "PATCH", path, {"spec": {"replicas": replicas}})

    async def end(self, pod: str) -> None:
        await self.admin.delete(ObjectRef(POD, pod, self._namespace))

    async def without_claim(self) -> list[str]:
        items = (await self.admin.list(Selection(POD, self._namespace), limit=0)).items
        return [item["metadata"]["name"] for item in items if _claims(item) == []]

    async def events(self) -> set[str]:
        return {
            item["reason"]
            for item in (await self.admin.list(Selection(EVENT, self._namespace))).items
        }


def _claims(pod: Object) -> list[Object]:
    return list(pod["spec"].get("resourceClaims", []))


async def test_claims_come_back_and_grove_restarts_nothing(
    api: ApiServer, operator: GroveOperator, served: Running, clients: Users, namespace: str
) -> None:
    train = Workload(clients, namespace)
    pcs = annotated(example("replica"), "replica", "the PodCliqueSet")
    await clients.user.create(POD_CLIQUE_SET, pcs, namespace)
    before = await train.until_running(12)
    assert await train.without_claim() == []

    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        await clients.admin.delete(ObjectRef(resource, NAME))
    await asyncio.sleep(2)
    await train.scale(3)
    await eventually(train.claimed, lambda claimed: list(claimed.values()) == 6 * [False])
    replaced = sorted(before)[0]
    await train.end(replaced)
    await eventually(train.running, lambda pods: pods.get(replaced) != before[replaced])
    without = await train.until_running(18)
    assert len(await train.without_claim()) == 7
    await eventually(train.events, lambda reasons: "MnnvlClaimsMissing" in reasons)

    bundle = served.certificate.ca_bundle() or b""
    await api.apply(configurations_of(served, bundle))
    await eventually(train.claimed, lambda claimed: list(claimed.values()) == 6 * [True])
    await eventually(train.events, lambda reasons: "MnnvlPodsWithoutClaim" in reasons)
    await asyncio.sleep(SETTLED_SECONDS)
    assert await train.running() == without
    assert {name: before[name] for name in before if name != replaced}.items() <= without.items()

    for name in await train.without_claim():
        await train.end(name)
    expected = (18, CLAIMS)
    look = lambda: claims_of_pods(clients, namespace)  # noqa: E731
    assert await eventually(look, lambda seen: seen == expected) == expected
    assert operator.is_running

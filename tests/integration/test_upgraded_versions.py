"""Grove goes from v1alpha1 to v1beta1 while our server runs, without a restart of ours."""

import copy

import httpx
import pytest

from app.facts.kinds import COMPUTE_DOMAIN, POD_CLIQUE, POD_CLIQUE_SET, RESOURCE_CLAIM
from app.facts.rows import SETS
from app.kube.api import NotFound, Object, ObjectRef, Selection
from app.objects.resource import CRD, Resource
from app.server.serve import Running
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.sandbox import Sandbox
from tests import builders
from tests.integration.system import PATIENCE, Users, eventually, is_gone

pytestmark = pytest.mark.untraced


async def to_v1beta1(api: ApiServer, clients: Users, served: Running) -> None:
    """Upgrade Grove's CRDs in two steps, as an API server asks for: v1alpha1 stays stored."""
    for serves_former in (True, False):
        stored = (await clients.admin.list(Selection(CRD), limit=0)).items
        crds = [crd for crd in stored if crd["spec"]["group"] == "grove.io"]
        await api.apply([upgraded(crd, serves_former=serves_former) for crd in crds])

    async def note() -> str:
        return served.cluster.notes().get(f"api/{POD_CLIQUE_SET}", "")

    await eventually(note, lambda version: version == "v1beta1")
    for client in (clients.admin, clients.operator, clients.user):
        await client.discovery.refresh()


def upgraded(crd: Object, *, serves_former: bool) -> Object:
    spec = copy.deepcopy(crd["spec"])
    form = spec["versions"][0]
    spec["versions"] = [
        {**form, "name": "v1alpha1", "served": serves_former, "storage": False},
        {**form, "name": "v1beta1", "served": True, "storage": True},
    ]
    metadata = {"name": crd["metadata"]["name"]}
    return {
        "apiVersion": crd["apiVersion"],
        "kind": crd["kind"],
        "metadata": metadata,
        "spec": spec,
    }


async def make(clients: Users, served: Running, name: str, namespace: str) -> None:
    """Create a set that asks for MNNVL and a PodClique of it, and look at what it gets."""
    await clients.user.create(POD_CLIQUE_SET, builders.pod_clique_set(name, mnnvl=True), namespace)

    async def is_known() -> bool:
        return served.cluster.stores[SETS].get(namespace, name) is not None

    await eventually(is_known)
    clique = builders.pod_clique(f"{name}-0-worker", builders.labels(name, 0, f"{name}-0"))
    clique = await clients.operator.create(POD_CLIQUE, clique, namespace)
    assert clique["spec"]["podSpec"]["resourceClaims"]


async def owner_of(clients: Users, name: str, namespace: str) -> str:
    ref = ObjectRef(COMPUTE_DOMAIN, f"{name}-0-cd", namespace)
    try:
        stored = await clients.user.get(ref)
    except NotFound:
        return ""
    (owner,) = stored["metadata"]["ownerReferences"]
    return str(owner["apiVersion"])


async def test_grove_drops_v1alpha1_while_we_run(
    api: ApiServer, clients: Users, served: Running, namespace: str
) -> None:
    await make(clients, served, "before", namespace)
    assert await owner_of(clients, "before", namespace) == "grove.io/v1alpha1"

    await to_v1beta1(api, clients, served)

    wrong = builders.pod_clique_set("wrong", domain="rack", clique_domain="zone")
    wrong["apiVersion"] = "grove.io/v1beta1"
    path = f"/apis/grove.io/v1beta1/namespaces/{namespace}/podcliquesets"
    with pytest.raises(httpx.HTTPStatusError) as refused:
        await clients.call("POST", path, wrong)
    assert "packDomain" in refused.value.response.json()["message"]

    await make(clients, served, "after", namespace)

    # An API server learns of the new version for owners within 30 s. What the former set has can
    # then be collected: its owner is named as it is served.
    for name in ("after", "before"):

        async def owner(name: str = name) -> str:
            return await owner_of(clients, name, namespace)

        await eventually(owner, lambda version: version == "grove.io/v1beta1", 3 * PATIENCE)

    if not isinstance(api, Sandbox):
        return  # its garbage collector misses what is deleted while it begins to watch a version
    for name in ("before", "after"):
        await clients.admin.delete(ObjectRef(POD_CLIQUE_SET, name, namespace))
        for resource, made in (
            (COMPUTE_DOMAIN, f"{name}-0-cd"),
            (RESOURCE_CLAIM, f"{name}-0-mnnvl-claim"),
        ):

            async def gone(resource: Resource = resource, made: str = made) -> bool:
                return await is_gone(clients.admin, resource, made, namespace)

            await eventually(gone)

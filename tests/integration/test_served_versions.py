"""Neighbours that serve their APIs in other versions than those that we were written beside.

The CRDs are the same in each version: of Grove's v1beta1, no source was at hand.
"""

import copy
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
import yaml

from app.config.schema import Configuration
from app.facts.kinds import (
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    COMPUTE_DOMAIN,
    KAI_TOPOLOGY,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GROUP,
    RESOURCE_CLAIM,
)
from app.facts.rows import SETS
from app.kube.api import NotFound, Object, ObjectRef, Rejected
from app.objects.resource import Resource
from app.server.serve import Running
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.manifests import BUILT_IN, definitions, load
from scripts.apiserver.real import RealApiServer, find_binaries
from scripts.apiserver.sandbox import Sandbox
from tests import builders
from tests.integration.conftest import own_rules
from tests.integration.system import Users, command, eventually, is_gone

pytestmark = pytest.mark.untraced

OF_GROVE = ("grove.io", "scheduler.grove.io")
CASES: dict[str, Mapping[str, tuple[str, ...]]] = {
    "grove in both versions": dict.fromkeys(OF_GROVE, ("v1alpha1", "v1beta1")),
    "grove without v1alpha1": {"grove.io": ("v1beta1",)},
    "every neighbour in a version that does not exist": {
        **dict.fromkeys((*OF_GROVE, "kai.scheduler", "resource.nvidia.com"), ("v9",)),
        "scheduling.run.ai": ("v9",),
    },
}
"""The versions in which the kinds of a group are served, if not in those of its CRDs."""

FORMER = (POD_CLIQUE_SET, POD_GROUP)
"""Written here in the words of the designs, which the CRDs of today's neighbours don't allow."""


@pytest.fixture(scope="module", params=list(CASES))
def versions(request: pytest.FixtureRequest) -> Mapping[str, tuple[str, ...]]:
    return CASES[request.param]


def _by_name(crds: Iterable[Object]) -> dict[str, Object]:
    return {crd["metadata"]["name"]: crd for crd in crds}


def in_versions(crd: Object, versions: Mapping[str, tuple[str, ...]]) -> Object:
    """Return a CRD with the same schema in other versions; the last one is stored."""
    names = versions.get(crd["spec"]["group"])
    if names is None:
        return crd
    changed = copy.deepcopy(crd)
    form = changed["spec"]["versions"][0]
    changed["spec"]["versions"] = [
        {**form, "name": name, "served": True, "storage": name == names[-1]} for name in names
    ]
    changed.pop("status", None)
    return changed


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(
    kind: str,
    versions: Mapping[str, tuple[str, ...]],
    configuration: Configuration,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[ApiServer]:
    named = os.environ.get("INTEGRATION_CRDS")
    by_name = _by_name(definitions(Path(named) if named else BUILT_IN))
    by_name.pop(str(CLUSTER_TOPOLOGY_BINDING), None)
    minimal = _by_name(load(BUILT_IN))
    by_name |= {str(resource): minimal[str(resource)] for resource in FORMER}
    crds = [in_versions(crd, versions) for crd in by_name.values()]
    folder = tmp_path_factory.mktemp("crds")
    (folder / "crds.yaml").write_text(yaml.safe_dump_all(crds))
    state = tmp_path_factory.mktemp("api")
    server: ApiServer
    if kind == "real":
        server = RealApiServer(
            binaries=find_binaries(os.environ), state_dir=state, crds=folder, rules=own_rules()
        )
    else:
        server = Sandbox(state_dir=state, crds=folder, rules=own_rules())
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


def served_in(resource: Resource, versions: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    return versions.get(resource.group, resource.versions[-1:])


async def create(
    clients: Users, resource: Resource, version: str, obj: Object, namespace: str
) -> Object:
    """Create an object as a user in a version of its API."""
    path = f"/apis/{resource.group}/{version}/namespaces/{namespace}/{resource.plural}"
    body = {**obj, "apiVersion": f"{resource.group}/{version}", "kind": resource.kind}
    return await clients.call("POST", path, body)


async def test_a_set_is_judged_in_each_version(
    clients: Users, served: Running, namespace: str, versions: Mapping[str, tuple[str, ...]]
) -> None:
    for version in served_in(POD_CLIQUE_SET, versions):
        good = builders.pod_clique_set(f"good-{version}", domain="zone", clique_domain="rack")
        await create(clients, POD_CLIQUE_SET, version, good, namespace)

        wrong = builders.pod_clique_set(f"wrong-{version}", domain="rack", clique_domain="zone")
        with pytest.raises(httpx.HTTPStatusError) as refused:
            await create(clients, POD_CLIQUE_SET, version, wrong, namespace)
        assert "packDomain" in refused.value.response.json()["message"]


async def test_subgroups_are_judged_in_each_version(
    clients: Users, served: Running, namespace: str, versions: Mapping[str, tuple[str, ...]]
) -> None:
    for version in served_in(POD_GROUP, versions):
        group = {
            "metadata": {"name": f"wrong-{version}"},
            "spec": {"minMember": 1, "subGroups": [{"name": "Decode", "minMember": 1}]},
        }
        with pytest.raises(httpx.HTTPStatusError) as refused:
            await create(clients, POD_GROUP, version, group, namespace)
        assert 'invalid subgroup name "Decode"' in refused.value.response.json()["message"]


async def test_a_clique_gets_its_claim_and_owners_that_the_cluster_serves(
    clients: Users, served: Running, namespace: str, versions: Mapping[str, tuple[str, ...]]
) -> None:
    newest = served_in(POD_CLIQUE_SET, versions)[-1]
    pcs = builders.pod_clique_set("train", mnnvl=True)
    await create(clients, POD_CLIQUE_SET, newest, pcs, namespace)

    async def is_known() -> bool:
        return served.cluster.stores[SETS].get(namespace, "train") is not None

    await eventually(is_known)
    clique = builders.pod_clique("train-0-worker", builders.labels("train", 0, "train-0"))
    clique = await clients.operator.create(POD_CLIQUE, clique, namespace)
    assert clique["spec"]["podSpec"]["resourceClaims"][0]["resourceClaimName"]

    for resource, name in (
        (COMPUTE_DOMAIN, "train-0-cd"),
        (RESOURCE_CLAIM, "train-0-mnnvl-claim"),
    ):
        stored = await clients.user.get(ObjectRef(resource, name, namespace))
        (owner,) = stored["metadata"]["ownerReferences"]
        assert (owner["apiVersion"], owner["kind"]) == (f"grove.io/{newest}", "PodCliqueSet")
    assert stored["apiVersion"] == "resource.k8s.io/v1"

    # the leader makes again what is deleted, with the same owner
    domain = ObjectRef(COMPUTE_DOMAIN, "train-0-cd", namespace)
    uid = (await clients.user.get(domain))["metadata"]["uid"]
    await clients.admin.delete(domain)

    async def again() -> Object | None:
        try:
            found = await clients.user.get(domain)
        except NotFound:
            return None
        return found if found["metadata"]["uid"] != uid else None

    made = await eventually(again)
    assert made
    assert made["metadata"]["ownerReferences"][0]["apiVersion"] == f"grove.io/{newest}"


async def test_a_podgang_gets_its_constraint(
    clients: Users, served: Running, namespace: str
) -> None:
    pcs = builders.pod_clique_set("placed", domain="rack")
    await clients.user.create(POD_CLIQUE_SET, pcs, namespace)

    async def is_known() -> bool:
        return served.cluster.stores[SETS].get(namespace, "placed") is not None

    await eventually(is_known)
    gang = builders.pod_gang("placed-0", builders.gang_labels("placed"), "placed-0-worker")
    gang = await clients.operator.create(POD_GANG, gang, namespace)
    packed = gang["spec"]["topologyConstraint"]["packConstraint"]
    assert packed["required"] == "topology.kubernetes.io/rack"


async def test_the_topologies_are_there_and_guarded(
    clients: Users,
    served: Running,
    configuration: Configuration,
    versions: Mapping[str, tuple[str, ...]],
) -> None:
    name = configuration.cluster_topology.name
    topology = ObjectRef(CLUSTER_TOPOLOGY, name)
    with pytest.raises(Rejected, match="is managed by"):
        await clients.user.delete(topology)

    async def is_made() -> bool:
        return not await is_gone(clients.admin, KAI_TOPOLOGY, name)

    await eventually(is_made)
    kai = await clients.admin.get(ObjectRef(KAI_TOPOLOGY, name))
    stored = await clients.admin.get(topology)
    (owner,) = kai["metadata"]["ownerReferences"]
    assert owner["apiVersion"] == stored["apiVersion"]
    assert owner["uid"] == stored["metadata"]["uid"]
    assert stored["apiVersion"].rpartition("/")[2] in served_in(CLUSTER_TOPOLOGY, versions)


async def test_what_is_unknown_is_said(
    api: ApiServer,
    served: Running,
    versions: Mapping[str, tuple[str, ...]],
) -> None:
    resources = (CLUSTER_TOPOLOGY, POD_CLIQUE_SET, POD_CLIQUE, POD_GANG, POD_GROUP, COMPUTE_DOMAIN)
    unknown = {
        str(resource): served_in(resource, versions)[-1]
        for resource in resources
        if not {*served_in(resource, versions)} & {*resource.versions}
    }
    notes = served.cluster.notes()
    told = {str(r): notes[f"api/{r}"] for r in resources if "does not know" in notes[f"api/{r}"]}
    assert set(told) == set(unknown)
    assert all(told[name].startswith(f"{version}, ") for name, version in unknown.items())

    sampled = {
        labels["resource"]: labels["version"]
        for sample in served.cluster.samples()
        if sample.name == "api_version_unknown"
        for labels in [dict(sample.labels)]
    }
    assert sampled.items() >= unknown.items()
    assert bool(sampled) is bool(unknown)

    _, out, _ = await command("doctor", "--kubeconfig", str(api.kubeconfig), "--context", "admin")
    lines = [line for line in out.splitlines() if "does not know" in line]
    assert [name for name in unknown if not any(name in line for line in lines)] == []
    assert bool(lines) is bool(unknown)

"""PodCliques that want MNNVL, through the admission chain: what is made for them, and all the
races.
"""

import asyncio
from base64 import b64encode
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from app.config.read import read_configuration
from app.facts.kinds import COMPUTE_DOMAIN, POD_CLIQUE, POD_CLIQUE_SET, RESOURCE_CLAIM
from app.facts.rows import DOMAINS, SETS
from app.kube.api import ClusterError, Object, ObjectRef, Selection
from app.kube.client import HttpClient
from app.server.serve import Running
from app.webhooks.paths import path_of
from scripts.apiserver.admission_server import ApiServer, unregistered
from scripts.apiserver.processes import free_port
from tests import builders
from tests.integration.conftest import CONFIGURATION
from tests.integration.system import Users, create_all, eventually, is_gone, names
from tests.integration.tried import tried

pytestmark = [pytest.mark.untraced, pytest.mark.usefixtures("served")]

CHANNEL = {"channel": {"resourceClaimTemplate": {"name": "theirs"}}}
FIRST, SECOND = ({"matchLabels": {"judge": name}} for name in ("first", "second"))


@pytest_asyncio.fixture(loop_scope="module")
async def owner(clients: Users, served: Running, namespace: str) -> Object:
    """A PodCliqueSet `train` that our server knows."""
    made = await clients.user.create(
        POD_CLIQUE_SET, builders.pod_clique_set("train", mnnvl=True, replicas=50), namespace
    )
    await known(served, namespace, "train")
    return made


async def known(served: Running, namespace: str, name: str) -> None:
    async def is_known() -> bool:
        return served.cluster.stores[SETS].get(namespace, name) is not None

    await eventually(is_known)


def clique(replica: int = 0, name: str = "worker", *, grove: bool = False) -> Object:
    labels = builders.labels("train", replica, f"train-{replica}", grove=grove)
    return builders.pod_clique(f"train-{replica}-{name}", labels)


async def create(clients: Users, namespace: str, obj: Object) -> Object:
    return await clients.operator.create(POD_CLIQUE, obj, namespace)


def claims_of(pod_clique: Object) -> object:
    return pod_clique["spec"]["podSpec"].get("resourceClaims")


def calls_of(served: Running) -> int:
    client = served.cluster.client
    assert isinstance(client, HttpClient)
    return sum(
        count for (verb, _, _), count in client.calls.items() if verb not in ("watch", "list")
    )


@pytest.mark.parametrize("grove", [False, True], ids=["the design's labels", "Grove's labels"])
@pytest.mark.usefixtures("owner")
@pytest.mark.statement("2.3", "2.98")
async def test_a_clique_gets_a_domain_and_a_claim(
    clients: Users, namespace: str, grove: bool, owner: Object
) -> None:
    made = await create(clients, namespace, clique(grove=grove))
    assert claims_of(made) == [{"name": "mnnvl", "resourceClaimName": "train-0-mnnvl-claim"}]
    assert made["spec"]["podSpec"]["containers"][0]["resources"]["claims"] == [{"name": "mnnvl"}]
    domain = await clients.user.get(ObjectRef(COMPUTE_DOMAIN, "train-0-cd", namespace))
    claim = await clients.user.get(ObjectRef(RESOURCE_CLAIM, "train-0-mnnvl-claim", namespace))
    for obj in (domain, claim):
        assert [ref["uid"] for ref in obj["metadata"]["ownerReferences"]] == [
            owner["metadata"]["uid"]
        ]
        assert obj["metadata"]["labels"]["grove.io/pcs-name"] == "train"
        assert "grove.io/podgang" not in obj["metadata"]["labels"]
    template = {"name": "train-0-mnnvl-template"}
    assert domain["spec"] == {
        "numNodes": 0,
        "channel": {"resourceClaimTemplate": template, "allocationMode": "Single"},
    }


@pytest.mark.usefixtures("owner")
@pytest.mark.statement("2.65", "2.89")
async def test_the_second_clique_of_a_replica_costs_no_call(
    clients: Users, served: Running, namespace: str
) -> None:
    await create(clients, namespace, clique(name="worker"))

    async def is_quiet() -> bool:
        before = calls_of(served)
        await asyncio.sleep(0.5)  # the reconcilers look at the first one, too
        return calls_of(served) == before

    await eventually(is_quiet)
    before = calls_of(served)
    made = await tried(clients.operator, POD_CLIQUE, clique(name="leader"), namespace)
    assert claims_of(made) == [{"name": "mnnvl", "resourceClaimName": "train-0-mnnvl-claim"}]
    assert calls_of(served) == before


@pytest.mark.usefixtures("owner")
@pytest.mark.statement("2.56", "2.110")
async def test_a_reset_by_the_operator_gets_the_claim_back(clients: Users, namespace: str) -> None:
    made = await create(clients, namespace, clique())
    reset = {"spec": {"podSpec": {**builders.pod_spec(), "resourceClaims": None}}}
    again = await clients.operator.patch(ObjectRef(POD_CLIQUE, "train-0-worker", namespace), reset)
    assert again["spec"] == made["spec"]


@pytest.mark.usefixtures("owner")
@pytest.mark.statement("2.80")
async def test_a_dry_run_makes_nothing(clients: Users, namespace: str) -> None:
    answer = await tried(clients.operator, POD_CLIQUE, clique(), namespace)
    assert claims_of(answer) == [{"name": "mnnvl", "resourceClaimName": "train-0-mnnvl-claim"}]
    for resource in (POD_CLIQUE, COMPUTE_DOMAIN, RESOURCE_CLAIM):
        assert await names(clients.user, resource, namespace) == []


@pytest.mark.usefixtures("owner")
@pytest.mark.statement("2.72")
async def test_a_clique_without_gpus_gets_nothing(clients: Users, namespace: str) -> None:
    made = await create(
        clients,
        namespace,
        {**clique(), "spec": {**clique()["spec"], "podSpec": builders.pod_spec(cpu=1)}},
    )
    assert claims_of(made) is None
    assert await names(clients.user, COMPUTE_DOMAIN, namespace) == []


@pytest.mark.usefixtures("owner")
@pytest.mark.statement("2.78")
async def test_what_others_made_is_not_taken(clients: Users, namespace: str) -> None:
    foreign = {"metadata": {"name": "train-0-cd"}, "spec": {"numNodes": 4, **CHANNEL}}
    await clients.user.create(COMPUTE_DOMAIN, foreign, namespace)
    with pytest.raises(ClusterError, match='ComputeDomain "train-0-cd" exists') as raised:
        await create(clients, namespace, clique())
    assert raised.value.code == 403
    assert await is_gone(clients.user, POD_CLIQUE, "train-0-worker", namespace)


@pytest.mark.usefixtures("owner")
async def test_what_is_being_deleted_is_waited_for(
    clients: Users, served: Running, namespace: str
) -> None:
    await create(clients, namespace, clique())
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    await clients.admin.patch(ObjectRef(COMPUTE_DOMAIN, "train-0-cd", namespace), hold)
    await clients.admin.delete(ObjectRef(COMPUTE_DOMAIN, "train-0-cd", namespace))

    async def is_seen() -> bool:
        domain = served.cluster.stores[DOMAINS].get(namespace, "train-0-cd")
        return domain is not None and domain.deleting

    await eventually(is_seen)
    path = f"/apis/grove.io/v1alpha1/namespaces/{namespace}/podcliques"
    answer = await clients.answer(
        "grove", "POST", path, {**clique(name="leader"), "apiVersion": "grove.io/v1alpha1"}
    )
    assert claims_of(answer.json()) == [
        {"name": "mnnvl", "resourceClaimName": "train-0-mnnvl-claim"}
    ]
    assert 'ComputeDomain \\"train-0-cd\\" is being deleted' in answer.headers["Warning"]
    former = (await clients.user.get(ObjectRef(COMPUTE_DOMAIN, "train-0-cd", namespace)))[
        "metadata"
    ]["uid"]
    await clients.admin.patch(
        ObjectRef(COMPUTE_DOMAIN, "train-0-cd", namespace), {"metadata": {"finalizers": None}}
    )

    async def uids() -> list[str]:
        items = (await clients.user.list(Selection(COMPUTE_DOMAIN, namespace))).items
        return [item["metadata"]["uid"] for item in items]

    assert await eventually(uids, lambda current: len(current) == 1 and current != [former])


async def test_an_unknown_owner_is_waited_for(clients: Users, namespace: str) -> None:
    made = await create(clients, namespace, clique())
    assert claims_of(made) == [{"name": "mnnvl", "resourceClaimName": "train-0-mnnvl-claim"}]
    assert await names(clients.user, COMPUTE_DOMAIN, namespace) == []


async def test_nothing_is_made_for_a_clique_of_a_former_set_of_that_name(
    clients: Users, namespace: str, owner: Object
) -> None:
    stale = clique()
    stale["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "name": "train",
            "uid": "00000000-0000-0000-0000-000000000000",
            "controller": True,
        }
    ]
    made = await tried(clients.operator, POD_CLIQUE, stale, namespace)
    assert claims_of(made) == [{"name": "mnnvl", "resourceClaimName": "train-0-mnnvl-claim"}]
    await create(clients, namespace, stale)
    assert await names(clients.user, COMPUTE_DOMAIN, namespace) == []


@pytest.mark.statement("2.63")
async def test_two_servers_make_each_domain_and_claim_once(
    clients: Users, api: ApiServer, served: Running, namespace: str, tmp_path: Path, owner: Object
) -> None:
    """200 PodCliques of 50 replicas, half of them judged by one server and half by the other.

    The PodCliques of ten replicas are created at once, so that each call is answered in time on a
    machine that is busy with other things, too.
    """
    configuration = read_configuration(CONFIGURATION.format(port=free_port()), "test")
    async with unregistered(api, configuration, tmp_path, readable=False) as other:
        await known(other, namespace, "train")
        bundle = (tmp_path / "webhook" / "ca.crt").read_bytes()
        before = await mutating(clients)
        (path,) = {
            path_of(webhook["clientConfig"])
            for webhook in before["webhooks"]
            if webhook["name"].startswith("podclique.")
        }
        url = f"https://127.0.0.1:{other.listener.port}{path}"
        client = {"url": url, "caBundle": b64encode(bundle).decode()}
        try:
            await api.apply([split(before, client)])
            cliques = [
                labelled(clique(replica, name), name)
                for replica in range(50)
                for name in ("a", "b", "c", "d")
            ]
            made = [
                created
                for first in range(0, len(cliques), 40)
                for created in await create_all(
                    clients.operator, POD_CLIQUE, cliques[first : first + 40], namespace
                )
            ]
        finally:
            await api.apply([before])
        assert {verdicts(server) > 0 for server in (served, other)} == {True}
    assert [claims_of(obj) for obj in made] == [
        [{"name": "mnnvl", "resourceClaimName": f"train-{replica}-mnnvl-claim"}]
        for replica in range(50)
        for _ in range(4)
    ]
    for resource, end in ((COMPUTE_DOMAIN, "cd"), (RESOURCE_CLAIM, "mnnvl-claim")):
        expected = sorted(f"train-{n}-{end}" for n in range(50))
        await eventually(partial(names, clients.user, resource, namespace), expected.__eq__)


async def mutating(clients: Users) -> Object:
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/grove-admission"
    configuration = await clients.call("GET", path)
    return {**configuration, "metadata": {"name": configuration["metadata"]["name"]}}


def split(configuration: Object, client: Object) -> Object:
    """`configuration`, with the server at `client` asked about the PodCliques that say so."""
    webhooks: list[Object] = []
    for webhook in configuration["webhooks"]:
        if "podclique" in webhook["name"]:
            other = {
                **webhook,
                "name": f"other.{webhook['name']}",
                "clientConfig": client,
                "objectSelector": SECOND,
            }
            webhooks.append(other)
            webhook = {**webhook, "objectSelector": FIRST}
        webhooks.append(webhook)
    return {**configuration, "webhooks": webhooks}


def labelled(obj: Object, name: str) -> Object:
    obj["metadata"]["labels"]["judge"] = "second" if name in "bd" else "first"
    return obj


def verdicts(served: Running) -> int:
    """Creations of MNNVL resources that `served` has tried."""
    client = served.cluster.client
    assert isinstance(client, HttpClient)
    return sum(
        count
        for (verb, resource, _), count in client.calls.items()
        if (verb, resource) == ("create", str(COMPUTE_DOMAIN))
    )

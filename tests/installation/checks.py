"""What an installation has to do, seen from outside: through the API server, and at the addresses
of its Pods.
"""

import asyncio
import base64
import signal
import ssl
from functools import partial

import httpx

from app.objects.tokens import split_token
from app.webhooks.paths import PATHS, path_of
from tests import builders
from tests.installation.cluster import CONFIGURATIONS, Cluster
from tests.installation.kubernetes import Object
from tests.installation.pods import NAME, NAMESPACE, Pod

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{NAME}"
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/{NAME}-certificates"
TOPOLOGY = "/apis/grove.io/v1alpha1/clustertopologies/grove-topology"
POD_GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"
SETS = "/apis/grove.io/v1alpha1/namespaces/default/podcliquesets"
CLIQUES = "/apis/grove.io/v1alpha1/namespaces/default/podcliques"
GANGS = "/apis/scheduler.grove.io/v1alpha1/namespaces/default/podgangs"
DOMAINS = "/apis/resource.nvidia.com/v1beta1/namespaces/default/computedomains"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
MIXED = builders.pod_group("mixed-case", {"name": "Mixed"})
REFUSAL = 'invalid subgroup name "Mixed"'


async def works(cluster: Cluster, *, has_tokens: bool = True) -> None:
    """Two replicas are ready, one leads, webhooks are trusted, users get verdicts, and RBAC forbids
    no call. Manifests of a version without tokens have none in the paths.
    """
    assert len(cluster.pods.ready) == 2, cluster.logs()
    await cluster.until(lambda: leaders(cluster), lambda count: count == 1)
    assert (await cluster.admin.get(LEASE))["spec"]["holderIdentity"]
    await cluster.until(lambda: untrusted(cluster), lambda names: names == [])
    await cluster.until(
        lambda: tokens(cluster), lambda used: len(used) == 1 and all(used) is has_tokens
    )
    await cluster.until(lambda: verdict(cluster), lambda message: REFUSAL in message)
    assert [
        line for pod in cluster.pods.ready for line in pod.text.splitlines() if "forbidden" in line
    ] == []


async def leaders(cluster: Cluster) -> int:
    """How many replicas say that they lead."""
    async with httpx.AsyncClient(verify=False, timeout=60) as client:
        texts = [(await client.get(f"{pod.tools_url}/metrics")).text for pod in cluster.pods.ready]
    return sum("grove_admission_leader 1.0" in text for text in texts)


async def tokens(cluster: Cluster) -> set[str]:
    """The tokens in the paths of the webhooks that write, "" for a path without one."""
    configuration = await cluster.admin.get(CONFIGURATIONS[0])
    return {
        split_token(path_of(webhook["clientConfig"]))[0]
        for webhook in configuration["webhooks"]
        if webhook["name"] in PATHS
    }


async def untrusted(cluster: Cluster) -> list[str]:
    """The webhooks whose caBundle doesn't have the CA of the serving certificate."""
    secret = await cluster.admin.find(SECRET)
    authority = base64.b64decode(secret["data"]["ca.crt"]).decode() if secret else "no CA yet"
    names = []
    for path in CONFIGURATIONS:
        for webhook in (await cluster.admin.get(path))["webhooks"]:
            bundle = base64.b64decode(webhook["clientConfig"].get("caBundle", "")).decode()
            if authority not in bundle:
                names.append(webhook["name"])
    return names


async def verdict(cluster: Cluster) -> str:
    """What a user is told who creates a PodGroup with a name in mixed case; "" if it is allowed."""
    code, answer = await cluster.user.ask("POST", f"{POD_GROUPS}?dryRun=All", MIXED)
    return "" if code < 300 else str(answer["message"])


async def levels(cluster: Cluster) -> list[str]:
    """The domains of the managed ClusterTopology, [] if there is none."""
    topology = await cluster.admin.find(TOPOLOGY)
    return [level["domain"] for level in topology["spec"]["levels"]] if topology else []


async def adopts(cluster: Cluster, name: str) -> None:
    """A PodGang owns the ComputeDomain and the claim that its PodClique asked for, and they go with
    it.
    """
    labels = builders.labels(name, 0, f"{name}-0")
    await _created(cluster, SETS, builders.pod_clique_set(name, mnnvl=True))
    await _created(cluster, CLIQUES, builders.pod_clique(f"{name}-0-worker", labels))
    await _created(cluster, GANGS, builders.pod_gang(f"{name}-0", labels, f"{name}-0-worker"))
    for path in (DOMAINS, CLAIMS):
        await cluster.until(partial(_owners, cluster, path), lambda owners: owners == [["PodGang"]])
    await deletes(cluster, f"{GANGS}/{name}-0", f"{CLIQUES}/{name}-0-worker", f"{SETS}/{name}")


async def deletes(cluster: Cluster, *paths: str) -> None:
    """Deletes objects or collections, and waits until no MNNVL resource is left."""
    for path in paths:
        await cluster.admin.delete(path)
    if cluster.api.collects_garbage:
        for path in (DOMAINS, CLAIMS):
            await cluster.until(partial(_owners, cluster, path), lambda owners: owners == [])


async def stores_without_claims(cluster: Cluster, name: str, count: int) -> None:
    """A set and PodCliques that ask for MNNVL are stored while no webhook is called."""
    await _created(cluster, SETS, builders.pod_clique_set(name))
    for number in range(count):
        labels = builders.labels(name, number, f"{name}-{number}", grove=True)
        clique = builders.pod_clique(f"{name}-{number}-worker", labels)
        await _created(cluster, CLIQUES, clique)
    assert await claimed(cluster, name) == 0


async def claimed(cluster: Cluster, name: str) -> int:
    """How many PodCliques of a set have a claim."""
    items = (await cluster.admin.get(CLIQUES))["items"]
    return sum(
        item["metadata"]["name"].startswith(f"{name}-")
        and "resourceClaims" in item["spec"]["podSpec"]
        for item in items
    )


async def kills_the_leader(cluster: Cluster) -> str:
    """Ends the process of the leader without grace. Returns the name of its Pod."""
    holder = (await cluster.admin.get(LEASE))["spec"]["holderIdentity"]
    async with httpx.AsyncClient(verify=False, timeout=60) as client:
        for pod in cluster.pods.ready:
            text = (await client.get(f"{pod.tools_url}/metrics")).text
            if "grove_admission_leader 1.0" in text:
                pod.process.send(signal.SIGKILL)
    return str(holder)


async def _created(cluster: Cluster, path: str, obj: Object) -> None:
    """Creates as Grove's operator does: it tries again after a server error."""

    async def tried() -> tuple[int, Object]:
        return await cluster.grove.ask("POST", path, obj)

    code, answer = await cluster.until(tried, lambda answer: answer[0] < 500)
    assert code == 201, answer


async def _owners(cluster: Cluster, path: str) -> list[list[str]]:
    """The kinds of the owners of each object of a collection."""
    items = (await cluster.admin.get(path))["items"]
    return [
        [owner["kind"] for owner in item["metadata"].get("ownerReferences", ())] for item in items
    ]


async def certificate(cluster: Cluster) -> str:
    """The stored serving certificate (PEM)."""
    return base64.b64decode((await cluster.admin.get(SECRET))["data"]["tls.crt"]).decode()


async def shown(pod: Pod) -> str:
    """The certificate (PEM) that a Pod shows."""
    return await asyncio.to_thread(ssl.get_server_certificate, (pod.address, pod.port))


async def rotates(cluster: Cluster, former: str) -> None:
    """All Pods show another certificate than the `former` one, and users still get verdicts."""

    async def new() -> bool:
        stored = ssl.PEM_cert_to_DER_cert(await certificate(cluster))
        served = [ssl.PEM_cert_to_DER_cert(await shown(pod)) for pod in cluster.pods.ready]
        return served == [stored, stored] and stored != ssl.PEM_cert_to_DER_cert(former)

    await cluster.until(new)
    await cluster.until(lambda: verdict(cluster), lambda message: REFUSAL in message)

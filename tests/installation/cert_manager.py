"""Stands in for cert-manager and its cainjector: it makes the Secret of our Certificate once that
is there, and keeps its CA in the caBundles of the webhook configurations that ask for it.
"""

import base64
import contextlib
from collections.abc import AsyncIterator

from scripts.apiserver import pki
from tests.installation.cluster import CONFIGURATIONS, Cluster
from tests.installation.kubernetes import Object
from tests.installation.pods import CORE, NAME, NAMESPACE
from tests.installation.repeating import repeating

CERTIFICATE = f"/apis/cert-manager.io/v1/namespaces/{NAMESPACE}/certificates/{NAME}"
ANNOTATION = "cert-manager.io/inject-ca-from"
LOOPBACK = "127.0.0.1"
"""A real API server calls our Pods at this address here."""


@contextlib.asynccontextmanager
async def cert_manager(cluster: Cluster) -> AsyncIterator[None]:
    """Works while the block runs."""
    async with repeating(lambda: _step(cluster), 0.1):
        yield


async def _step(cluster: Cluster) -> None:
    certificate = await cluster.admin.find(CERTIFICATE)
    if certificate is not None:
        await _inject(cluster, await _issued(cluster, certificate["spec"]))


async def _issued(cluster: Cluster, spec: Object) -> str:
    """The CA (base64) of the Secret of a Certificate. The Secret is made if it is missing."""
    path = f"{CORE}/secrets/{spec['secretName']}"
    stored = await cluster.admin.find(path)
    if stored is None:
        pair = pki.issue((*spec["dnsNames"], LOOPBACK))
        files = {"ca.crt": pair.ca, "tls.crt": pair.certificate, "tls.key": pair.key}
        data = {name: base64.b64encode(content).decode() for name, content in files.items()}
        metadata = {"name": spec["secretName"]}
        content = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata,
            "type": "kubernetes.io/tls",
        }
        stored = await cluster.admin.write("POST", f"{CORE}/secrets", {**content, "data": data})
    bundle: str = stored["data"]["ca.crt"]
    return bundle


async def _inject(cluster: Cluster, bundle: str) -> None:
    for path in CONFIGURATIONS:
        configuration = await cluster.admin.find(path)
        if configuration is None or ANNOTATION not in configuration["metadata"].get(
            "annotations", {}
        ):
            continue
        clients = [webhook["clientConfig"] for webhook in configuration["webhooks"]]
        if any(client.get("caBundle") != bundle for client in clients):
            for client in clients:
                client["caBundle"] = bundle
            await cluster.admin.write("PATCH", path, {"webhooks": configuration["webhooks"]})

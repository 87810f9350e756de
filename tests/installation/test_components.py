"""The components that can be added to an overlay."""

import ssl

import httpx
import pytest
import yaml

from tests.installation.checks import LEASE, works
from tests.installation.cluster import Cluster
from tests.installation.readme import commands
from tests.rendered import with_components

pytestmark = pytest.mark.untraced

FLOW_SCHEMAS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
CONFIGURATION = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
clusterTopology: {enabled: true, levels: [{domain: host, key: kubernetes.io/hostname}]}
certificates: {mode: self-managed}
server: {drainSeconds: 0}
"""


async def test_flow_control_has_our_calls_and_the_lease_in_their_levels(
    cluster: Cluster, kind: str
) -> None:
    if kind == "sandbox":
        pytest.skip("needs a real API server: the sandbox has no flow control")
    cluster.configure(CONFIGURATION)
    components = cluster.folder / "components.yaml"
    text = with_components("self-managed", cluster.folder / "added", ["flow-control"])
    flow_control = [part for part in text.split("---\n") if "flowcontrol.apiserver" in part]
    components.write_text("---\n".join(flow_control))

    await cluster.run(*commands("Install")[:2], f"kubectl apply -f {components.name}")
    await cluster.run(*commands("Install")[2:])
    await works(cluster)

    schemas = await schemas_of(cluster, LEASE, "/apis/grove.io/v1alpha1/podcliquesets", "/version")
    assert schemas == ["grove-admission-leader", "grove-admission", "grove-admission"]


async def schemas_of(cluster: Cluster, *paths: str) -> list[str]:
    """Return the names of the FlowSchemas for reads of a Pod of ours."""
    stored = (await cluster.admin.get(FLOW_SCHEMAS))["items"]
    names = {schema["metadata"]["uid"]: schema["metadata"]["name"] for schema in stored}
    kubeconfig = yaml.safe_load((cluster.pods.ready[0].folder / "kubeconfig").read_text())
    headers = {"Authorization": f"Bearer {kubeconfig['users'][0]['user']['token']}"}
    trusted = ssl.create_default_context(cafile=str(cluster.api.ca_file))

    async with httpx.AsyncClient(verify=trusted, headers=headers) as client:
        answers = [await client.get(f"{cluster.api.url}{path}") for path in paths]
    return [names[answer.headers["x-kubernetes-pf-flowschema-uid"]] for answer in answers]

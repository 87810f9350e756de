"""From the manifests of the last release to those of this repository.

`released/0.5.0.yaml` gives its ServiceAccount no right to the Lease and the webhook configurations,
because kustomize renamed them in the rules. The processes are those of this version under the
manifests of that one.
"""

from pathlib import Path

import httpx
import pytest
import yaml

from tests.installation.checks import adopts, levels, works
from tests.installation.cluster import Cluster
from tests.installation.pods import CORE, NAMESPACE
from tests.installation.readme import commands
from tests.rendered import MANIFESTS

pytestmark = pytest.mark.untraced

RELEASED = Path(__file__).parent / "released" / "0.5.0.yaml"
NO_DRAINING = ("drainSeconds: 15", "drainSeconds: 0")
LAST_LEVELS = ["zone", "rack", "host"]


async def test_an_upgrade_repairs_what_was_released_and_leaves_nothing_behind(
    cluster: Cluster,
) -> None:
    cluster.configure((MANIFESTS / "base/config.yaml").read_text().replace(*NO_DRAINING))
    before = await cluster.everything()
    released = cluster.addressed(
        list(yaml.safe_load_all(RELEASED.read_text().replace(*NO_DRAINING)))
    )
    (cluster.folder / "released.yaml").write_text(yaml.safe_dump_all(released))
    await cluster.run("kubectl apply -f released.yaml")
    await cluster.until(lambda: why_not_ready(cluster), lambda reason: "cannot" in reason)

    await cluster.run(*commands("### Upgrade, or change the configuration"))
    await works(cluster)
    assert await cluster.until(lambda: levels(cluster)) == LAST_LEVELS
    await adopts(cluster, "train")
    await cluster.run(*commands("### From version 0.5.0", "manifests/README.md"))
    used = [
        obj["metadata"]["name"] for obj in (await cluster.admin.get(f"{CORE}/configmaps"))["items"]
    ]
    assert [name.rpartition("-")[0] for name in used] == ["grove-admission-configuration"]

    await cluster.run(*commands("### Switch off"), *commands("### Uninstall"))
    kept = {
        ("namespaces", "", NAMESPACE),
        ("customresourcedefinitions", "", "clustertopologies.grove.io"),
    }
    await cluster.until(cluster.everything, lambda after: after - before <= kept)


async def why_not_ready(cluster: Cluster) -> str:
    """What the first Pod gives as the reason; "" while it doesn't answer."""
    async with httpx.AsyncClient(verify=False, timeout=10) as client:
        for pod in cluster.pods.pods:
            try:
                return (await client.get(f"{pod.url}/readyz?verbose")).text
            except httpx.TransportError:
                break
    return ""

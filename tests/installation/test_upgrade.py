"""From the manifests of the last release to those of this repository.

`released/0.5.0.yaml` gives its ServiceAccount no right to the Lease and the webhook configurations,
because kustomize renamed them in the rules. The processes are those of this version under the
manifests of that one.
"""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import yaml

from tests import builders
from tests.installation.checks import POD_GROUPS, adopts, levels, works
from tests.installation.cluster import Cluster
from tests.installation.pods import CORE, NAMESPACE
from tests.installation.readme import commands
from tests.installation.repeating import repeating
from tests.rendered import MANIFESTS, documents

pytestmark = [pytest.mark.slow, pytest.mark.untraced]

FOLDER = Path(__file__).parent / "released"
RELEASED = FOLDER / "0.5.0.yaml"
NO_DRAINING = ("drainSeconds: 15", "drainSeconds: 0")
SHORT_DRAINING = ("drainSeconds: 15", "drainSeconds: 2")
"""Longer than it takes until an endpoint that ends is no longer called."""

LAST_LEVELS = ["zone", "rack", "host"]
VALID = builders.pod_group("lower-case", {"name": "lower"})


async def test_an_upgrade_repairs_what_was_released_and_leaves_nothing_behind(
    cluster: Cluster,
) -> None:
    cluster.configure((MANIFESTS / "base/config.yaml").read_text().replace(*NO_DRAINING))
    before = await cluster.everything()
    released = cluster.addressed(documents(RELEASED.read_text().replace(*NO_DRAINING)))
    (cluster.folder / "released.yaml").write_text(yaml.safe_dump_all(released))
    await cluster.run("kubectl apply -f released.yaml")
    await cluster.until(lambda: why_not_ready(cluster), lambda reason: "cannot" in reason)

    await cluster.run(*commands("Upgrade, or change the configuration"))
    await works(cluster)
    assert await cluster.until(lambda: levels(cluster)) == LAST_LEVELS
    await adopts(cluster, "train")
    await cluster.run(*commands("From version 0.5.0"))
    used = [
        obj["metadata"]["name"] for obj in (await cluster.admin.get(f"{CORE}/configmaps"))["items"]
    ]
    assert [name.rpartition("-")[0] for name in used] == ["grove-admission-configuration"]

    await cluster.run(*commands("Switch off"), *commands("Uninstall"))
    kept = {
        ("namespaces", "", NAMESPACE),
        ("customresourcedefinitions", "", "clustertopologies.grove.io"),
    }
    await cluster.until(cluster.everything, lambda after: after - before <= kept)


@pytest.mark.parametrize(("version", "has_tokens"), [("0.6.0", False), ("0.9.0", True)])
async def test_an_upgrade_and_a_rollback_refuse_no_write_that_is_valid(
    cluster: Cluster, version: str, has_tokens: bool
) -> None:
    """0.6.0 has no tokens in paths; 0.9.0 has them, and one port for everything."""
    cluster.configure((MANIFESTS / "base/config.yaml").read_text().replace(*SHORT_DRAINING))
    text = (FOLDER / f"{version}.yaml").read_text()
    released = cluster.addressed(documents(text.replace(*SHORT_DRAINING)))
    webhooks = [obj for obj in released if "webhooks" in obj]
    server = [obj for obj in released if "webhooks" not in obj]
    (cluster.folder / "server.yaml").write_text(yaml.safe_dump_all(server))
    (cluster.folder / "webhooks.yaml").write_text(yaml.safe_dump_all(webhooks))
    wait = "kubectl -n grove-system rollout status deployment/grove-admission"
    former = ("kubectl apply -f server.yaml", wait, "kubectl apply -f webhooks.yaml")
    await cluster.run(*former)
    await works(cluster, has_tokens=has_tokens)

    async with writing(cluster) as answers:
        await cluster.run(*commands("Upgrade, or change the configuration"))
        await works(cluster)
        await cluster.run(*former)
        await works(cluster, has_tokens=has_tokens)
    assert len(answers) > 20
    assert [answer for answer in answers if answer != ""] == []


@contextlib.asynccontextmanager
async def writing(cluster: Cluster) -> AsyncIterator[list[str]]:
    """Create a valid PodGroup again and again, as a dry run. Yield the messages of refusals."""
    answers: list[str] = []

    async def write() -> None:
        code, answer = await cluster.user.ask("POST", f"{POD_GROUPS}?dryRun=All", VALID)
        answers.append("" if code < 300 else f"{code}: {answer.get('message')}")

    async with repeating(write, 0.05):
        yield answers


async def why_not_ready(cluster: Cluster) -> str:
    """What the first Pod gives as the reason; "" while it doesn't answer."""
    async with httpx.AsyncClient(verify=False, timeout=60) as client:
        for pod in cluster.pods.pods:
            try:
                return (await client.get(f"{pod.tools_url}/readyz?verbose")).text
            except httpx.TransportError:
                break
    return ""

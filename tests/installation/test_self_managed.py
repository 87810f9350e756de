"""The overlay `self-managed`, from the first command of the README to the last one."""

import pytest

from app.webhooks.paths import TAKES_TOKENS
from tests.installation.checks import (
    CLIQUES,
    LEASE,
    REFUSAL,
    SETS,
    adopts,
    certificate,
    claimed,
    deletes,
    kills_the_leader,
    levels,
    rotates,
    stores_without_claims,
    tokens,
    verdict,
    works,
)
from tests.installation.cluster import CONFIGURATIONS, Cluster
from tests.installation.pods import DEPLOYMENT
from tests.installation.readme import commands

pytestmark = [pytest.mark.slow, pytest.mark.untraced]

CONFIGURATION = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
clusterTopology:
  enabled: true
  levels: [%s]
certificates: {mode: self-managed, validityHours: 0.005, caValidityHours: 1, settleSeconds: 0}
server: {drainSeconds: 0}
"""
"""A certificate is valid for 18 seconds, and replaced after 12."""

UPGRADE = "Upgrade, or change the configuration"
ZONE = "{domain: zone, key: topology.kubernetes.io/zone}"
RACK = "{domain: rack, key: topology.kubernetes.io/rack}"


async def test_it_is_installed_changed_switched_off_and_on_and_uninstalled(
    cluster: Cluster,
) -> None:
    cluster.configure(CONFIGURATION % ZONE)
    await cluster.run(*commands("Install")[:2])
    before = await cluster.everything()

    await cluster.run(*commands("Install"))
    await works(cluster)
    assert await cluster.until(lambda: levels(cluster)) == ["zone"]
    first = await certificate(cluster)
    await adopts(cluster, "train")
    await rotates(cluster, first)

    cluster.configure(CONFIGURATION % f"{ZONE}, {RACK}")
    replaced = {pod.name for pod in cluster.pods.pods}
    await cluster.run(*commands(UPGRADE))
    assert replaced & {pod.name for pod in cluster.pods.ready} == set()
    await works(cluster)
    await cluster.until(lambda: levels(cluster), lambda domains: domains == ["zone", "rack"])

    await cluster.run(*commands("Switch off"))
    assert [path for path in CONFIGURATIONS if await cluster.admin.find(path)] == []
    assert await verdict(cluster) == ""
    await stores_without_claims(cluster, "left", 150)

    await cluster.run(*commands(UPGRADE))
    await cluster.until(lambda: claimed(cluster, "left"))
    former = await kills_the_leader(cluster)
    await cluster.until(lambda: claimed(cluster, "left"), lambda count: count == 150)
    assert (await cluster.admin.get(LEASE))["spec"]["holderIdentity"] != former
    await works(cluster)
    await deletes(cluster, CLIQUES, f"{SETS}/left")

    await rolls_back(cluster)

    await cluster.run(*commands("Switch off"), *commands("Uninstall"))
    await cluster.until(cluster.everything, lambda after: after - before == set())


async def rolls_back(cluster: Cluster) -> None:
    """As with `kubectl rollout undo` to a version that knows tokens in two paths only: the paths are
    without one before a Pod of it is ready.
    """
    annotations = {"annotations": {TAKES_TOKENS: "true"}}
    former = {pod.name for pod in cluster.pods.pods}
    await cluster.admin.write(
        "PATCH", DEPLOYMENT, {"spec": {"template": {"metadata": annotations}}}
    )

    async def ready() -> set[str]:
        return {pod.name for pod in cluster.pods.ready} - former

    await cluster.until(lambda: tokens(cluster), lambda used: used == {""})
    await cluster.until(ready, lambda names: len(names) == 2)
    assert await tokens(cluster) == {""}
    await cluster.until(lambda: verdict(cluster), lambda message: REFUSAL in message)

"""The overlay `cert-manager`. A stand-in of the tests is cert-manager: see `cert_manager.py`."""

from pathlib import Path

import pytest

from tests.installation.cert_manager import cert_manager
from tests.installation.checks import adopts, levels, verdict, works
from tests.installation.cluster import CONFIGURATIONS, Cluster
from tests.installation.readme import commands
from tests.rendered import documents

pytestmark = [pytest.mark.slow, pytest.mark.untraced]

CRDS = Path(__file__).parent / "crds"
CONFIGURATION = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
clusterTopology: {enabled: true, levels: [{domain: host, key: kubernetes.io/hostname}]}
certificates: {mode: self-managed}
server: {drainSeconds: 0}
"""
"""The overlay sets the mode of the certificates in the environment of the container."""


async def test_it_is_installed_switched_off_and_uninstalled(cluster: Cluster) -> None:
    await cluster.api.apply(documents((CRDS / "cert-manager.yaml").read_text()))
    cluster.configure(CONFIGURATION)
    await cluster.run(*commands("Install")[:2])
    before = await cluster.everything()

    async with cert_manager(cluster):
        await cluster.run(*commands("Install"), overlay="cert-manager")
        await works(cluster)
        assert await cluster.until(lambda: levels(cluster)) == ["host"]
        await adopts(cluster, "train")

        await cluster.run(*commands("Switch off"))
        assert [path for path in CONFIGURATIONS if await cluster.admin.find(path)] == []
        assert await verdict(cluster) == ""

        await cluster.run(*commands("Uninstall"), overlay="cert-manager")
    await cluster.until(cluster.everything, lambda after: after - before == set())

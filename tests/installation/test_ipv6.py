"""A cluster with IPv6 only: the API server, its calls of webhooks, the probes and the certificates
are at ::1.
"""

import socket

import pytest

from tests.installation.checks import adopts, levels, works
from tests.installation.cluster import Cluster
from tests.installation.readme import commands

pytestmark = [pytest.mark.slow, pytest.mark.untraced]

CONFIGURATION = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
clusterTopology: {enabled: true, levels: [{domain: host, key: kubernetes.io/hostname}]}
certificates: {mode: self-managed}
server: {drainSeconds: 0}
"""


@pytest.fixture
def host() -> str:
    if not socket.has_dualstack_ipv6():
        pytest.skip("needs IPv6 on this machine")
    return "::1"


async def test_it_is_installed_on_a_cluster_with_ipv6_only(cluster: Cluster) -> None:
    cluster.configure(CONFIGURATION)
    await cluster.run(*commands("Install"))
    await works(cluster)
    assert {pod.address for pod in cluster.pods.ready} == {"::1"}
    assert await cluster.until(lambda: levels(cluster)) == ["host"]
    await adopts(cluster, "train")

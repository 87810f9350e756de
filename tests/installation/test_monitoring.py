"""The overlay `monitoring`, which needs the CRDs of the Prometheus operator, and nothing of ours."""

from pathlib import Path

import pytest
import yaml

from tests.installation.cluster import Cluster
from tests.installation.readme import commands

pytestmark = pytest.mark.untraced

CRDS = Path(__file__).parent / "crds"


async def test_it_is_installed_and_removed(cluster: Cluster) -> None:
    await cluster.api.apply(list(yaml.safe_load_all((CRDS / "prometheus.yaml").read_text())))
    before = await cluster.everything()
    crds, apply, delete = commands("Monitoring")
    await cluster.run(crds)
    await cluster.run(apply)
    assert await cluster.everything() - before == {
        ("configmaps", "grove-system", "grove-admission-dashboard"),
        ("prometheusrules", "grove-system", "grove-admission"),
        ("servicemonitors", "grove-system", "grove-admission"),
    }
    await cluster.run(delete)
    assert await cluster.everything() - before == set()

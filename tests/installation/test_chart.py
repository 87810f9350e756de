"""The Helm chart, in the two steps of the README, with what Helm renders applied by kubectl."""

from pathlib import Path

import pytest
import yaml

from tests.charts import CHART, Values, render
from tests.installation.checks import adopts, levels, verdict, works
from tests.installation.cluster import CONFIGURATIONS, Cluster
from tests.installation.readme import commands

pytestmark = [pytest.mark.slow, pytest.mark.untraced]

VALUES: Values = {
    "config": {
        "clusterTopology": {"levels": [{"domain": "host", "key": "kubernetes.io/hostname"}]},
        "server": {"drainSeconds": 0},
    }
}


def written(cluster: Cluster, values: Values, name: str) -> Path:
    """Return a file in the folder of `cluster` with the objects of the chart."""
    objects = cluster.addressed(render(CHART, {**VALUES, **values}))
    file = cluster.folder / name
    file.write_text(yaml.safe_dump_all(objects))
    return file


async def test_it_is_installed_in_two_steps_and_uninstalled(cluster: Cluster) -> None:
    server = written(cluster, {"webhooks": {"enabled": False}}, "server.yaml")
    whole = written(cluster, {}, "whole.yaml")
    await cluster.run(*commands("Install")[:2])
    before = await cluster.everything()

    await cluster.run(
        f"kubectl apply -f {server.name}",
        "kubectl -n grove-system rollout status deployment/grove-admission",
    )
    assert [path for path in CONFIGURATIONS if await cluster.admin.find(path)] == []

    await cluster.run(f"kubectl apply -f {whole.name}")
    await works(cluster)
    assert await cluster.until(lambda: levels(cluster)) == ["host"]
    await adopts(cluster, "train")

    await cluster.run(f"kubectl apply -f {whole.name}")
    await works(cluster)

    await cluster.run(*commands("Switch off"))
    assert await verdict(cluster) == ""
    leftovers = [command for command in commands("Uninstall") if " -k " not in command]
    await cluster.run(*leftovers[:2], f"kubectl delete -f {whole.name} --ignore-not-found")
    await cluster.run(*leftovers[2:])
    await cluster.until(cluster.everything, lambda after: after - before == set())

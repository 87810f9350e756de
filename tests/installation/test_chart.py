"""The Helm chart, in the two steps of the README, with what Helm renders applied by kubectl."""

import re
from pathlib import Path
from typing import Any

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


def set_by(command: str) -> dict[str, Any]:
    """Return the values that `--set` gives in a command of the guide."""
    values: dict[str, Any] = {}
    for key, text in re.findall(r"--set (\S+?)=(\S+)", command):
        value = yaml.safe_load(text)
        *holders, last = key.replace("[0]", "").split(".")
        if "[0]" in key:
            last, value = holders.pop(), [{last: value}]
        holder = values
        for name in holders:
            holder = holder.setdefault(name, {})
        holder[last] = value
    return values


def test_it_is_rendered_for_another_namespace_registry_and_issuer() -> None:
    (command,) = commands("Own namespace, registry and certificates")
    objects = render(CHART, {**VALUES, **set_by(command)}, "gpu-policy")

    assert {obj["metadata"].get("namespace", "gpu-policy") for obj in objects} == {"gpu-policy"}
    assert [obj for obj in objects if obj["kind"].endswith("WebhookConfiguration")] == []
    (deployment,) = [obj for obj in objects if obj["kind"] == "Deployment"]
    spec = deployment["spec"]["template"]["spec"]
    assert spec["containers"][0]["image"].startswith("REGISTRY/grove-admission:")
    assert spec["imagePullSecrets"] == [{"name": "SECRET"}]
    issuers = {obj["metadata"]["name"] for obj in objects if obj["kind"] == "Issuer"}
    named = [obj["spec"]["issuerRef"] for obj in objects if obj["kind"] == "Certificate"]
    assert {issuer["name"] for issuer in named} == issuers

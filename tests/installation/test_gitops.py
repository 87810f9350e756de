"""Argo CD and Flux, as far as the API server can tell: what Helm renders is applied on the server's
side, by a manager of its own, with pruning.
"""

import asyncio

import pytest
import yaml

from tests.charts import CHART, Values, render
from tests.installation.checks import SECRET, untrusted, works
from tests.installation.cluster import CONFIGURATIONS, Cluster
from tests.installation.kubernetes import Object
from tests.installation.readme import commands
from tests.installation.test_upgrade import FOLDER, SHORT_DRAINING, writing
from tests.rendered import documents

pytestmark = pytest.mark.untraced

WAVE = "argocd.argoproj.io/sync-wave"
VALUES: Values = {
    "config": {
        "clusterTopology": {"levels": [{"domain": "host", "key": "kubernetes.io/hostname"}]},
        "server": {"drainSeconds": 0},
    }
}
APPLY = "kubectl apply --server-side --force-conflicts --field-manager gitops"
WAIT = "kubectl -n grove-system rollout status deployment/grove-admission"


def waves(cluster: Cluster, values: Values) -> list[list[Object]]:
    """Return the objects of the chart by their sync wave."""
    objects = cluster.addressed(render(CHART, values))
    ordered: dict[int, list[Object]] = {}
    for obj in objects:
        annotations = obj["metadata"].get("annotations") or {}
        ordered.setdefault(int(annotations.get(WAVE, 0)), []).append(obj)
    return [ordered[wave] for wave in sorted(ordered)]


def written(cluster: Cluster, name: str, objects: list[Object]) -> str:
    (cluster.folder / name).write_text(yaml.safe_dump_all(objects))
    return name


async def sync(cluster: Cluster, values: Values, former: list[Object]) -> list[Object]:
    """Apply all waves, prune what of `former` is not in them, and return all objects."""
    first, second = waves(cluster, values)
    await cluster.run(f"{APPLY} -f {written(cluster, 'first.yaml', first)}", WAIT)
    await cluster.run(f"{APPLY} -f {written(cluster, 'second.yaml', second)}")

    current = {identity(obj) for obj in [*first, *second]}
    pruned = [obj for obj in former if identity(obj) not in current]
    if pruned:
        name = written(cluster, "pruned.yaml", pruned)
        await cluster.run(f"kubectl delete -f {name} --ignore-not-found")
    return [*first, *second]


def identity(obj: Object) -> tuple[str, str, str]:
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace", ""), metadata["name"]


async def test_syncs_keep_certificates_and_what_trusts_them(cluster: Cluster, kind: str) -> None:
    if kind == "sandbox":
        pytest.skip("needs a real API server: the sandbox has no server-side apply")
    await cluster.run(*commands("Install")[:2])

    half = waves(cluster, VALUES)[0]
    await cluster.run(f"{APPLY} -f {written(cluster, 'half.yaml', half[: len(half) // 2])}")
    objects = await sync(cluster, VALUES, [])
    await works(cluster)
    secret = await cluster.admin.get(SECRET)

    await sync(cluster, VALUES, objects)
    assert await untrusted(cluster) == []

    both = ("first.yaml", "second.yaml")
    await asyncio.gather(*(cluster.run(f"{APPLY} -f {name}") for name in both))
    assert await untrusted(cluster) == []

    changed = {"config": {**VALUES["config"], "mnnvl": {"claimMode": "template"}}}
    after = await sync(cluster, changed, objects)
    await works(cluster)
    former_maps = {identity(obj) for obj in objects} - {identity(obj) for obj in after}
    assert [name for kind, _, name in former_maps if kind == "ConfigMap"] != []
    assert (await cluster.admin.get(SECRET))["data"] == secret["data"]
    assert [path for path in CONFIGURATIONS if await cluster.admin.find(path) is None] == []


async def test_no_valid_write_is_refused_from_0_6_0_to_this_version_and_back_and_away(
    cluster: Cluster, kind: str
) -> None:
    if kind == "sandbox":
        pytest.skip("needs a real API server: the sandbox has no server-side apply")
    text = (FOLDER / "0.6.0.yaml").read_text().replace(*SHORT_DRAINING)
    released = cluster.addressed(documents(text))
    webhooks = [obj for obj in released if "webhooks" in obj]
    server = [obj for obj in released if "webhooks" not in obj]
    former = (
        f"{APPLY} -f {written(cluster, 'former-server.yaml', server)}",
        WAIT,
        f"{APPLY} -f {written(cluster, 'former-webhooks.yaml', webhooks)}",
    )
    await cluster.run(*commands("Install")[:2], *former)
    await works(cluster, has_tokens=False)

    values = {"config": {**VALUES["config"], "server": {"drainSeconds": 2}}}
    async with writing(cluster) as answers:
        await sync(cluster, values, [])
        await works(cluster)
        await cluster.run(*former)
        await works(cluster, has_tokens=False)
        await sync(cluster, values, [])
        await works(cluster)
        await cluster.run(
            "kubectl delete -f second.yaml",
            "kubectl delete -f first.yaml --ignore-not-found",
        )
    assert len(answers) > 20
    assert [answer for answer in answers if answer != ""] == []

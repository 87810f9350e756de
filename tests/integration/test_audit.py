"""`grove-admission audit` of a cluster that was there before our webhooks were."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from app.facts.kinds import CLUSTER_TOPOLOGY, COMPUTE_DOMAIN, POD_CLIQUE_SET, POD_GROUP
from app.objects.resource import Resource
from scripts.apiserver.admission_server import ApiServer
from tests import builders
from tests.integration.system import Users, command, create_all

pytestmark = pytest.mark.untraced

PODGROUPS = 5000
OFFENDERS = 37


@pytest.fixture(scope="module")
def former() -> Sequence[Resource]:
    return (POD_CLIQUE_SET, POD_GROUP)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def topology(clients: Users) -> None:
    await clients.admin.create(
        CLUSTER_TOPOLOGY, builders.cluster_topology("grove-topology", rack="k/rack")
    )


async def audit(api: ApiServer, *options: str) -> tuple[int, list[str], str]:
    """Exit code, lines of standard output, and standard error."""
    context_options = ["--kubeconfig", str(api.kubeconfig), "--context", "operator"]
    code, out, err = await command("audit", *context_options, *options)
    return code, out.splitlines(), err


@pytest.mark.usefixtures("topology")
@pytest.mark.statement("3.51")
async def test_of_5000_podgroups_the_37_that_offend_are_named(
    api: ApiServer, clients: Users, namespace: str, kind: str
) -> None:
    count = PODGROUPS if kind == "sandbox" else 500
    offenders = {f"pg-{number}" for number in range(0, count, count // OFFENDERS)}
    offenders = set(sorted(offenders)[:OFFENDERS])
    names = [f"pg-{number}" for number in range(count)]
    groups = [
        builders.pod_group(name, {"name": "Workers" if name in offenders else "workers"})
        for name in names
    ]
    for begin in range(0, count, 200):
        await create_all(clients.admin, POD_GROUP, groups[begin : begin + 200], namespace)
    await clients.admin.create(
        POD_CLIQUE_SET, builders.pod_clique_set("lost", domain="block"), namespace
    )
    orphan = {
        "metadata": {
            "name": "train-0-cd",
            "labels": {**builders.labels("train", 0, "train-0"), "grove.io/mnnvl-managed": "true"},
        },
        "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "x"}}},
    }
    await clients.admin.create(COMPUTE_DOMAIN, orphan, namespace)
    code, lines, err = await audit(api, "--output", "json")
    *findings, summary = [json.loads(line) for line in lines]
    assert (code, len(findings)) == (1, OFFENDERS + 2)
    assert {finding["name"] for finding in findings if finding["kind"] == "PodGroup"} == offenders
    (lost,) = [finding for finding in findings if finding["kind"] == "PodCliqueSet"]
    assert 'topology level not found in ClusterTopology "grove-topology"' in lost["problems"][0]
    (domain,) = [finding for finding in findings if finding["kind"] == "ComputeDomain"]
    assert domain["problems"] == [
        'orphaned: the PodGang of its PodCliques does not exist, and neither does PodCliqueSet "train"'
    ]
    assert summary["summary"]["counts"]["PodGroup"] == {
        "lookedAt": count,
        "found": OFFENDERS,
        "refused": OFFENDERS,
        "undecided": 0,
    }
    assert err == ""


@pytest.mark.usefixtures("topology")
async def test_a_cluster_that_is_well_is_said_to_be(api: ApiServer, namespace: str) -> None:
    code, lines, _ = await audit(api, "--namespace", namespace)
    assert (code, len(lines)) == (0, 9)
    assert all(line.endswith(" checked, 0 refused, 0 warnings") for line in lines)


NOBODY_HOME = """
apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: x}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
"""


@pytest.mark.parametrize(
    "text", ["apiVersion: v1\nkind: Config\n", NOBODY_HOME], ids=["no cluster", "nobody home"]
)
async def test_a_cluster_that_cannot_be_reached_is_exit_code_2(tmp_path: Path, text: str) -> None:
    (tmp_path / "kubeconfig").write_text(text)
    code, _, err = await command("audit", "--kubeconfig", str(tmp_path / "kubeconfig"))
    assert (code, err[:12]) == (2, "can't audit:")


async def test_check_judges_documents_with_the_objects_of_the_cluster(
    api: ApiServer, topology: None, namespace: str, tmp_path: Path
) -> None:
    """The level `block` is not in the stored ClusterTopology, which has `rack` only."""
    files = {}
    for level in ("rack", "block"):
        files[level] = tmp_path / f"{level}.json"
        document = builders.pod_clique_set("train", domain=level)
        document["metadata"]["namespace"] = namespace
        files[level].write_text(json.dumps(document))
    options = ("--cluster", "--kubeconfig", str(api.kubeconfig), "--context", "operator")
    allowed, _, _ = await command("check", str(files["rack"]), *options)
    code, out, _ = await command("check", str(files["block"]), *options)
    assert (allowed, code) == (0, 1)
    assert 'not found in ClusterTopology "grove-topology", which has: rack' in " ".join(out.split())

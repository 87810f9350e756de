"""Measure the resident memory and the start time of a server.

The sandbox serves the cluster in a separate process. Servers are started with an empty cluster and
with a cluster of 15,000 nodes, 10,000 PodGangs and 20,000 PodCliques, in which each PodGang has a
ComputeDomain and a ResourceClaim. A leader first patches the PodGangs. Servers are also started
with 20,000 Pods of a LeaderWorkerSet that request MNNVL, and with as many Pods that don't. Servers
have the credentials of a service account, as in a Pod. Their calls are read from their metrics.
"""

import argparse
import asyncio
import base64
import re
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from app.facts.grove.unit_member import read_carrier, read_carrier_of_pod
from app.facts.kinds import (
    ALL,
    COMPUTE_DOMAIN,
    LEADER_WORKER_SET,
    POD_GANG,
    RESOURCE_CLAIM,
)
from app.kube.api import Selection, every
from app.kube.client import HttpClient
from app.kube.credentials import from_kubeconfig
from app.kube.transport import CallLimits
from app.rules.mnnvl.claim import CliqueFacts, inject
from app.rules.mnnvl.plan import DEFAULT_DEVICE_CLASS, Plan, desired_resource
from benches.common import (
    ServerInPod,
    api_calls,
    cached_objects,
    environment_of_pod,
    memory,
    process,
    server_in_pod,
    until,
)
from scripts.apiserver.sandbox import Sandbox
from tests import pods as pods_of

NODES = 15_000
GANGS = 10_000
CLIQUES = 20_000
SETS = 2_000
PODS = 20_000
PODS_OF_UNIT = 10
CACHED_BY_A_FOLLOWER = NODES + SETS + 3 * GANGS
"""The number of objects in the caches of a server that does not lead, at scale 1.

Each PodGang has a ComputeDomain and a ResourceClaim. Only a leader caches PodCliques.
"""

CONFIGURATION = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
clusterTopology:
  enabled: true
  levels:
    - {domain: zone, key: topology.kubernetes.io/zone}
    - {domain: block, key: topology.kubernetes.io/block}
    - {domain: rack, key: topology.kubernetes.io/rack}
    - {domain: host, key: kubernetes.io/hostname}
client: {queriesPerSecond: 1000, burst: 1000}
"""
IN_A_POD = """
import sys
from pathlib import Path
from app.cli import main
from app.kube.credentials import in_cluster
in_cluster.__defaults__ = (Path(sys.argv.pop(1)),)
sys.exit(main())
"""
"""A program that runs the command with the account's files in the folder of its first argument."""

ELECTION = "leaderElection: {{name: {}, leaseSeconds: 900, renewSeconds: 600}}\n"
"""The settings of the Lease. Its times are long, because a busy machine is slow."""

FOLLOWING = ELECTION.format("held")
HELD = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "held", "namespace": "grove-system"},
    "spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 86400},
}


SETTLE_SECONDS = 5
PATIENCE = 1200.0
"""The time limit for a server to have nothing to do, in seconds."""


@dataclass(frozen=True)
class Started:
    """The result of one start of a server.

    `seconds` is the time until it is ready, `resident` its memory in bytes, and `objects` the number
    of objects in its caches. `calls` has the numbers of calls by (verb, resource).
    """

    seconds: float
    resident: int
    objects: int
    calls: dict[tuple[str, str], int]


@dataclass(frozen=True)
class Measured:
    """The results of three servers that were started one after the other.

    `working` led and patched all PodGangs, `leading` led and had nothing to do, and `following` did
    not lead.
    """

    working: Started
    leading: Started
    following: Started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--api", type=Path, help=argparse.SUPPRESS)
    parser.add_argument(
        "--scale", type=float, default=1.0, help="factor for the size of the cluster (default: 1)"
    )
    parser.add_argument("--pods", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--units", action="store_true", help="measure only Pods of units")
    arguments = parser.parse_args()
    if arguments.api:
        asyncio.run(run_api(arguments))
        return 0

    empty = measured(0.0)
    of_units(empty, int(PODS * arguments.scale))
    if arguments.units:
        return 0

    full = measured(arguments.scale)
    columns = (empty.following, full.following, empty.leading, full.leading)
    print(f"{'':28}{'empty':>12}{'full':>12}{'empty, leads':>14}{'full, leads':>14}")
    print(
        "{:28}{:12,}{:12,}{:14,}{:14,}".format(
            "objects in caches", *(column.objects for column in columns)
        )
    )
    print(
        "{:28}{:12.1f}{:12.1f}{:14.1f}{:14.1f}".format(
            "resident, MiB", *(column.resident / 2**20 for column in columns)
        )
    )
    print(
        "{:28}{:12.2f}{:12.2f}{:14.2f}{:14.2f}".format(
            "ready after, s", *(column.seconds for column in columns)
        )
    )
    each = [cost(empty.following, full.following), cost(empty.leading, full.leading)]
    print("{:40}{:12,.0f}{:28,.0f}".format("bytes for each object", *each))
    print(f"the leader that patched all PodGangs: {full.working.resident / 2**20:.1f} MiB")
    for (verb, resource), count in sorted(full.leading.calls.items()):
        if verb == "list":
            print(f"  {verb} {resource}: {count} pages")

    return 0


def of_units(empty: Measured, pods: int) -> None:
    """Print the memory for `pods` Pods that request MNNVL, and for as many that don't."""
    for name, plain in (("ask for MNNVL", False), ("don't", True)):
        beside = measured(0.0, pods, plain=plain)
        follows = beside.following.resident - empty.following.resident
        leads = beside.leading.resident - empty.leading.resident
        print(
            f"{pods:,} Pods that {name}: {follows / 2**20:+.1f} MiB, and {leads / 2**20:+.1f} MiB"
            f" of the leader, {leads / max(1, pods):,.0f} bytes for each"
        )


def cost(empty: Started, full: Started) -> float:
    """Return the bytes for each object, as the difference between an empty and a full cluster."""
    return (full.resident - empty.resident) / max(1, full.objects - empty.objects)


def objects(scale: float) -> Iterator[dict[str, Any]]:
    """Yield the objects of the cluster, with names and labels of realistic length."""
    levels = ("zone", "block", "rack")
    yield {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": "grove-topology"},
        "spec": {
            "levels": [
                *({"domain": level, "key": f"topology.kubernetes.io/{level}"} for level in levels),
                {"domain": "host", "key": "kubernetes.io/hostname"},
            ]
        },
    }
    for number in range(int(NODES * scale)):
        name = f"gpu-node-{number:05}.cluster.internal"
        places = {
            "zone": f"z{number // 5000}",
            "block": f"b{number // 500}",
            "rack": f"r{number // 18}",
        }
        labels = {f"topology.kubernetes.io/{level}": value for level, value in places.items()}
        labels |= {
            "kubernetes.io/hostname": name,
            "nvidia.com/gpu.product": "GB200",
            "node.kubernetes.io/instance": "x",
        }
        yield {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}

    sets = int(SETS * scale)
    for number in range(sets):
        cliques = [
            {
                "name": name,
                "spec": {
                    "roleName": name,
                    "replicas": 4,
                    "podSpec": {"containers": [{"name": "main"}]},
                },
            }
            for name in ("leader", "worker")
        ]
        yield {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": {"name": f"training-job-{number:05}", "namespace": "default"},
            "spec": {
                "replicas": 5,
                "template": {"cliques": cliques, "topologyConstraint": {"packDomain": "rack"}},
            },
        }

    for number in range(int(GANGS * scale)):
        pcs = f"training-job-{number % sets:05}"
        replica = number // sets
        labels = {
            "app.kubernetes.io/part-of": pcs,
            "grove.io/podcliqueset-replica-index": str(replica),
        }
        groups = [
            {"name": f"{pcs}-{replica}-{clique}", "minReplicas": 4, "podReferences": []}
            for clique in ("leader", "worker")
        ]
        yield {
            "apiVersion": "scheduler.grove.io/v1alpha1",
            "kind": "PodGang",
            "metadata": {"name": f"{pcs}-{replica}", "namespace": "default", "labels": labels},
            "spec": {"podgroups": groups},
        }

    for number in range(int(CLIQUES * scale)):
        gang = number // 2
        clique = ("leader", "worker")[number % 2]
        yield pod_clique(f"training-job-{gang % sets:05}", gang // sets, clique)


def units(pods: int, *, plain: bool) -> Iterator[dict[str, Any]]:
    """Yield a LeaderWorkerSet and its Pods.

    Unless `plain` is true, the Pods have claims for MNNVL, and the ComputeDomain of each unit is
    yielded too.
    """
    owner = pods_of.owner("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "a")
    owner["spec"] = {"replicas": pods // PODS_OF_UNIT}
    yield owner
    for number in range(pods):
        unit = number // PODS_OF_UNIT
        pod = pods_of.pod("lws-worker", {"leaderworkerset.sigs.k8s.io/group-index": str(unit)})
        pod["metadata"] |= {"name": f"a-{unit}-{number % PODS_OF_UNIT}", "ownerReferences": []}
        if plain:
            del pod["metadata"]["annotations"]
            yield pod
            continue

        plan = inject(read_carrier_of_pod(pod, "ns"), None, CliqueFacts(), "template").plan
        if plan is None:
            raise ValueError("the recorded Pod does not belong to a unit")
        pod["metadata"]["labels"]["grove.io/mnnvl-unit"] = plan.base_name
        pod["spec"]["resourceClaims"] = [plan.entry]
        yield pod
        if number % PODS_OF_UNIT == 0:
            plan = plan.owned_by(owner["metadata"]["uid"], LEADER_WORKER_SET)
            yield desired_resource(plan, COMPUTE_DOMAIN, COMPUTE_DOMAIN.versions[0])


def pod_clique(pcs: str, replica: int, clique: str) -> dict[str, Any]:
    """Return a PodClique with the shared claim of its replica."""
    base = f"{pcs}-{replica}"
    labels = {
        "app.kubernetes.io/part-of": pcs,
        "grove.io/podcliqueset-replica-index": str(replica),
        "grove.io/podgang": base,
    }
    claim = {"name": "mnnvl", "resourceClaimName": f"{base}-mnnvl-claim"}
    container = {
        "name": "main",
        "resources": {"limits": {"nvidia.com/gpu": 8}, "claims": [{"name": "mnnvl"}]},
    }

    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodClique",
        "metadata": {
            "name": f"{base}-{clique}",
            "namespace": "default",
            "labels": labels,
            "annotations": {"grove.io/mnnvl-enabled": "true"},
        },
        "spec": {
            "roleName": clique,
            "replicas": 4,
            "podSpec": {"containers": [container], "resourceClaims": [claim]},
        },
    }


def mnnvl_resources(gang: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the ComputeDomain and the claim of a stored PodGang, which owns them."""
    pcs, _, replica = gang["metadata"]["name"].rpartition("-")
    plan = Plan(
        read_carrier(pod_clique(pcs, int(replica), "leader"), "default"),
        "replica",
        DEFAULT_DEVICE_CLASS,
    )
    owner = POD_GANG.owner_reference(gang["metadata"]["name"], gang["metadata"]["uid"])
    made = [
        desired_resource(plan, COMPUTE_DOMAIN, COMPUTE_DOMAIN.versions[0]),
        desired_resource(plan, RESOURCE_CLAIM, "v1"),
    ]
    return [{**obj, "metadata": {**obj["metadata"], "ownerReferences": [owner]}} for obj in made]


async def run_api(arguments: argparse.Namespace) -> None:
    """Serve the objects until the process is killed. Create the file `loaded` once all are stored."""
    directory = arguments.api
    scale = arguments.scale
    sandbox = Sandbox(state_dir=directory)
    await sandbox.start()
    await sandbox.apply(
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            for name in ("grove-system", "ns")
        ]
    )
    await sandbox.apply([HELD, *(objects(scale) if scale else ())])
    if arguments.pods:
        await sandbox.apply(list(units(arguments.pods, plain=arguments.plain)))
    async with HttpClient(
        await from_kubeconfig(sandbox.kubeconfig, "admin"), ALL, CallLimits(qps=10_000)
    ) as client:
        await client.discovery.refresh()
        gangs = await every(client, Selection(POD_GANG, "default"))
        await sandbox.apply([made for gang in gangs for made in mnnvl_resources(gang)])

    (directory / "loaded").touch()
    await asyncio.Event().wait()


def measured(scale: float, pods: int = 0, *, plain: bool = False) -> Measured:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        api = [sys.executable, __file__, "--api", str(directory), "--scale", str(scale)]
        api += ["--pods", str(pods), *(["--plain"] if plain else [])]
        with process(api):
            until((directory / "loaded").exists)
            cliques = int(CLIQUES * scale)
            working = started(directory, "first", cliques)
            leading = started(directory, "second", cliques)
            return Measured(working, leading, started(directory, "held"))


def started(directory: Path, lease: str, cliques: int | None = None) -> Started:
    """Start a server, and return its result once its caches are full.

    The server leads unless another process holds the Lease `lease`. For a leader, `cliques` is the
    number of PodCliques that it caches, which its metrics don't count. The result is read after its
    reconcilers have been idle for SETTLE_SECONDS, so the next server finds nothing to write.
    """
    configuration = CONFIGURATION + ELECTION.format(lease)
    environment = service_account(directory)
    with server_in_pod(IN_A_POD, directory, configuration, environment) as server:
        until(server.is_ready)
        seconds = time.monotonic() - server.begin
        if cliques is not None:
            until(lambda: "grove_admission_leader 1" in server.client.get("/metrics").text)
        for _ in range(SETTLE_SECONDS):
            time.sleep(1)
            until(lambda: has_nothing_to_do(server), PATIENCE)
        text = server.client.get("/metrics").text
        resident = memory(server.pid, "VmRSS")

    return Started(seconds, resident, cached_objects(text) + (cliques or 0), api_calls(text))


def has_nothing_to_do(server: ServerInPod) -> bool:
    metrics = server.client.get("/metrics").text
    return re.search(r"queue_depth\{[^}]*\} [1-9]", metrics) is None


def service_account(directory: Path) -> dict[str, str]:
    """Write the files that Kubernetes mounts into a Pod. Return the variables that it sets."""
    kubeconfig = yaml.safe_load((directory / "kubeconfig").read_text())
    cluster = kubeconfig["clusters"][0]["cluster"]
    tokens = {user["name"]: user["user"]["token"] for user in kubeconfig["users"]}
    (directory / "token").write_text(tokens["operator"])
    (directory / "ca.crt").write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    address = urllib.parse.urlsplit(cluster["server"])
    return environment_of_pod(str(address.hostname), str(address.port))


if __name__ == "__main__":
    raise SystemExit(main())

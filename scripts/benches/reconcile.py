"""Measure the reconcilers: ownership, restored resources, changes of levels, and killed leaders.

The sandbox, in a separate process, has our webhook configurations, and each server is another
process. The rate of the reconciler's patches is compared with that of a bare client, in the same
run and with the same API server.
"""

import argparse
import asyncio
import atexit
import contextlib
import signal
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from app.facts.kinds import (
    ALL,
    COMPUTE_DOMAIN,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GANG,
    RESOURCE_CLAIM,
)
from app.kube.api import ObjectRef, Selection, Unavailable, every
from app.kube.client import HttpClient
from app.kube.credentials import from_kubeconfig
from app.kube.transport import CallLimits
from app.objects.resource import (
    EVENT,
    LEASE,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from app.webhooks.configurations import NAME, UrlTarget, webhook_configurations
from benches.common import ENVIRONMENT, ROOT, memory, process, until_async
from scripts.apiserver.processes import free_port
from scripts.apiserver.sandbox import Sandbox
from tests import builders
from tests.integration.tried import tried

GANGS_OF_A_SET = 100
QUIET_SECONDS = 60
WORKERS = 16
WRITES = ("create", "patch", "delete")
LEVELS = {
    "zone": "topology.kubernetes.io/zone",
    "rack": "topology.kubernetes.io/rack",
    "host": "kubernetes.io/hostname",
}
CONFIGURATION = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
clusterTopology: {{enabled: true, levels: [{levels}]}}
server: {{host: 127.0.0.1, port: {port}, drainSeconds: 0}}
client: {{queriesPerSecond: {rate}, burst: {burst}}}
leaderElection: {{leaseSeconds: 5, renewSeconds: 3, retrySeconds: 1}}
"""


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--api", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--adoptions", type=int, default=500)
    parser.add_argument("--gangs", type=int, default=10_000)
    parser.add_argument(
        "--claims", type=int, help="measure only restored claims, of this number of PodCliques"
    )
    arguments = parser.parse_args()
    if arguments.api:
        await run_api(arguments.directory, arguments.api)
        return

    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        port = free_port()
        with process([sys.executable, __file__, "--api", str(port), "--directory", name]):
            await until(lambda: (directory / "listening").exists())
            async with await connect(directory) as client:
                bench = Bench(directory, port, client)
                claims = arguments.claims or 1000
                await bench.claims_back(claims, 1)
                await bench.claims_back(claims, claims)
                if arguments.claims:
                    return
                await bench.adoption(arguments.adoptions)
                await bench.restore(arguments.adoptions)
                await bench.killed_while_adopting(arguments.adoptions)
                await bench.level_change(arguments.gangs)
                await bench.killed_leader(arguments.gangs)
                await bench.restart()


async def run_api(directory: Path, port: int) -> None:
    """Run the API server. Register the webhooks once a server has created its certificate."""
    sandbox = Sandbox(state_dir=directory)
    await sandbox.start()
    await sandbox.apply(
        [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "grove-system"}}]
    )
    (directory / "listening").touch()
    bundle = directory / "certs" / "ca.crt"
    await until(bundle.exists)
    target = UrlTarget(f"https://127.0.0.1:{port}", bundle.read_bytes())
    await sandbox.apply(webhook_configurations(target))
    (directory / "registered").touch()
    await asyncio.Event().wait()


class Server:
    """A server process and its metrics.

    With `limited`, it has the default limits: 50 requests per second, and bursts of 100.
    """

    def __init__(
        self, directory: Path, port: int, levels: dict[str, str], *, limited: bool = False
    ) -> None:
        listed = ", ".join(f"{{domain: {domain}, key: {key}}}" for domain, key in levels.items())
        rate = 50 if limited else 10_000
        burst = 100 if limited else 10_000
        path = directory / f"config-{port}.yaml"
        tools_port = free_port()
        values = {"port": port, "rate": rate, "burst": burst}
        path.write_text(CONFIGURATION.format(levels=listed, **values))
        command = [
            sys.executable,
            "-m",
            "app",
            "serve",
            "--config",
            str(path),
            "--certs",
            str(directory / "certs"),
            "--tools-port",
            str(tools_port),
        ]
        command += [
            "--kubeconfig",
            str(directory / "kubeconfig"),
            "--context",
            "operator",
            "--log-level",
            "warning",
        ]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.DEVNULL
        )
        atexit.register(self.process.kill)
        self._url = f"https://localhost:{tools_port}"
        self._bundle = directory / "certs" / "ca.crt"

    async def ready(self) -> None:
        await until(self._bundle.exists)
        await until(lambda: self.get("/readyz").startswith("ok"))

    def get(self, path: str) -> str:
        try:
            context = ssl.create_default_context(cafile=self._bundle)
            return httpx.get(f"{self._url}{path}", verify=context, timeout=10).text
        except (httpx.TransportError, OSError):
            return ""

    def metrics(self) -> str:
        return self.get("/metrics")

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of the samples of a metric that have `labels`."""
        return sum(
            sample.value
            for family in text_string_to_metric_families(self.metrics())
            for sample in family.samples
            if sample.name == f"grove_admission_{name}" and labels.items() <= sample.labels.items()
        )

    def writes(self) -> int:
        """Return the number of calls that change objects other than Leases and Events."""
        free = (str(LEASE), str(EVENT))
        return int(
            sum(
                sample.value
                for family in text_string_to_metric_families(self.metrics())
                for sample in family.samples
                if sample.name == "grove_admission_api_requests_total"
                and sample.labels["verb"] in WRITES
                and sample.labels["resource"] not in free
            )
        )

    def patches(self) -> int:
        return int(
            self.value("api_requests_total", verb="patch", resource=str(POD_GANG), code="200")
        )

    def touches(self) -> int:
        """Return the number of PATCHes of PodCliques."""
        return int(self.value("api_requests_total", verb="patch", resource=str(POD_CLIQUE)))

    def resident(self) -> float:
        """Return the resident memory in MiB."""
        return memory(self.process.pid, "VmRSS") / 2**20

    async def idle(self, gangs: int) -> None:
        """Wait until the server leads, has reconciled all PodGangs, and has no key in a queue."""
        await until(lambda: self.value("leader") == 1, 0.2)
        await until(lambda: self.value("reconcile_total", reconciler="podgang") >= gangs, 0.2)
        await until(lambda: self.value("reconcile_queue_depth") == 0, 0.2)

    def stop(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.process.wait()


@dataclass
class Bench:
    directory: Path
    port: int
    client: HttpClient

    async def adoption(self, count: int) -> None:
        server = Server(self.directory, self.port, LEVELS)
        await server.ready()
        await until((self.directory / "registered").exists)
        await until(lambda: server.value("leader") == 1)
        await self.client.create(
            POD_CLIQUE_SET,
            builders.pod_clique_set("adopted", mnnvl=True, replicas=1_000_000),
            "default",
        )
        await self._topology_is_known()
        labels = [
            builders.labels("adopted", number, f"adopted-{number}", grove=True)
            for number in range(count)
        ]
        cliques = (
            builders.pod_clique(f"adopted-{number}-worker", labels[number])
            for number in range(count)
        )
        await self._all(POD_CLIQUE, cliques)
        watching = Owned(count)
        async with watching.running(self.client):
            stored: dict[str, float] = {}
            for number in range(count):
                name = f"adopted-{number}"
                await self.client.create(
                    POD_GANG,
                    builders.pod_gang(name, builders.gang_labels("adopted"), f"{name}-worker"),
                    "default",
                )
                stored[name] = time.monotonic()
                await asyncio.sleep(0.01)
            await until(watching.done)

        taken = sorted((watching.owned[name] - stored[name]) * 1000 for name in stored)
        p99 = statistics.quantiles(taken, n=100)[98]
        print(
            f"adoption, PodGang stored -> both owned: p50 {statistics.median(taken):.0f} ms, p99 {p99:.0f} ms ({count})"
        )
        server.stop()

    async def restore(self, count: int) -> None:
        """Delete ComputeDomains and claims one after the other.

        Print the median and the 99th percentile of the times until they exist again, and the number
        of writes in the QUIET_SECONDS after that.
        """
        server = Server(self.directory, self.port, LEVELS)
        await server.ready()
        await until(lambda: server.value("leader") == 1)
        await self.client.create(
            POD_CLIQUE_SET,
            builders.pod_clique_set("restored", mnnvl=True, replicas=1_000_000),
            "default",
        )
        labels = [
            builders.labels("restored", number, f"restored-{number}", grove=True)
            for number in range(count)
        ]
        cliques = (
            builders.pod_clique(f"restored-{number}-worker", labels[number])
            for number in range(count)
        )
        names = [(COMPUTE_DOMAIN, f"restored-{n}-cd") for n in range(count)]
        names += [(RESOURCE_CLAIM, f"restored-{n}-mnnvl-claim") for n in range(count)]
        watching = Restored()
        async with watching.running(self.client):
            await self._all(POD_CLIQUE, cliques)
            await until(lambda: all(name in watching.created for _, name in names))
            deleted: dict[str, float] = {}
            for resource, name in names:
                deleted[name] = time.monotonic()
                await self.client.delete(ObjectRef(resource, name, "default"))
                await asyncio.sleep(0.01)
            await until(
                lambda: all(watching.created.get(name, 0.0) > deleted[name] for name in deleted)
            )

        taken = sorted((watching.created[name] - deleted[name]) * 1000 for name in deleted)
        p99 = statistics.quantiles(taken, n=100)[98]
        print(
            f"restore, deleted -> there again: p50 {statistics.median(taken):.0f} ms, p99 {p99:.0f} ms ({len(names)})"
        )
        before = server.writes()
        await asyncio.sleep(QUIET_SECONDS)
        print(f"  writes in {QUIET_SECONDS} quiet seconds after that: {server.writes() - before}")
        server.stop()

    async def killed_while_adopting(self, count: int) -> None:
        """Create PodGangs one after the other, and kill and replace the leader halfway.

        Print the time from the last PodGang until all resources have their owner.
        """
        servers = [Server(self.directory, port, LEVELS) for port in (self.port, free_port())]
        await servers[0].ready()
        await until(lambda: sum(server.value("leader") for server in servers) == 1)
        await self.client.create(
            POD_CLIQUE_SET,
            builders.pod_clique_set("killed", mnnvl=True, replicas=1_000_000),
            "default",
        )
        labels = [
            builders.labels("killed", number, f"killed-{number}", grove=True)
            for number in range(count)
        ]
        names = [f"killed-{number}-worker" for number in range(count)]
        await self._all(POD_CLIQUE, map(builders.pod_clique, names, labels))
        for number in range(count):
            if number == count // 2:
                place = next(n for n, server in enumerate(servers) if server.value("leader") == 1)
                servers[place].stop(signal.SIGKILL)
                servers[place] = Server(
                    self.directory, self.port if place == 0 else free_port(), LEVELS
                )
            await self._insist(
                builders.pod_gang(f"killed-{number}", builders.gang_labels("killed"), names[number])
            )

        begin = time.monotonic()
        await until_async(self._all_owned(count))
        seconds = time.monotonic() - begin
        print(
            f"leader killed while {count} PodGangs came: all resources owned {seconds:.1f} s after the last of them"
        )
        for server in servers:
            server.stop()

    async def _insist(self, gang: dict[str, Any]) -> None:
        """Create a PodGang. Retry while no webhook answers, as Grove's operator does."""
        while True:
            try:
                await self.client.create(POD_GANG, gang, "default")
                return
            except Unavailable:
                await asyncio.sleep(0.1)

    def _all_owned(self, count: int) -> Callable[[], Awaitable[bool]]:
        async def owned() -> bool:
            for resource in (COMPUTE_DOMAIN, RESOURCE_CLAIM):
                selection = Selection(resource, "default", labels="grove.io/pcs-name=killed")
                items = await every(self.client, selection)
                owners = {item["metadata"]["ownerReferences"][0]["name"] for item in items}
                if owners != {f"killed-{number}" for number in range(count)}:
                    return False
            return True

        return owned

    async def claims_back(self, count: int, sets: int) -> None:
        """Delete the webhook configurations, and remove the claims from PodCliques, as Grove would.

        Print the time until all claims are restored after the configurations are created again,
        first with one server, then with two servers of which the leader is killed. `count`
        PodCliques inherit the annotation of `sets` PodCliqueSets.
        """
        servers = [Server(self.directory, self.port, LEVELS, limited=True)]
        await servers[0].ready()
        await until((self.directory / "registered").exists)
        await until(lambda: servers[0].value("leader") == 1)
        self._of = f"of-{sets}-sets"
        await self._all(POD_CLIQUE_SET, (self._set(number) for number in range(sets)))
        await until_async(lambda: self._inherits(sets - 1))
        cliques = [self._clique(number % sets, number // sets) for number in range(count)]
        await self._all(POD_CLIQUE, cliques)
        names = [clique["metadata"]["name"] for clique in cliques]
        assert await self._claimed() == count

        await self._switched_off(names)
        touched = servers[0].touches()
        await asyncio.sleep(QUIET_SECONDS)
        tries = servers[0].touches() - touched
        print(f"claims, {count:,} PodCliques of {sets:,} PodCliqueSets:")
        print(f"  off for {QUIET_SECONDS} s: {tries} writes in vain")
        seconds = await self._switched_on(count)
        print(f"  all have theirs again {seconds:.1f} s after switching on")

        servers.append(Server(self.directory, free_port(), LEVELS, limited=True))
        await servers[1].ready()
        await self._switched_off(names)
        switched_on = asyncio.create_task(self._switched_on(count))
        await until_async(self._half_claimed(count))
        servers[0].stop(signal.SIGKILL)
        servers[0] = Server(self.directory, self.port, LEVELS, limited=True)
        seconds = await switched_on
        print(f"  the same with the leader killed half way: {seconds:.1f} s")
        for server in servers:
            server.stop()

    def _set(self, number: int) -> dict[str, Any]:
        pcs = builders.pod_clique_set(f"lost-{number}")
        pcs["metadata"]["name"] = f"{self._of}-{number}"
        pcs["metadata"]["annotations"] = {"grove.io/mnnvl-enabled": "true"}
        return pcs

    def _clique(self, number: int, replica: int) -> dict[str, Any]:
        pcs = f"{self._of}-{number}"
        labels = builders.labels(pcs, replica, f"{pcs}-{replica}", grove=True)
        clique = builders.pod_clique(f"{pcs}-{replica}-worker", {**labels, "bench": self._of})
        del clique["metadata"]["annotations"]
        return clique

    async def _inherits(self, number: int) -> bool:
        """Return whether the server knows the PodCliqueSet `number` of `claims_back`."""
        probe = self._clique(number, 0)
        answer = await tried(self.client, POD_CLIQUE, probe, "default")
        return "resourceClaims" in answer["spec"]["podSpec"]

    async def _switched_off(self, names: list[str]) -> None:
        """Delete the webhook configurations, then write the spec of its template to each PodClique."""
        self._configurations = [
            (resource, await self.client.get(ObjectRef(resource, NAME)))
            for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
        ]
        for resource, _ in self._configurations:
            await self.client.delete(ObjectRef(resource, NAME))
        template = {"spec": {"podSpec": {**builders.pod_spec(), "resourceClaims": None}}}
        for name in names:
            await self.client.patch(ObjectRef(POD_CLIQUE, name, "default"), template)
        assert await self._claimed() == 0

    async def _switched_on(self, count: int) -> float:
        """Create the webhook configurations again.

        Return the seconds until all PodCliques have a claim.
        """
        for resource, configuration in self._configurations:
            metadata = {"name": NAME, "labels": configuration["metadata"]["labels"]}
            await self.client.create(resource, {**configuration, "metadata": metadata})
        begin = time.monotonic()

        async def all_claimed() -> bool:
            return await self._claimed() == count

        await until_async(all_claimed, 0.2)
        return time.monotonic() - begin

    def _half_claimed(self, count: int) -> Callable[[], Awaitable[bool]]:
        async def half_claimed() -> bool:
            return await self._claimed() >= count // 2

        return half_claimed

    async def _claimed(self) -> int:
        """Return the number of PodCliques of `claims_back` that have a claim."""
        items = await every(
            self.client, Selection(POD_CLIQUE, "default", labels=f"bench={self._of}")
        )
        return sum("resourceClaims" in item["spec"]["podSpec"] for item in items)

    async def level_change(self, count: int) -> None:
        server = Server(self.directory, self.port, LEVELS)
        await server.ready()
        sets = [
            builders.pod_clique_set(f"job-{n}", domain="zone")
            for n in range(count // GANGS_OF_A_SET)
        ]
        await self._all(POD_CLIQUE_SET, sets)
        await self._all(
            POD_GANG, (gang(number, count // GANGS_OF_A_SET) for number in range(count))
        )
        await server.idle(count)
        rate = await self._bare_rate(count)
        server.stop()
        server = Server(self.directory, self.port, {**LEVELS, "host": "example.com/host"})
        await server.ready()
        await until(lambda: server.patches() > 0)
        begin = time.monotonic()
        before = server.patches()
        await until(lambda: server.patches() >= count, 0.1)
        seconds = time.monotonic() - begin
        await server.idle(count)
        ours = (count - before) / seconds
        print(
            f"level change: {server.patches():,} patches for {count:,} PodGangs and {await self._adopted():,} others"
        )
        print(
            f"  {ours:,.0f} patches/s, {ours / rate:.2f} of the bare client's {rate:,.0f}/s", end=""
        )
        print(
            f"; resident {server.resident():.0f} MiB; wrong: {await self._wrong('example.com/host')}"
        )
        server.stop()

    async def killed_leader(self, count: int) -> None:
        """Change the levels back, with two servers, and kill and replace the leader partway.

        Webhooks are called at the port of the first server, so patches fail while it is down.
        """
        first = Server(self.directory, self.port, LEVELS)
        second = Server(self.directory, free_port(), LEVELS)
        await first.ready()
        await until(lambda: first.patches() + second.patches() > count // 3)
        leader, other = (first, second) if first.patches() > second.patches() else (second, first)
        done = leader.patches()
        leader.stop(signal.SIGKILL)
        begin = time.monotonic()
        again = Server(self.directory, self.port if leader is first else free_port(), LEVELS)
        await until(lambda: other.value("leader") + again.value("leader") == 1)
        led = time.monotonic() - begin
        await until_async(self._settled("kubernetes.io/hostname"))
        wrong = await self._wrong("kubernetes.io/hostname")
        print(
            f"leader killed after {done:,} of {count:,}: another led after {led:.1f} s, wrong in the end: {wrong}"
        )
        other.stop()
        again.stop()

    async def restart(self) -> None:
        server = Server(self.directory, self.port, LEVELS)
        await server.ready()
        total = len([1 async for _ in self._gangs()])
        await server.idle(total)
        print(f"restart of everything: {server.writes()} writes for {total:,} PodGangs")
        server.stop()

    async def _topology_is_known(self) -> None:
        async def try_once() -> bool:
            probe = builders.pod_gang("probe", builders.gang_labels("adopted"), "probe")
            try:
                await tried(self.client, POD_GANG, probe, "default")
            except Exception:
                return False
            return True

        await until_async(try_once)

    async def _bare_rate(self, count: int) -> float:
        """Return the patches per second of a bare client, with as many tasks as a reconciler."""
        names = iter(
            [
                f"job-{n % (count // GANGS_OF_A_SET)}-{n // (count // GANGS_OF_A_SET)}"
                for n in range(count)
            ]
        )

        async def worker() -> None:
            for name in names:
                await self.client.patch(
                    ObjectRef(POD_GANG, name, "default"), {"metadata": {"labels": {"bench": "1"}}}
                )

        begin = time.monotonic()
        await asyncio.gather(*(worker() for _ in range(WORKERS)))
        return count / (time.monotonic() - begin)

    async def _all(self, resource: Resource, objects: Any) -> None:
        waiting = iter(objects)

        async def worker() -> None:
            for obj in waiting:
                await self.client.create(resource, obj, "default")

        await asyncio.gather(*(worker() for _ in range(WORKERS)))

    async def _gangs(self) -> AsyncIterator[dict[str, Any]]:
        token = ""
        while True:
            page = await self.client.list(Selection(POD_GANG, "default"), continue_token=token)
            for item in page.items:
                yield item
            token = page.continue_token
            if not token:
                return

    async def _wrong(self, preferred: str) -> int:
        """Return the number of PodGangs that prefer another level than `preferred`."""
        wrong = 0
        async for gang in self._gangs():
            packs = [gang["spec"]["topologyConstraint"]["packConstraint"]]
            packs += [
                group["topologyConstraint"]["packConstraint"] for group in gang["spec"]["podgroups"]
            ]
            wrong += {pack["preferred"] for pack in packs} != {preferred}
        return wrong

    def _settled(self, preferred: str) -> Callable[[], Awaitable[bool]]:
        async def settled() -> bool:
            return await self._wrong(preferred) == 0

        return settled

    async def _adopted(self) -> int:
        return len(
            [gang async for gang in self._gangs() if gang["metadata"]["name"].startswith("adopted")]
        )


class Owned:
    """The times at which PodGangs became the owners of both of their resources, by two watches."""

    def __init__(self, count: int) -> None:
        self.owned: dict[str, float] = {}
        self._count = count
        self._half = set[str]()

    def done(self) -> bool:
        return len(self.owned) >= self._count

    @contextlib.asynccontextmanager
    async def running(self, client: HttpClient) -> AsyncIterator[None]:
        tasks = [
            asyncio.create_task(self._watch(client, resource))
            for resource in (COMPUTE_DOMAIN, RESOURCE_CLAIM)
        ]
        await asyncio.sleep(0.2)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, client: HttpClient, resource: Resource) -> None:
        version = (await client.list(Selection(resource, "default"), limit=1)).resource_version
        async for event in client.watch(Selection(resource, "default"), resource_version=version):
            for owner in event.object.get("metadata", {}).get("ownerReferences", []):
                if owner["kind"] == "PodGang" and event.type == "MODIFIED":
                    self._see(owner["name"])

    def _see(self, gang: str) -> None:
        if gang in self._half:
            self.owned[gang] = time.monotonic()
        self._half.add(gang)


class Restored(Owned):
    """The times at which ComputeDomains and claims were created."""

    def __init__(self) -> None:
        super().__init__(0)
        self.created: dict[str, float] = {}

    async def _watch(self, client: HttpClient, resource: Resource) -> None:
        version = (await client.list(Selection(resource, "default"), limit=1)).resource_version
        async for event in client.watch(Selection(resource, "default"), resource_version=version):
            if event.type == "ADDED":
                self.created[event.object["metadata"]["name"]] = time.monotonic()


def gang(number: int, sets: int) -> dict[str, Any]:
    pcs = f"job-{number % sets}"
    replica = number // sets
    name = f"{pcs}-{replica}"
    return builders.pod_gang(name, builders.gang_labels(pcs), f"{name}-worker", f"{name}-leader")


async def connect(directory: Path) -> HttpClient:
    client = HttpClient(
        await from_kubeconfig(directory / "kubeconfig", "operator"),
        ALL,
        CallLimits(qps=1e6, burst=10**6),
    )
    await client.discovery.refresh()
    return client


async def until(true: Callable[[], object], every: float = 0.05) -> None:
    async def look() -> bool:
        return bool(true())

    await until_async(look, every)


if __name__ == "__main__":
    asyncio.run(main())

"""One random schedule, made of one seed: users, Grove's operator and administrators act, servers and leaders are
killed, and the network is bad. Then all is calm, and after a while the invariants hold."""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NoReturn

import yaml

from app.cluster.cluster import Cluster
from app.commands.beside import ApiServer
from app.config.read import read_configuration
from app.kube.api import ClusterError, Object
from app.kube.client import HttpClient, Limits
from app.kube.credentials import PlainCredentials
from app.objects.resource import CRD, LEASE, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from app.rules.kinds import ALL, COMPUTE_DOMAIN, POD_GANG, RESOURCE_CLAIM
from app.sandbox.sandbox import Sandbox
from app.server.listener import free_port
from app.server.serve import Running, serving
from app.webhooks.configurations import NAME, UrlTarget, webhook_configurations
from tests.integration.system import connect
from tests.proof.grove import DesiredSet, Operator
from tests.proof.invariants import Foreign, violations
from tests.proof.network import Balancer, FaultyProxy

CHAOS_SECONDS, PATIENCE_SECONDS = 3.5, 60.0
SHARE = 0.2
"""Of the calls that fail while the network is bad."""

LEVELS = (
    {"zone": "example.com/zone", "rack": "example.com/rack"},
    {"zone": "example.com/zone", "rack": "example.com/rack", "host": "kubernetes.io/hostname"},
    {"zone": "example.com/zone", "block": "example.com/block", "rack": "example.com/rack"},
)
CONFIGURATION = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
clusterTopology: {{enabled: true, levels: [{levels}]}}
server: {{host: 127.0.0.1, port: {port}, drainSeconds: 0}}
client: {{queriesPerSecond: 10000, burst: 10000}}
leaderElection: {{leaseSeconds: 12, renewSeconds: 4, retrySeconds: 0.3}}
mnnvl: {{collectAfterSeconds: 1}}
"""
TODAY = Path(__file__).parents[2] / "app" / "sandbox" / "crds" / "today" / "grove.yaml"
BINDINGS = "clustertopologybindings.grove.io"
SETS = ("train", "serve")


@dataclass
class Report:
    """What came of one schedule. `broken` are the invariants that did not hold in the end."""

    seed: int
    steps: dict[str, int] = field(default_factory=dict)
    faults: int = 0
    settled: float = 0.0
    slowest: float = 0.0
    broken: list[str] = field(default_factory=list)

    def line(self) -> str:
        steps = ", ".join(f"{name} {count}" for name, count in sorted(self.steps.items()))
        numbers = f"{self.faults:5} faults, settled after {self.settled:4.1f} s, slowest request {self.slowest:4.1f} s"
        return f"seed {self.seed:5}: {numbers}, broken {len(self.broken)}; {steps}"


class Replica:
    """One of our servers, as a process is: it can be killed at any moment, and then says nothing to anybody."""

    def __init__(
        self, proxy: FaultyProxy, balancer: Balancer, token: str, folder: Path, levels: dict[str, str]
    ) -> None:
        self.port = free_port()
        self._proxy, self._balancer, self._token, self._folder, self._levels = proxy, balancer, token, folder, levels
        self._task: asyncio.Task[None] | None = None
        self._served: Running | None = None

    @property
    def leads(self) -> bool:
        served = self._served
        return served is not None and served.leader is not None and served.leader.leading and not self.is_dead

    @property
    def proxy(self) -> FaultyProxy:
        return self._proxy

    async def start(self) -> None:
        await self._proxy.start()
        self._task = asyncio.create_task(self._run())

    @property
    def is_dead(self) -> bool:
        return self._task is not None and self._task.done()

    async def _run(self) -> None:
        levels = ", ".join(f"{{domain: {domain}, key: {key}}}" for domain, key in self._levels.items())
        configuration = read_configuration(CONFIGURATION.format(levels=levels, port=self.port), "proof")
        limits = Limits(total=5.0, qps=10_000, burst=10_000)
        async with HttpClient(PlainCredentials(self._proxy.url, self._token), ALL, limits) as client:
            cluster = Cluster(client, configuration, client.discovery)
            async with serving(configuration, self._folder / "webhook", cluster, client) as served:
                while not served.readiness.is_ready:  # noqa: ASYNC110 - several caches, and a check each
                    await asyncio.sleep(0.02)
                self._served = served
                self._balancer.ports.append(self.port)
                await asyncio.Event().wait()

    async def kill(self) -> None:
        """As by SIGKILL: its connections end, and what it would do in the end reaches nobody."""
        self._served = None
        self._balancer.drop(self.port)
        await self._proxy.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=10)


class Schedule:
    """The players in one namespace of `api`."""

    def __init__(self, api: ApiServer, seed: int, folder: Path, token: str) -> None:
        self.report, self.namespace = Report(seed), f"proof-{seed}"
        self._api, self._folder, self._token = api, folder, token
        self._random = Random(seed)
        self._levels = LEVELS[0]
        self._balancer, self._replicas = Balancer(self._random), list[Replica]()
        self._context = ssl.create_default_context(cafile=api.ca_file)
        self._faults = self._most_leaders = 0

    async def run(self) -> Report:
        async with await connect(self._api, "admin") as admin, await connect(self._api, "grove") as grove:
            operator, foreign = Operator(grove, self.namespace), Foreign(admin, self.namespace)
            playing: list[asyncio.Task[NoReturn]] = []
            try:
                await self._begin(admin)
                await foreign.create()
                playing = [asyncio.create_task(operator.run()), asyncio.create_task(self._count_leaders())]
                await self._chaos(admin, operator)
                await self._calm(admin, operator)
                await self._settle(admin, operator, foreign)
            finally:
                for task in playing:
                    task.cancel()
                await self._end(admin)
        self.report.slowest = operator.slowest
        self.report.faults = self._faults + sum(replica.proxy.injected for replica in self._replicas)
        if self._most_leaders > 1:
            self.report.broken.append("two leaders at once")
        if operator.slowest > 11.0:
            self.report.broken.append(f"a request took {operator.slowest:.1f} s")
        self.report.broken += [f"rejected: {message}" for message in sorted(set(operator.refusals))]
        return self.report

    async def _count_leaders(self) -> NoReturn:
        while True:
            self._most_leaders = max(self._most_leaders, sum(replica.leads for replica in self._replicas))
            await asyncio.sleep(0.02)

    async def _begin(self, admin: HttpClient) -> None:
        self._admin = admin
        for name in (self.namespace, "grove-system"):
            await self._api.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}])
        port = await self._balancer.start()
        self._replicas = [await self._replica(0.0), await self._replica(0.0)]
        bundle = self._folder / "webhook" / "ca.crt"
        await until(lambda: len(self._balancer.ports) == 2 and bundle.exists())
        await self._api.apply(webhook_configurations(UrlTarget(f"https://127.0.0.1:{port}", bundle.read_bytes())))
        for replica in self._replicas:
            replica.proxy.share = SHARE

    async def _end(self, admin: HttpClient) -> None:
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            with contextlib.suppress(ClusterError):
                await admin.delete(resource, NAME)
        for replica in self._replicas:
            await replica.kill()
        await self._balancer.stop()

    async def _replica(self, share: float) -> Replica:
        proxy = FaultyProxy(self._api.url, self._context, self._random, share)
        replica = Replica(proxy, self._balancer, self._token, self._folder, self._levels)
        await replica.start()
        return replica

    async def _replace(self, number: int, share: float = SHARE) -> None:
        former = self._replicas[number]
        await former.kill()
        self._faults += former.proxy.injected
        if not any(replica.leads for replica in self._replicas):
            with contextlib.suppress(ClusterError):  # nobody has to wait until it expires
                await self._admin.delete(LEASE, NAME, "grove-system")
        self._replicas[number] = await self._replica(share)

    # What happens.

    async def _chaos(self, admin: HttpClient, operator: Operator) -> None:
        operator.sets = {"train": DesiredSet(2), "serve": DesiredSet(1, inherited=True, domain="rack")}
        end = time.monotonic() + CHAOS_SECONDS
        while time.monotonic() < end:
            await asyncio.sleep(self._random.uniform(0.0, 0.3))
            name, step = self._random.choice(self._steps(admin, operator))
            self.report.steps[name] = self.report.steps.get(name, 0) + 1
            with contextlib.suppress(ClusterError):
                await step()

    def _steps(self, admin: HttpClient, operator: Operator) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        """By name, more than once if it is likelier."""
        name = self._random.choice(SETS)

        async def desire() -> None:
            scope, domain = self._random.choice(("replica", "clique")), self._random.choice((None, "zone", "rack"))
            replicas, inherited = self._random.randint(0, 3), self._random.random() < 0.5
            operator.sets[name] = DesiredSet(replicas, scope, inherited, domain)

        async def scale() -> None:
            desired = operator.sets.get(name)
            if desired is not None:
                desired.replicas = self._random.randint(0, 3)

        async def remove() -> None:
            operator.sets[name] = None

        async def delete_by_hand() -> None:
            await self._delete_one(admin, self._random.choice((COMPUTE_DOMAIN, RESOURCE_CLAIM, POD_GANG)))

        async def kill() -> None:
            await self._replace(self._random.randrange(2))

        async def change_levels() -> None:
            self._levels = self._random.choice(LEVELS)
            await self._replace(self._random.randrange(2))

        return [
            ("compact", self._compact),
            *[("change set", desire)] * 4,
            *[("scale", scale)] * 6,
            ("delete set", remove),
            *[("delete by hand", delete_by_hand)] * 8,
            ("kill", kill),
            ("change levels", change_levels),
            ("change dialect", lambda: self._toggle_bindings(admin)),
        ]

    async def _compact(self) -> None:
        if isinstance(self._api, Sandbox):
            self._api.compact()

    async def _delete_one(self, admin: HttpClient, resource: Resource) -> None:
        names = [item["metadata"]["name"] for item in (await admin.list(resource, self.namespace)).items]
        names = [name for name in names if not name.startswith("foreign")]
        if names:
            await admin.delete(resource, self._random.choice(names), self.namespace)

    async def _toggle_bindings(self, admin: HttpClient, *, install: bool = True) -> None:
        installed = any(item["metadata"]["name"] == BINDINGS for item in (await admin.list(CRD)).items)
        if installed:
            await admin.delete(CRD, BINDINGS)
        elif install:
            documents: list[Object] = list(yaml.safe_load_all(TODAY.read_text()))
            await self._api.apply([obj for obj in documents if obj and obj["metadata"]["name"] == BINDINGS])

    # And then.

    async def _calm(self, admin: HttpClient, operator: Operator) -> None:
        """The network is well and the operator has nothing to do; the last deletions by hand are left to us."""
        await self._toggle_bindings(admin, install=False)
        for number in range(2):
            await self._replace(number, share=0.0)
        await until(lambda: len(self._balancer.ports) == 2 and any(replica.leads for replica in self._replicas))
        rounds = operator.rounds
        await until(lambda: operator.rounds > rounds + 2)
        operator.resets = False
        rounds = operator.rounds
        await until(lambda: operator.rounds > rounds + 1)
        for resource in (COMPUTE_DOMAIN, RESOURCE_CLAIM):
            await self._delete_one(admin, resource)

    async def _settle(self, admin: HttpClient, operator: Operator, foreign: Foreign) -> None:
        begin = time.monotonic()
        while True:
            for number, replica in enumerate(self._replicas):
                if replica.is_dead:
                    await self._replace(number, share=0.0)
            broken = await violations(admin, self.namespace, self._levels, operator.sets, foreign)
            self.report.settled = time.monotonic() - begin
            if not broken or self.report.settled > PATIENCE_SECONDS:
                self.report.broken = broken
                return
            await asyncio.sleep(0.25)


@contextlib.asynccontextmanager
async def sandbox(folder: Path) -> AsyncIterator[Sandbox]:
    """An API server of our own."""
    api = Sandbox(state_dir=folder)
    await api.start()
    try:
        yield api
    finally:
        await api.stop()


def operator_token(api: ApiServer) -> str:
    """The token of our own account."""
    users = yaml.safe_load(api.kubeconfig.read_text())["users"]
    return str(next(user["user"]["token"] for user in users if user["name"] == "operator"))


async def run_seed(seed: int, folder: Path) -> Report:
    """One schedule over a sandbox of its own; its files go to `folder`."""
    async with sandbox(folder) as api:
        return await Schedule(api, seed, folder, operator_token(api)).run()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - another thread of events makes it true
            await asyncio.sleep(0.02)

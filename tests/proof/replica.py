"""One of our servers, as a process is, behind a bad network of its own."""

import asyncio
from pathlib import Path

from app.cluster.cluster import Cluster
from app.config.read import read_configuration
from app.facts.kinds import ALL
from app.kube.client import HttpClient
from app.kube.transport import CallLimits
from app.server.serve import Running, serving
from tests.kube.credentials import PlainCredentials
from tests.proof.network import Balancer, FaultyProxy

CONFIGURATION = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
clusterTopology: {{enabled: true, levels: [{levels}]}}
server: {{host: 127.0.0.1, port: 0, toolsPort: 0, drainSeconds: 0}}
client: {{queriesPerSecond: 10000, burst: 10000}}
leaderElection: {{leaseSeconds: 3600, renewSeconds: 1800, retrySeconds: 0.3}}
mnnvl: {{{mnnvl}}}
"""
"""A Lease lasts longer than a schedule.

A leader that gets no turns for some seconds, because the machine is busy, must not end the process
of all schedules. That of a server that was killed is released.
"""


class Replica:
    """A server that can be killed at any moment, and then says nothing to anybody."""

    def __init__(
        self,
        proxy: FaultyProxy,
        balancer: Balancer,
        token: str,
        folder: Path,
        levels: dict[str, str],
        mnnvl: str,
    ) -> None:
        self.port = 0
        self._proxy = proxy
        self._balancer = balancer
        self._token = token
        self._folder = folder
        self._levels = levels
        self._mnnvl = mnnvl
        self._task: asyncio.Task[None] | None = None
        self._served: Running | None = None
        """Once it is ready, and until it is killed."""
        self._started: Running | None = None

    @property
    def leads(self) -> bool:
        served = self._served
        return (
            served is not None
            and served.leader is not None
            and served.leader.leading
            and not self.is_dead
        )

    @property
    def identity(self) -> str:
        """What it writes into the Lease if it leads; "" before it can."""
        started = self._started
        return started.leader.identity if started is not None and started.leader is not None else ""

    @property
    def proxy(self) -> FaultyProxy:
        return self._proxy

    async def start(self) -> None:
        await self._proxy.start()
        self._task = asyncio.create_task(self._run())

    def state(self) -> str:
        """For people: whether it runs, is ready, and who leads."""
        if self.is_dead:
            return f"dead: {None if self._task is None or self._task.cancelled() else self._task.exception()!r}"
        if self._started is None:
            return "has not started"
        failing = [
            f"{name} {problem}"
            for name, problem in self._started.readiness.ready().items()
            if problem
        ]
        leader = self._started.leader
        leads = (
            "no candidate"
            if leader is None
            else f"leads: {leader.leading}, holder: {leader.holder or 'nobody'}"
        )
        return f"{', '.join(failing) or 'ready'}, {leads}"

    @property
    def is_dead(self) -> bool:
        return self._task is not None and self._task.done()

    async def _run(self) -> None:
        levels = ", ".join(
            f"{{domain: {domain}, key: {key}}}" for domain, key in self._levels.items()
        )
        configuration = read_configuration(
            CONFIGURATION.format(levels=levels, mnnvl=self._mnnvl), "proof"
        )
        limits = CallLimits(total=5.0, qps=10_000, burst=10_000)
        async with HttpClient(
            PlainCredentials(self._proxy.url, self._token), ALL, limits
        ) as client:
            cluster = Cluster(client, configuration, client.discovery)
            async with serving(configuration, self._folder / "webhook", cluster, client) as served:
                self._started = served
                while not served.readiness.is_ready:  # noqa: ASYNC110 - several caches, and a check each
                    await asyncio.sleep(0.02)
                self._served = served
                self.port = served.listener.port
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
        self._balancer.drop(self.port)  # it may have become ready in its last moment

"""One random schedule, made of one seed: users, Grove's operator and administrators act, servers
and leaders are killed, and the network is bad. Then all is calm, and after a while the
invariants hold.

Whole servers run here, over sockets and in real time. `tests/reconcilers/servers.py` has the parts
of a server that write owners, in virtual time.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NoReturn

import yaml

from app.facts.kinds import (
    COMPUTE_DOMAIN,
    JOB_SET,
    LEADER_WORKER_SET,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GANG,
    RESOURCE_CLAIM,
)
from app.facts.nvidia.computedomain import is_reserved
from app.kube.api import ClusterError, NotFound, Object, ObjectRef, Selection
from app.kube.client import HttpClient
from app.objects.resource import CRD, LEASE, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from app.webhooks.configurations import NAME, UrlTarget, webhook_configurations
from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.sandbox import Sandbox
from tests.integration.system import connect
from tests.proof.clock import TICK, Clock
from tests.proof.grove import DesiredSet, Operator
from tests.proof.invariants import Foreign, created_in_vain, violations
from tests.proof.network import Balancer, FaultyProxy
from tests.proof.pods import Pods
from tests.proof.replica import Replica
from tests.proof.units import Controllers

CHAOS_SECONDS = 2.2
PATIENCE_SECONDS = 60.0
START_SECONDS = 180.0
"""How long there is chaos, until when invariants have to hold after it, and how long a player may
take, in the time of the schedule.
"""

SLOWEST_SECONDS = 11.0
"""How long a request of Grove's operator may take: two webhooks may let the API server wait."""

LEASE_SECONDS = 0.3
"""The time between looks whether the holder of the Lease was killed."""

RESOURCES = (COMPUTE_DOMAIN, RESOURCE_CLAIM)
LATE = (*[POD_CLIQUE_SET] * 12, POD_CLIQUE, POD_GANG, *RESOURCES)
"""Whose watches are late while a set is recreated, more than once if it is likelier."""

SHARE = 0.2
"""Of the calls that fail while the network is bad."""

LEVELS = (
    {"zone": "example.com/zone", "rack": "example.com/rack"},
    {"zone": "example.com/zone", "rack": "example.com/rack", "host": "kubernetes.io/hostname"},
    {"zone": "example.com/zone", "block": "example.com/block", "rack": "example.com/rack"},
)
TODAY = Path(__file__).parents[2] / "scripts" / "apiserver" / "crds" / "today" / "grove.yaml"
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

    def count(self, step: str) -> None:
        self.steps[step] = self.steps.get(step, 0) + 1

    def line(self) -> str:
        steps = ", ".join(f"{name} {count}" for name, count in sorted(self.steps.items()))
        numbers = f"{self.faults:5} faults, settled after {self.settled:4.1f} s, slowest request {self.slowest:4.1f} s"
        return f"seed {self.seed:5}: {numbers}, broken {len(self.broken)}; {steps}"


class Schedule:
    """The players in one namespace of `api`."""

    def __init__(self, api: ApiServer, seed: int, folder: Path, token: str) -> None:
        self.report = Report(seed)
        self.namespace = f"proof-{seed}"
        self._api = api
        self._folder = folder
        self._token = token
        self._random = Random(seed)
        self._levels = LEVELS[0]
        self._balancer = Balancer(self._random)
        self._replicas = list[Replica]()
        self._proxies = list[FaultyProxy]()
        """Those of all servers that there ever were."""
        self._context = ssl.create_default_context(cafile=api.ca_file)
        self._most_leaders = 0
        self._dead: set[str] = set()
        """The identities of servers that were killed."""
        self._clock = Clock()
        self._mnnvl = "collectAfterSeconds: 1"
        """The section `mnnvl` of the configuration of replicas that are started."""

    async def run(self) -> Report:
        async with (
            await connect(self._api, "admin") as admin,
            await connect(self._api, "grove") as grove,
        ):
            self._pods = Pods(admin, self.namespace, self._random)
            operator = self._operator(grove)
            self._units = Controllers(grove, self.namespace, self._random)
            foreign = Foreign(admin, self.namespace)
            playing = [asyncio.create_task(self._clock.run())]
            try:
                await self._begin(admin)
                await foreign.create()
                playing.append(asyncio.create_task(operator.run()))
                playing.append(asyncio.create_task(self._units.run()))
                playing.append(asyncio.create_task(self._count_leaders()))
                playing.append(asyncio.create_task(self._free_leases()))
                await self._chaos(admin, operator)
                await self._calm(admin, operator)
                await self._settle(admin, operator, foreign)
            except TimeoutError as stuck:
                replicas = "; ".join(replica.state() for replica in self._replicas)
                ports = len(self._balancer.ports)
                self.report.broken.append(
                    f"after three minutes not yet {stuck}, {ports} in service: {replicas}"
                )
            finally:
                for task in playing:
                    task.cancel()
                await self._end(admin)
        self.report.slowest = operator.slowest
        self.report.faults = sum(proxy.injected for proxy in self._proxies)
        if self._most_leaders > 1:
            self.report.broken.append("two leaders at once")
        if operator.slowest > SLOWEST_SECONDS:
            self.report.broken.append(f"a request took {operator.slowest:.1f} s")
        created = [obj for proxy in self._proxies for obj in proxy.created]
        self.report.broken += created_in_vain(created, operator.created)
        self.report.broken += [f"rejected: {message}" for message in sorted(set(operator.refusals))]
        return self.report

    def _operator(self, client: HttpClient) -> Operator:
        return Operator(client, self.namespace, self._clock)

    async def _broken(self, admin: HttpClient, operator: Operator, foreign: Foreign) -> list[str]:
        broken = await violations(admin, self.namespace, self._levels, operator.sets, foreign)
        return [*broken, *await self._units.violations()]

    async def _count_leaders(self) -> NoReturn:
        while True:
            self._most_leaders = max(
                self._most_leaders, sum(replica.leads for replica in self._replicas)
            )
            await asyncio.sleep(TICK)

    async def _begin(self, admin: HttpClient) -> None:
        self._admin = admin
        for name in (self.namespace, "grove-system"):
            await self._api.apply(
                [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}]
            )
        self._port = port = await self._balancer.start()
        self._replicas = [await self._replica(0.0), await self._replica(0.0)]
        bundle = self._folder / "webhook" / "ca.crt"
        await until("ready", lambda: len(self._balancer.ports) == 2 and bundle.exists())
        await self._api.apply(
            webhook_configurations(UrlTarget(f"https://127.0.0.1:{port}", bundle.read_bytes()))
        )
        for replica in self._replicas:
            replica.proxy.share = SHARE

    async def _end(self, admin: HttpClient) -> None:
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            with contextlib.suppress(ClusterError):
                await admin.delete(ObjectRef(resource, NAME))
        for replica in self._replicas:
            await replica.kill()
        with contextlib.suppress(ClusterError):  # the next schedule may have the same API server
            await admin.delete(ObjectRef(LEASE, NAME, "grove-system"))
        await self._balancer.stop()

    async def _replica(self, share: float) -> Replica:
        proxy = FaultyProxy(self._api.url, self._context, self._random, share)
        self._proxies.append(proxy)
        replica = Replica(
            proxy, self._balancer, self._token, self._folder, self._levels, self._mnnvl
        )
        await replica.start()
        return replica

    async def _replace(self, number: int, share: float = SHARE) -> None:
        former = self._replicas[number]
        await former.kill()
        self._dead |= {former.identity} - {""}
        self._replicas[number] = await self._replica(share)

    async def _free_leases(self) -> NoReturn:
        """Releases the Lease of a leader that was killed, so that nobody has to wait until it
        expires.

        A call that it made before may take effect later. Whoever has seen a Lease that is deleted
        would wait for it nevertheless.
        """
        ref = ObjectRef(LEASE, NAME, "grove-system")
        while True:
            with contextlib.suppress(ClusterError):
                lease = await self._admin.get(ref)
                if lease["spec"]["holderIdentity"] in self._dead:
                    version = {"resourceVersion": lease["metadata"]["resourceVersion"]}
                    released = {"metadata": version, "spec": {"holderIdentity": ""}}
                    await self._admin.patch(ref, released)
            await asyncio.sleep(LEASE_SECONDS)

    # What happens.

    async def _chaos(self, admin: HttpClient, operator: Operator) -> None:
        operator.sets = {
            "train": DesiredSet(2),
            "serve": DesiredSet(1, inherited=True, domain="rack"),
        }
        self._units.wishes = {(LEADER_WORKER_SET, "train"): 2, (JOB_SET, "serve"): 1}
        end = self._clock.now + CHAOS_SECONDS
        while self._clock.now < end:
            await asyncio.sleep(self._random.uniform(0.0, 0.3))
            name, step = self._random.choice(self._steps(admin, operator))
            self.report.count(name)
            with contextlib.suppress(ClusterError):
                await step()
        await self._make_anew(admin, operator)

    def _steps(
        self, admin: HttpClient, operator: Operator
    ) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        """By name, more than once if it is likelier."""
        name = self._random.choice(SETS)

        async def desire() -> None:
            scope = self._random.choice(("replica", "clique"))
            domain = self._random.choice((None, "zone", "rack"))
            replicas = self._random.randint(0, 3)
            inherited = self._random.random() < 0.5
            operator.sets[name] = DesiredSet(replicas, scope, inherited, domain)

        async def scale() -> None:
            desired = operator.sets.get(name)
            if desired is not None:
                desired.replicas = self._random.randint(0, 3)

        async def remove() -> None:
            operator.sets[name] = None

        async def recreate() -> None:
            await self._recreate(admin, [name])

        async def delete_by_hand() -> None:
            await self._delete_one(
                admin, self._random.choice((COMPUTE_DOMAIN, RESOURCE_CLAIM, POD_GANG))
            )

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
            *[("change workload", lambda: self._units.change(SETS))] * 6,
            *[("restart workload", lambda: self._units.restart(SETS))] * 3,
            *[("recreate workload", lambda: self._units.recreate(SETS))] * 3,
            ("recreate set", recreate),
            *[("delete by hand", delete_by_hand)] * 8,
            *[("start pod", self._pods.start)] * 6,
            *[("end pod", self._pods.end)] * 3,
            ("kill", kill),
            ("change levels", change_levels),
            ("change dialect", lambda: self._toggle_bindings(admin)),
        ]

    async def _compact(self) -> None:
        if isinstance(self._api, Sandbox):
            self._api.compact()

    async def _recreate(self, admin: HttpClient, names: Iterable[str]) -> None:
        """Delete sets, which the operator makes again at once, while each server is slow to see
        changes of one kind.
        """
        for replica in self._replicas:
            replica.proxy.hold(self._random.choice(LATE), self._random.uniform(1.0, 30.0))
        for name in names:
            with contextlib.suppress(NotFound):
                await admin.delete(ObjectRef(POD_CLIQUE_SET, name, self.namespace))

    async def _make_anew(self, admin: HttpClient, operator: Operator) -> None:
        """Delete all sets, and then resources of the new ones while servers know the former ones.

        Nothing fails but watches, which are late: a server that has to try again later would see
        the new sets by then. One set at least has replicas. What is deleted is left to us.
        """
        for replica in self._replicas:
            replica.proxy.share = 0.0
        await self._replace_dead()
        await until("ready, with a leader", self._is_led)
        operator.sets[self._random.choice(SETS)] = DesiredSet(2)
        await self._recreate(admin, SETS)
        rounds = operator.rounds
        await until("through with the new sets", lambda: operator.rounds > rounds + 1)
        operator.resets = False
        for resource in RESOURCES * 2:
            await self._delete_one(admin, resource)
            await asyncio.sleep(0.4)
        operator.resets = True

    async def _delete_one(self, admin: HttpClient, resource: Resource) -> None:
        items = (await admin.list(Selection(resource, self.namespace))).items
        items = [item for item in items if not item["metadata"]["name"].startswith("foreign")]
        if items:
            chosen = self._random.choice(items)
            with contextlib.suppress(NotFound):  # it may be gone by now
                await admin.delete(ObjectRef(resource, chosen["metadata"]["name"], self.namespace))
                if is_reserved(chosen):
                    self.report.count("delete claim in use")

    async def _toggle_bindings(self, admin: HttpClient, *, install: bool = True) -> None:
        installed = any(
            item["metadata"]["name"] == BINDINGS
            for item in (await admin.list(Selection(CRD))).items
        )
        if installed:
            await admin.delete(ObjectRef(CRD, BINDINGS))
        elif install:
            documents: list[Object] = list(yaml.safe_load_all(TODAY.read_text()))
            await self._api.apply(
                [obj for obj in documents if obj and obj["metadata"]["name"] == BINDINGS]
            )

    # And then.

    async def _calm(self, admin: HttpClient, operator: Operator) -> None:
        """The network is well and the operator has nothing to do; a workload is scaled in, the last
        deletions by hand are left to us, and then the last pods end.
        """
        await self._toggle_bindings(admin, install=False)
        for number in range(2):
            await self._replace(number, share=0.0)
        await until("ready, with a leader", self._is_led)
        scaled_in = (LEADER_WORKER_SET, "serve")
        self._units.wishes[scaled_in] = 3
        rounds = operator.rounds, self._units.rounds
        await until(
            "through with everything",
            lambda: min(operator.rounds - rounds[0], self._units.rounds - rounds[1]) > 2,
        )
        self._units.wishes[scaled_in] = 1
        operator.resets = False
        once = operator.rounds
        await until("through once more", lambda: operator.rounds > once + 1)
        for resource in RESOURCES:
            await self._delete_one(admin, resource)
        await self._pods.end_all()

    def _is_led(self) -> bool:
        return len(self._balancer.ports) == 2 and any(replica.leads for replica in self._replicas)

    async def _replace_dead(self) -> None:
        """Restart servers that have ended by themselves."""
        for number, replica in enumerate(self._replicas):
            if replica.is_dead:
                await self._replace(number, share=0.0)

    async def _settle(self, admin: HttpClient, operator: Operator, foreign: Foreign) -> None:
        begin = self._clock.now
        while True:
            await self._replace_dead()
            broken = await self._broken(admin, operator, foreign)
            self.report.settled = self._clock.now - begin
            if not broken:
                return
            if self.report.settled > PATIENCE_SECONDS:
                self.report.broken = [
                    *broken,
                    "the servers: " + "; ".join(replica.state() for replica in self._replicas),
                ]
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


async def run_seed(seed: int, folder: Path, kind: type[Schedule] = Schedule) -> Report:
    """One schedule over a sandbox of its own; its files go to `folder`."""
    async with sandbox(folder) as api:
        return await kind(api, seed, folder, operator_token(api)).run()


async def until(what: str, is_so: Callable[[], bool]) -> None:
    """TimeoutError with `what` after three minutes in the time of a schedule."""
    for _ in range(int(START_SECONDS / TICK)):
        if is_so():
            return
        await asyncio.sleep(TICK)
    raise TimeoutError(what)

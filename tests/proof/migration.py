"""Random schedules in which Grove is upgraded and rolled back while pods run.

The dialect, the naming scheme of PodGangs, the webhooks and the owner that the servers are
configured with change at random, groups and sets are scaled, and servers are killed. Nothing is
deleted by hand: whatever a PodClique needs all the time keeps its uid all the time.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from app.facts.grove.unit_member import read_carrier
from app.facts.kinds import (
    COMPUTE_DOMAIN,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GANG_MAP,
    RESOURCE_CLAIM,
)
from app.facts.labels import MNNVL_ADOPTED
from app.facts.nvidia.computedomain import CLAIM_SUFFIX, DOMAIN_SUFFIX, base_of
from app.kube.api import ClusterError, NotFound, Object, ObjectRef, Selection
from app.kube.client import HttpClient
from app.objects.resource import CRD, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from app.rules.mnnvl.claim_holders import ClaimedMember, claimed
from app.webhooks.configurations import NAME, UrlTarget, webhook_configurations
from tests.proof.epochs import DesiredGroups, EpochOperator
from tests.proof.grove import GROUP, Operator
from tests.proof.invariants import Foreign, listed
from tests.proof.schedule import (
    BINDINGS,
    SETS,
    START_SECONDS,
    TODAY,
    Schedule,
    until,
)
from tests.rendered import documents

CHAOS_SECONDS = 10.0
INSTALLATION_SECONDS = 6.0
"""From the CRDs of a release until its operator acts. A real one took 8 s."""

FORGIVEN_SECONDS = 5.0
FORGIVEN_ROUNDS = 3
"""How long a resource may still go after Grove was to have less of it for a moment."""

EPOCHS = TODAY.parents[1] / "epochs" / "grove.yaml"
CRDS = [crd for file in (TODAY, EPOCHS) for crd in documents(file.read_text())]
SCOPES = ("replica", "clique", "scalingGroupReplica")
KEEPING = "collectAfterSeconds: 3600"
"""While there is chaos, nothing is collected that a PodClique has only lost the claim of."""


Key = tuple[str, str]
"""The kind and the name of a resource."""


@dataclass
class Watched:
    """The uids of what PodCliques need, and what was lost of it."""

    uids: dict[Key, str] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)

    def compare(self, stored: dict[Key, Object], needed: set[Key]) -> None:
        """Notes what is `needed` and has another uid than before, is gone, or is being deleted.

        What is being deleted when it is needed again, because Pods of a former PodClique still use
        it, was not lost: it is recreated later.
        """
        for key in [key for key in self.uids if key not in needed]:
            del self.uids[key]
        for key in needed:
            obj = stored.get(key)
            before = self.uids.get(key)
            if before is None:
                if obj is not None and not _is_going(obj):
                    self.uids[key] = obj["metadata"]["uid"]
            elif obj is None:
                self._lose(key, "is gone")
            elif obj["metadata"]["uid"] != before:
                self._lose(key, "is another object")
            elif _is_going(obj):
                self._lose(key, "is being deleted")

    def _lose(self, key: Key, how: str) -> None:
        text = f"{key[0]} {key[1]} {how}, and was needed all the time"
        if text not in self.lost:
            self.lost.append(text)


def _is_going(obj: Object) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))


class Migration(Schedule):
    """A schedule of migrations, in one namespace. If it `kills`, servers are killed too."""

    kills = True

    def _operator(self, client: HttpClient) -> Operator:
        self._grove = EpochOperator(client, self.namespace, self._clock)
        self._watched = Watched()
        self._dropped: dict[str, tuple[int, float]] = {}
        self._mnnvl = KEEPING
        self._hooks = True
        self._earlier = self._random.random() < 0.5
        if self._earlier:
            self._mnnvl = f"{KEEPING}, owner: PodGang"
        return self._grove

    async def _begin(self, admin: HttpClient) -> None:
        """A real API server has the CRDs of the schedule before."""
        for name in (str(POD_GANG_MAP), BINDINGS):
            with contextlib.suppress(NotFound):
                await admin.delete(ObjectRef(CRD, name))
        await super()._begin(admin)

    async def _chaos(self, admin: HttpClient, operator: Operator) -> None:
        """As an earlier version, servers may begin with PodGangs as owners, in any dialect.

        They are upgraded before Grove is.
        """
        operator.sets = {name: self._desired() for name in SETS}
        self._watching = asyncio.create_task(self._watch(admin, operator))
        end = self._clock.now + CHAOS_SECONDS
        while self._clock.now < end:
            await asyncio.sleep(self._random.uniform(0.0, 0.4))
            name, step = self._random.choice(self._steps(admin, operator))
            self.report.count(name)
            with contextlib.suppress(ClusterError):
                await step()

    def _desired(self) -> DesiredGroups:
        return DesiredGroups(
            self._random.randint(1, 2),
            self._random.choice(SCOPES),
            group=self._random.randint(1, 3),
        )

    def _steps(
        self, admin: HttpClient, operator: Operator
    ) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
        name = self._random.choice(SETS)

        async def scale_set() -> None:
            self._scale(operator, name, replicas=self._random.randint(1, 3))

        async def scale_group() -> None:
            self._scale(operator, name, group=self._random.randint(1, 4))

        async def kill() -> None:
            await self._kill(admin)

        return [
            ("compact", self._compact),
            *[("scale set", scale_set)] * 4,
            *[("scale group", scale_group)] * 6,
            *[("start pod", self._pods.start)] * 6,
            *[("end pod", self._pods.end)] * 2,
            *[("kill", kill)] * 2,
            *[("webhooks off and on", lambda: self._without_webhooks(admin))] * 2,
            *[("upgrade servers", self._upgrade_servers)] * 4,
            *[("bindings", lambda: self._bindings(admin))] * 2,
            *[("upgrade Grove", lambda: self._upgrade(admin))] * 4,
            *[("roll Grove back", self._roll_back)] * 2,
        ]

    def _scale(self, operator: Operator, name: str, **fields: Any) -> None:
        """Changes what is wanted, and notes what is wanted no more."""
        desired = operator.sets[name]
        assert isinstance(desired, DesiredGroups)
        before = _wanted(operator)
        operator.sets[name] = replace(desired, **fields)
        for clique in before - _wanted(operator):
            self._dropped[clique] = (operator.rounds, self._clock.now)

    async def _kill(self, admin: HttpClient) -> None:
        """Kills a server, but not while PodGangs that own something are being deleted.

        An API server then finds nobody who answers, and deletes the PodGang: a failurePolicy of
        Fail would stop the deletion of sets and namespaces.
        """
        if self.kills and not await self._needs_its_servers(admin):
            await self._replace(self._random.randrange(2))

    async def _needs_its_servers(self, admin: HttpClient) -> bool:
        """Whether Grove may delete PodGangs that own something while pods run."""
        return self._grove.acts_at > 0 and await self._some_gang_owns(admin)

    # Releases.

    async def _install(self, admin: HttpClient, name: str) -> None:
        if all(
            item["metadata"]["name"] != name for item in (await admin.list(Selection(CRD))).items
        ):
            await self._api.apply([crd for crd in CRDS if crd["metadata"]["name"] == name])

    async def _bindings(self, admin: HttpClient) -> None:
        await self._install(admin, BINDINGS)

    async def _upgrade(self, admin: HttpClient) -> None:
        """Installs the release with PodGangMaps, whose operator acts a little later.

        A server has to answer by then: servers that have just been upgraded come first.
        """
        if self._grove.epochs or self._earlier:
            return
        await until("ready", lambda: len(self._balancer.ports) == 2)
        await self._bindings(admin)
        await self._install(admin, str(POD_GANG_MAP))
        self._grove.acts_at = self._clock.now + INSTALLATION_SECONDS
        await self._grove.begin_with_epochs()
        self.report.count("migrated")
        if self._random.random() < 0.5:
            await asyncio.sleep(INSTALLATION_SECONDS - self._random.uniform(0.0, 1.0))
            self.report.count("kill in migration")
            await self._kill(admin)

    async def _roll_back(self) -> None:
        if self._grove.epochs and self._clock.now > self._grove.acts_at:
            self._grove.epochs = False
            self.report.count("rolled back")

    async def _upgrade_servers(self) -> None:
        """Replaces the servers of the earlier version, one after the other."""
        if self._earlier:
            self._mnnvl = KEEPING
            for number in range(2):
                await self._replace(number)
            self._earlier = False

    # Webhooks.

    async def _without_webhooks(self, admin: HttpClient) -> None:
        """Deletes the webhook configurations for a moment, but not while Grove is upgraded: they
        guard the deletion of PodGangs.
        """
        if self._earlier or self._clock.now < self._grove.acts_at + 1.0:
            return
        if await self._needs_its_servers(admin):
            return
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            with contextlib.suppress(ClusterError):
                await admin.delete(ObjectRef(resource, NAME))
        await asyncio.sleep(self._random.uniform(0.1, 0.6))
        await self._register()

    async def _some_gang_owns(self, admin: HttpClient) -> bool:
        gangs = await listed(admin, POD_GANG, self.namespace)
        return any(MNNVL_ADOPTED in (gang["metadata"].get("annotations") or {}) for gang in gangs)

    async def _register(self) -> None:
        bundle = (self._folder / "webhook" / "ca.crt").read_bytes()
        target = UrlTarget(f"https://127.0.0.1:{self._port}", bundle)
        await self._api.apply(webhook_configurations(target))

    # What holds.

    async def _watch(self, admin: HttpClient, operator: Operator) -> NoReturn:
        """Compares what is stored with what it was, again and again.

        What Grove wants less of is no longer needed, even if it is not deleted yet.
        """
        while True:
            with contextlib.suppress(ClusterError):
                cliques = _wanted(operator)
                stored = await _resources(admin, self.namespace)
                demands = await self._demands(admin)
                lasting = (cliques & _wanted(operator)) - self._forgiven(operator)
                needed = {
                    key
                    for clique, demand in demands.items()
                    if demand is not None and clique in lasting
                    for key in _keys(demand)
                }
                self._watched.compare(stored, needed)
            await asyncio.sleep(0.1)

    def _forgiven(self, operator: Operator) -> set[str]:
        """The PodCliques that were not wanted a short time ago."""
        now = self._clock.now
        return {
            clique
            for clique, (rounds, begin) in self._dropped.items()
            if operator.rounds < rounds + FORGIVEN_ROUNDS or now < begin + FORGIVEN_SECONDS
        }

    async def _demands(self, admin: HttpClient) -> dict[str, ClaimedMember | None]:
        cliques = await listed(admin, POD_CLIQUE, self.namespace)
        return {
            clique["metadata"]["name"]: claimed(
                read_carrier(clique, clique["metadata"]["namespace"])
            )
            for clique in cliques
        }

    async def _calm(self, admin: HttpClient, operator: Operator) -> None:
        """The network is well, the servers are those of this version, and nothing changes.

        Both servers are killed at once, but not before they have given back what PodGangs own where
        Grove may delete them. And the next ones collect soon: Grove is through by then, and no
        PodClique lacks its claim because webhooks were off.
        """
        for replica in self._replicas:
            replica.proxy.share = 0.0
        await until("through with the installation", lambda: self._clock.now > self._grove.acts_at)
        await self._through(operator)
        await self._until_safe(admin)
        self._mnnvl = "collectAfterSeconds: 1"
        self._earlier = False
        for number in range(2):
            await self._replace(number, share=0.0)
        await until("ready, with a leader", self._is_led)
        await self._through(operator)
        await self._pods.end_all()

    async def _through(self, operator: Operator) -> None:
        """Wait until Grove has looked at everything three times."""
        rounds = operator.rounds
        await until("through with everything", lambda: operator.rounds > rounds + 3)

    async def _until_safe(self, admin: HttpClient) -> None:
        """Wait until no PodGang needs servers, and all PodCliques have the claims that they lost."""
        end = self._clock.now + START_SECONDS
        while await self._needs_its_servers(admin) or await self._lacks_claims(admin):
            if self._clock.now > end:
                raise TimeoutError("given back, with all claims")
            await self._replace_dead()
            await asyncio.sleep(0.1)

    async def _lacks_claims(self, admin: HttpClient) -> bool:
        return None in (await self._demands(admin)).values()

    async def _end(self, admin: HttpClient) -> None:
        self._watching.cancel()
        await super()._end(admin)

    async def _broken(self, admin: HttpClient, operator: Operator, foreign: Foreign) -> list[str]:
        try:
            demands = await self._demands(admin)
            stored = await _resources(admin, self.namespace)
            sets = await listed(admin, POD_CLIQUE_SET, self.namespace)
            gangs = await listed(admin, POD_GANG, self.namespace)
            crds = {item["metadata"]["name"] for item in (await admin.list(Selection(CRD))).items}
        except ClusterError as error:
            return [f"not readable: {error.message}"]
        later = bool(crds & {BINDINGS, str(POD_GANG_MAP)})
        owners = {obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in (*sets, *gangs)}
        broken = await foreign.changed()
        broken += [f"PodClique {name} is missing" for name in _wanted(operator) - demands.keys()]
        broken += _incomplete(demands, stored)
        for obj in stored.values():
            broken += _wrongly_owned(obj, demands, owners, later=later)
        if later:
            broken += [f"{gang} is annotated" for gang in _annotated(gangs)]
        return [*self._watched.lost, *broken]


def _wanted(operator: Operator) -> set[str]:
    """The names of the PodCliques that are wanted now."""
    names: set[str] = set()
    for name, desired in operator.sets.items():
        assert isinstance(desired, DesiredGroups)
        for replica in range(desired.replicas):
            base = f"{name}-{replica}"
            names |= {f"{base}-worker"}
            names |= {f"{base}-{GROUP}-{index}-leader" for index in range(desired.group)}
    return names


def _keys(demand: ClaimedMember) -> tuple[Key, Key]:
    base = demand.base_name
    return ("ComputeDomain", f"{base}{DOMAIN_SUFFIX}"), ("ResourceClaim", f"{base}{CLAIM_SUFFIX}")


async def _resources(admin: HttpClient, namespace: str) -> dict[Key, Object]:
    """The ComputeDomains and claims, except for those of others."""
    objects = [
        obj
        for resource in (COMPUTE_DOMAIN, RESOURCE_CLAIM)
        for obj in await listed(admin, resource, namespace)
    ]
    ours = (obj for obj in objects if not obj["metadata"]["name"].startswith("foreign"))
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in ours}


def _incomplete(demands: dict[str, ClaimedMember | None], stored: dict[Key, Object]) -> list[str]:
    broken: list[str] = []
    for name, demand in demands.items():
        if demand is None:
            broken.append(f"PodClique {name} has no claim")
            continue
        for key in _keys(demand):
            obj = stored.get(key)
            if obj is None or _is_going(obj):
                broken.append(f"PodClique {name} needs {key[1]}")
    return broken


def _wrongly_owned(
    obj: Object, demands: dict[str, ClaimedMember | None], owners: dict[str, str], *, later: bool
) -> list[str]:
    """Its one owner is its PodCliqueSet, or in the designs the PodGang of its PodCliques."""
    name = obj["metadata"]["name"]
    base = base_of(obj["kind"], name)
    asking = [
        demand for demand in demands.values() if demand is not None and demand.base_name == base
    ]
    if not asking:
        return [f"{name} is not asked for by anybody"]

    place = asking[0].place
    right = place.pcs
    if not later:
        replica = f"{place.pcs}-{place.replica}"
        right = replica if base == replica else place.podgang
    uids = [reference["uid"] for reference in obj["metadata"].get("ownerReferences", ())]
    if uids == [owners.get(right)]:
        return []
    return [f"{name} belongs to {obj['metadata'].get('ownerReferences')}, not to {right}"]


def _annotated(gangs: list[Object]) -> list[str]:
    return [
        gang["metadata"]["name"]
        for gang in gangs
        if MNNVL_ADOPTED in (gang["metadata"].get("annotations") or {})
    ]


class CalmMigration(Migration):
    """A schedule of migrations in which no server is killed, except to replace its version."""

    kills = False

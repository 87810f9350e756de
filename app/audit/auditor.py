"""Read the objects of a cluster, and judge them.

Objects are read in pages, and judged in a dry run as if they were created now. Findings are yielded
one by one. The owners of ComputeDomains and ResourceClaims are checked too.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from itertools import chain
from typing import TypeVar

from app.audit.claims import ClaimAudit
from app.audit.finding import NEVER_ALLOCATED, OLD_API, Finding, Tally, remedy_for, warning
from app.base.groups import by_key
from app.cluster.cluster import Cluster
from app.cluster.filled import Listing, read_into
from app.cluster.view import DIALECTS
from app.config.schema import Configuration
from app.dry_run.judge import Asker, judge
from app.facts.grove.podgang import SlimPodGang, StoredGang
from app.facts.grove.template import read_template
from app.facts.identity import read_place
from app.facts.kinds import (
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    COMPUTE_DOMAIN,
    DEVICE_CLASS,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GROUP,
    QUEUE,
    RESOURCE_CLAIM,
)
from app.facts.nvidia.computedomain import MnnvlResource
from app.facts.rows import CLAIMS, DEVICE_CLASSES, DOMAINS, GANGS, SETS
from app.kube.api import Client, ClusterError, Key, NotFound, Object, Selection, Unavailable, pages
from app.objects.resource import POD, Resource
from app.objects.shape import key_of, labels_of
from app.objects.time import timestamp
from app.rules.dialects.epochs import EPOCHS
from app.rules.mnnvl.claim import unallocatable
from app.rules.mnnvl.lost_claims import WITHOUT_CLAIM, asks_for_claim, replacement_of
from app.rules.mnnvl.missing_claims import runs_without_claim
from app.webhooks.policies import exempt_namespaces
from app.webhooks.registry import routes_over

T = TypeVar("T")

JUDGED = (
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    POD_CLIQUE_SET,
    POD_GROUP,
    POD_CLIQUE,
    POD_GANG,
    POD,
    QUEUE,
)
"""The resources whose objects are judged, in this order."""
OWNED = (COMPUTE_DOMAIN, RESOURCE_CLAIM)
"""The resources whose owners are checked."""

NEEDS: Mapping[Resource, tuple[Resource, ...]] = {
    POD_CLIQUE_SET: (),
    POD_CLIQUE: (POD_CLIQUE_SET, POD_GANG, COMPUTE_DOMAIN, RESOURCE_CLAIM, DEVICE_CLASS),
    POD_GANG: (POD_CLIQUE_SET, COMPUTE_DOMAIN, RESOURCE_CLAIM),
    POD: (COMPUTE_DOMAIN,),
    COMPUTE_DOMAIN: (POD_GANG, POD_CLIQUE_SET),
    RESOURCE_CLAIM: (POD_GANG, POD_CLIQUE_SET),
}
"""The resources whose objects must be readable to judge a resource, by the resource to judge."""

BY_LEVELS = (POD_CLIQUE_SET, POD_GANG)
"""The resources that can be judged only if the levels of topologies are known."""

REMARKED = (
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    POD_CLIQUE_SET,
    POD_GROUP,
    POD_GANG,
    QUEUE,
)
"""The resources whose allowed objects are listed if their verdict has warnings."""

_NEXT_RELEASES = "with a later release of Grove (with PodGangMaps)"

SETTLE = timedelta(minutes=1)
"""The age of an object up to which problems that may resolve by themselves are not reported.

They resolve sooner, but the clocks of this machine and of the API server may differ.
"""

MOST_PROBLEM = 2_000
"""The length, in characters, to which the problems of a judged object are cut."""

_ASKER = Asker("audit", reads_stored=True)
"""The user in whose name all objects are judged. The webhooks treat this user as authorized."""


class Auditor:
    """An audit of the cluster of `client`.

    In namespaces that the webhooks exclude, only the owners of ComputeDomains and ResourceClaims,
    and the DeviceClasses of claims, are checked.

    `show` is called with a kind, the number of its objects so far, and the number of its remaining
    objects (None if not known). `now` is the start of the audit in UTC. Objects are judged as if a
    user who may write the managed ClusterTopology had written them, because the audit is not about
    their authors.
    """

    def __init__(
        self,
        client: Client,
        configuration: Configuration,
        show: Callable[[str, int, int | None], None],
        now: datetime,
    ) -> None:
        self.tally = Tally()
        """The results so far."""
        self._client = client
        self._cluster = Cluster(client, configuration)
        self._routes = routes_over(configuration, self._cluster, authorized=(_ASKER.username,))
        self._claims = ClaimAudit(client, self._cluster.facts, self._cluster.stores)
        self._levels = configuration.levels
        self._listing = Listing()
        self._exempt = exempt_namespaces(configuration)
        self._show = show
        self._settled = timestamp(now - SETTLE)

    async def findings(self, namespace: str | None) -> AsyncIterator[Finding]:
        """Yield all findings about `namespace`, or about all namespaces if it is None.

        Cluster-scoped objects are audited in both cases. `tally` is complete at the end.
        """
        self._listing = await read_into(self._cluster, self._client, self._levels, namespace)
        await self._try_pods(self._claims.read_pods())
        async for finding in self._all(namespace):
            self.tally.add(finding)
            yield finding

        if self._listing.stands_in:
            self.tally.notes.append(
                "the managed ClusterTopology does not exist, so the levels of the configuration"
                " were used"
            )

    async def _all(self, namespace: str | None) -> AsyncIterator[Finding]:
        """Yield all findings without adding them to the tally."""
        for resource in self._resources():
            async for finding in self._judged(resource, namespace):
                yield finding
        for finding in chain.from_iterable(map(self._owned, OWNED)):
            yield finding
        for finding in await self._try_pods(self._claims.in_deletion(self._exempt)) or ():
            yield finding
        for finding in await self._held_channels(namespace):
            yield finding

    async def _held_channels(self, namespace: str | None) -> Sequence[Finding]:
        """Return the findings about NVLink channels.

        Return () if a required API is not served, or if a request fails. Add the reason of a failed
        request to the tally.
        """
        try:
            return await self._claims.held_channels(namespace, self._exempt)
        except NotFound:
            return ()
        except ClusterError as error:
            self.tally.unread.setdefault(str(RESOURCE_CLAIM), error.message)
            return ()

    async def _try_pods(self, reading: Awaitable[T]) -> T | None:
        """Return the result of `reading`, which reads Pods, or None if it raises ClusterError.

        The error is added to the tally, as the reason why Pods could not be judged.
        """
        try:
            return await reading
        except ClusterError as error:
            self.tally.unread[str(POD)] = error.message
            return None

    # Objects that would be rejected.

    def _resources(self) -> list[Resource]:
        """Return JUDGED without topology APIs that Grove does not use and the cluster lacks."""
        optional = {dialect.resource for dialect in DIALECTS} - {
            self._cluster.facts.dialect().resource
        }
        served_version = self._client.served_version
        return [
            resource
            for resource in JUDGED
            if resource not in optional or served_version(resource) is not None
        ]

    async def _judged(self, resource: Resource, namespace: str | None) -> AsyncIterator[Finding]:
        """Yield the findings about the objects of a resource.

        If the objects can't be read or judged, add the reason to the tally.
        """
        if self._is_out_of_reach(resource):
            return
        try:
            async for obj in self._objects(resource, namespace if resource.namespaced else None):
                finding = await self._judge(resource, obj)
                if finding:
                    yield finding
        except NotFound:
            self.tally.absent.append(str(resource))
        except ClusterError as error:
            self.tally.unread[str(resource)] = error.message

    async def _objects(self, resource: Resource, namespace: str | None) -> AsyncIterator[Object]:
        """Yield and count the objects to judge. Pods that do not request a claim are skipped."""
        async for page in pages(self._client, Selection(resource, namespace)):
            count = self.tally.count(resource.kind)
            for obj in page.items:
                if resource is POD and not asks_for_claim(obj):
                    continue
                count.looked_at += 1
                yield obj
            self._show(resource.kind, count.looked_at, page.remaining)
        self.tally.count(resource.kind)  # lists the kind even if it has no objects

    async def _judge(self, resource: Resource, obj: Object) -> Finding | None:
        """Return the finding about an object, or None if it has no problem.

        Return None also if it is being deleted, if its namespace is excluded, or if no webhook
        judges it.
        """
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp") or metadata.get("namespace") in self._exempt:
            return None

        verdict = (await judge(self._routes, obj, _ASKER)).verdict
        if not verdict:
            return None
        if verdict.allowed:
            return self._finding_of_allowed(resource, obj, verdict.warnings)

        problems = [f"{cause.field}: {cause.message}" for cause in verdict.causes] or [
            verdict.message
        ]

        return _finding(resource.kind, obj, verdict.code, problems)

    def _finding_of_allowed(
        self, resource: Resource, obj: Object, warnings: Sequence[str]
    ) -> Finding | None:
        """Return the finding about an object that would be allowed, or None if it has no problem.

        `warnings` has the warnings of its verdict.
        """
        if resource is POD_CLIQUE:
            return self._claims.of_clique(obj)
        if resource is POD and runs_without_claim(obj):
            key = key_of(obj)
            return warning(POD.kind, key, WITHOUT_CLAIM, replacement_of(key))
        remarks = [*warnings, *self._remarks(resource, obj)] if resource in REMARKED else []
        return _finding(resource.kind, obj, 0, remarks) if remarks else None

    def _remarks(self, resource: Resource, obj: Object) -> list[str]:
        """Return the problems of an allowed object that its webhook does not report."""
        metadata = obj["metadata"]
        facts = self._cluster.facts
        if resource is CLUSTER_TOPOLOGY and facts.dialect().resource is not CLUSTER_TOPOLOGY:
            return [OLD_API]
        if resource is POD_CLIQUE_SET and facts.dialect() is not EPOCHS:
            template = read_template(obj)
            return [f"{_NEXT_RELEASES}: {text}" for text in EPOCHS.set_warnings(template)]
        if resource is POD_GANG:
            pcs = facts.cached_set(metadata.get("namespace") or "", read_place(labels_of(obj)).pcs)
            return [] if pcs is None else facts.dialect().drifted(obj, pcs, facts)
        return []

    # Owners of MNNVL resources.

    def _owned(self, resource: Resource) -> Iterator[Finding]:
        """Yield the findings about the owners and DeviceClasses of stored ComputeDomains or claims.

        If these could not be read, or the cluster does not serve them, record that in the tally.
        """
        store = self._cluster.stores[DOMAINS if resource is COMPUTE_DOMAIN else CLAIMS]
        if self._is_out_of_reach(resource):
            return
        if not store.served:
            self.tally.absent.append(str(resource))
            return

        self.tally.count(resource.kind).looked_at = len(store)
        for stored in sorted(store.values(), key=lambda resource: resource.key):
            finding = self._ownership(stored) or self._allocation(stored)
            if finding:
                yield finding

    def _ownership(self, stored: MnnvlResource) -> Finding | None:
        """Return the finding about the missing or wrong owner of an MNNVL resource, or None.

        Resources of units, and new resources that may still get their owner, have no finding.
        """
        if stored.place.unit:
            return None
        set_exists = self._cluster.stores[SETS].get(stored.namespace, stored.place.pcs) is not None
        rule = self._cluster.owners.rule
        problem = rule.problem(stored, self._gang_of(stored), set_exists=set_exists)
        if not problem or (problem.settling and stored.created > self._settled):
            return None
        return warning(stored.kind, stored.key, problem.message, problem.remedy)

    def _allocation(self, stored: MnnvlResource) -> Finding | None:
        """Return the finding about a claim if its DeviceClass does not exist, otherwise None."""
        name = unallocatable(stored.awaited, set(self._cluster.stores[DEVICE_CLASSES].values()))
        if not name:
            return None
        problem = f'can never be allocated: DeviceClass "{name}" does not exist'
        return warning(stored.kind, stored.key, problem, NEVER_ALLOCATED)

    def _gang_of(self, stored: MnnvlResource) -> SlimPodGang | None:
        """Return the PodGang that owns `stored` or should own it, or None if there is none."""
        rule = self._cluster.owners.rule
        named = self._cluster.stores[GANGS].get(stored.namespace, stored.place.podgang)
        candidates = self._gangs_by_base.get((stored.namespace, stored.base_name), [])
        gangs = (gang.opened() for gang in (named, *candidates) if gang)
        return next((gang for gang in gangs if rule.state(stored, gang)), None)

    @cached_property
    def _gangs_by_base(self) -> Mapping[Key, Sequence[StoredGang]]:
        """The PodGangs that may be owners of stored resources, by namespace and base name.

        The index is built once, because a set may have very many PodGangs and resources. A PodGang
        may have 10,000 base names, so the index has only base names of stored resources.
        """
        stores = self._cluster.stores
        stored = chain(stores[DOMAINS].values(), stores[CLAIMS].values())
        bases = {(resource.namespace, resource.base_name) for resource in stored}
        return by_key(
            (key, gang)
            for gang in stores[GANGS].values()
            for base in self._cluster.owners.rule.base_names(gang.opened())
            if (key := (gang.namespace, base)) in bases
        )

    # Missing facts.

    def _is_out_of_reach(self, resource: Resource) -> bool:
        """Return whether a fact that is needed to judge `resource` is missing.

        If so, add the reason to the tally.
        """
        reason = self._missing_fact(resource)
        if reason is not None:
            self.tally.unread[str(resource)] = reason
        return reason is not None

    def _missing_fact(self, resource: Resource) -> str | None:
        """Return why a resource can't be judged, or None if it can."""
        if resource in self._listing.unread:
            return self._listing.unread[resource].message
        needs = NEEDS.get(resource, ())
        for fact in needs:
            if fact in self._listing.unread:
                return f"needs {fact}: {self._listing.unread[fact].message}"
        if resource in BY_LEVELS and self._client.served_version(resource) is not None:
            return self._missing_levels()
        return None

    def _missing_levels(self) -> str | None:
        """Return why the levels of topologies are not known, or None if they are."""
        dialect = self._cluster.facts.dialect()
        if dialect.resource in self._listing.unread:
            return f"needs {dialect.resource}: {self._listing.unread[dialect.resource].message}"
        try:
            dialect.in_use(self._cluster.facts)
        except Unavailable as problem:
            return problem.message
        return None


def _finding(kind: str, obj: Object, code: int, problems: list[str]) -> Finding:
    remedy = remedy_for(kind, code, problems)
    # a level of a PodGroup, for example, may have any length
    texts = (text if len(text) <= MOST_PROBLEM else f"{text[:MOST_PROBLEM]}…" for text in problems)
    return Finding(kind, *key_of(obj), code, tuple(texts), remedy)

"""Hold the stores of one cluster, their readers, and the writers of MNNVL resources."""

from collections.abc import Collection, Iterator
from typing import Any

from app.base.sample import Checks, Sample, gauge
from app.base.value import Value
from app.cluster.owners import MnnvlOwners
from app.cluster.resources import MnnvlResources
from app.cluster.units import UnitOwners
from app.cluster.view import OWNER_RULES, WHOLE, ClusterView, Known
from app.config.schema import Configuration
from app.facts.grove.unit_member import Carrier
from app.facts.kinds import NEIGHBOURS
from app.facts.rows import FOR_VERDICTS, FOR_WARNINGS, Row
from app.kube.api import Object, Objects
from app.kube.discovery import Discovery, unknown_version
from app.kube.store import WatchStore
from app.objects.fields import FieldError
from app.rules.mnnvl.colocation import OwnGroup
from app.rules.mnnvl.warnings import NvlinkDomains
from app.rules.topology.coverage import Nodes
from app.stores.stores import Stores

STALE_SECONDS = 120.0
"""The age, in seconds, beyond which a cache is stale. Watches get bookmarks about once a minute."""

NOT_INSTALLED = "is not served by this cluster, and will be used once it is"


def too_large(resource: str, number: int) -> Sample:
    """Return the sample with the number of objects of `resource` that are too large to cache."""
    text = "Objects that are too large to be cached in full."
    return gauge("cache_objects_too_large", text, number, resource=resource)


class Cluster:
    """The facts of one cluster, and the readers and writers that use them.

    Watches keep the stores up to date (`stores/stores`), or a function of `filled` fills them once.
    `client` reads individual objects, and writes MNNVL resources. `discovery` is None unless
    watches fill the stores. `known` says whether the facts are complete.
    """

    def __init__(
        self,
        client: Objects,
        configuration: Configuration,
        discovery: Discovery | None = None,
        known: Known = WHOLE,
    ) -> None:
        settings = configuration.cluster_topology
        self.client = client
        self.discovery = discovery
        self.topology_name = settings.name
        self.stores = Stores(FOR_VERDICTS)
        self.hints = Stores(FOR_WARNINGS)
        """The stores that only warnings need."""
        self.facts = ClusterView(
            client,
            self.stores,
            topology_name=settings.name,
            topology_enabled=settings.enabled,
            hints=self.hints,
            known=known,
            nvlink=NvlinkDomains(configuration.mnnvl.domain_nodes, configuration.mnnvl.spare_nodes),
        )
        self.resources = MnnvlResources(client, self.facts, self.stores)
        self.units = UnitOwners(client, known)
        configured = OWNER_RULES.get(configuration.mnnvl.owner)
        self.owners = MnnvlOwners(
            client=client,
            facts=self.facts,
            stores=self.stores,
            configured=configured,
            discovery=discovery,
        )

    @property
    def for_templates(self) -> "ForTemplates":
        """The facts for verdicts on Pod templates."""
        return ForTemplates(self.facts, self.units)

    @property
    def all_stores(self) -> list[tuple[Row[Any], WatchStore[Any]]]:
        """Pairs of a row and its store: first the stores for verdicts, then those for warnings."""
        return [*self.stores, *self.hints]

    def checks(self) -> Checks:
        """Return the problem of discovery and of each cache that verdicts need, by name.

        A value is None if there is no problem. Discovery is left out once it has finished.
        """
        checks: dict[str, str | None] = {}
        reason = "it was not requested yet"
        if self.discovery is not None and not self.discovery.known:
            checks["discovery"] = self.discovery.problem or "the API server has not been asked yet"
            reason = "waiting for discovery"
        for name, store in self.stores.by_name().items():
            problem = (
                None
                if store.synced
                else f"the first list is not complete yet: {store.problem or reason}"
            )
            checks[f"cache/{name}"] = problem
        return checks

    def notes(self) -> dict[str, str]:
        """Return notes about the version of each API in NEIGHBOURS, the dialect, and stale caches.

        There are none before the first discovery or without `discovery`.
        """
        if self.discovery is None or not self.discovery.known:
            return {}
        versions = {resource: self.discovery.served_version(resource) for resource in NEIGHBOURS}
        notes = {
            f"api/{resource}": version or NOT_INSTALLED for resource, version in versions.items()
        }
        for resource, version in self.discovery.unknown.items():
            notes[f"api/{resource}"] = unknown_version(resource, version)
        return {**notes, "dialect": self.facts.dialect().name, **self._stale()}

    def _stale(self) -> dict[str, str]:
        """Return a note with the age and the reason for each stale cache."""
        notes = {}
        for name, store in self.stores.by_name().items():
            age = store.age()
            if store.served and age is not None and age > STALE_SECONDS:
                reason = store.problem or "the watch is silent"
                notes[f"stale/{name}"] = f"verdicts use facts that are {age:.0f} s old: {reason}"
        return notes

    def samples(self) -> Iterator[Sample]:
        """Yield the metrics of the dialect, the API versions, the levels and the caches."""
        text = "1 for the dialect of Grove's topology API that is in force."
        yield gauge("dialect_info", text, 1, dialect=self.facts.dialect().name)

        text = "1 for an API that is served only in a version that this release doesn't know."
        for resource, version in self.discovery.unknown.items() if self.discovery else ():
            labels = {"resource": str(resource), "version": version, "judged_as": resource.newest}
            yield gauge("api_version_unknown", text, 1, **labels)

        text = (
            "Problems of the levels: missing node labels, a wrong order, or labels without a tree."
        )
        for name, problems in self.facts.level_problems().items():
            yield gauge("level_problems", text, len(problems), topology=name)

        for row, store in self.all_stores:
            yield from self._of_cache(row.resource.plural, store)

    def _of_cache(self, name: str, store: WatchStore[Any]) -> Iterator[Sample]:
        yield gauge("cache_objects", "Objects in the cache.", len(store), resource=name)
        yield gauge("cache_synced", "1 once the first list is read.", store.synced, resource=name)
        text = "1 if the cluster serves the resource."
        yield gauge("cache_served", text, store.served, resource=name)

        yield too_large(name, len(store.too_large))

        yield from store.restart_samples(name)

        age = store.age() if self.discovery is not None else None
        if age is not None:
            text = "Seconds since the last list, event or bookmark."
            yield gauge("cache_age_seconds", text, age, resource=name)


class ForTemplates(Value):
    """The facts for verdicts on Pod templates (`dry_run/templates`)."""

    facts: ClusterView
    """The reader of facts about nodes."""
    units: UnitOwners
    """The reader of claims for the NVLink channel, and of PodGroups that templates name."""

    @property
    def nvlink(self) -> NvlinkDomains:
        """The configured size of NVLink domains."""
        return self.facts.nvlink

    def nodes_with(self, keys: Collection[str]) -> Nodes:
        """Return the nodes, grouped by their values of the labels `keys`."""
        return self.facts.nodes_with(keys)

    async def find_rival(self, pod: Carrier) -> FieldError | None:
        """Return a finding if `pod` has another claim for the NVLink channel, otherwise None."""
        return await self.units.find_rival(pod)

    async def own_group(self, pod: Object, namespace: str) -> OwnGroup | None:
        """Return the KAI PodGroup that `pod` names, or None if it names none."""
        return await self.units.own_group(pod, namespace)

"""One cluster: the stores of its facts, the readers of these stores, and its MNNVL resources."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import field

from app.base.sample import Checks, Sample, gauge
from app.base.value import Value
from app.cluster.owners import MnnvlOwners
from app.cluster.resources import MnnvlResources
from app.cluster.units import UnitOwners
from app.cluster.view import OWNER_RULES, WHOLE, ClusterView, Known, dialect_of
from app.config.schema import Configuration
from app.facts.carrier import Carrier
from app.facts.grove.topology import Level
from app.facts.kinds import CLUSTER_TOPOLOGY, NEIGHBOURS
from app.facts.table import FOR_VERDICTS, FOR_WARNINGS, TOPOLOGIES, Row
from app.kube.api import Client, ClusterError, Object, Objects
from app.kube.discovery import Discovery, unknown_version
from app.kube.store import WatchStore
from app.objects.fields import FieldError
from app.objects.resource import Resource
from app.rules.mnnvl.bounds import OwnGroup
from app.rules.mnnvl.warnings import NvlinkDomains
from app.rules.topology.coverage import Nodes
from app.rules.topology.levels import desired_levels
from app.stores import listed
from app.stores.documents import DocumentObjects
from app.stores.stores import Stores, fill

STALE_SECONDS = 120.0
"""The age from which a cache is reported as stale. A watch gets an event or bookmark each minute.
"""

_NEWEST = str(2**62)
"""A resourceVersion that is newer than any stored one."""

NOT_INSTALLED = "is not installed; it is picked up when its CRD appears"


def too_large(resource: str, number: int) -> Sample:
    """Return the metric with the number of objects that are too large for a cache."""
    text = "Objects that are too large to be cached in full."
    return gauge("cache_objects_too_large", text, number, resource=resource)


class Cluster:
    """The facts of one cluster.

    Watches keep the stores up to date (`stores/stores`), or `read_into` and `cluster_of` fill them
    once. `client` reads single objects and creates MNNVL resources. `discovery` is None if there is
    no API server. `known` tells whether missing objects don't exist.
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
        self.owners = MnnvlOwners(client, self.facts, self.stores, configured, discovery)

    @property
    def for_templates(self) -> "ForTemplates":
        """The facts for verdicts on Pod templates."""
        return ForTemplates(self.facts, self.units)

    @property
    def all_stores(self) -> list[tuple[Row[Any], WatchStore[Any]]]:
        """The stores for verdicts, then those for warnings, each with its row."""
        return [*self.stores, *self.hints]

    def checks(self) -> Checks:
        """Return the problem of each check, or None. Without problems, verdicts are possible."""
        checks: dict[str, str | None] = {}
        reason = "not asked yet"
        if self.discovery is not None and not self.discovery.known:
            checks["discovery"] = self.discovery.problem or "the API server has not been asked yet"
            reason = "waits for discovery"
        for name, store in self.stores.by_name().items():
            problem = (
                None if store.synced else f"the first list is not in yet: {store.problem or reason}"
            )
            checks[f"cache/{name}"] = problem
        return checks

    def notes(self) -> dict[str, str]:
        """Return the version of each API in NEIGHBOURS, the dialect, and stale caches."""
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
                reason = store.problem or "its watch is silent"
                notes[f"stale/{name}"] = f"verdicts use facts that are {age:.0f} s old: {reason}"
        return notes

    def samples(self) -> Iterator[Sample]:
        text = "1 for the dialect of Grove's topology API that is in force."
        yield gauge("dialect_info", text, 1, dialect=self.facts.dialect().name)

        text = "1 for an API that is served only in a version that this release doesn't know."
        for resource, version in self.discovery.unknown.items() if self.discovery else ():
            labels = {"resource": str(resource), "version": version, "judged_as": resource.newest}
            yield gauge("api_version_unknown", text, 1, **labels)

        text = "Levels whose labels are missing on nodes or do not form a tree."
        for name, problems in self.facts.level_problems().items():
            yield gauge("level_problems", text, len(problems), topology=name)

        for row, store in self.all_stores:
            yield from self._of_cache(row.resource.plural, store)

    def _of_cache(self, name: str, store: WatchStore[Any]) -> Iterator[Sample]:
        yield gauge("cache_objects", "Objects in the cache.", len(store), resource=name)
        yield gauge("cache_synced", "1 after the first list.", store.synced, resource=name)
        text = "1 if the cluster serves the resource."
        yield gauge("cache_served", text, store.served, resource=name)

        yield too_large(name, len(store.too_large))

        yield from store.restart_samples(name)

        age = store.age() if self.discovery is not None else None
        if age is not None:
            text = "Seconds since the last event or bookmark of the watch."
            yield gauge("cache_age_seconds", text, age, resource=name)


class ForTemplates(Value):
    """The facts for verdicts on the Pod templates of workloads (`dry_run/templates`)."""

    facts: ClusterView
    """The nodes."""
    units: UnitOwners
    """Finds rival claims and PodGroups."""

    @property
    def nvlink(self) -> NvlinkDomains:
        return self.facts.nvlink

    def nodes_with(self, keys: Collection[str]) -> Nodes:
        return self.facts.nodes_with(keys)

    async def find_rival(self, pod: Carrier) -> FieldError | None:
        return await self.units.find_rival(pod)

    async def own_group(self, pod: Object, namespace: str) -> OwnGroup | None:
        return await self.units.own_group(pod, namespace)


# Stores that are filled once, from documents or from lists.


def cluster_of(
    configuration: Configuration, documents: Iterable[Object], *, is_whole: bool = True
) -> Cluster:
    """Return a cluster that contains only `documents`.

    If they lack the managed topology of the dialect in force, add one with the configured levels,
    as the leader would create it. `is_whole` tells whether objects that are not among the documents
    don't exist. Otherwise nothing is known about them.
    """
    objects = DocumentObjects(documents, is_whole=is_whole)
    name = configuration.cluster_topology.name
    levels = configuration.levels
    resource = dialect_of(objects).resource
    if levels and not objects.contains(resource, name):
        objects.add({**desired_cluster_topology(name, levels), "kind": resource.kind})
    known = Known(is_whole, objects.names_grove)
    cluster = Cluster(objects, configuration, known=known)
    fill_from(cluster, objects.of)
    return cluster


def fill_from(cluster: Cluster, objects_of: Callable[[Resource], Iterable[Object]]) -> None:
    """Fill every store with the objects that `objects_of` returns for its resource."""
    for row, store in cluster.all_stores:
        fill(store, objects_of(row.resource))


def desired_cluster_topology(name: str, levels: Sequence[Level]) -> Object:
    """Return the managed ClusterTopology with the configured `levels`."""
    return {
        "apiVersion": CLUSTER_TOPOLOGY.api_version(),
        "kind": CLUSTER_TOPOLOGY.kind,
        "metadata": {"name": name},
        "spec": {"levels": desired_levels(levels)},
    }


async def cluster_around(
    documents: Sequence[Object], client: Client, configuration: Configuration
) -> tuple[Cluster, list[str]]:
    """Return the facts of a cluster as if `documents` were stored in it.

    Also return the resources that could not be read, each with the reason.
    """
    cluster = Cluster(client, configuration)
    listing = await read_into(cluster, client, configuration.levels, None)
    own = DocumentObjects(documents)
    for fact, store in cluster.stores:
        for obj in own.of(fact.resource):
            store.note({**obj, "metadata": {**obj["metadata"], "resourceVersion": _NEWEST}})
    return cluster, [f"{resource} ({error.message})" for resource, error in listing.unread.items()]


class Listing(Value):
    """The result of `read_into`."""

    unread: Mapping[Resource, ClusterError] = field(default_factory=dict)
    """The reason for each resource that could not be read."""
    stands_in: bool = False
    """Whether the managed ClusterTopology was added, because it doesn't exist."""


async def read_into(
    cluster: Cluster, client: Client, levels: tuple[Level, ...], namespace: str | None
) -> Listing:
    """Fill each store of `cluster` once (`stores/listed`).

    If the managed ClusterTopology doesn't exist although its API is in force, add one with
    `levels`.
    """
    unread = await listed.read(cluster.stores, client, namespace)
    topologies = cluster.stores[TOPOLOGIES]
    in_force = cluster.facts.dialect().resource is CLUSTER_TOPOLOGY
    missing = in_force and topologies.synced and topologies.get("", cluster.topology_name) is None
    if missing and levels:
        fill(topologies, [desired_cluster_topology(cluster.topology_name, levels)])

    return Listing(unread, bool(missing and levels))

"""One cluster: stores of facts, readers over them, and the MNNVL resources."""

from collections.abc import Iterator
from typing import Any

from app.base.sample import Sample, counter, gauge
from app.cluster.dialects import OWNER_RULES
from app.cluster.owners import MnnvlOwners
from app.cluster.resources import MnnvlResources
from app.cluster.units import UnitOwners
from app.cluster.view import ClusterView
from app.config.schema import Configuration
from app.facts.kinds import NEIGHBOURS
from app.facts.table import FOR_VERDICTS, FOR_WARNINGS, Row
from app.kube.api import Objects
from app.kube.discovery import Discovery
from app.kube.store import WatchStore
from app.stores.stores import Stores

STALE_SECONDS = 120.0
"""A watch has a sign of life each minute."""

NOT_INSTALLED = "is not installed; it is picked up when its CRD appears"


class Cluster:
    """The facts of one cluster.

    `watched`, `listed` or `documents` fills the stores.

    `client` reads single objects and creates MNNVL resources. `discovery` is None if there is no
    API server.
    """

    def __init__(
        self,
        client: Objects,
        configuration: Configuration,
        discovery: Discovery | None = None,
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
        )
        self.resources = MnnvlResources(client, self.facts, self.stores)
        self.units = UnitOwners(client)
        configured = OWNER_RULES.get(configuration.mnnvl.owner)
        self.owners = MnnvlOwners(client, self.facts, self.stores, configured, discovery)

    @property
    def all_stores(self) -> list[tuple[Row[Any], WatchStore[Any]]]:
        """The stores for verdicts, then those for warnings, each with its row."""
        return [*self.stores, *self.hints]

    def checks(self) -> dict[str, str | None]:
        """Return the problem of each check by its name, or None if there is none.

        Without problems, the server can give verdicts.
        """
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
        return {**notes, "dialect": self.facts.dialect().name, **self._stale()}

    def _stale(self) -> dict[str, str]:
        """Return how old the facts are whose cache is not refreshed, and why."""
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

        text = "Levels that the labels of the nodes don't carry, or not as a tree."
        for name, problems in self.facts.level_problems().items():
            yield gauge("level_problems", text, len(problems), topology=name)

        for row, store in self.all_stores:
            yield from self._of_cache(row.resource.plural, store)

    def _of_cache(self, name: str, store: WatchStore[Any]) -> Iterator[Sample]:
        yield gauge("cache_objects", "Objects in the cache.", len(store), resource=name)
        yield gauge("cache_synced", "1 once the first list is in.", store.synced, resource=name)
        text = "1 where the cluster serves the resource."
        yield gauge("cache_served", text, store.served, resource=name)

        text = "Watches begun again."
        for reason, count in store.restarts.items():
            yield counter("watch_restarts_total", text, count, resource=name, reason=reason)

        age = store.age() if self.discovery is not None else None
        if age is not None:
            text = "Since the last sign of life of the watch."
            yield gauge("cache_age_seconds", text, age, resource=name)

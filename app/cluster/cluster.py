"""One cluster: stores of facts, readers over them, and the MNNVL resources."""

from collections.abc import Iterator

from app.cluster.facts import Facts
from app.cluster.mnnvl import MnnvlResources
from app.cluster.table import FOR_VERDICTS, Stores
from app.config.schema import Configuration
from app.kube.api import Objects
from app.kube.discovery import Discovery
from app.kube.gauge import Gauge
from app.rules.kinds import NEIGHBOURS

NOT_INSTALLED = "is not installed; it is picked up when its CRD appears"


class Cluster:
    """The facts of one cluster.

    `watched`, `listed` or `documents` fills the stores.

    `client` reads single objects and creates MNNVL resources. `discovery` is None if there is no
    API server.
    """

    def __init__(
        self, client: Objects, configuration: Configuration, discovery: Discovery | None = None
    ) -> None:
        settings = configuration.cluster_topology
        self.client = client
        self.discovery = discovery
        self.topology_name = settings.name
        self.stores = Stores(FOR_VERDICTS)
        self.facts = Facts(
            client, self.stores, topology_name=settings.name, topology_enabled=settings.enabled
        )
        self.resources = MnnvlResources(client, self.facts, self.stores)

    def checks(self) -> dict[str, str | None]:
        """Returns the problem of each check by its name, or None if there is none.

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
        """Returns the served version of each API in NEIGHBOURS, and the dialect in force."""
        if self.discovery is None or not self.discovery.known:
            return {}
        versions = {resource: self.discovery.served_version(resource) for resource in NEIGHBOURS}
        notes = {
            f"api/{resource}": version or NOT_INSTALLED for resource, version in versions.items()
        }
        return {**notes, "dialect": self.facts.dialect().name}

    def gauges(self) -> Iterator[Gauge]:
        dialect = {"dialect": self.facts.dialect().name}
        yield (
            "dialect_info",
            "1 for the dialect of Grove's topology API that is in force.",
            dialect,
            1.0,
        )
        for name, problems in self.facts.level_problems().items():
            text = "Levels that the labels of the nodes don't carry, or not as a tree."
            yield "level_problems", text, {"topology": name}, float(len(problems))
        stores = self.stores.by_name()
        for name, store in stores.items():
            yield "cache_objects", "Objects in the cache.", {"resource": name}, len(store)
        for name, store in stores.items():
            yield (
                "cache_synced",
                "1 once the first list is in.",
                {"resource": name},
                float(store.synced),
            )
        for name, store in stores.items():
            yield (
                "cache_served",
                "1 where the cluster serves the resource.",
                {"resource": name},
                float(store.served),
            )
        for name, store in stores.items():
            for reason, count in store.restarts.items():
                yield (
                    "watch_restarts_total",
                    "Watches begun again.",
                    {"resource": name, "reason": reason},
                    count,
                )
        for name, store in stores.items():
            age = store.age() if self.discovery is not None else None
            if age is not None:
                yield (
                    "cache_age_seconds",
                    "Since the last sign of life of the watch.",
                    {"resource": name},
                    age,
                )

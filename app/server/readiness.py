"""The checks behind /readyz and /healthz."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from app.certificates.source import CertificateSource
from app.cluster.connect import Cluster
from app.cluster.live import LiveCluster
from app.reconcilers.leader import Leader
from app.rules.kinds import (
    CLUSTER_TOPOLOGY,
    COMPUTE_DOMAIN,
    K8S_POD_GROUP,
    KAI_TOPOLOGY,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GROUP,
    RESOURCE_CLAIM,
    WORKLOAD,
)

logger = logging.getLogger(__name__)

NEIGHBOURS = (
    CLUSTER_TOPOLOGY,
    POD_CLIQUE_SET,
    POD_CLIQUE,
    POD_GANG,
    KAI_TOPOLOGY,
    POD_GROUP,
    COMPUTE_DOMAIN,
    RESOURCE_CLAIM,
    WORKLOAD,
    K8S_POD_GROUP,
)
"""The APIs of the systems beside us: each may be missing."""

NOT_INSTALLED = "is not installed; it is picked up when its CRD appears"


@dataclass(slots=True)
class Readiness:
    """What `/readyz` and `/healthz` say."""

    cluster: Cluster
    certificate: CertificateSource
    leader: Leader | None = None
    draining: bool = False
    failing: frozenset[str] = frozenset()
    """The checks that failed when they were last asked."""
    was_ready: bool = False

    def live(self) -> dict[str, str | None]:
        return {"process": None}

    def ready(self) -> dict[str, str | None]:
        checks: dict[str, str | None] = {
            "draining": "is shutting down" if self.draining else None,
            "certificate": self._certificate(),
        }
        unknown = self._undiscovered()
        if unknown is not None:
            checks["discovery"] = unknown
        for name, store in self.cluster.stores.by_name().items():
            problem = getattr(store, "problem", "") or ("waits for discovery" if unknown else "not asked yet")
            checks[f"cache/{name}"] = None if store.synced else f"the first list is not in yet: {problem}"
        self._note_change(checks)
        return checks

    def _undiscovered(self) -> str | None:
        """Why it isn't known what the cluster serves; None where that is known, and without a cluster."""
        if not isinstance(self.cluster, LiveCluster) or self.cluster.client.discovery.known:
            return None
        return self.cluster.client.discovery.problem or "the API server has not been asked yet"

    def _note_change(self, checks: Mapping[str, str | None]) -> None:
        """Logs what has become unready since it was last asked, so that it can be read where no probe's answer can."""
        failing = {name: f"{name} {problem}" for name, problem in checks.items() if problem is not None}
        if failing.keys() != self.failing:
            level = logging.WARNING if failing and self.was_ready else logging.INFO
            logger.log(level, "%s", f"not ready: {'; '.join(failing.values())}" if failing else "ready")
        self.was_ready |= not failing
        self.failing = frozenset(failing)

    def _certificate(self) -> str | None:
        if self.certificate.healthy():
            return None
        state = "is not there yet" if self.certificate.not_after is None else "has expired"
        return f"{state}: {self.certificate.last_error}" if self.certificate.last_error else state

    def gauges(self) -> Iterable[tuple[str, str, dict[str, str], float]]:
        well = all(problem is None for problem in self.ready().values())
        yield "ready", "Whether /readyz is well.", {}, float(well)

    def notes(self) -> dict[str, str]:
        """Which of the optional APIs this cluster has, and who leads."""
        if not isinstance(self.cluster, LiveCluster) or not self.cluster.client.discovery.known:
            return {}
        served = {resource: self.cluster.client.served_version(resource) for resource in NEIGHBOURS}
        notes = {f"api/{one}": version or NOT_INSTALLED for one, version in served.items()}
        if self.leader is not None:
            notes["leader"] = "this process" if self.leader.leading else self.leader.holder or "nobody"
        return notes

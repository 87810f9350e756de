"""Find MNNVL claims that are missing, being deleted, or holding a channel unnecessarily."""

from collections.abc import Collection

from msgspec import Struct

from app.audit.finding import Finding, warning
from app.cluster.held_claims import Deletion, claims_held_in_deletion, read_deletion
from app.cluster.pods import pods_without_claim
from app.cluster.view import ClusterView
from app.facts.grove.unit_member import Unclaimed
from app.facts.kinds import COMPUTE_DOMAIN, POD_CLIQUE, RESOURCE_CLAIM
from app.facts.kubernetes.claim import ResourceClaim, read_resource_claim
from app.facts.kubernetes.gpus import is_gpu
from app.facts.kubernetes.node import GPUS
from app.facts.kubernetes.pod import Pod, Shape, read_pod
from app.facts.kubernetes.pod_fields import PodForm
from app.facts.labels import GPU_COUNT
from app.facts.nvidia.computedomain import ComputeDomain, read_compute_domain
from app.facts.rows import CLAIMS, DOMAINS
from app.kube.api import Client, Key, Object, ObjectRef, Selection, each, find
from app.objects.resource import POD
from app.objects.shape import integer_in, key_of
from app.rules.mnnvl.claim import CHANNEL_CLASS
from app.rules.mnnvl.claim_holders import ClaimedMember
from app.rules.mnnvl.held_channels import held_channels
from app.rules.mnnvl.lost_claims import PUT_BACK, REPLACE, held_in_deletion
from app.rules.mnnvl.missing_claims import lacks_claim, read_clique
from app.stores.stores import Stores

LACKS = (
    "must have an MNNVL claim but has none: Pods that start now run outside of their NVLink domain"
)
"""The problem of a PodClique without its claim."""
OUTSIDE = "the PodClique's claim, and so cannot use NVLink between nodes"
"""The end of the problem of a PodClique whose Pods lack its claim."""


class ClaimAudit(Struct):
    """The part of the audit that checks the claims of PodCliques and Pods."""

    client: Client
    """The client that reads Pods, claims and ComputeDomains."""
    facts: ClusterView
    """The facts about PodCliqueSets and nodes."""
    stores: Stores
    """The caches, which must be filled."""
    _pods: dict[Key, list[str]] = {}
    """The names of the Pods that lack a claim, by the key of their PodClique (see `read_pods`)."""

    async def read_pods(self) -> None:
        """Find the Pods that lack a claim, in all namespaces that have our ComputeDomains.

        Raise ClusterError if a request fails.
        """
        namespaces = {domain.namespace for domain in self.stores[DOMAINS].values()}
        self._pods = await pods_without_claim(self.client, namespaces)

    def of_clique(self, obj: Object) -> Finding | None:
        """Return the finding about a PodClique that lacks its claim, or whose Pods lack that claim.

        Return None if neither is the case. `read_pods` must have been called.
        """
        clique = read_clique(obj)
        if not isinstance(clique, ClaimedMember):
            return self._without_claim(obj, clique)

        pods = self._pods.get(key_of(obj))
        if pods is None:
            return None
        lack = "Pod {} lacks" if len(pods) == 1 else "Pods {} lack"
        names = lack.format(", ".join(pods))
        problem = f"{names} {OUTSIDE}"
        return warning(POD_CLIQUE.kind, key_of(obj), problem, REPLACE)

    def _without_claim(self, obj: Object, clique: Unclaimed | None) -> Finding | None:
        """Return the finding about a PodClique without a claim, or None if it needs none."""
        if not clique:
            return None

        namespace, _ = key_of(obj)
        pcs = self.facts.cached_set(namespace, clique.place.pcs)
        reads_groups = self.facts.dialect().reads_groups
        if not lacks_claim(clique, pcs, reads_groups=reads_groups):
            return None
        return warning(POD_CLIQUE.kind, key_of(obj), LACKS, PUT_BACK)

    async def in_deletion(self, exempt: Collection[str]) -> list[Finding]:
        """Return the findings about claims that Pods use although the claims are being deleted.

        Namespaces in `exempt` are skipped. Raise ClusterError if a request fails.
        """
        keys = sorted(
            (claim.namespace, claim.name)
            for claim in self.stores[CLAIMS].values()
            if claim.deleting and claim.namespace not in exempt
        )
        deletions: list[Deletion] = []
        for namespace, name in keys:
            stored = await find(self.client, ObjectRef(RESOURCE_CLAIM, name, namespace))
            deletion = read_deletion(stored) if stored else None
            deletions += [deletion] if deletion else []
        held = await claims_held_in_deletion(self.client, deletions)
        return [_held(claim, pods) for claim, pods in held]

    async def held_channels(self, namespace: str | None, exempt: Collection[str]) -> list[Finding]:
        """Return the findings about claims that hold NVLink channels unnecessarily.

        `namespace` is None for all namespaces. Namespaces in `exempt` are skipped. Raise
        ClusterError if a request fails.
        """
        of_claims = each(self.client, Selection(RESOURCE_CLAIM, namespace))
        claims = [
            claim
            async for obj in of_claims
            if _has_channel(claim := read_resource_claim(obj)) and claim.namespace not in exempt
        ]
        if not claims:
            return []
        pods: list[Pod] = []
        domains: list[ComputeDomain] = []
        for space in sorted({claim.namespace for claim in claims}):
            of_space = each(self.client, Selection(POD, space, form=PodForm))
            pods += [pod async for obj in of_space if (pod := _read_user(obj)).claims]
            of_domains = each(self.client, Selection(COMPUTE_DOMAIN, space))
            domains += [read_compute_domain(obj) async for obj in of_domains]
        names = {pod.node for pod in pods if pod.node}
        found = held_channels(claims, pods, domains, {name: self._gpus(name) for name in names})
        wait = "pod waits" if found.waiting == 1 else "pods wait"
        waits = f"; {found.waiting} {wait} for a channel" if found.waiting else ""
        return [
            warning(held.claim.kind, held.claim.key, f"{held.text}{waits}", held.remedy)
            for held in found.held
        ]

    def _gpus(self, node: str) -> int:
        """Return the number of GPUs of a node in thousandths, or 0 if it is not known."""
        labels = self.facts.node_labels(node) or {}
        counts = (integer_in(labels.get(key, "")) for key in (GPU_COUNT, GPUS))
        return next((1000 * count for count in counts if count is not None), 0)


def _has_channel(claim: ResourceClaim) -> bool:
    """Return whether a claim has been allocated an NVLink channel."""
    return claim.allocated and CHANNEL_CLASS in claim.classes


def _read_user(obj: Object) -> Pod:
    """Read a Pod, and keep only the fields that `held_channels` needs, to save memory."""
    pod = read_pod(obj)
    gpus = tuple((name, amount) for name, amount in pod.shape.requests if is_gpu(name))
    return Pod(
        namespace=pod.namespace,
        name=pod.name,
        node=pod.node,
        shape=Shape(gpus),
        phase=pod.phase,
        claims=pod.claims,
        deleting=pod.deleting,
    )


def _held(claim: Key, pods: list[str]) -> Finding:
    problem, remedy = held_in_deletion(claim[0], pods)
    return warning(RESOURCE_CLAIM.kind, claim, problem, remedy)

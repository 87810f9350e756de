"""Check the ComputeDomains and ResourceClaims for MNNVL.

The checks find claims that can never be allocated, and PodCliques and Pods that lack their claim.
They also find a configured owner that does not fit this release of Grove, and resources that
PodGangs own although the PodCliqueSet should.
"""

import contextlib
from collections.abc import AsyncIterator, Collection, Mapping, Sequence

from app.base.groups import by_key
from app.cluster.held_claims import claims_held_in_deletion
from app.cluster.leader_rows import StoredClique
from app.cluster.pods import pods_without_claim
from app.cluster.view import OWNER_RULES, dialect_of
from app.config.schema import Configuration
from app.doctor.report import Check, Checks, ok, problem, warning
from app.facts.grove.podcliqueset import PodCliqueSet, read_pod_clique_set
from app.facts.grove.unit_member import Unclaimed
from app.facts.kinds import (
    COMPUTE_DOMAIN,
    DEVICE_CLASS,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GANG,
    RESOURCE_CLAIM,
)
from app.facts.kubernetes.claim import awaited_classes
from app.facts.labels import MNNVL_MANAGED, MNNVL_UNIT
from app.facts.nvidia.computedomain import read_mnnvl_resource
from app.kube.api import Client, Key, NotFound, Object, Selection, list_all, pages
from app.objects.fields import listed
from app.objects.resource import Resource
from app.objects.shape import key_of
from app.rules.mnnvl.claim import CHANNEL_CLASS, unallocatable
from app.rules.mnnvl.claim_holders import demands_in
from app.rules.mnnvl.lost_claims import PUT_BACK, REPLACE, held_in_deletion
from app.rules.mnnvl.missing_claims import lacks_claim, read_clique
from app.rules.mnnvl.plan import DEFAULT_DEVICE_CLASS

_SHOWN = 5


async def check_claims(client: Client, configuration: Configuration) -> Checks:
    """Check `mnnvl.claimMode` and the stored claims: their DeviceClasses must exist.

    Also report claims that are being deleted while Pods use them. Raise ClusterError if a request
    fails.
    """
    classes = {obj["metadata"]["name"] for obj in await list_all(client, Selection(DEVICE_CLASS))}
    claims = await list_all(client, Selection(RESOURCE_CLAIM, labels=f"{MNNVL_MANAGED}=true"))
    checks = _check_mode(configuration, classes)
    waiting = by_key((unallocatable(awaited_classes(obj), classes), _name(obj)) for obj in claims)
    units = await list_all(client, Selection(COMPUTE_DOMAIN, labels=MNNVL_UNIT))
    if units and unallocatable([CHANNEL_CLASS], classes):
        checks.append(_without_driver([_name(obj) for obj in units]))
    checks += [_never_allocated(name, names) for name, names in sorted(waiting.items()) if name]
    checks = checks or [ok("no ResourceClaim for MNNVL lacks its DeviceClass")]
    held = await claims_held_in_deletion(client, claims)

    return [*checks, *(_held(claim, pods) for claim, pods in held)]


def _check_mode(configuration: Configuration, classes: set[str]) -> Checks:
    """Return a problem if `mnnvl.claimMode` needs a DeviceClass that does not exist."""
    if configuration.mnnvl.claim_mode != "shared" or not unallocatable(
        [DEFAULT_DEVICE_CLASS], classes
    ):
        return []

    message = (
        f'mnnvl.claimMode is "shared", but DeviceClass "{DEFAULT_DEVICE_CLASS}" does not exist:'
        " claims that name no other class can never be allocated"
    )
    remedy = "Set mnnvl.claimMode to auto, or create the DeviceClass."
    return [problem(message, remedy)]


async def check_lost_claims(client: Client) -> Checks:
    """Check that PodCliques that request MNNVL have their claim, and that their Pods have it too.

    Raise ClusterError if a request fails.
    """
    sets = {key_of(obj): read_pod_clique_set(obj) async for obj in _all(client, POD_CLIQUE_SET)}
    cliques = [
        clique async for obj in _all(client, POD_CLIQUE) if (clique := read_clique(obj)) is not None
    ]
    claimed = {(demand.namespace, demand.name) for demand in demands_in(cliques)}
    pods = await pods_without_claim(client, {namespace for namespace, _ in claimed})
    return [
        _check_cliques(cliques, sets, reads_groups=dialect_of(client).reads_groups),
        *_check_pods(pods, claimed),
    ]


def _check_cliques(
    cliques: Sequence[StoredClique], sets: Mapping[Key, PodCliqueSet], *, reads_groups: bool
) -> Check:
    """Check that no PodClique lacks a claim that it must have."""
    lacking = sorted(
        f"{clique.namespace}/{clique.name}"
        for clique in cliques
        if isinstance(clique, Unclaimed)
        and lacks_claim(
            clique,
            sets.get((clique.namespace, clique.place.pcs)),
            reads_groups=reads_groups,
        )
    )
    if not lacking:
        return ok("every PodClique that requests an MNNVL claim has one")

    message = (
        "PodCliques lack their MNNVL claim, so their new Pods run outside of their NVLink domain:"
        f" {listed(lacking, _SHOWN)}"
    )
    return problem(message, PUT_BACK)


def _check_pods(pods: Mapping[Key, list[str]], claimed: Collection[Key]) -> Checks:
    """Return a problem if Pods run without the claim that their PodClique has."""
    without = sorted(
        f"{namespace}/{name}"
        for (namespace, clique), names in pods.items()
        if (namespace, clique) in claimed
        for name in names
    )
    if not without:
        return []

    message = (
        "Pods run without the MNNVL claim that their PodClique has, outside of their NVLink"
        f" domain: {listed(without, _SHOWN)}"
    )
    return [problem(message, f"{REPLACE} grove-admission audit lists them all.")]


def _held(claim: Object, pods: Sequence[str]) -> Check:
    what, remedy = held_in_deletion(claim["metadata"]["namespace"], pods)
    return problem(f"ResourceClaim {_name(claim)} {what}", remedy)


async def _all(client: Client, resource: Resource) -> AsyncIterator[Object]:
    """Yield the objects of `resource` in pages, or none if it is not served."""
    with contextlib.suppress(NotFound):
        async for page in pages(client, Selection(resource)):
            for obj in page.items:
                yield obj


def _name(obj: Object) -> str:
    return "/".join(key_of(obj))


def _without_driver(domains: list[str]) -> Check:
    message = (
        f'Pods of ComputeDomains can never be placed, because DeviceClass "{CHANNEL_CLASS}" does'
        f" not exist: {listed(sorted(domains), _SHOWN)}"
    )
    return problem(message, "Install NVIDIA's DRA driver with support for ComputeDomains.")


def _never_allocated(name: str, claims: list[str]) -> Check:
    """Return the problem of claims whose DeviceClass `name` does not exist."""
    message = (
        f'ResourceClaims can never be allocated, because DeviceClass "{name}" does not exist: '
        f"{listed(sorted(claims), _SHOWN)}"
    )
    remedy = (
        "Create the DeviceClass. Or set mnnvl.claimMode: auto and delete the PodCliques: the new"
        " ones get claims that the driver can allocate."
    )
    return problem(message, remedy)


# Owners.


async def check_owners(client: Client, configuration: Configuration) -> Checks:
    """Check that `mnnvl.owner` fits the release of Grove, and that stored resources agree with it.

    Raise ClusterError if a request fails.
    """
    dialect = dialect_of(client)
    configured = OWNER_RULES.get(configuration.mnnvl.owner)
    rule = configured or dialect.owner
    checks: Checks = []
    if rule.kind == POD_GANG.kind and dialect.owner.kind == POD_CLIQUE_SET.kind:
        checks.append(_unsafe(dialect.name))

    owned: list[str] = []
    for resource in (COMPUTE_DOMAIN, RESOURCE_CLAIM):
        for obj in await list_all(client, Selection(resource, labels=f"{MNNVL_MANAGED}=true")):
            stored = read_mnnvl_resource(obj)
            if stored.owning_gangs and rule.is_given_back(stored):
                owned.append(f"{stored.kind} {stored.namespace}/{stored.name}")
    if owned:
        checks.append(_owned_by_gangs(owned))

    message = f"{rule.kind}s own the ComputeDomains and claims for MNNVL"
    return checks or [ok(message)]


def _unsafe(dialect: str) -> Check:
    """Return the warning about PodGangs as owners if Grove may replace them."""
    message = (
        f'mnnvl.owner is "PodGang", but the dialect of Grove is "{dialect}": when Grove replaces'
        " the PodGangs of running workloads, their ComputeDomains and claims are deleted while"
        " pods use them"
    )
    return warning(message, "Set mnnvl.owner to auto.")


def _owned_by_gangs(owned: list[str]) -> Check:
    """Return the problem of resources that PodGangs still own."""
    message = (
        "PodGangs still own resources, which are deleted while pods use them if Grove replaces the"
        f" PodGangs: {listed(sorted(owned), _SHOWN)}"
    )
    remedy = (
        "Do not upgrade Grove before the leader has given them to their PodCliqueSets. Check that a"
        " replica leads (/readyz?verbose), and read its log."
    )
    return problem(message, remedy)

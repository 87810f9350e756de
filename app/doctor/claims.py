"""Check the ComputeDomains and ResourceClaims for MNNVL.

The checks find claims that cannot be allocated, and PodCliques and Pods that lack their claim.
They also report a setting `mnnvl.owner` that does not fit the release of Grove, and resources that
PodGangs own although their PodCliqueSet should.
"""

from collections.abc import Collection, Mapping, Sequence

from app.base.groups import by_key
from app.cluster.held_claims import Deletion, claims_held_in_deletion, read_deletion
from app.cluster.leader_rows import StoredClique
from app.cluster.pods import pods_without_claim
from app.cluster.view import OWNER_RULES, dialect_of
from app.config.schema import Configuration
from app.doctor.report import Check, Checks, ok, problem, warning
from app.facts.grove.podcliqueset import PodCliqueSet, read_bounded_set
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
from app.kube.api import Client, Key, Selection, each
from app.objects.fields import listed
from app.objects.shape import JsonMap, key_of
from app.rules.mnnvl.claim import CHANNEL_CLASS, unallocatable
from app.rules.mnnvl.claim_holders import demands_in
from app.rules.mnnvl.lost_claims import PUT_BACK, REPLACE, held_in_deletion
from app.rules.mnnvl.missing_claims import lacks_claim, read_clique
from app.rules.mnnvl.plan import DEFAULT_DEVICE_CLASS

_INSTALL = "Install NVIDIA's DRA driver with support for ComputeDomains."
_SHOWN = 5
_MOST_CHECKS = 20
"""The maximum number of problems of one kind that are shown."""


async def check_claims(client: Client, configuration: Configuration) -> Checks:
    """Check that the DeviceClasses of `mnnvl.claimMode`, of claims and of units exist.

    Also report claims that are being deleted while Pods use them. Raise ClusterError if a request
    fails.
    """
    classes = {
        obj["metadata"]["name"]
        async for obj in each(client, Selection(DEVICE_CLASS), optional=True)
    }
    ours = Selection(RESOURCE_CLAIM, labels=f"{MNNVL_MANAGED}=true")
    lacking: list[tuple[str, str]] = []
    waits = False
    deletions: list[Deletion] = []
    async for obj in each(client, ours, optional=True):
        awaited = awaited_classes(obj)
        waits = waits or bool(awaited)
        lacking.append((unallocatable(awaited, classes), _name(obj)))
        deletions += filter(None, [read_deletion(obj)])
    waiting = by_key(lacking)
    checks = _check_mode(configuration, classes)
    of_units = Selection(COMPUTE_DOMAIN, labels=MNNVL_UNIT)
    units = [_name(obj) async for obj in each(client, of_units, optional=True)]
    if units and unallocatable([CHANNEL_CLASS], classes):
        checks.append(_without_driver(units))
    if not classes and (waits or units):
        message = "no DeviceClass exists, so no claim for MNNVL can be allocated"
        checks.append(warning(message, _INSTALL))
    checks += _few([_without_class(*item) for item in sorted(waiting.items()) if item[0]])
    checks = checks or [ok("no ResourceClaim for MNNVL lacks its DeviceClass")]
    held = await claims_held_in_deletion(client, deletions)

    return [*checks, *_few([_held(*item) for item in held])]


def _few(checks: Checks) -> Checks:
    """Return the first _MOST_CHECKS checks, and one with the number of the others, if any.

    Tenants decide how many claims there are, and which DeviceClasses the claims name.
    """
    if len(checks) <= _MOST_CHECKS:
        return checks
    more = f"problems of ResourceClaims that are not shown: {len(checks) - _MOST_CHECKS}"
    remedy = "List them all: grove-admission audit"
    return [*checks[:_MOST_CHECKS], problem(more, remedy)]


def _check_mode(configuration: Configuration, classes: set[str]) -> Checks:
    """Return a problem if `mnnvl.claimMode` needs a DeviceClass that does not exist, else []."""
    if configuration.mnnvl.claim_mode != "shared" or not unallocatable(
        [DEFAULT_DEVICE_CLASS], classes
    ):
        return []

    message = (
        f'mnnvl.claimMode is "shared", but DeviceClass "{DEFAULT_DEVICE_CLASS}" does not exist:'
        " claims that name it cannot be allocated"
    )
    remedy = (
        "Create the DeviceClass. Or, if NVIDIA's DRA driver is installed, set mnnvl.claimMode: auto"
        " in the configuration of the server."
    )
    return [problem(message, remedy)]


async def check_lost_claims(client: Client) -> Checks:
    """Check that PodCliques that request MNNVL have their claim, and that their Pods have it too.

    Raise ClusterError if a request fails.
    """
    of_sets = each(client, Selection(POD_CLIQUE_SET), optional=True)
    sets = {key_of(obj): read_bounded_set(obj) async for obj in of_sets}
    of_cliques = each(client, Selection(POD_CLIQUE), optional=True)
    cliques = [clique async for obj in of_cliques if (clique := read_clique(obj)) is not None]
    claimed = {(demand.namespace, demand.name) for demand in demands_in(cliques)}
    pods = await pods_without_claim(client, {namespace for namespace, _ in claimed})
    return [
        _check_cliques(cliques, sets, reads_groups=dialect_of(client).reads_groups),
        *_check_pods(pods, claimed),
    ]


def _check_cliques(
    cliques: Sequence[StoredClique], sets: Mapping[Key, PodCliqueSet], *, reads_groups: bool
) -> Check:
    """Check that no PodClique lacks the MNNVL claim that it requests.

    `reads_groups` says whether Grove reads its own MNNVL annotation. If so, PodCliques with this
    annotation don't count.
    """
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
        "PodCliques without their MNNVL claim, whose new Pods run outside of their NVLink domain:"
        f" {listed(lacking, _SHOWN)}"
    )
    return problem(message, PUT_BACK)


def _check_pods(pods: Mapping[Key, list[str]], claimed: Collection[Key]) -> Checks:
    """Return a problem if Pods lack the claim that their PodClique has, otherwise [].

    `pods` has the names of the Pods without a claim, by their PodClique. `claimed` are the
    PodCliques that have a claim.
    """
    without = sorted(
        f"{namespace}/{name}"
        for (namespace, clique), names in pods.items()
        if (namespace, clique) in claimed
        for name in names
    )
    if not without:
        return []

    message = (
        "Pods that lack the MNNVL claim of their PodClique, and so cannot use NVLink between nodes:"
        f" {listed(without, _SHOWN)}"
    )
    return [problem(message, f"{REPLACE} List all of them: grove-admission audit")]


def _held(claim: Key, pods: Sequence[str]) -> Check:
    what, remedy = held_in_deletion(claim[0], pods)
    name = "/".join(claim)
    return problem(f"ResourceClaim {name} {what}", remedy)


def _name(obj: JsonMap) -> str:
    return "/".join(key_of(obj))


def _without_driver(domains: list[str]) -> Check:
    these = "this ComputeDomain" if len(domains) == 1 else "these ComputeDomains"
    message = (
        f"Pods of {these} cannot be placed, because DeviceClass"
        f' "{CHANNEL_CLASS}" does not exist: {listed(sorted(domains), _SHOWN)}'
    )
    return problem(message, _INSTALL)


def _without_class(name: str, claims: list[str]) -> Check:
    """Return the problem of claims whose DeviceClass `name` does not exist."""
    these = "this ResourceClaim" if len(claims) == 1 else "these ResourceClaims"
    message = (
        f'{these} cannot be allocated, because DeviceClass "{name}" does not'
        f" exist: {listed(sorted(claims), _SHOWN)}"
    )
    remedy = (
        "Create the DeviceClass. Or, if NVIDIA's DRA driver is installed, set mnnvl.claimMode: auto"
        " and delete each PodClique with such a claim: Grove creates it again, with a claim that"
        " the driver can allocate."
    )
    return problem(message, remedy)


# Owners.


async def check_owners(client: Client, configuration: Configuration) -> Checks:
    """Check that `mnnvl.owner` fits the release of Grove.

    If PodCliqueSets own MNNVL resources, also check that no PodGang still owns one. Raise
    ClusterError if a request fails.
    """
    dialect = dialect_of(client)
    configured = OWNER_RULES.get(configuration.mnnvl.owner)
    rule = configured or dialect.owner
    checks: Checks = []
    if rule.kind == POD_GANG.kind and dialect.owner.kind == POD_CLIQUE_SET.kind:
        checks.append(_unsafe(dialect.name))

    owned: list[str] = []
    for resource in (COMPUTE_DOMAIN, RESOURCE_CLAIM):
        ours = Selection(resource, labels=f"{MNNVL_MANAGED}=true")
        async for obj in each(client, ours, optional=True):
            stored = read_mnnvl_resource(obj)
            if stored.owning_gangs and rule.is_given_back(stored):
                owned.append(f"{stored.kind} {stored.namespace}/{stored.name}")
    if owned:
        checks.append(_owned_by_gangs(owned))

    message = f"{rule.kind}s own the ComputeDomains and claims for MNNVL"
    return checks or [ok(message)]


def _unsafe(dialect: str) -> Check:
    """Return the warning that PodGangs own MNNVL resources although Grove may replace PodGangs."""
    message = (
        f'mnnvl.owner is "PodGang", but the dialect of Grove is "{dialect}": when Grove replaces'
        " the PodGangs of running workloads, their ComputeDomains and claims are deleted while"
        " pods use them"
    )
    return warning(message, "Set mnnvl.owner: auto in the configuration of the server.")


def _owned_by_gangs(owned: list[str]) -> Check:
    """Return the problem of resources that PodGangs own although their PodCliqueSet should."""
    message = (
        "PodGangs still own MNNVL resources, which Kubernetes deletes if Grove replaces these"
        f" PodGangs: {listed(sorted(owned), _SHOWN)}"
    )
    remedy = (
        "Do not upgrade Grove before the leader has given these resources to their PodCliqueSets."
        " If this takes long, read the log of the replica that leads: doctor --all names it under"
        " leader."
    )
    return problem(message, remedy)

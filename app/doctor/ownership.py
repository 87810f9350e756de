"""Checks who owns MNNVL resources.

Does the configured owner fit this release of Grove, and do PodGangs still own resources that the
PodCliqueSet should own?
"""

from app.cluster.dialects import OWNER_RULES, dialect_of
from app.config.schema import Configuration
from app.doctor.report import Check, Checks, ok, problem, warning
from app.facts.kinds import COMPUTE_DOMAIN, POD_CLIQUE_SET, POD_GANG, RESOURCE_CLAIM
from app.facts.labels import MNNVL_MANAGED
from app.facts.nvidia.mnnvl import read_mnnvl_resource
from app.kube.api import Client, Selection, list_all
from app.objects.fields import listed

_SHOWN = 5


async def check_owners(client: Client, configuration: Configuration) -> Checks:
    """Return the checks of the setting and of the stored resources. Raise ClusterError."""
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
    message = (
        'mnnvl.owner is "PodGang", but Grove speaks the dialect'
        f' "{dialect}": when it replaces the PodGangs of running workloads, their ComputeDomains'
        " and claims are deleted under the pods"
    )
    return warning(message, "Set mnnvl.owner to auto.")


def _owned_by_gangs(owned: list[str]) -> Check:
    message = (
        "PodGangs still own resources, which are deleted under running pods if Grove replaces the"
        f" PodGangs: {listed(sorted(owned), _SHOWN)}"
    )
    remedy = (
        "The leader gives them to their PodCliqueSets: see whether a replica leads"
        " (/readyz?verbose) and what its log says. Upgrade Grove only afterwards."
    )
    return problem(message, remedy)

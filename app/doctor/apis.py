"""Which of the APIs that we read and write a cluster serves, and whether in a version that we know."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from app.doctor import definitions
from app.doctor.report import Check, Status
from app.kube.api import Client, NotFound, Object
from app.objects.resource import CRD, Resource
from app.rules.kinds import (
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    COMPUTE_DOMAIN,
    KAI_TOPOLOGY,
    POD_CLIQUE,
    POD_CLIQUE_SCALING_GROUP,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GROUP,
    RESOURCE_CLAIM,
    WORKLOAD,
)

SUBJECT = definitions.SUBJECT
_MATCH_CONDITIONS = (1, 28)
Read = Callable[[str], Awaitable[Object]]
"""A path of the API server as JSON."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """`absent` is how bad it is that a resource isn't served, `means` what then doesn't work."""

    resource: Resource
    absent: Status
    means: str
    remedy: str


_GROVE = "Install Grove, unless nothing here is to use it."
_KAI = "Install the KAI Scheduler, unless nothing here is to use it."
_MNNVL = "PodCliques that ask for MNNVL are refused"

WANTED = (
    Wanted(CLUSTER_TOPOLOGY, "problem", "topology constraints can't be checked", "Apply manifests/crds."),
    Wanted(POD_CLIQUE_SET, "warning", "there is nothing to check", _GROVE),
    Wanted(POD_CLIQUE, "warning", "there is nothing to inject into", _GROVE),
    Wanted(POD_CLIQUE_SCALING_GROUP, "warning", "there are no scaling groups", _GROVE),
    Wanted(POD_GANG, "warning", "there is nothing to translate for the scheduler", _GROVE),
    Wanted(POD_GROUP, "warning", "SubGroup names are not checked, Workloads not mapped", _KAI),
    Wanted(KAI_TOPOLOGY, "warning", "the scheduler doesn't learn the levels", _KAI),
    Wanted(COMPUTE_DOMAIN, "warning", _MNNVL, "Install NVIDIA's DRA driver, unless nothing here is to use it."),
    Wanted(RESOURCE_CLAIM, "warning", _MNNVL, "It needs a Kubernetes with resource.k8s.io (1.32 or later)."),
    Wanted(WORKLOAD, "ok", "there are no Workloads to map", ""),
)


async def check_apis(client: Client, read: Read) -> list[Check]:
    """The version of Kubernetes, one check for each API, and one for each CRD of their groups that is not established;
    ClusterError if the API server doesn't say."""
    crds = (await client.list(CRD, limit=0)).items
    broken = definitions.check_definitions(crds, {wanted.resource.group for wanted in WANTED})
    checks = [check for wanted in WANTED for check in await _check(client, read, wanted, broken)]
    return [*await _check_version(read), *checks, *broken.values()]


async def _check_version(read: Read) -> list[Check]:
    """The webhook configurations have matchConditions: beta in Kubernetes 1.28, stable in 1.30."""
    try:
        version = await read("/version")
        major, minor = (int(re.sub(r"\D.*", "", str(version[part]))) for part in ("major", "minor"))
    except (NotFound, KeyError, ValueError):
        return []
    shown = version.get("gitVersion") or f"{major}.{minor}"
    if (major, minor) >= _MATCH_CONDITIONS:
        return [Check(SUBJECT, "ok", f"Kubernetes {shown}")]
    message = f"Kubernetes {shown} has no matchConditions, by which the webhooks say what they are called for"
    needed = ".".join(map(str, _MATCH_CONDITIONS))
    return [Check(SUBJECT, "problem", message, f"Upgrade the cluster to Kubernetes {needed} or later.")]


async def _check(client: Client, read: Read, wanted: Wanted, broken: Mapping[str, Check]) -> list[Check]:
    """At most one check; none if the CRD is among the `broken` ones, which are reported by themselves."""
    resource = wanted.resource
    version = client.served_version(resource)
    if version is not None:
        return [Check(SUBJECT, "ok", f"{resource}: {version}")]
    if str(resource) in broken:
        return []
    bindings = client.served_version(CLUSTER_TOPOLOGY_BINDING)
    if resource is CLUSTER_TOPOLOGY and bindings is not None:
        return [Check(SUBJECT, "ok", f"{CLUSTER_TOPOLOGY_BINDING}: {bindings}, in place of {resource}")]
    others = await _other_versions(read, resource)
    if others:
        message = f"{resource} is served as {', '.join(others)}; this version knows {', '.join(resource.versions)}"
        return [Check(SUBJECT, "problem", f"{message}: {wanted.means}", "Find the grove-admission that knows it.")]
    return [Check(SUBJECT, wanted.absent, f"{resource} is not installed: {wanted.means}", wanted.remedy)]


async def _other_versions(read: Read, resource: Resource) -> list[str]:
    """The versions in which the cluster serves `resource`, of those that we don't know."""
    try:
        group = await read(f"/apis/{resource.group}")
    except NotFound:
        return []
    versions = [str(one.get("version", "")) for one in group.get("versions") or []]
    found = []
    for version in versions:
        answer = await read(f"/apis/{resource.group}/{version}")
        if any(one.get("name") == resource.plural for one in answer.get("resources") or []):
            found.append(version)
    return found

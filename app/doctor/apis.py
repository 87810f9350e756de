"""The APIs that we read and write: whether the cluster serves them in a known version."""

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
"""Returns the JSON at a path of the API server."""


@dataclass(frozen=True, slots=True)
class Api:
    """A resource, the status of the check if it is not served (`absent`), and what then does not work (`means`)."""

    resource: Resource
    absent: Status
    means: str
    remedy: str


_GROVE = "Install Grove, unless nothing here is to use it."
_KAI = "Install the KAI Scheduler, unless nothing here is to use it."
_MNNVL = "PodCliques that ask for MNNVL are refused"

APIS = (
    Api(CLUSTER_TOPOLOGY, "problem", "topology constraints can't be checked", "Apply manifests/crds."),
    Api(POD_CLIQUE_SET, "warning", "there is nothing to check", _GROVE),
    Api(POD_CLIQUE, "warning", "there is nothing to inject into", _GROVE),
    Api(POD_CLIQUE_SCALING_GROUP, "warning", "there are no scaling groups", _GROVE),
    Api(POD_GANG, "warning", "there is nothing to translate for the scheduler", _GROVE),
    Api(POD_GROUP, "warning", "SubGroup names are not checked, Workloads not mapped", _KAI),
    Api(KAI_TOPOLOGY, "warning", "the scheduler doesn't learn the levels", _KAI),
    Api(COMPUTE_DOMAIN, "warning", _MNNVL, "Install NVIDIA's DRA driver, unless nothing here is to use it."),
    Api(RESOURCE_CLAIM, "warning", _MNNVL, "It needs a Kubernetes with resource.k8s.io (1.32 or later)."),
    Api(WORKLOAD, "ok", "there are no Workloads to map", ""),
)


async def check_apis(client: Client, read: Read) -> list[Check]:
    """The version of Kubernetes, a check for each API, and one for each CRD of their groups that is not established.
    Raises ClusterError."""
    crds = (await client.list(CRD, limit=0)).items
    broken = definitions.check_definitions(crds, {api.resource.group for api in APIS})
    checks = [check for api in APIS for check in await _check(client, read, api, broken)]
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


async def _check(client: Client, read: Read, api: Api, broken: Mapping[str, Check]) -> list[Check]:
    """At most one check; none if the CRD is `broken`, because there is a check for it already."""
    resource = api.resource
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
        return [Check(SUBJECT, "problem", f"{message}: {api.means}", "Find the grove-admission that knows it.")]
    return [Check(SUBJECT, api.absent, f"{resource} is not installed: {api.means}", api.remedy)]


async def _other_versions(read: Read, resource: Resource) -> list[str]:
    """The unknown versions in which the cluster serves `resource`."""
    try:
        group = await read(f"/apis/{resource.group}")
    except NotFound:
        return []
    served = []
    for version in (str(item.get("version", "")) for item in group.get("versions") or []):
        listed = await read(f"/apis/{resource.group}/{version}")
        if any(item.get("name") == resource.plural for item in listed.get("resources") or []):
            served.append(version)
    return served

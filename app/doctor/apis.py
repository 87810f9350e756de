"""Check the APIs that the server uses, their CRDs, and the releases of Grove, KAI and others.

A release is recognised by its CRDs and their fields, because CRDs do not carry the version of their
product. The checks report whether the release was tested with this version of grove-admission.
`manifests/guide/versions.md` lists the tests, and the combinations that do not work.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from app.base.value import Value
from app.doctor.report import Check, Checks, Status, join_findings, ok, problem, warning
from app.facts import kinds
from app.kube.api import Client, NotFound, Object, Selection, every
from app.kube.discovery import unknown_version
from app.objects.conditions import condition_of
from app.objects.resource import CRD, Resource
from app.objects.shape import JsonMap, map_at, maps_at, text_at, texts_at

_OLDEST = (1, 30)
_NUMBER = re.compile(r"[0-9]{1,9}")
Read = Callable[[str], Awaitable[Object]]
"""A function that returns the JSON at a path of the API server, or raises ClusterError."""


class Api(Value):
    """A resource that the server uses, and the result of its check if the cluster lacks it."""

    resource: Resource
    """The resource, with the versions that are known."""
    absent: Status
    """The status of the check if the cluster does not serve the resource."""
    means: str
    """The consequence if the cluster does not serve the resource, as a clause for the message."""
    remedy: str
    """The remedy if the cluster does not serve the resource, or "" if none is needed."""


_GROVE = "Install Grove if this cluster needs it."
_KAI = "Install the KAI Scheduler if this cluster needs it."
_BINDINGS = f"Apply the CRD {kinds.CLUSTER_TOPOLOGY_BINDING} of your release of Grove."
_MNNVL = "PodCliques that request MNNVL are rejected"
_NEWER = (
    "Test your workloads with grove-admission check, and install a release of grove-admission that"
    " supports this version."
)

APIS = (
    Api(
        kinds.CLUSTER_TOPOLOGY,
        "problem",
        "topology constraints cannot be checked",
        "Run: kubectl apply -k manifests/prerequisites",
    ),
    Api(kinds.POD_CLIQUE_SET, "warning", "there are no PodCliqueSets to check", _GROVE),
    Api(kinds.POD_CLIQUE, "warning", "there are no PodCliques to inject claims into", _GROVE),
    Api(kinds.POD_CLIQUE_SCALING_GROUP, "warning", "there are no scaling groups", _GROVE),
    Api(kinds.POD_GANG, "warning", "there are no PodGangs to write constraints into", _GROVE),
    Api(
        kinds.POD_GROUP,
        "warning",
        "SubGroup names are not checked, and Workloads are not mapped",
        _KAI,
    ),
    Api(kinds.KAI_TOPOLOGY, "warning", "the scheduler does not know the levels", _KAI),
    Api(
        kinds.COMPUTE_DOMAIN,
        "warning",
        _MNNVL,
        "Install NVIDIA's DRA driver if this cluster needs it.",
    ),
    Api(
        kinds.RESOURCE_CLAIM,
        "warning",
        _MNNVL,
        "Upgrade the cluster to Kubernetes 1.34 or later, or enable the API resource.k8s.io (beta"
        " since 1.32).",
    ),
    Api(kinds.WORKLOAD, "ok", "there are no Workloads to map", ""),
)


async def check_apis(client: Client, read: Read) -> Checks:
    """Check the version of Kubernetes, each API that we use, and the CRDs of the same API groups.

    Raise ClusterError if a request fails.
    """
    crds = await every(client, Selection(CRD))
    broken = check_definitions(crds, {api.resource.group for api in APIS})
    topologies, *others = APIS
    if any(release.has_bindings for release in recognised(crds)):
        topologies = replace(topologies, remedy=_BINDINGS)
    apis = (topologies, *others)
    checks = [await _check(client, read, api, broken) for api in apis]
    return [*await _check_version(read), *join_findings(filter(None, checks)), *broken.values()]


async def _check_version(read: Read) -> Checks:
    """Check that the API server is new enough. Return [] if its version is not known.

    matchConditions of webhooks and ValidatingAdmissionPolicies are stable since Kubernetes 1.30.
    """
    try:
        version = await read("/version")
    except NotFound:
        return []

    number = version_number(version)
    if number < (1,):
        return []

    shown = text_at(version, "gitVersion") or ".".join(map(str, number))
    if number >= _OLDEST:
        return [ok(f"Kubernetes {shown}")]

    message = (
        f"Kubernetes {shown} is too old: matchConditions of webhooks and"
        " ValidatingAdmissionPolicies are not stable there"
    )
    needed = ".".join(map(str, _OLDEST))

    return [problem(message, f"Upgrade the cluster to Kubernetes {needed} or later.")]


def version_number(version: JsonMap) -> tuple[int, ...]:
    """Return (major, minor) of an answer to /version. A number that cannot be read is 0."""
    parts = [_NUMBER.match(text_at(version, part)) for part in ("major", "minor")]
    return tuple(int(part[0]) if part else 0 for part in parts)


async def _check(client: Client, read: Read, api: Api, broken: Mapping[str, Check]) -> Check | None:
    """Check that the cluster serves an API in a version that we know.

    Return None if it is not served and its CRD is in `broken`, because the check there reports it.
    """
    resource = api.resource
    version = client.served_version(resource)
    if version is not None and version not in resource.versions:
        return warning(f"{resource}: {unknown_version(resource, version)}", _NEWER)
    if version is not None:
        return ok(f"{resource}: {version}")
    if str(resource) in broken:
        return None

    bindings = client.served_version(kinds.CLUSTER_TOPOLOGY_BINDING)
    if resource is kinds.CLUSTER_TOPOLOGY and bindings is not None:
        return ok(f"{kinds.CLUSTER_TOPOLOGY_BINDING}: {bindings}, instead of {resource}")

    others = await _other_versions(read, resource)
    if others:
        message = (
            f"{resource} is served as {', '.join(others)}, but this release of grove-admission"
            f" supports {', '.join(resource.versions)}"
        )
        return problem(
            f"{message}: {api.means}",
            "Install a release of grove-admission that supports the served version.",
        )

    return Check(api.absent, f"{resource} is not installed: {api.means}", api.remedy)


async def _other_versions(read: Read, resource: Resource) -> list[str]:
    """Return the versions in which the cluster serves `resource`, or [] if there are none."""
    try:
        group = await read(f"/apis/{resource.group}")
    except NotFound:
        return []
    served = []
    for version in (text_at(item, "version") for item in maps_at(group, "versions")):
        listed = await read(f"/apis/{resource.group}/{version}")
        if any(item.get("name") == resource.plural for item in maps_at(listed, "resources")):
            served.append(version)
    return served


# CRDs.


def check_definitions(crds: Iterable[Object], groups: Collection[str]) -> dict[str, Check]:
    """Return the checks of the CRDs of `groups`, by the name of the CRD.

    A CRD that is not established is a problem. A CRD that is established without some names of its
    spec is a warning. Other CRDs have no check.
    """
    in_groups = [crd for crd in crds if _group(crd) in groups]
    checks = {crd["metadata"]["name"]: _check_crd(crd, in_groups) for crd in in_groups}
    return {name: check for name, check in checks.items() if check}


def _check_crd(crd: Object, others: Iterable[Object]) -> Check | None:
    """Return the check of a CRD, or None if it is established with all names of its spec.

    Return None also if it has no conditions yet.
    """
    name = crd["metadata"]["name"]
    conditions = maps_at(crd, "status", "conditions")
    if not conditions:
        return None

    served = condition_of(crd, "Established").get("status") == "True"
    accepted = condition_of(crd, "NamesAccepted")
    if accepted.get("status") == "False":
        taken_by = _conflicts(crd, others)
        by = f" by {', '.join(taken_by)}" if taken_by else ""
        state = (
            "is served without some of its names"
            if served
            else "is not established, and its API is not served"
        )
        message = f"CRD {name} {state}: {accepted.get('message')}{by} ({accepted.get('reason')})"
        if served:
            accepted_names = f"kubectl get crd {name} -o jsonpath='{{.status.acceptedNames}}'"
            return warning(
                message,
                f"Use the names that are accepted: {accepted_names}. Do not delete the CRD, because"
                " that deletes its objects.",
            )
        return problem(message, _remedy(name, taken_by, accepted))

    if served:
        return None

    reasons = "; ".join(
        f"{item.get('type')}={item.get('status')}: {item.get('message')}" for item in conditions
    )
    message = f"CRD {name} is not established, and its API is not served: {reasons}"
    return problem(message, f"Run: kubectl describe crd {name}")


def _group(crd: Object) -> str:
    return text_at(map_at(crd, "spec"), "group")


def _conflicts(crd: Object, others: Iterable[Object]) -> list[str]:
    """Return the other CRDs of the group that hold a name which the spec of `crd` requests."""
    requested = set(_names(crd, "spec", "names"))
    return [
        other["metadata"]["name"]
        for other in others
        if _group(other) == _group(crd)
        and other["metadata"]["name"] != crd["metadata"]["name"]
        and requested & set(_names(other, "status", "acceptedNames"))
    ]


def _names(crd: Object, *path: str) -> Iterator[str]:
    names = map_at(crd, *path)
    fields = ("plural", "singular", "kind", "listKind")
    yield from filter(None, (text_at(names, field) for field in fields))
    yield from texts_at(names, "shortNames")


def _remedy(name: str, taken_by: Sequence[str], accepted: JsonMap) -> str:
    """Return the remedy for a CRD that is not served, because its names were not all accepted.

    If another CRD gives up a name, the API server examines CRDs with rejected names again. If the
    CRD itself gives up the name, it is not examined again and must be recreated.
    """
    if accepted.get("reason") != "ShortNamesConflict":
        others = " or ".join(taken_by) or "the other CRD with these names"
        return f"Delete the CRD that nothing uses: kubectl delete crd {name}, or delete {others}."

    delete = f"kubectl delete crd {name} (it was never served, so it has no objects)"
    if name == str(kinds.CLUSTER_TOPOLOGY):
        return (
            f"Create the CRD again without short names: {delete}; kubectl apply -k"
            " manifests/prerequisites."
        )

    if not taken_by:
        return f"Create the CRD again: {delete}; then apply the CRD."

    patch = '[{"op": "remove", "path": "/spec/names/shortNames"}]'

    return (
        f"Remove the short names of the other CRD: kubectl patch crd {taken_by[0]} --type=json -p"
        f" '{patch}'"
    )


# Releases.


class Release(Value):
    """A range of releases of a neighbour, which is recognised by a CRD and a field of its spec."""

    neighbour: str
    """The name of the product, such as Grove."""
    title: str
    """What tells the range from others, such as "with minSubGroup", or "" for the only range."""
    tried: str
    """The commit or version that was tested with this version, or "" for none."""
    crd: str
    """The name of a CRD that these releases have."""
    field: str = ""
    """A field of the objects' spec in this CRD that older releases lack, or ""."""
    has_bindings: bool = False
    """Whether these releases of Grove have ClusterTopologyBindings."""


RELEASES = (
    Release(
        "Grove",
        "with PodGangMaps, about 0.1.0-alpha.13",
        "616762f7",
        "podgangmaps.grove.io",
        has_bindings=True,
    ),
    Release(
        "Grove",
        "with ClusterTopologyBindings, from about August 2026",
        "fcc3b3bb",
        "clustertopologybindings.grove.io",
        has_bindings=True,
    ),
    Release(
        "Grove",
        "from about August 2026, without its CRD clustertopologybindings.grove.io",
        "",
        "podcliquesets.grove.io",
        "updateStrategy",
        has_bindings=True,
    ),
    Release("Grove", "from about January 2026", "a5b8e0dc", "podcliquesets.grove.io"),
    Release("KAI", "with minSubGroup", "d5bc503a", "podgroups.scheduling.run.ai", "minSubGroup"),
    Release("KAI", "without minSubGroup", "", "podgroups.scheduling.run.ai"),
    Release(
        "NVIDIA's DRA driver",
        "with ComputeDomainCliques",
        "",
        "computedomaincliques.resource.nvidia.com",
    ),
    Release(
        "NVIDIA's DRA driver",
        "without ComputeDomainCliques",
        "0.4",
        "computedomains.resource.nvidia.com",
    ),
    Release("Dynamo", "", "", "dynamographdeployments.nvidia.com"),
)
"""The releases of each neighbour, newest first.

The first range of a neighbour whose CRD and field exist is taken as installed.
"""


async def check_releases(client: Client) -> Checks:
    """Return one check for each installed neighbour, which names its release and is `ok`.

    Raise ClusterError if a request fails.
    """
    crds = await every(client, Selection(CRD))
    return [ok(_text(release)) for release in recognised(crds)]


def recognised(crds: Iterable[JsonMap]) -> Iterator[Release]:
    """Yield the release of each installed neighbour, in the order of RELEASES."""
    stored = {crd["metadata"]["name"]: crd for crd in crds}
    known: set[str] = set()
    for release in RELEASES:
        if release.neighbour in known or release.crd not in stored:
            continue
        if release.field and release.field not in _fields(stored[release.crd]):
            continue
        known.add(release.neighbour)
        yield release


def _fields(crd: JsonMap) -> set[str]:
    """Return the names of the fields of `spec` in all versions of a CRD."""
    path = ("schema", "openAPIV3Schema", "properties", "spec", "properties")
    versions = maps_at(crd, "spec", "versions")
    return {name for version in versions for name in map_at(version, *path)}


def _text(release: Release) -> str:
    name = f"{release.neighbour} {release.title}".rstrip()
    if release.tried:
        return f"{name}: tested with {release.tried}"
    return f"{name}: not tested with this version"

"""The releases of the neighbours that are installed.

They are known by what their CRDs have. The checks say whether they were tried with this version.

CRDs carry no version of their product. `manifests/guide/upgrade.md` has what was tried, and the
pairs that are known not to work with the check that finds each.
"""

from collections.abc import Iterable, Iterator

from app.base.value import Value
from app.doctor.report import Checks, ok
from app.kube.api import Client, Selection, every
from app.objects.resource import CRD
from app.objects.shape import JsonMap, map_at, maps_at


class Release(Value):
    """A range of releases of a neighbour, which is recognised by a CRD and a field of its spec.

    `tried` is the commit that this version was tried with, "" if none was. With `has_bindings`,
    topologies are ClusterTopologyBindings.
    """

    neighbour: str
    title: str
    tried: str
    crd: str
    field: str = ""
    has_bindings: bool = False


RELEASES = (
    Release(
        "Grove",
        "with PodGangMaps, 0.1.0-alpha.13 or near",
        "616762f7",
        "podgangmaps.grove.io",
        has_bindings=True,
    ),
    Release(
        "Grove",
        "with ClusterTopologyBindings, of August 2026 or near",
        "fcc3b3bb",
        "clustertopologybindings.grove.io",
    ),
    Release(
        "Grove",
        "of August 2026 or near, without its CRD clustertopologybindings.grove.io",
        "",
        "podcliquesets.grove.io",
        "updateStrategy",
        has_bindings=True,
    ),
    Release("Grove", "of January 2026 or near", "a5b8e0dc", "podcliquesets.grove.io"),
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
"""Of each neighbour the latest first: the first one whose CRD and field are there is installed."""


async def check_releases(client: Client) -> Checks:
    """Return a line for each neighbour that is installed. Raise ClusterError."""
    crds = await every(client, Selection(CRD))
    return [ok(_text(release)) for release in recognised(crds)]


def recognised(crds: Iterable[JsonMap]) -> Iterator[Release]:
    """Yield the release of each neighbour that is installed, in the order of RELEASES."""
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
    """Return the names of the fields of the spec, in all versions."""
    path = ("schema", "openAPIV3Schema", "properties", "spec", "properties")
    versions = maps_at(crd, "spec", "versions")
    return {name for version in versions for name in map_at(version, *path)}


def _text(release: Release) -> str:
    name = f"{release.neighbour} {release.title}".rstrip()
    if release.tried:
        return f"{name}: tried at {release.tried}"
    return f"{name}: not tried with this version"

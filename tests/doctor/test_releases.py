"""Which releases are recognised by their CRDs."""

from typing import Any

import pytest

from app.doctor.apis import RELEASES, check_releases
from app.doctor.report import Check
from tests.doctor.answering import AnsweringClient

SETS = "podcliquesets.grove.io"
BINDINGS = "clustertopologybindings.grove.io"
MAPS = "podgangmaps.grove.io"
GROUPS = "podgroups.scheduling.run.ai"


def crd(name: str, *fields: str) -> dict[str, Any]:
    plural, _, group = name.partition(".")
    spec: Any = {"properties": {"spec": {"properties": {field: {} for field in fields}}}}
    versions = [{"name": "v1", "schema": {"openAPIV3Schema": spec}}]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {"group": group, "names": {"plural": plural, "kind": plural}, "versions": versions},
    }


@pytest.mark.parametrize(
    ("crds", "expected"),
    [
        ([], []),
        ([crd(SETS)], ["Grove from about January 2026: tested with a5b8e0dc"]),
        (
            [crd(SETS, "replicas", "updateStrategy")],
            [
                "Grove from about August 2026, without its CRD clustertopologybindings.grove.io: not tested with this version"
            ],
        ),
        (
            [crd(SETS, "updateStrategy"), crd(BINDINGS)],
            [
                "Grove with ClusterTopologyBindings, from about August 2026: tested with fcc3b3bb",
            ],
        ),
        (
            [crd(SETS), crd(BINDINGS), crd(MAPS)],
            ["Grove with PodGangMaps, about 0.1.0-alpha.13: tested with 616762f7"],
        ),
        ([crd(GROUPS, "minSubGroup")], ["KAI with minSubGroup: tested with d5bc503a"]),
        ([crd(GROUPS, "minMember")], ["KAI without minSubGroup: not tested with this version"]),
        (
            [crd("computedomains.resource.nvidia.com")],
            ["NVIDIA's DRA driver without ComputeDomainCliques: tested with 0.4"],
        ),
        (
            [crd("dynamographdeployments.nvidia.com"), crd(GROUPS, "minSubGroup")],
            ["KAI with minSubGroup: tested with d5bc503a", "Dynamo: not tested with this version"],
        ),
    ],
)
async def test_a_release_is_recognised(crds: list[Any], expected: list[str]) -> None:
    checks = await check_releases(AnsweringClient(crds))
    assert checks == [Check("ok", text) for text in expected]


def test_the_latest_release_of_a_neighbour_comes_first() -> None:
    """A later release has the CRDs of the former ones too."""
    for position, release in enumerate(RELEASES):
        former = [other for other in RELEASES[:position] if other.crd == release.crd]
        assert all(other.field for other in former)

"""What is said of the APIs of a cluster."""

import pytest

from app.doctor.apis import APIS, Api, check_apis
from app.doctor.report import Check
from app.facts.kinds import CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING, COMPUTE_DOMAIN, WORKLOAD
from app.kube.api import NotFound, Object
from app.objects.resource import CRD
from tests.doctor.test_releases import crd
from tests.kube.memory.client import MemoryClient

GROUPS: dict[str, Object] = {
    "/apis/resource.nvidia.com": {"versions": [{"version": "v1beta9"}, {"version": "v2"}]},
    "/apis/resource.nvidia.com/v1beta9": {"resources": [{"name": "computedomains"}]},
    "/apis/resource.nvidia.com/v2": {"resources": [{"name": "others"}]},
    "/apis/scheduling.k8s.io": {"versions": [{"version": "v1"}]},
    "/apis/scheduling.k8s.io/v1": {"resources": [{"name": "priorityclasses"}]},
}


async def read(path: str) -> Object:
    try:
        return GROUPS[path]
    except KeyError:
        raise NotFound("404 page not found", code=404) from None


async def test_all_there() -> None:
    checks = await check_apis(MemoryClient(), read)
    assert {check.status for check in checks} == {"ok"}
    assert [check.message for check in checks][:2] == [
        "clustertopologies.grove.io: v1beta1",
        "podcliquesets.grove.io: v1beta1",
    ]


async def test_the_topology_api_that_grove_has_is_enough() -> None:
    client = MemoryClient(served={CRD: "v1", CLUSTER_TOPOLOGY_BINDING: "v1alpha1"})
    message = "clustertopologybindings.grove.io: v1alpha1, instead of clustertopologies.grove.io"
    checks = await check_apis(client, read)
    assert Check("ok", message) in checks
    grove = [check for check in checks if "Install Grove" in check.remedy]
    assert [check.message.count(" is not installed: ") for check in grove] == [4]


async def test_a_grove_that_lacks_its_crd_of_topologies_gets_that_one() -> None:
    """And not that of its former releases, which this Grove does not read."""
    client = MemoryClient([crd("podcliquesets.grove.io", "updateStrategy")])
    client.served.pop(CLUSTER_TOPOLOGY)
    client.served.pop(CLUSTER_TOPOLOGY_BINDING, None)
    assert (await check_apis(client, read))[0] == Check(
        "problem",
        "clustertopologies.grove.io is not installed: topology constraints cannot be checked",
        "Apply the CRD clustertopologybindings.grove.io of your release of Grove.",
    )


async def test_what_is_missing_says_what_then_does_not_work() -> None:
    client = MemoryClient()
    for resource in (CLUSTER_TOPOLOGY, COMPUTE_DOMAIN, WORKLOAD):
        client.served.pop(resource)
    checks = {check.message.partition(" ")[0]: check for check in await check_apis(client, read)}
    missing, unknown, optional = (
        checks[str(resource)] for resource in (CLUSTER_TOPOLOGY, COMPUTE_DOMAIN, WORKLOAD)
    )
    assert (missing.status, missing.message, missing.remedy) == (
        "problem",
        "clustertopologies.grove.io is not installed: topology constraints cannot be checked",
        "Run: kubectl apply -k manifests/prerequisites",
    )
    assert (unknown.status, unknown.message) == (
        "problem",
        "computedomains.resource.nvidia.com is served as v1beta9, but this release of grove-admission supports v1beta1: PodCliques that request MNNVL are rejected",
    )
    assert (optional.status, optional.message) == (
        "ok",
        "workloads.scheduling.k8s.io is not installed: there are no Workloads to map",
    )


@pytest.mark.parametrize("api", APIS, ids=lambda api: str(api.resource))
async def test_an_api_in_a_version_that_is_not_known_is_judged_and_said(api: Api) -> None:
    client = MemoryClient()
    client.served[api.resource] = "v9"
    checks = [check for check in await check_apis(client, read) if check.status != "ok"]
    message = (
        f"{api.resource}: v9, which this version of grove-admission does not know, so its objects are"
        f" judged as {api.resource.newest}"
    )
    assert [(check.status, check.message) for check in checks] == [("warning", message)]
    assert "grove-admission check" in checks[0].remedy


async def test_without_any_neighbour_everything_says_why_it_matters() -> None:
    checks = await check_apis(MemoryClient(served={CRD: "v1"}), read)
    said = "; ".join(check.message for check in checks).split("; ")
    assert len(said) == len(APIS)
    assert all(any(text.endswith(f": {api.means}") for text in said) for api in APIS)
    assert len({(check.status, check.remedy) for check in checks}) == len(checks)
    assert all(check.remedy for check in checks if check.status != "ok")


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param(
            {"major": "1", "minor": "29+", "gitVersion": "v1.29.3-gke.1"},
            [
                Check(
                    "problem",
                    "Kubernetes v1.29.3-gke.1 is too old: matchConditions of webhooks and ValidatingAdmissionPolicies are not stable there",
                    "Upgrade the cluster to Kubernetes 1.30 or later.",
                )
            ],
            id="too old",
        ),
        pytest.param(
            {"major": "1", "minor": "30"},
            [Check("ok", "Kubernetes 1.30")],
            id="just new enough",
        ),
        pytest.param({"major": "", "minor": ""}, [], id="no numbers"),
        pytest.param({}, [], id="nothing"),
    ],
)
async def test_the_version_of_kubernetes(version: Object, expected: list[Check]) -> None:
    async def read_version(path: str) -> Object:
        return version if path == "/version" else await read(path)

    checks = await check_apis(MemoryClient(), read_version)
    assert [check for check in checks if check.message.startswith("Kubernetes")] == expected

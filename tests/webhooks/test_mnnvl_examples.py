"""The three examples of the MNNVL design, whole: PodCliques after injection, and the objects made
for them.

Unlike in the design's text, a ComputeDomain is v1beta1 and has a channel, a ResourceClaim has the
shape of the served version, and both carry the PodGang and the manager, and belong to the
PodCliqueSet until they are adopted.
"""

from typing import Any

import pytest
from jsonpatch import apply_patch

from app.facts.kinds import COMPUTE_DOMAIN, RESOURCE_CLAIM
from tests.reviews import Caller, cluster, load, patch_of

REPLICA = "distributed-training"
CLIQUE = "multi-model-serving"
GROUP = "scalable-inference"


def owner(pcs: str) -> dict[str, Any]:
    uids = {
        REPLICA: "d5e85f1a-c7db-4044-80b9-c24868a97def",
        CLIQUE: "1379c2e5-cf8f-4dd7-8971-a12ed84f1d94",
        GROUP: "95a7ce26-7125-4018-804f-438144974127",
    }
    return {
        "apiVersion": "grove.io/v1beta1",
        "kind": "PodCliqueSet",
        "name": pcs,
        "uid": uids[pcs],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def made(pcs: str, base: str, labels: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The ComputeDomain and the ResourceClaim (v1) called `<base>-…`, without what the API server
    fills in.
    """
    all_labels = {
        "grove.io/pcs-name": pcs,
        **labels,
        "grove.io/mnnvl-managed": "true",
        "app.kubernetes.io/managed-by": "grove-admission",
    }
    metadata = {"namespace": "default", "labels": all_labels, "ownerReferences": [owner(pcs)]}
    domain = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {"name": f"{base}-cd", **metadata},
        "spec": {
            "numNodes": 0,
            "channel": {"resourceClaimTemplate": {"name": f"{base}-mnnvl-template"}},
        },
    }
    expression = f'device.attributes["compute-domain.nvidia.com"].name == "{base}-cd"'
    request = {
        "name": "mnnvl",
        "exactly": {
            "deviceClassName": "compute-domain.nvidia.com",
            "selectors": [{"cel": {"expression": expression}}],
        },
    }
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": f"{base}-mnnvl-claim", **metadata},
        "spec": {"devices": {"requests": [request]}},
    }
    return domain, claim


def replica(index: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return made(REPLICA, f"{REPLICA}-{index}", {"grove.io/pcs-replica-index": index})


def clique(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    labels = {"grove.io/pcs-replica-index": "0", "grove.io/clique-name": name}
    return made(CLIQUE, f"{CLIQUE}-0-{name}", labels)


def group(index: str) -> tuple[dict[str, Any], dict[str, Any]]:
    base = f"{GROUP}-0-inference-pool-{index}"
    labels = {
        "grove.io/pcs-replica-index": "0",
        "grove.io/pcsg-name": "inference-pool",
        "grove.io/pcsg-replica-index": index,
    }
    return made(GROUP, base, labels)


EXAMPLES = [
    pytest.param(
        [
            f"replica-scope-{index}-{name}"
            for index in "01"
            for name in ("worker", "parameter-server")
        ],
        [replica("0"), replica("1")],
        id="replica scope: one domain for the cliques of each replica",
    ),
    pytest.param(
        ["clique-scope-llama-70b", "clique-scope-mixtral", "clique-scope-router"],
        [clique("llama-70b"), clique("mixtral")],
        id="clique scope: one domain per annotated clique",
    ),
    pytest.param(
        [f"scaling-group-scope-{index}" for index in "012"],
        [group("0"), group("1"), group("2")],
        id="scaling group scope: one domain per replica of the group",
    ),
]


@pytest.mark.parametrize(("cases", "resources"), EXAMPLES)
@pytest.mark.statement(
    "2.17",
    "2.18",
    "2.20",
    "2.21",
    "2.22",
    "2.24",
    "2.25",
    "2.26",
    "2.27",
    "2.29",
    "2.30",
    "2.32",
    "2.33",
    "2.34",
    "2.36",
    "2.37",
    "2.38",
    "2.39",
    "2.41",
    "2.42",
    "2.44",
    "2.45",
    "2.46",
    "2.48",
    "2.49",
    "2.50",
    "2.51",
)
async def test_an_example_makes_the_designs_resources(
    cases: list[str], resources: list[tuple[dict[str, Any], dict[str, Any]]]
) -> None:
    caller = Caller()
    for case in cases:
        assert (await caller.ask("/mutate/podclique", load(f"podclique.{case}")))["allowed"]
    domains = [stored(obj) for obj in caller.cluster.client.objects(COMPUTE_DOMAIN)]
    claims = [stored(obj) for obj in caller.cluster.client.objects(RESOURCE_CLAIM)]
    assert domains == [domain for domain, _ in resources]
    assert claims == [claim for _, claim in resources]


@pytest.mark.parametrize("index", ["0", "1"])
@pytest.mark.parametrize("name", ["worker", "parameter-server"])
@pytest.mark.statement("2.10", "2.52")
async def test_cliques_of_a_replica_share_its_claim(index: str, name: str) -> None:
    before, after = await injected(f"replica-scope-{index}-{name}")
    assert after == with_claim(before, f"{REPLICA}-{index}-mnnvl-claim")


@pytest.mark.parametrize("name", ["llama-70b", "mixtral"])
@pytest.mark.statement("2.11", "2.54")
async def test_a_clique_of_its_own_has_its_own_claim(name: str) -> None:
    before, after = await injected(f"clique-scope-{name}")
    assert after == with_claim(before, f"{CLIQUE}-0-{name}-mnnvl-claim")


@pytest.mark.statement("2.53")
async def test_a_clique_without_the_annotation_stays_as_it_is() -> None:
    before, after = await injected("clique-scope-router")
    assert after == before


@pytest.mark.parametrize("index", ["0", "1", "2"])
@pytest.mark.statement("2.12")
async def test_each_replica_of_a_scaling_group_has_its_own_claim(index: str) -> None:
    before, after = await injected(f"scaling-group-scope-{index}")
    assert after == with_claim(before, f"{GROUP}-0-inference-pool-{index}-mnnvl-claim")


@pytest.mark.parametrize(
    ("version", "nested"),
    [
        pytest.param("v1", True, id="v1 nests the request in exactly"),
        pytest.param("v1beta2", True, id="v1beta2 nests it too"),
        pytest.param("v1beta1", False, id="v1beta1 has its fields on the request"),
    ],
)
@pytest.mark.statement("2.8", "2.23", "2.24", "2.35", "2.36", "2.47", "2.48", "2.66")
async def test_a_claim_has_the_shape_of_the_served_version(version: str, nested: bool) -> None:
    offline = cluster()
    offline.client.served[RESOURCE_CLAIM] = version
    await Caller(offline).ask("/mutate/podclique", load("podclique.replica-scope-0-worker"))
    (claim,) = offline.client.objects(RESOURCE_CLAIM)
    fields = dict(replica("0")[1]["spec"]["devices"]["requests"][0])
    request = fields if nested else {"name": "mnnvl", **fields["exactly"]}
    assert claim["apiVersion"] == f"resource.k8s.io/{version}"
    assert claim["spec"] == {"devices": {"requests": [request]}}


@pytest.mark.statement("2.7")
async def test_the_annotation_chooses_the_device_class() -> None:
    review = load("podclique.custom-device-class")
    review["request"]["dryRun"] = False
    annotations = review["request"]["object"]["metadata"]["annotations"]
    pcs = load("podcliqueset.mnnvl-replica-scope")["request"]["object"]
    pcs["metadata"]["annotations"] = annotations
    pcs["spec"]["replicas"] = 7
    caller = Caller(cluster(pcs))
    await caller.ask("/mutate/podclique", review)
    (claim,) = caller.cluster.client.objects(RESOURCE_CLAIM)
    device_class = annotations["grove.io/mnnvl-device-class"]
    assert claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == device_class


async def injected(case: str) -> tuple[dict[str, Any], dict[str, Any]]:
    review = load(f"podclique.{case}")
    obj = review["request"]["object"]
    return obj, apply_patch(obj, patch_of(await Caller().ask("/mutate/podclique", review)))


def with_claim(before: dict[str, Any], claim: str) -> dict[str, Any]:
    """The PodClique as the design shows it: the claim, and its use in the one container, which asks
    for GPUs.
    """
    spec = before["spec"]
    (container,) = before["spec"]["podSpec"]["containers"]
    resources = {**container["resources"], "claims": [{"name": "mnnvl"}]}
    pod_spec = {
        **spec["podSpec"],
        "resourceClaims": [{"name": "mnnvl", "resourceClaimName": claim}],
        "containers": [{**container, "resources": resources}],
    }
    return {**before, "spec": {**spec, "podSpec": pod_spec}}


def stored(obj: dict[str, Any]) -> dict[str, Any]:
    """`obj` without what an API server fills in."""
    filled_in = ("uid", "resourceVersion", "creationTimestamp", "generation")
    metadata = {name: value for name, value in obj["metadata"].items() if name not in filled_in}
    return {**obj, "metadata": metadata}

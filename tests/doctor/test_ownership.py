"""Who owns MNNVL resources, and whether this release of Grove will delete them."""

from typing import Any

import pytest

from app.config.schema import Configuration, Mnnvl
from app.doctor.claims import check_owners
from app.facts.kinds import CLUSTER_TOPOLOGY_BINDING, POD_CLIQUE_SET, POD_GANG, POD_GANG_MAP
from tests import builders
from tests.kube.memory.client import EVERYTHING, MemoryClient

Object = dict[str, Any]
BY_SET = POD_CLIQUE_SET.owner_reference("train", "s")
BY_GANG = POD_GANG.owner_reference("train-0", "g")
UNSAFE = (
    "warning",
    'mnnvl.owner is "PodGang", but the dialect of Grove is "epochs": when Grove replaces the PodGangs of running workloads, their ComputeDomains and claims are deleted while pods use them',
)
STILL = (
    "problem",
    "PodGangs still own MNNVL resources, which Kubernetes deletes if Grove replaces these PodGangs: ComputeDomain ml/train-0-cd, ResourceClaim ml/train-0-mnnvl-claim",
)


def owned(*owners: Object) -> list[Object]:
    labels = {**builders.labels("train", 0, "train-0"), "grove.io/mnnvl-managed": "true"}
    kinds = (
        ("resource.nvidia.com/v1beta1", "ComputeDomain", "train-0-cd"),
        ("resource.k8s.io/v1", "ResourceClaim", "train-0-mnnvl-claim"),
    )
    return [
        {
            "apiVersion": version,
            "kind": kind,
            "metadata": {
                "name": name,
                "namespace": "ml",
                "labels": labels,
                "ownerReferences": list(owners),
            },
        }
        for version, kind, name in kinds
    ]


def fine(kind: str) -> tuple[str, str]:
    return "ok", f"{kind}s own the ComputeDomains and claims for MNNVL"


@pytest.mark.parametrize(
    ("owner", "later", "objects", "messages"),
    [
        pytest.param("auto", True, owned(BY_SET), [fine("PodCliqueSet")], id="a later Grove"),
        pytest.param("auto", True, owned(BY_GANG), [STILL], id="a later Grove, not yet given back"),
        pytest.param("auto", False, owned(BY_GANG), [fine("PodGang")], id="the designs"),
        pytest.param(
            "PodGang", True, owned(BY_GANG), [UNSAFE], id="a choice that Grove will break"
        ),
        pytest.param(
            "PodGang", False, owned(BY_SET), [fine("PodGang")], id="the same in the designs"
        ),
        pytest.param("PodCliqueSet", False, owned(BY_GANG), [STILL], id="the safe choice, early"),
        pytest.param("auto", True, owned(), [fine("PodCliqueSet")], id="no owner is an audit's"),
    ],
)
async def test_who_owns_what(
    owner: Any, later: bool, objects: list[Object], messages: list[tuple[str, str]]
) -> None:
    signs = (CLUSTER_TOPOLOGY_BINDING, POD_GANG_MAP) if later else ()
    client = MemoryClient(objects, served={**EVERYTHING, **dict.fromkeys(signs, "v1alpha1")})
    configuration = Configuration().model_copy(update={"mnnvl": Mnnvl(owner=owner)})
    checks = await check_owners(client, configuration)
    assert [(check.status, check.message) for check in checks] == messages

"""Claims that pods of a PodCliqueSet share, and with which Grove or KAI can't do anything."""

from typing import Any

import pytest

from app.rules.sharing_warnings import sharing_warnings

LONG = "shared-gpu-pool-for-leaders-and-workers-of-all-replicas"
QUEUE = "KAI places pods that share a claim of GPUs only if the claim has the label"


def clique(name: str = "w", replicas: int = 2, **fields: Any) -> dict[str, Any]:
    pods = {"schedulerName": "kai-scheduler"}
    return {"name": name, "spec": {"replicas": replicas, "podSpec": pods}, **fields}


def shared(name: str = "pool", scope: str = "AllReplicas", **fields: Any) -> dict[str, Any]:
    return {"resourceSharing": [{"name": name, "scope": scope, **fields}]}


def group(*members: str, replicas: int = 3, **fields: Any) -> dict[str, Any]:
    return {"name": "g", "cliqueNames": list(members), "replicas": replicas, **fields}


def pcs(*cliques: Any, replicas: int = 2, **template: Any) -> dict[str, Any]:
    whole = {"cliques": list(cliques), **template}
    return {"metadata": {"name": "set"}, "spec": {"replicas": replicas, "template": whole}}


def claims(device_class: str, name: str = "pool") -> dict[str, Any]:
    request = {"name": "r", "exactly": {"deviceClassName": device_class}}
    spec = {"devices": {"requests": [request]}}
    return {"resourceClaimTemplates": [{"name": name, "templateSpec": {"spec": spec}}]}


GPUS = claims("gpu.nvidia.com")


@pytest.mark.parametrize(
    ("document", "claim"),
    [
        pytest.param(pcs(clique(), **shared()), "set-all-pool", id="of all replicas"),
        pytest.param(pcs(clique(), **shared(scope="PerReplica")), "set-1-pool", id="of a replica"),
        pytest.param(pcs(clique(**shared())), "set-1-w-all-pool", id="of a clique"),
        pytest.param(
            pcs(clique(replicas=7, **shared(scope="PerReplica"))), "set-1-w-6-pool", id="of a pod"
        ),
        pytest.param(
            pcs(clique(), podCliqueScalingGroups=[group("w", **shared())]),
            "set-1-g-all-pool",
            id="of a scaling group",
        ),
        pytest.param(
            pcs(clique(), podCliqueScalingGroups=[group("w", **shared(scope="PerReplica"))]),
            "set-1-g-2-pool",
            id="of a replica of a scaling group",
        ),
        pytest.param(
            pcs(clique(**shared()), podCliqueScalingGroups=[group("w")]),
            "set-1-g-2-w-all-pool",
            id="of a clique in a scaling group",
        ),
    ],
)
def test_the_longest_name_of_a_claim_is_the_one_that_grove_uses(
    document: dict[str, Any], claim: str
) -> None:
    document["spec"]["template"] |= GPUS
    [warning] = sharing_warnings(document)
    assert QUEUE in warning
    assert warning.endswith(f'such as "{claim}"')


@pytest.mark.parametrize(
    ("document", "said"),
    [
        pytest.param(pcs(clique()), "", id="nothing is shared"),
        pytest.param(
            pcs(clique(**shared("Pool"))),
            'spec.template.cliques[0].resourceSharing[0]: Grove names a claim "set-1-w-all-Pool",'
            " so it can't create the pods: the name must consist of lowercase",
            id="a name with capitals",
        ),
        pytest.param(
            pcs(clique(**shared("gpu.pool"))),
            'spec.template.cliques[0].resourceSharing[0]: Grove names a claim "set-1-w-all-gpu.pool"'
            ", so it can't create the pods: the name must consist of lowercase",
            id="a name with a dot",
        ),
        pytest.param(
            pcs(clique(**shared(LONG))),
            "spec.template.cliques[0].resourceSharing[0]: Grove names a claim"
            f' "set-1-w-all-{LONG}". Pods can use names of at most 63 characters, so Grove can\'t'
            " create the pods. Shorten the names by 4 characters",
            id="a long name",
        ),
        pytest.param(
            pcs(clique(**shared(LONG[3:]))),
            "spec.template.cliques[0].resourceSharing[0]: Grove names a claim"
            f' "set-1-w-all-{LONG[3:]}". Pods can use names of at most 63 characters, so Grove'
            " can't create the pods. Shorten the names by 1 character",
            id="a name that is one character too long",
        ),
        pytest.param(pcs(clique(**shared(LONG[4:]))), "", id="a name that just fits"),
        pytest.param(pcs(clique(**shared(""))), "", id="no name, which Grove rejects"),
        pytest.param(pcs(clique(replicas=256, **shared())), "", id="as many pods as possible"),
        pytest.param(
            pcs(clique(replicas=257, **shared())),
            "spec.template.cliques[0].resourceSharing[0]: 257 pods share a claim, but a claim can"
            " be reserved by at most 256: the other pods will stay pending. Share each claim among"
            " fewer pods",
            id="too many pods of a clique",
        ),
        pytest.param(
            pcs(clique(replicas=257, **shared(scope="PerReplica"))), "", id="a claim for each pod"
        ),
        pytest.param(
            pcs(clique(replicas=43), podCliqueScalingGroups=[group("w")], **shared()),
            "spec.template.resourceSharing[0]: 258 pods share a claim",
            id="too many pods of all replicas of the set and of a scaling group",
        ),
        pytest.param(
            pcs(
                clique(replicas=43),
                podCliqueScalingGroups=[group("w")],
                **shared(scope="PerReplica"),
            ),
            "",
            id="a claim for each replica of the set",
        ),
        pytest.param(
            pcs(
                clique(replicas=200),
                clique("x", 200),
                replicas=1,
                podCliqueScalingGroups=[group("w", replicas=1)],
                **shared(filter={"childCliqueNames": ["x"]}),
            ),
            "",
            id="only the pods of one clique",
        ),
        pytest.param(
            pcs(
                clique(replicas=200),
                clique("x", 200),
                replicas=1,
                podCliqueScalingGroups=[group("w", "none", replicas=1)],
                **shared(filter={"childCliqueNames": ["x"], "childScalingGroupNames": ["g", "h"]}),
            ),
            "spec.template.resourceSharing[0]: 400 pods share a claim",
            id="the pods of a clique and of a scaling group",
        ),
        pytest.param(pcs(clique(**shared()), **claims("rdma")), "", id="a claim without GPUs"),
        pytest.param(pcs(clique(**shared()), **claims("a-GPU", "x")), "", id="another template"),
        pytest.param(
            pcs(clique(**shared()), clique("x", spec={}), **GPUS), "", id="another scheduler"
        ),
    ],
)
def test_what_grove_and_kai_do_with_a_shared_claim(document: dict[str, Any], said: str) -> None:
    warnings = sharing_warnings(document)
    assert len(warnings) == bool(said)
    assert "".join(warnings).startswith(said)

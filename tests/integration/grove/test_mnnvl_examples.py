"""The three examples of the MNNVL design, applied to Grove's real operator beside our server, which
has no rights but those of the rendered account: the claims are in the Pods, and the PodGangs own
them, or since the release with ClusterTopologyBindings the PodCliqueSet.

Grove's operators copy only the annotations of a clique to its PodCliques. So the examples are tried
as the design has them, and with all annotations on the PodCliqueSet.
"""

from typing import Any

import pytest

from app.facts.kinds import POD_CLIQUE_SET
from app.kube.api import Object
from app.server.serve import Running
from tests.integration.grove.claims import claims_of_pods, owners
from tests.integration.grove.operator import GroveOperator
from tests.integration.system import Users, eventually

POOL = "scalable-inference-0-inference-pool"
CLAIMS: dict[str, dict[str, str]] = {
    "replica": {
        "distributed-training-0-worker": "distributed-training-0",
        "distributed-training-0-parameter-server": "distributed-training-0",
        "distributed-training-1-worker": "distributed-training-1",
        "distributed-training-1-parameter-server": "distributed-training-1",
    },
    "clique": {
        "multi-model-serving-0-llama-70b": "multi-model-serving-0-llama-70b",
        "multi-model-serving-0-mixtral": "multi-model-serving-0-mixtral",
        "multi-model-serving-0-router": "",
    },
    "scalingGroupReplica": {f"{POOL}-{index}-gpu-worker": f"{POOL}-{index}" for index in range(3)},
}
"""For each example the base name of the claim that the Pods of a PodClique have, "" if they have
none.
"""

PODS = {"replica": 12, "clique": 8, "scalingGroupReplica": 6}
OWNERS = {
    "replica": {
        "distributed-training-0": "distributed-training-0",
        "distributed-training-1": "distributed-training-1",
    },
    "clique": {
        "multi-model-serving-0-llama-70b": "multi-model-serving-0",
        "multi-model-serving-0-mixtral": "multi-model-serving-0",
    },
    "scalingGroupReplica": {
        f"{POOL}-0": "scalable-inference-0",
        f"{POOL}-1": f"{POOL}-0",
        f"{POOL}-2": f"{POOL}-1",
    },
}
"""The PodGang that owns the resources of a base name.

Grove counts the PodGangs of a scaling group from 0 above its minAvailable, and the base PodGang
holds what is below.
"""


def clique(name: str, replicas: int, gpus: int) -> Object:
    resources: Any = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    containers = [{"name": "main", "image": "registry.example/main:1", "resources": resources}]
    spec = {"roleName": name, "replicas": replicas, "podSpec": {"containers": containers}}
    return {"name": name, "spec": spec}


def example(scope: str) -> Object:
    """The PodCliqueSet without annotations. Today's Grove asks for a queue."""
    if scope == "replica":
        name = "distributed-training"
        replicas = 2
        template: Object = {"cliques": [clique("worker", 4, 8), clique("parameter-server", 2, 2)]}
    elif scope == "clique":
        name = "multi-model-serving"
        replicas = 1
        template = {
            "cliques": [clique("llama-70b", 4, 8), clique("mixtral", 2, 8), clique("router", 2, 0)]
        }
    else:
        name = "scalable-inference"
        replicas = 1
        group = {
            "name": "inference-pool",
            "cliqueNames": ["gpu-worker"],
            "replicas": 3,
            "minAvailable": 1,
        }
        template = {"cliques": [clique("gpu-worker", 2, 4)], "podCliqueScalingGroups": [group]}
    labels = {"kai.scheduler/queue": "tests"}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"replicas": replicas, "template": template},
    }


def annotated(pcs: Object, scope: str, place: str) -> Object:
    annotations = {"grove.io/mnnvl-enabled": "true", "grove.io/mnnvl-scope": scope}
    template = pcs["spec"]["template"]
    holders = {
        "the PodCliqueSet": [pcs["metadata"]],
        "its cliques": template["cliques"][:2],
        "its scaling group": template.get("podCliqueScalingGroups", []),
    }[place]
    for holder in holders:
        holder["annotations"] = annotations
    return pcs


@pytest.mark.parametrize(
    ("scope", "place"),
    [
        ("replica", "the PodCliqueSet"),
        ("clique", "its cliques"),
        ("clique", "the PodCliqueSet"),
        ("scalingGroupReplica", "its scaling group"),
        ("scalingGroupReplica", "the PodCliqueSet"),
    ],
)
async def test_an_example_of_the_design(
    operator: GroveOperator,
    served: Running,
    clients: Users,
    namespace: str,
    today: bool,
    scope: str,
    place: str,
) -> None:
    if place == "its scaling group" and not today:
        pytest.skip("the CRD of this release of Grove has no annotations of scaling groups")
    await clients.user.create(POD_CLIQUE_SET, annotated(example(scope), scope, place), namespace)
    expected = (PODS[scope], CLAIMS[scope])
    assert (
        await eventually(lambda: claims_of_pods(clients, namespace), lambda seen: seen == expected)
        == expected
    )
    owned = dict.fromkeys(OWNERS[scope], POD_CLIQUE_SET.kind) if today else OWNERS[scope]
    assert await eventually(lambda: owners(clients, namespace), lambda seen: seen == owned) == owned
    assert operator.is_running

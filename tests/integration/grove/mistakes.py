"""The objects of users who make the mistakes that Grove's operator (fcc3b3bb) does not catch."""

from collections.abc import Sequence
from typing import Any

from app.kube.api import Object

ZONE = "topology.kubernetes.io/zone"
RACK = "topology.kubernetes.io/rack"
HOST = "kubernetes.io/hostname"
QUEUE = {"kai.scheduler/queue": "tests"}
GROUP = "grove.io/mnnvl-group"
ENABLED = "grove.io/mnnvl-enabled"


def binding(name: str, *levels: tuple[str, str]) -> Object:
    """A ClusterTopologyBinding with the domain and the key of each level."""
    spec = {"levels": [{"domain": domain, "key": key} for domain, key in levels]}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": name},
        "spec": spec,
    }


def kai_topology(name: str) -> Object:
    """One that an administrator has made."""
    spec = {"levels": [{"nodeLabel": RACK}]}
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": spec,
    }


UNSTARTABLE = {
    "host first": binding("host-first", ("host", HOST), ("rack", RACK)),
    "17 levels": binding(
        "many", *((f"l{number}", f"example.com/l{number}") for number in range(17))
    ),
    "the name of a KAI Topology that it does not own": binding("taken", ("rack", RACK)),
}
"""Bindings beside which Grove's operator does not start any more."""

UNORDERED = {
    "rack before zone": binding("unordered", ("rack", RACK), ("zone", ZONE)),
    "a key on no node": binding("unlabelled", ("zone", "example.com/zone"), ("rack", RACK)),
}


def clique(
    name: str, *, gpus: int = 0, replicas: int = 1, claims: Sequence[Object] = (), **fields: Any
) -> Object:
    resources: Any = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    container = {"name": "main", "image": "registry.example/main:1", "resources": resources}
    pod_spec: Object = {"containers": [container], "restartPolicy": "Always"}
    if claims:
        pod_spec["resourceClaims"] = list(claims)
    return {
        "name": name,
        "spec": {"roleName": name, "replicas": replicas, "podSpec": pod_spec},
        **fields,
    }


def pcs(
    name: str,
    *cliques: Object,
    pack: Object | None = None,
    binding: str = "used",
    **annotations: str,
) -> Object:
    """A PodCliqueSet; `pack` is its constraint.

    In annotations, `_` stands for `-` and the prefix is omitted.
    """
    template: Object = {"cliques": list(cliques)}
    if pack is not None:
        template["topologyConstraint"] = {"topologyName": binding, "pack": pack}
    written = {f"grove.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    metadata = {"name": name, "labels": QUEUE, "annotations": written}
    spec = {"replicas": 1, "template": template}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": metadata,
        "spec": spec,
    }


def packed(**pack: str) -> Object:
    return {"topologyConstraint": {"pack": pack}}


LONG = pcs("long", clique("w", gpus=1), mnnvl_group="g" * 63)
FIRST = pcs("y-0", clique("w", gpus=1), mnnvl_group="x")
FIRST["spec"]["replicas"] = 2
SECOND = pcs("y", clique("w", gpus=1), clique("other", gpus=1), mnnvl_group="1-x")
"""The second replica of the first and the first replica of the second have a ComputeDomain of one
name: y-0-1-x.
"""

WITHOUT_GPUS = pcs("cpu", clique("w"), mnnvl_group="train")
UNREAD = pcs("unread", clique("w", gpus=1), mnnvl_enabled="yes", auto_mnnvl="enabled")
CLAIMED = pcs(
    "claimed",
    clique("w", gpus=1, claims=[{"name": "mnnvl-claim", "resourceClaimName": "mine"}]),
    mnnvl_group="train",
)
CONTRADICTING = {
    "a child that prefers what is broader than required above": pcs(
        "prefers", clique("w", **packed(preferred="zone")), pack={"required": "rack"}
    ),
    "a child that requires what is broader than preferred above": pcs(
        "requires", clique("w", **packed(required="zone")), pack={"preferred": "rack"}
    ),
}
TOO_LARGE = pcs("large", clique("w", gpus=8, replicas=3), pack={"required": "rack"})
"""A rack has two nodes with eight GPUs each."""

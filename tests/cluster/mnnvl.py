"""A PodCliqueSet with its PodGang, and their MNNVL resources."""

from typing import Any

from app.facts.grove.podgang import SlimPodGang, read_gang
from tests.builders import pod_spec

LABELS = {
    "grove.io/pcs-name": "pcs",
    "grove.io/pcs-replica-index": "0",
    "grove.io/podgang": "pcs-0",
}
MANAGED = {**LABELS, "grove.io/mnnvl-managed": "true"}
SET = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "PodCliqueSet",
    "metadata": {
        "name": "pcs",
        "namespace": "ns",
        "uid": "u",
        "annotations": {"grove.io/mnnvl-enabled": "true"},
    },
    "spec": {"template": {"cliques": [{"name": "worker", "spec": {"podSpec": pod_spec()}}]}},
}
GANG = {
    "apiVersion": "scheduler.grove.io/v1alpha1",
    "kind": "PodGang",
    "metadata": {
        "name": "pcs-0",
        "namespace": "ns",
        "uid": "g",
        "labels": LABELS,
        "annotations": {"grove.io/mnnvl-resources-adopted": "false"},
    },
}
BY_SET = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "PodCliqueSet",
    "name": "pcs",
    "uid": "u",
    "controller": True,
}
BY_GANG = {
    "apiVersion": "scheduler.grove.io/v1alpha1",
    "kind": "PodGang",
    "name": "pcs-0",
    "uid": "g",
    "controller": True,
}


def domain(owners: Any = None, labels: Any = None, **metadata: Any) -> dict[str, Any]:
    all_metadata = {
        "name": "pcs-0-cd",
        "namespace": "ns",
        "labels": MANAGED if labels is None else labels,
        **metadata,
    }
    all_metadata["ownerReferences"] = [BY_SET] if owners is None else owners
    return {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": all_metadata,
        "spec": {},
    }


def claim(owners: Any = None, **metadata: Any) -> dict[str, Any]:
    made = domain(owners, **{"name": "pcs-0-mnnvl-claim", **metadata})
    return {**made, "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}


DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}


def gang() -> SlimPodGang:
    return read_gang(GANG, "ns")

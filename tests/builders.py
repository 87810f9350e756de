"""Objects as users and Grove write them, for tests that need many.

Everything that a test is about is an argument.
"""

from typing import Any

from app.facts.carrier import read_carrier
from app.facts.grove.podcliqueset import NO_ANNOTATIONS, MnnvlAnnotations, PodCliqueSet
from app.facts.grove.topology import ClusterTopology, Level
from app.rules.mnnvl.claim import Injection, inject
from app.rules.mnnvl.plan import ClaimMode
from app.rules.mnnvl.wanted import CliqueFacts

Object = dict[str, Any]

GPU = {"nvidia.com/gpu": 8}


def pod_clique_set(
    name: str,
    *,
    domain: str | None = None,
    clique_domain: str | None = None,
    group_domain: str | None = None,
    mnnvl: bool = False,
    **spec: Any,
) -> Object:
    """A clique `worker` and, in the scaling group `pool`, a clique `leader`; each level's
    packDomain is an argument. With `mnnvl`, both ask for it, in the scope `replica`.
    """
    worker = {
        "name": "worker",
        "spec": {"roleName": "worker", "replicas": 2, "podSpec": pod_spec()},
        **constraint(clique_domain),
    }
    leader = {
        "name": "leader",
        "spec": {"roleName": "leader", "replicas": 1, "podSpec": pod_spec()},
    }
    pool = {"name": "pool", "cliqueNames": ["leader"], **constraint(group_domain)}
    template = {"cliques": [worker, leader], "podCliqueScalingGroups": [pool], **constraint(domain)}
    metadata: Object = {"name": name}
    if mnnvl:
        metadata["annotations"] = {"grove.io/mnnvl-enabled": "true"}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": metadata,
        "spec": {"replicas": 1, "template": template, **spec},
    }


def constraint(domain: str | None) -> Object:
    return {"topologyConstraint": {"packDomain": domain}} if domain else {}


def pod_spec(**resources: Any) -> Object:
    return {
        "containers": [
            {
                "name": "main",
                "image": "registry.example/main:1",
                "resources": {"limits": resources or GPU},
            }
        ]
    }


def labels(
    pcs: str,
    replica: int,
    gang: str,
    group: str | None = None,
    index: int = 0,
    *,
    grove: bool = False,
) -> dict[str, str]:
    """What a PodClique carries, and in the design a PodGang too: the design's labels, or (`grove`)
    those that Grove writes.
    """
    if grove:
        carried = {
            "app.kubernetes.io/part-of": pcs,
            "grove.io/podcliqueset-replica-index": str(replica),
        }
        if group:
            carried["grove.io/podcliquescalinggroup"] = f"{pcs}-{replica}-{group}"
            carried["grove.io/podcliquescalinggroup-replica-index"] = str(index)
    else:
        carried = {"grove.io/pcs-name": pcs, "grove.io/pcs-replica-index": str(replica)}
        if group:
            carried |= {"grove.io/pcsg-name": group, "grove.io/pcsg-replica-index": str(index)}
    return carried | {"grove.io/podgang": gang}


def gang_labels(pcs: str) -> dict[str, str]:
    """All that Grove's operator writes on a PodGang: no replica, no scaling group, not its own
    name.
    """
    return {
        "app.kubernetes.io/component": "podgang",
        "app.kubernetes.io/managed-by": "grove-operator",
        "app.kubernetes.io/part-of": pcs,
    }


def pod_clique(name: str, labels: dict[str, str], *, scope: str = "replica", **spec: Any) -> Object:
    """A PodClique that wants MNNVL."""
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodClique",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {"grove.io/mnnvl-enabled": "true", "grove.io/mnnvl-scope": scope},
        },
        "spec": {"roleName": "worker", "replicas": 2, "podSpec": pod_spec(), **spec},
    }


def pod_gang(name: str, labels: dict[str, str], *podgroups: str) -> Object:
    groups = [{"name": podgroup, "minReplicas": 1, "podReferences": []} for podgroup in podgroups]
    return {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "metadata": {"name": name, "labels": labels},
        "spec": {"podgroups": groups},
    }


def pod_group(name: str, *subgroups: Object) -> Object:
    """A KAI PodGroup."""
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {
            "minMember": 1,
            "subGroups": [{"minMember": 1, **subgroup} for subgroup in subgroups],
        },
    }


def cluster_topology(name: str, **keys: str) -> Object:
    """A ClusterTopology with a level for each `domain=key`."""
    levels = [{"domain": domain, "key": key} for domain, key in keys.items()]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": name},
        "spec": {"levels": levels},
    }


def node(name: str, **labels: str) -> Object:
    """A Node; underscores of `labels` stand for slashes, double ones for dots
    (`topology__kubernetes__io_rack`).
    """
    converted = {key.replace("__", ".").replace("_", "/"): value for key, value in labels.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**converted, "kubernetes.io/hostname": name}},
    }


def injection_into(
    obj: Object,
    namespace: str = "ns",
    mode: ClaimMode = "shared",
    old: Object | None = None,
    inherited: MnnvlAnnotations = NO_ANNOTATIONS,
    pcs: PodCliqueSet | None = None,
) -> Injection:
    """What the rule plans for the PodClique `obj`, read as the webhook reads it."""
    carrier = read_carrier(obj, namespace)
    before = None if old is None else read_carrier(old, namespace)
    known = pcs or PodCliqueSet(namespace, carrier.place.pcs, mnnvl=inherited)
    return inject(carrier, before, CliqueFacts(known), mode)


def managed(
    name: str = "grove-topology", *, enabled: bool = True, levels: tuple[Level, ...] = ()
) -> ClusterTopology:
    """The managed ClusterTopology, as facts give it to rules."""
    return ClusterTopology("ClusterTopology", name, levels=levels, enabled=enabled)

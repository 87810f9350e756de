"""Build objects as users and Grove write them, for tests that need many.

The fields that a test is about are arguments.
"""

from typing import Any

from app.facts.grove.podcliqueset import NO_ANNOTATIONS, MnnvlAnnotations, PodCliqueSet
from app.facts.grove.topology import ClusterTopology, Level
from app.facts.grove.unit_member import read_carrier
from app.rules.mnnvl.claim import CliqueFacts, Injection, inject
from app.rules.mnnvl.plan import ClaimMode

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
    """Return a PodCliqueSet with a clique `worker`, and a clique `leader` in the scaling group `pool`.

    The packDomain of each is an argument. With `mnnvl`, both request MNNVL in the scope `replica`.
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
    """Return the labels of a PodClique, as in the design or, with `grove`, as Grove writes them.

    In the design, PodGangs have the same labels.
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
    """Return all labels that Grove's operator writes on a PodGang.

    They do not name the replica, the scaling group or the PodGang.
    """
    return {
        "app.kubernetes.io/component": "podgang",
        "app.kubernetes.io/managed-by": "grove-operator",
        "app.kubernetes.io/part-of": pcs,
    }


def pod_clique(name: str, labels: dict[str, str], *, scope: str = "replica", **spec: Any) -> Object:
    """Return a PodClique that requests MNNVL."""
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
    """Return a KAI PodGroup."""
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
    """Return a ClusterTopology with a level for each `domain=key`."""
    levels = [{"domain": domain, "key": key} for domain, key in keys.items()]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": {"name": name},
        "spec": {"levels": levels},
    }


def node(name: str, **labels: str) -> Object:
    """Return a Node.

    In the names of `labels`, an underscore stands for a slash and two for a dot, as in
    `topology__kubernetes__io_rack`.
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
    """Return the plan of the rule for the PodClique `obj`, which is read as in the webhook."""
    carrier = read_carrier(obj, namespace)
    before = None if old is None else read_carrier(old, namespace)
    known = pcs or PodCliqueSet(namespace, carrier.place.pcs, mnnvl=inherited)
    return inject(carrier, before, CliqueFacts(known), mode)


def managed(
    name: str = "grove-topology", *, enabled: bool = True, levels: tuple[Level, ...] = ()
) -> ClusterTopology:
    """Return the managed ClusterTopology as rules get it."""
    return ClusterTopology("ClusterTopology", name, levels=levels, enabled=enabled)

"""Derive the KAI Topology of a ClusterTopology, and the status that reports on it.

Source: `rules/README.md`. In KAI's CRD, levels are immutable and unique, and only
the last one may be `kubernetes.io/hostname`.
"""

from collections.abc import Sequence
from typing import Any

from app.facts.grove.topology import Level, levels_for_kai
from app.facts.kinds import CLUSTER_TOPOLOGY, KAI_TOPOLOGY
from app.objects.conditions import Condition
from app.objects.owners import controller_uid, owners_of
from app.objects.shape import JsonMap, Object, maps_of

READY = "Ready"


def desired_kai_topology(cluster_topology: JsonMap, levels: Sequence[Level]) -> Object:
    """Return the KAI Topology of a stored ClusterTopology, which owns it.

    `levels` are listed broadest first. The KAI Topology has the levels that KAI's CRD allows.
    """
    metadata = cluster_topology["metadata"]
    owner = CLUSTER_TOPOLOGY.owner_reference(metadata["name"], metadata["uid"])
    owner["apiVersion"] = cluster_topology["apiVersion"]
    return {
        "apiVersion": KAI_TOPOLOGY.api_version(),
        "kind": KAI_TOPOLOGY.kind,
        "metadata": {"name": metadata["name"], "ownerReferences": [owner]},
        "spec": {"levels": [{"nodeLabel": level.key} for level in levels_for_kai(levels)]},
    }


def is_owned(kai: JsonMap, uid: str) -> bool:
    """Return whether the ClusterTopology `uid` controls the stored KAI Topology."""
    return controller_uid(kai, CLUSTER_TOPOLOGY.kind) == uid


def is_orphan(kai: JsonMap, name: str, uid: str) -> bool:
    """Return whether a deleted ClusterTopology of the same name owns the stored KAI Topology.

    The garbage collector will then delete it. `uid` is the uid of the current ClusterTopology.
    """
    return any(
        (owner.kind, owner.name) == (CLUSTER_TOPOLOGY.kind, name) and owner.uid != uid
        for owner in owners_of(kai)
    )


def foreign_remedy(name: str) -> str:
    """Return the remedy if the ClusterTopology does not control the KAI Topology `name`."""
    return (
        f"If nothing else needs it, run: kubectl delete {KAI_TOPOLOGY} {name}."
        " grove-admission then creates it again"
    )


def ready_condition(
    problem: str | None, generation: int, *, pending: bool = False, remark: str = ""
) -> Condition:
    """Return the condition Ready of a ClusterTopology.

    If its KAI Topology is correct, `problem` is None, and the message ends with the `remark`. A
    `pending` problem resolves without intervention.
    """
    if problem is None:
        return Condition(
            type=READY,
            status="True",
            reason="TopologyReady",
            message=". ".join(filter(None, ("KAI Topology matches the ClusterTopology", remark))),
            generation=generation,
        )
    if pending:
        return Condition(
            type=READY,
            status="Unknown",
            reason="KAITopologyPending",
            message=problem,
            generation=generation,
        )
    return Condition(
        type=READY,
        status="False",
        reason="TopologyCreationOrUpdateFailed",
        message=problem,
        generation=generation,
    )


def last_errors(condition: Condition, stored: Any, now: str) -> list[Object]:
    """Return `status.lastErrors`, which is empty unless the condition is False.

    `stored` is the current value. If it contains the same error, its `observedAt` is kept.
    Otherwise, `observedAt` is `now` (RFC 3339).
    """
    if condition.status != "False":
        return []
    error = {"code": "KAI_TOPOLOGY_CREATE_ERROR", "description": condition.message}
    for stored_error in maps_of(stored):
        if {key: stored_error.get(key) for key in error} == error:
            return [stored_error]
    return [{**error, "observedAt": now}]

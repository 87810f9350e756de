"""The KAI Topology that a ClusterTopology stands for.

Source: `rules/README.md`; KAI's Topology CRD, whose levels are
immutable, unique, and may have `kubernetes.io/hostname` only at their end.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from app.objects.conditions import Condition
from app.rules.kinds import CLUSTER_TOPOLOGY, KAI_TOPOLOGY
from app.rules.topology.levels import HOSTNAME_KEY, Level

READY = "Ready"
REASON_READY = "TopologyReady"
REASON_FAILED = "TopologyCreationOrUpdateFailed"
REASON_PENDING = "KAITopologyPending"
ERROR_CODE = "KAI_TOPOLOGY_CREATE_ERROR"


def mapping_problem(levels: Sequence[Level]) -> str | None:
    """Why KAI can't have `levels` (broadest first); None if it can."""
    keys = [level.key for level in levels]
    if not keys:
        return "the ClusterTopology has no levels that KAI could use"
    if HOSTNAME_KEY in keys[:-1]:
        below = ", ".join(level.domain for level in levels[keys.index(HOSTNAME_KEY) + 1 :])
        return f"KAI allows {HOSTNAME_KEY} at the lowest level only, and {below} is below it: remove one of the two"
    return None


def desired_kai_topology(cluster_topology: Mapping[str, Any], levels: Sequence[Level]) -> dict[str, Any]:
    """The KAI Topology of a stored ClusterTopology, whose `levels` are given broadest first; owned by it."""
    metadata = cluster_topology["metadata"]
    owner = {
        "apiVersion": CLUSTER_TOPOLOGY.api_version(),
        "kind": CLUSTER_TOPOLOGY.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": KAI_TOPOLOGY.api_version(),
        "kind": KAI_TOPOLOGY.kind,
        "metadata": {"name": metadata["name"], "ownerReferences": [owner]},
        "spec": {"levels": [{"nodeLabel": level.key} for level in levels]},
    }


def level_labels(kai: Mapping[str, Any]) -> tuple[str, ...]:
    """The node labels of a KAI Topology's levels, broadest first. Aliases are left out: people may give levels a name,
    and KAI takes it wherever it takes the label."""
    spec = kai.get("spec")
    levels = spec.get("levels") if isinstance(spec, dict) else None
    return tuple(
        str(level.get("nodeLabel")) for level in (levels if isinstance(levels, list) else ()) if isinstance(level, dict)
    )


def is_owned(kai: Mapping[str, Any], uid: str) -> bool:
    """Whether the ClusterTopology `uid` controls the stored KAI Topology."""
    owners = kai["metadata"].get("ownerReferences") or []
    return any(one.get("uid") == uid and one.get("controller") is True for one in owners)


def is_orphan(kai: Mapping[str, Any], name: str, uid: str) -> bool:
    """Whether it was that of a former ClusterTopology of the same name, which the garbage collector will remove."""
    owners = kai["metadata"].get("ownerReferences") or []
    return any(
        one.get("kind") == CLUSTER_TOPOLOGY.kind and one.get("name") == name and one.get("uid") != uid for one in owners
    )


def ready_condition(problem: str | None, generation: int, *, pending: bool = False) -> Condition:
    """What to say of the KAI Topology: `problem` None is success; `pending` ones resolve by themselves."""
    if problem is None:
        return Condition(READY, "True", REASON_READY, "KAI Topology is in step with the ClusterTopology", generation)
    if pending:
        return Condition(READY, "Unknown", REASON_PENDING, problem, generation)
    return Condition(READY, "False", REASON_FAILED, problem, generation)


def last_errors(condition: Condition, before: Any, now: str) -> list[dict[str, Any]]:
    """`status.lastErrors`: empty unless the condition is False; an error that stays keeps its first time."""
    if condition.status != "False":
        return []
    error = {"code": ERROR_CODE, "description": condition.message}
    for one in before if isinstance(before, list) else []:
        if isinstance(one, dict) and {key: one.get(key) for key in error} == error:
            return [one]
    return [{**error, "observedAt": now}]

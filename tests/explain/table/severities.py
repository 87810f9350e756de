"""How severe each reason is: answers begin with problems, then come warnings, then notes."""

from app.explain.reasons.reason import Severity
from tests.explain.table.row import Row

SEVERITIES: dict[str, Severity] = {
    "BackgroundPods": "note",
    "ClaimNotInPods": "warning",
    "ClaimNotInjected": "warning",
    "ContainerCrashes": "warning",
    "DomainsJoined": "warning",
    "GangEvicted": "warning",
    "GangSplit": "note",
    "GangStale": "warning",
    "KueueMayEvict": "warning",
    "LevelWithoutTopology": "warning",
    "NotATree": "warning",
    "NotAsPreferred": "note",
    "NvlinkSplit": "warning",
    "PlacementLost": "warning",
    "PodsNotReady": "warning",
    "PodGangMigrationInProgress": "warning",
    "QueueStatusStale": "warning",
    "SetBeingDeleted": "warning",
    "WithinQuota": "warning",
}
"""Of the reasons that are no problem: the pods run, or start without anybody's help."""

OF_ROWS: dict[tuple[str, str], Severity] = {
    ("DomainDeleted", "somebody else's finalizer keeps it, and pods use it"): "warning",
    ("DomainNotReady", "two of four nodes are ready, and all pods run"): "warning",
    ("KueueMayEvict", "Kueue has never evicted it"): "note",
    ("LevelLabelMissing", "the gang has a place without the node: a note"): "note",
    (
        "LevelLabelMissing",
        "one node at the border of two racks lacks its rack: no value is guessed",
    ): "warning",
    ("NodesComing", "no autoscaler answers KAI's scaling pod"): "note",
    ("NotATree", "most names of racks repeat: a habit, one note"): "note",
    ("NotStarted", "an init container has been at work for long"): "warning",
    ("NvlinkSplit", "KAI would place them in two"): "note",
    ("NvlinkSplit", "no NVLink domain has a node for each pod"): "note",
    (
        "PlacementLost",
        "KAI has evicted a background pod, which is what these are for",
    ): "note",
    ("PodGangMissing", "somebody has deleted the only one"): "warning",
    ("PodGangMissing", "the pods run on"): "warning",
    ("SetBeingDeleted", "somebody's finalizer keeps the PodGang"): "problem",
    ("TopologyDiffers", "the KAI Topology belongs to a former ClusterTopology"): "warning",
}
"""Of states in which a reason is less severe than in others."""


def severity_of(row: Row) -> Severity:
    return OF_ROWS.get((row.id, row.name)) or SEVERITIES.get(row.id, "problem")

"""Decide which pods count as background pods.

KAI plans as if background pods did not exist, and evicts them if it needs their room. Source:
`pkg/scheduler/plugins/backgroundpods` of KAI at 45103d4c, of October 2026.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from app.explain.state.snapshot import Snapshot
from app.facts.kubernetes.pod import Pod
from app.facts.labels import NODE_POOL


def with_background(facts: Snapshot) -> Snapshot:
    """Return the facts without background pods in node pools that have none.

    If the SchedulingShard of a pool disables background pods, or selects them by labels that this
    module does not know, the pods on the nodes of the pool count as normal pods.
    """
    without = {shard.pool for shard in facts.shards if not shard.has_background}
    if not without or not any(pod.background for pod in facts.pods):
        return facts
    pools = {node.name: node.labels.get(NODE_POOL, "") for node in facts.nodes}

    def pods() -> Iterator[Pod]:
        for pod in facts.pods:
            is_normal = pod.background and pools.get(pod.node, "") in without
            yield replace(pod, background=False) if is_normal else pod

    return replace(facts, pods=tuple(pods()))

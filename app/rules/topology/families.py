"""Families of node labels for topologies that other programs write.

Topograph 1.0 has new keys for its labels, so the levels of a topology may still name former ones.
Source: https://github.com/NVIDIA/topograph/blob/v1.0.0/docs/reference/node-labels.md
"""

from collections.abc import Collection

NVLINK_DOMAIN = "nvidia.com/gpu.clique"
"""The node label that names the NVLink domain and clique of a node."""

_CLOSEST = "fabric.topograph.run/tier-0"
_ACCELERATOR = "accelerator.topograph.run/domain"

KNOWN = (
    *(f"fabric.topograph.run/tier-{tier}" for tier in range(8)),
    _ACCELERATOR,
    "accelerator.topograph.run/sub-domain",
    *(f"network.topology.nvidia.com/{level}" for level in ("accelerator", "leaf", "spine", "core")),
    NVLINK_DOMAIN,
)
"""Fabric tiers, of which there may be more, accelerators, the keys before Topograph 1.0, NVLink."""


def instead(key: str, present: Collection[str]) -> str:
    """Return which known labels nodes have, if none has `key`.

    It goes on with `; nodes have …`. "" if they have no known one.
    """
    found = [known for known in KNOWN if known in present]
    if not found:
        return ""

    words = f"; nodes have {', '.join(found)}"
    if _CLOSEST in found:
        words += " (tier-0 is the switch closest to a node)"
    if key == _ACCELERATOR and NVLINK_DOMAIN in found:
        words += f", and Topograph may leave {key} out where {NVLINK_DOMAIN} is"
    return words

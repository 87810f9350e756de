"""The kinds of objects that may be asked about."""

from collections.abc import Mapping

_SHORT: Mapping[str, str] = {
    "PodCliqueSet": "pcs",
    "PodCliqueScalingGroup": "pcsg",
    "PodClique": "pclq",
    "PodGang": "pg",
    "PodGroup": "",
    "Workload": "",
    "Pod": "po",
    "ResourceClaim": "",
    "ComputeDomain": "",
}
"""The short names of kubectl, "" for a kind that has none."""

EXPLAINED: Mapping[str, bool] = dict.fromkeys(_SHORT, True)
"""The kinds, all of which have namespaces."""

KINDS: Mapping[str, str] = {
    name: kind
    for kind, short in _SHORT.items()
    for name in (kind.lower(), f"{kind.lower()}s", short)
    if name
}
"""The kinds, by the names that kubectl has for them."""

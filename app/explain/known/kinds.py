"""The names of the kinds of objects that may be asked about."""

from collections.abc import Mapping

from app.stores.around import ASKED

_SHORT = {
    "PodCliqueSet": "pcs",
    "PodCliqueScalingGroup": "pcsg",
    "PodClique": "pclq",
    "PodGang": "pg",
    "Pod": "po",
}
"""The short names of kubectl."""

KINDS: Mapping[str, str] = {
    name: kind
    for kind in ASKED
    for name in (kind.lower(), f"{kind.lower()}s", _SHORT.get(kind, ""))
    if name
}
"""The kinds, by the names that kubectl has for them."""

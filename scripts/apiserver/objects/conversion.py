"""Convert objects between their stored version and the served versions.

The versions of a kind, also those of ResourceClaims, differ here only in their apiVersion. Events
are stored as core v1; events.k8s.io/v1 has other field names.
"""

from collections.abc import Callable

from scripts.apiserver.objects.objects import Object

Convert = Callable[[Object], Object]

_EVENT_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_CORE_NAMES = {name: core_name for core_name, name in _EVENT_NAMES.items()}


def relabel(api_version: str) -> Convert:
    """Return a conversion that changes only the apiVersion."""
    return lambda obj: (
        obj if obj.get("apiVersion") == api_version else {**obj, "apiVersion": api_version}
    )


def _renamed(obj: Object, names: dict[str, str], api_version: str) -> Object:
    return {**{names.get(key, key): value for key, value in obj.items()}, "apiVersion": api_version}


def conversions(group: str, version: str, stored: str) -> tuple[Convert, Convert]:
    """Return the conversions of a built-in kind from `stored` to `version`, and back."""
    prefix = f"{group}/" if group else ""
    if group == "events.k8s.io":
        return lambda obj: _renamed(obj, _EVENT_NAMES, "events.k8s.io/v1"), lambda obj: _renamed(
            obj, _CORE_NAMES, "v1"
        )
    return relabel(prefix + version), relabel(prefix + stored)

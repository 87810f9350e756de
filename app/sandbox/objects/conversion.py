"""Conversion between the stored version of an object and the versions that are served.

Most versions differ only in their apiVersion. ResourceClaims and ResourceClaimTemplates are stored
as v1; in v1beta1 the fields of `exactly` are fields of the request. Events are stored as core v1;
events.k8s.io/v1 has other field names.
"""

from collections.abc import Callable

from app.sandbox.objects.objects import Object, at, copy

Convert = Callable[[Object], Object]

_DIRECT = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
)

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


def _with_requests(claim: Object, change: Callable[[Object], Object]) -> Object:
    """Return a copy of `claim`, or template, with `change` applied to each device request."""
    changed = copy(claim)
    devices = at(changed, "spec", "spec", "devices") or at(changed, "spec", "devices")
    if isinstance(devices, dict) and isinstance(devices.get("requests"), list):
        devices["requests"] = [change(item) for item in devices["requests"]]
    return changed


def _flat(request: Object) -> Object:
    return {
        **{key: value for key, value in request.items() if key != "exactly"},
        **(request.get("exactly") or {}),
    }


def _nested(request: Object) -> Object:
    exactly = {key: request[key] for key in _DIRECT if key in request}
    others = {key: value for key, value in request.items() if key not in _DIRECT}
    return {**others, "exactly": exactly} if exactly else others


def conversions(group: str, version: str, stored: str) -> tuple[Convert, Convert]:
    """Return the conversions of a built-in kind from `stored` to `version`, and back."""
    prefix = f"{group}/" if group else ""
    if group == "events.k8s.io":
        return lambda obj: _renamed(obj, _EVENT_NAMES, "events.k8s.io/v1"), lambda obj: _renamed(
            obj, _CORE_NAMES, "v1"
        )
    if (group, version) == ("resource.k8s.io", "v1beta1"):
        return (
            lambda obj: {**_with_requests(obj, _flat), "apiVersion": prefix + version},
            lambda obj: {**_with_requests(obj, _nested), "apiVersion": prefix + stored},
        )
    return relabel(prefix + version), relabel(prefix + stored)

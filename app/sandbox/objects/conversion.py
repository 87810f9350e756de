"""Conversion between the stored version of an object and the versions that are served.

Most versions differ only in their apiVersion. ResourceClaims and ResourceClaimTemplates are stored as v1; in v1beta1
the fields of `exactly` are fields of the request. Events are stored as core v1; events.k8s.io/v1 has other field names.
"""

from collections.abc import Callable

from app.sandbox.objects.objects import Object, at, copy

Convert = Callable[[Object], Object]

_DIRECT = ("deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity")

_EVENT_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_CORE_EVENT_NAMES = {name: core_name for core_name, name in _EVENT_NAMES.items()}


def relabel(api_version: str) -> Convert:
    """A conversion that changes only the apiVersion."""

    def convert(obj: Object) -> Object:
        return obj if obj.get("apiVersion") == api_version else {**obj, "apiVersion": api_version}

    return convert


def _renamed(obj: Object, names: dict[str, str], api_version: str) -> Object:
    return {**{names.get(key, key): value for key, value in obj.items()}, "apiVersion": api_version}


def event_from_core(obj: Object) -> Object:
    return _renamed(obj, _EVENT_NAMES, "events.k8s.io/v1")


def event_to_core(obj: Object) -> Object:
    return _renamed(obj, _CORE_EVENT_NAMES, "v1")


def _with_requests(claim: Object, change: Callable[[Object], Object], template: bool) -> Object:
    """A copy of `claim` with `change` applied to each device request."""
    changed = copy(claim)
    devices = at(changed, "spec", "spec", "devices") if template else at(changed, "spec", "devices")
    if isinstance(devices, dict) and isinstance(devices.get("requests"), list):
        devices["requests"] = [change(item) for item in devices["requests"]]
    return changed


def _flat(request: Object) -> Object:
    return {**{key: value for key, value in request.items() if key != "exactly"}, **(request.get("exactly") or {})}


def _nested(request: Object) -> Object:
    exactly = {key: request[key] for key in _DIRECT if key in request}
    others = {key: value for key, value in request.items() if key not in _DIRECT}
    return {**others, "exactly": exactly} if exactly else others


def claim_to_v1beta1(template: bool) -> Convert:
    return lambda obj: {**_with_requests(obj, _flat, template), "apiVersion": "resource.k8s.io/v1beta1"}


def claim_from_v1beta1(template: bool) -> Convert:
    return lambda obj: {**_with_requests(obj, _nested, template), "apiVersion": "resource.k8s.io/v1"}

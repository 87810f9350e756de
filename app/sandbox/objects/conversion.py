"""Served versions of one stored object: the two that need more than another apiVersion.

ResourceClaim and ResourceClaimTemplate are stored as v1; v1beta1 has the fields of `exactly` directly on the request.
Event is stored as core v1; events.k8s.io/v1 names the same fields otherwise.
"""

from collections.abc import Callable
from typing import Any

from app.sandbox.objects.objects import Object

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
_CORE_EVENT_NAMES = {new: old for old, new in _EVENT_NAMES.items()}


def relabel(api_version: str) -> Convert:
    """The conversion that only writes another apiVersion; the same object if it is right already."""

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
    """`claim` with `change` made to each of its spec.devices.requests (spec.spec.devices.requests in a template)."""
    path = ("spec", "spec", "devices") if template else ("spec", "devices")

    def walk(part: Any, steps: tuple[str, ...]) -> Any:
        if not isinstance(part, dict):
            return part
        if not steps:
            requests = part.get("requests")
            return {**part, "requests": [change(item) for item in requests]} if isinstance(requests, list) else part
        return {**part, steps[0]: walk(part[steps[0]], steps[1:])} if steps[0] in part else part

    changed: Object = walk(claim, path)
    return changed


def _flat(request: Object) -> Object:
    rest = {key: value for key, value in request.items() if key != "exactly"}
    return {**rest, **(request.get("exactly") or {})}


def _nested(request: Object) -> Object:
    exactly = {key: request[key] for key in _DIRECT if key in request}
    rest = {key: value for key, value in request.items() if key not in _DIRECT}
    return {**rest, "exactly": exactly} if exactly else rest


def claim_to_v1beta1(template: bool) -> Convert:
    return lambda obj: {**_with_requests(obj, _flat, template), "apiVersion": "resource.k8s.io/v1beta1"}


def claim_from_v1beta1(template: bool) -> Convert:
    return lambda obj: {**_with_requests(obj, _nested, template), "apiVersion": "resource.k8s.io/v1"}

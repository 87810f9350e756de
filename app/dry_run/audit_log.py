"""Kubernetes audit logs (`audit.k8s.io/v1`): events as the AdmissionReviews that were sent, or would have been.

An audit event has the object of a request if the audit policy has the level Request, and the answer with
RequestResponse: https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/. It never has the object before an update;
that is taken from earlier events of the same log.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.admission.review import API_VERSION, KIND

EVENT_VERSION = "audit.k8s.io/v1"
OPERATIONS = {"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE"}
Target = tuple[str, str, str]
"""API group, plural and subresource."""
Key = tuple[str, str, str, str]

REJECTED_THEN = "it was rejected at the time"
DRY_RUN = "it was a dry run"
NO_OBJECT = "the event has no object: the audit policy needs the level Request or RequestResponse"
NO_RESPONSE = "the event of a patch has no response: the audit policy needs the level RequestResponse"
TRUNCATED = "the event was truncated, so its object is missing"
NO_OLD_OBJECT = "the object before the change is not in the log"
COLLECTION = "it deleted a collection, so the event names no object"


@dataclass(frozen=True, slots=True)
class Write:
    """One write of what webhooks look at. `review` is None if it can't be judged, for the reason in `problem`, or, with
    no `problem`, if webhooks are not asked about the operation. `stored` is the object after the write, None after a
    deletion, and also None if it is not known."""

    user: str
    namespace: str
    kind: str
    name: str
    time: str
    operation: str
    review: dict[str, Any] | None = None
    problem: str = ""
    stored: dict[str, Any] | None = None


class History:
    """Turns events, in the order of the log, into writes. `targets` are what webhooks look at, with the operations;
    namespaces in `exempt` are not judged."""

    def __init__(self, targets: Mapping[Target, Collection[str]], exempt: Collection[str] = ()) -> None:
        self._targets, self._exempt = targets, frozenset(exempt)
        self._objects: dict[Key, dict[str, Any]] = {}

    def write_of(self, event: Mapping[str, Any]) -> Write | None:
        """None for an event that is no write, is not complete yet, or that no webhook looks at."""
        ref, verb = _map(event.get("objectRef")), str(event.get("verb") or "")
        target = (_text(ref, "apiGroup"), _text(ref, "resource"), _text(ref, "subresource"))
        if event.get("stage") != "ResponseComplete" or target not in self._targets:
            return None
        if verb not in (*OPERATIONS, "deletecollection") or _text(ref, "namespace") in self._exempt:
            return None
        write = _write(event, ref, OPERATIONS.get(verb, "DELETE"))
        problem = _problem(event, verb)
        if problem:
            return replace(write, problem=problem)
        return self._judgeable(event, write, target, verb)

    def _judgeable(self, event: Mapping[str, Any], write: Write, target: Target, verb: str) -> Write:
        key = (*target[:2], write.namespace, write.name)
        before = self._objects.get(key)
        response = _object_in(event, "responseObject")
        obj = response if verb == "patch" else _object_in(event, "requestObject")
        stored = None if verb == "delete" else response or obj
        if target[2]:
            stored = None
        elif stored is None:
            self._objects.pop(key, None)
        else:
            self._objects[key] = stored
        if write.operation not in self._targets[target]:
            return replace(write, stored=stored)
        if write.operation != "CREATE" and before is None:
            return replace(write, problem=NO_OLD_OBJECT, stored=stored)
        if write.operation != "DELETE" and obj is None:
            return replace(write, problem=_missing(event, verb), stored=stored)
        return replace(write, review=_review(event, write, target, obj, before), stored=stored)


def _write(event: Mapping[str, Any], ref: Mapping[str, Any], operation: str) -> Write:
    response = _map(_map(event.get("responseObject")).get("metadata"))
    request = _map(_map(event.get("requestObject")).get("metadata"))
    name = _text(ref, "name") or _text(response, "name") or _text(request, "name")
    user = _text(_map(event.get("impersonatedUser")), "username") or _text(_map(event.get("user")), "username")
    kind = _text(_map(event.get("requestObject")), "kind") or _text(ref, "resource")
    time = _text(event, "requestReceivedTimestamp")
    return Write(user, _text(ref, "namespace"), kind, name, time, operation)


def _problem(event: Mapping[str, Any], verb: str) -> str:
    """Why an event can't be judged, whatever was before; "" for none."""
    code = _map(event.get("responseStatus")).get("code")
    if isinstance(code, int) and code >= 400:
        return REJECTED_THEN
    if "dryRun=" in str(event.get("requestURI") or ""):
        return DRY_RUN
    return COLLECTION if verb == "deletecollection" else ""


def _missing(event: Mapping[str, Any], verb: str) -> str:
    if _map(event.get("annotations")).get("audit.k8s.io/truncated") == "true":
        return TRUNCATED
    return NO_RESPONSE if verb == "patch" and event.get("requestObject") is not None else NO_OBJECT


def _review(
    event: Mapping[str, Any],
    write: Write,
    target: Target,
    obj: dict[str, Any] | None,
    before: dict[str, Any] | None,
) -> dict[str, Any]:
    ref = _map(event.get("objectRef"))
    user = event.get("impersonatedUser") or event.get("user")
    shown = obj or before or {}
    group, _, version = str(shown.get("apiVersion") or "").rpartition("/")
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "request": {
            "uid": str(event.get("auditID") or "audit"),
            "kind": {"group": group, "version": version, "kind": str(shown.get("kind") or "")},
            "resource": {"group": target[0], "version": _text(ref, "apiVersion"), "resource": target[1]},
            "subResource": target[2],
            "name": write.name,
            "namespace": write.namespace,
            "operation": write.operation,
            "userInfo": user if isinstance(user, dict) else {},
            "object": None if write.operation == "DELETE" else obj,
            "oldObject": None if write.operation == "CREATE" else before,
            "dryRun": True,
        },
    }


def _object_in(event: Mapping[str, Any], field: str) -> dict[str, Any] | None:
    """A Kubernetes object of an event; None for nothing and for a Status."""
    value = event.get(field)
    if not isinstance(value, dict) or not isinstance(value.get("metadata"), dict) or value.get("kind") == "Status":
        return None
    return value


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(holder: Mapping[str, Any], key: str) -> str:
    value = holder.get(key)
    return value if isinstance(value, str) else ""

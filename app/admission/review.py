"""AdmissionReview v1: bytes to `Request`, `Verdict` to bytes, and all errors of the envelope.

The envelope is typed. Objects stay maps, so that unknown fields are kept. Source:
https://github.com/kubernetes/api/blob/release-1.35/admission/v1/types.go
"""

import base64
import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec
import orjson

from app.admission.verdict import Verdict
from app.objects.fields import FieldPath, Findings, invalid, quote, wrong_type
from app.objects.names import is_subdomain
from app.objects.shape import JsonMap, Object
from app.visible import visible

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
OPERATIONS = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})

_UID = re.compile(rb'"uid"\s*:\s*"([^"\\\x00-\x1f]{1,128})"')
_SALVAGE = 4096
_MAX_WARNING = 256
_MOST_WARNINGS = 100
"""An API server cuts them after 4 KiB."""
_METADATA = FieldPath("metadata")
_NO_MAP: Object = {}


class BadReview(ValueError):
    """An envelope that can't be judged.

    `uid` is "" if it is not known, so that no review can answer.
    """

    def __init__(self, message: str, uid: str = "", code: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.uid = uid
        self.code = code


class Request(msgspec.Struct):
    """An AdmissionRequest.

    `object` is the one that is judged; at DELETE, that is the old object. `old` is None except at
    UPDATE. `name` is that of the request, else that of the object. Only `trusted` is set later.
    """

    uid: str
    group: str
    kind: str
    resource: str
    subresource: str
    operation: str
    name: str
    namespace: str
    username: str
    object: Object
    old: Object | None
    dry_run: bool
    trusted: bool = False
    """Whether an API server has sent it, so that it may cause writes."""

    @property
    def is_deleting(self) -> bool:
        """Whether the object is being deleted and waits for its finalizers.

        An update of it is never rejected. The new object may lack the deletionTimestamp, because an
        API server restores it after mutating webhooks.
        """
        return any(
            isinstance(metadata, dict) and metadata.get("deletionTimestamp") is not None
            for metadata in (self.object.get("metadata"), self.old and self.old.get("metadata"))
        )


def parse(body: bytes) -> Request:
    """Read an AdmissionReview.

    BadReview, with the uid if that can be read, states the problem of an invalid one.
    """
    if not body:
        raise BadReview("the request has no body; an AdmissionReview was expected")

    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        raise BadReview(
            f"the body is not JSON that can be read: {problem}", salvage_uid(body)
        ) from None

    if not isinstance(review, dict):
        raise BadReview(f"the body must be an {KIND}, not {_kind_of(review)}")

    request = review.get("request")
    uid = request.get("uid") if isinstance(request, dict) else None
    uid = uid if isinstance(uid, str) else ""
    if review.get("apiVersion") != API_VERSION or review.get("kind") != KIND:
        actual = f"{quote(review.get('apiVersion'))}, {quote(review.get('kind'))}"
        raise BadReview(f'apiVersion and kind must be "{API_VERSION}", "{KIND}", not {actual}', uid)
    if not isinstance(request, dict):
        raise BadReview(f"request must be a map, not {_kind_of(request)}")
    if not uid:
        raise BadReview("request.uid is missing: there is nothing to answer to")

    return _read_request(request, uid)


def _read_request(request: JsonMap, uid: str) -> Request:
    operation = _operation(request, uid)
    kind = request.get("kind")
    user = request.get("userInfo")
    resource = request.get("resource")
    if not (type(kind) is type(user) is type(resource) is dict):
        kind, user, resource = (
            _map(request, name, uid) for name in ("kind", "userInfo", "resource")
        )

    obj = request.get("oldObject" if operation == "DELETE" else "object")
    if type(obj) is not dict:
        obj = _object(request, "oldObject" if operation == "DELETE" else "object", uid)

    name = request.get("name") or _name(obj)

    return Request(
        uid,
        _text(kind.get("group")),
        _text(kind.get("kind")),
        _text(resource.get("resource")),
        _text(request.get("subResource")),
        operation,
        _text(name),
        _text(request.get("namespace")),
        _text(user.get("username")),
        obj,
        _object(request, "oldObject", uid) if operation == "UPDATE" else None,
        request.get("dryRun") is True,
    )


def _operation(request: JsonMap, uid: str) -> str:
    operation = request.get("operation")
    if isinstance(operation, str) and operation in OPERATIONS:
        return operation

    allowed = ", ".join(sorted(OPERATIONS))
    raise BadReview(f"request.operation is {quote(operation)}; it must be one of {allowed}", uid)


def _name(obj: JsonMap) -> Any:
    """Return the name in the object.

    At a CREATE with generateName and at a bulk DELETE, the request has none.
    """
    metadata = obj.get("metadata")
    return metadata.get("name") if isinstance(metadata, dict) else None


def _object(request: JsonMap, name: str, uid: str) -> Object:
    value = request.get(name)
    if value is None:
        raise BadReview(
            f"request.{name} is missing: {request['operation']} can't be judged without it", uid
        )
    if not isinstance(value, dict):
        raise BadReview(f"request.{name} must be a map, not {_kind_of(value)}", uid)
    return value


def _map(holder: JsonMap, name: str, uid: str) -> Object:
    value = holder.get(name)
    if value is None:
        return _NO_MAP
    if not isinstance(value, dict):
        raise BadReview(f"request.{name} must be a map, not {_kind_of(value)}", uid)
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _kind_of(value: Any) -> str:
    kinds = {dict: "a map", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")


def salvage_uid(prefix: bytes) -> str:
    """Return the uid in the beginning of a body that can't be parsed, or "".

    An API server writes it first.
    """
    match = _UID.search(prefix[:_SALVAGE])
    return match.group(1).decode("utf-8", "replace") if match else ""


def shape_findings(request: Request) -> Findings:
    """Return findings about the conditions for all rules.

    Metadata, labels and annotations must be maps or null, and the name must be valid for the API
    server.
    """
    metadata = request.object.get("metadata")
    if metadata is None:
        return []

    at = _METADATA
    if not isinstance(metadata, dict):
        return [wrong_type(at, metadata, "a map")]

    findings: Findings = []
    for field in ("labels", "annotations"):
        value = metadata.get(field)
        if value is not None and not isinstance(value, dict):
            findings.append(wrong_type(at.child(field), value, "a map"))

    name = metadata.get("name")
    if name is not None and (not isinstance(name, str) or (name and not is_subdomain(name))):
        detail = (
            "must be a lowercase DNS subdomain: alphanumeric characters, '-' or '.', at most 253"
            " characters"
        )
        findings.append(invalid(at.child("name"), name, detail))

    return findings


_ALLOWED = (
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview",'
    b'"response":{"uid":%b,"allowed":true}}'
)


def encode(uid: str, verdict: Verdict, request: Request | None = None) -> bytes:
    """Return the AdmissionReview that answers the request `uid`.

    If `request` is given, the details of a rejection, which kubectl shows, name the object.
    """
    if verdict.allowed and not verdict.patch and not verdict.warnings:
        return _ALLOWED % orjson.dumps(uid)
    response: Object = {"uid": uid, "allowed": verdict.allowed}
    if verdict.warnings:
        response["warnings"] = _listed(verdict.warnings)
    if not verdict.allowed:
        response["status"] = _status(verdict, request)
    elif verdict.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(dumps(verdict.patch)).decode("ascii")
    return dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _status(verdict: Verdict, request: Request | None) -> Object:
    status: Object = {
        "status": "Failure",
        "message": visible(verdict.message),
        "reason": verdict.reason,
        "code": verdict.code,
    }
    if verdict.causes:
        causes = [
            {"reason": cause.reason, "message": visible(cause.message), "field": cause.field}
            for cause in verdict.causes
        ]
        named = (
            {"name": request.name, "group": request.group, "kind": request.kind}
            if request is not None
            else {}
        )
        status["details"] = {**named, "causes": causes}

    return status


def _listed(warnings: Sequence[str]) -> list[str]:
    listed = [one_line(warning) for warning in warnings[:_MOST_WARNINGS]]
    more = len(warnings) - _MOST_WARNINGS
    return [*listed, f"{more:,} more warnings are not listed"] if more > 0 else listed


def one_line(warning: str) -> str:
    """Return a warning as a valid HTTP header.

    It is printable, and so short that the API server doesn't cut it.
    """
    text = visible(warning)
    return text if len(text) <= _MAX_WARNING else f"{text[: _MAX_WARNING - 3]}..."


def dumps(value: Any) -> bytes:
    """Return `value` as JSON. Text that isn't valid Unicode is escaped."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":"), default=str).encode("ascii")

"""Decode an AdmissionReview (v1) to a `Request`, and encode a `Verdict` to the answer.

The envelope is typed. Objects stay maps, either whole or without the fields that no rule reads.
Source: https://github.com/kubernetes/api/blob/release-1.35/admission/v1/types.go
"""

import base64
import re
from collections.abc import Callable, Sequence
from typing import Generic, Literal, TypeVar

import msgspec

from app.admission.verdict import Verdict
from app.base.json import NotJson, decode_with, to_json
from app.base.safe_text import visible
from app.objects.fields import (
    FieldPath,
    Findings,
    invalid,
    quote,
    wrong_type,
)
from app.objects.names import is_subdomain
from app.objects.shape import JsonMap, Object

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
Verb = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
Shape = TypeVar("Shape")

_UID = re.compile(rb'"uid"\s*:(?:\s*"([^"\\\x00-\x1f]{1,128})")?')
_NAMESPACE = re.compile(rb'"namespace"\s*:\s*"([^"\\]{1,63})"')
_SALVAGE = 4096
_MOST_WARNINGS = 100
"""The maximum number of warnings that an answer lists."""

_MOST_CHARACTERS = 4096
"""The maximum length of all warnings together that an API server shows whole.

Beyond it, the API server cuts each warning to 256 characters, and drops the last ones.
"""
_SHORT_WARNING = 256
_METADATA = FieldPath("metadata")


class BadReview(ValueError):
    """A review can't be judged.

    If the uid is not known, `uid` is "", and the answer can't be a review.
    """

    def __init__(self, message: str, uid: str = "", code: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.uid = uid
        self.code = code


class Request(msgspec.Struct):
    """An AdmissionRequest. A text that the request doesn't have is ""."""

    uid: str
    group: str
    """The API group of the object."""
    kind: str
    resource: str
    """The plural of the kind."""
    subresource: str
    operation: str
    """The operation, such as CREATE."""
    name: str
    """The name in the request, or else in the object."""
    namespace: str
    username: str
    object: Object
    """The object that is judged. For a DELETE, this is the old object."""
    old: Object | None
    """The old object of an UPDATE, or None."""
    dry_run: bool
    """Whether the request is a dry run, which must not write anything."""
    trusted: bool = False
    """Whether an API server sent the request, so that it may cause writes.

    `parse` does not set this field; `Exchange` sets it afterwards.
    """

    @property
    def is_deleting(self) -> bool:
        """Whether the object is being deleted, for example while its finalizers keep it.

        The new object may lack the deletionTimestamp, because an API server restores it only after
        mutating webhooks.
        """
        return any(
            isinstance(metadata, dict) and metadata.get("deletionTimestamp") is not None
            for metadata in (self.object.get("metadata"), self.old and self.old.get("metadata"))
        )


class _Kind(msgspec.Struct):
    group: str = ""
    kind: str = ""


class _Resource(msgspec.Struct):
    resource: str = ""


class _User(msgspec.Struct):
    username: str = ""


class _AdmissionRequest(msgspec.Struct, Generic[Shape], rename="camel"):
    uid: str
    operation: Verb
    kind: _Kind | None = None
    resource: _Resource | None = None
    sub_resource: str | None = None
    name: str | None = None
    namespace: str | None = None
    user_info: _User | None = None
    object: Shape | None = None
    old_object: Shape | None = None
    dry_run: bool | None = None


class _AdmissionReview(msgspec.Struct, Generic[Shape], rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _AdmissionRequest[Shape] | None = None


class _Identified(msgspec.Struct):
    uid: str


class _IdentifiedReview(msgspec.Struct):
    request: _Identified


_Review = _AdmissionReview[Object]
_Asked = _AdmissionRequest[Object]

Parse = Callable[[bytes], Request]
"""A function that reads an AdmissionReview. It raises BadReview if the review is invalid."""

_decode = msgspec.json.Decoder(_Review).decode
_decode_uid = msgspec.json.Decoder(_IdentifiedReview).decode
_NO_KIND = _Kind()
_NO_RESOURCE = _Resource()
_NOBODY = _User()


def parse(body: bytes) -> Request:
    """Read an AdmissionReview.

    If it is invalid, raise BadReview with the problem, and with the uid if it can be read.
    """
    if not body:
        raise BadReview("the request has no body: send an AdmissionReview")

    try:
        review = decode_with(_decode, body)
    except NotJson as problem:
        raise BadReview(f"the body can't be read as an {KIND}: {problem}", _uid_of(body)) from None

    return _request_in(review)


def parser(shape: type[Shape]) -> Parse:
    """Return a function like `parse` that reads only the fields in `shape`.

    `shape` is a TypedDict. Skipping the other fields takes a fraction of the time and memory. An
    object that doesn't match `shape` is read whole, so that a rule can name the problem.
    """
    decode = msgspec.json.Decoder(_AdmissionReview[shape]).decode  # type: ignore[valid-type]

    def parse_shape(body: bytes) -> Request:
        try:
            review = decode_with(decode, body)
        except NotJson:
            return parse(body)
        return _request_in(review)

    return parse_shape


def _request_in(review: _Review) -> Request:
    """Return the request in a decoded review. Raise BadReview if it can't be judged."""
    request = review.request
    if review.api_version != API_VERSION or review.kind != KIND:
        actual = f"{quote(review.api_version)}, {quote(review.kind)}"
        raise BadReview(
            f'apiVersion and kind must be "{API_VERSION}", "{KIND}", not {actual}',
            request.uid if request else "",
        )
    if request is None or not request.uid:
        raise BadReview("request.uid is missing: the answer must repeat it")

    return _read_request(request)


def _read_request(request: _Asked) -> Request:
    """Return the request with empty texts and defaults for missing fields."""
    obj, old = _read_objects(request)
    kind = request.kind or _NO_KIND
    resource = request.resource or _NO_RESOURCE
    user = request.user_info or _NOBODY

    return Request(
        request.uid,
        kind.group,
        kind.kind,
        resource.resource,
        request.sub_resource or "",
        request.operation,
        request.name or _name(obj),
        request.namespace or "",
        user.username,
        obj,
        old,
        request.dry_run is True,
    )


def _read_objects(request: _Asked) -> tuple[Object, Object | None]:
    """Return the object that is judged, and the old object of an UPDATE (otherwise None).

    Raise BadReview if one is missing.
    """
    deletes = request.operation == "DELETE"
    obj = request.old_object if deletes else request.object
    if obj is None:
        raise _missing(request, "oldObject" if deletes else "object")
    if request.operation != "UPDATE":
        return obj, None
    if request.old_object is None:
        raise _missing(request, "oldObject")

    return obj, request.old_object


def _name(obj: JsonMap) -> str:
    """Return the name in `obj`, for requests without a name.

    Requests for a CREATE with generateName and for a bulk DELETE have no name.
    """
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""


def _missing(request: _Asked, field: str) -> BadReview:
    return BadReview(
        f"request.{field} is missing: {request.operation} can't be judged without it", request.uid
    )


def _uid_of(body: bytes) -> str:
    """Return the uid of a review with an unreadable field, or "" if the uid is unreadable too."""
    try:
        return decode_with(_decode_uid, body).request.uid
    except NotJson:
        return salvage_uid(body)


def salvage_uid(prefix: bytes) -> str:
    """Return the uid in the first 4 KiB of an unreadable body, or "" if none can be read.

    API servers write the uid first.
    """
    match = _UID.search(prefix[:_SALVAGE])
    return match[1].decode("utf-8", "replace") if match and match[1] else ""


def namespace_in(review: bytes) -> str:
    """Return the namespace in the first 4 KiB of an encoded review, or "" if it has none.

    API servers write the namespace of the request before the object.
    """
    match = _NAMESPACE.search(review, 0, _SALVAGE)
    return match[1].decode("utf-8", "replace") if match else ""


def shape_findings(request: Request) -> Findings:
    """Return findings about the metadata of an object, on which all rules rely.

    Metadata must be a map or null, and so must labels and annotations. A name must be valid.
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

    With `request`, the details of a rejection with findings name the object for kubectl.
    """
    if verdict.allowed and not verdict.patch and not verdict.warnings:
        return _ALLOWED % to_json(uid)
    response: Object = {"uid": uid, "allowed": verdict.allowed}
    if verdict.warnings:
        response["warnings"] = _listed(verdict.warnings)
    if not verdict.allowed:
        response["status"] = _status(verdict, request)
        if verdict.causes:
            # With causes, kubectl does not print which webhook has rejected the object. In the
            # audit log, the API server puts the name of the webhook before this key.
            response["auditAnnotations"] = {"verdict": "refused"}
    elif verdict.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(to_json(verdict.patch)).decode("ascii")
    return to_json({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _status(verdict: Verdict, request: Request | None) -> Object:
    """Return the Kubernetes Status of a rejection."""
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
    """Return the first _MOST_WARNINGS warnings, and a line with the number of the others.

    Warnings are cut only if an API server would cut them, because many end with a remedy.
    """
    are_few = sum(map(len, warnings)) <= _MOST_CHARACTERS
    most = _MOST_CHARACTERS if are_few else _SHORT_WARNING
    listed = [header_line(warning, most) for warning in warnings[:_MOST_WARNINGS]]
    more = len(warnings) - _MOST_WARNINGS
    return [*listed, f"warnings that are not listed: {more:,}"] if more > 0 else listed


def header_line(warning: str, most: int) -> str:
    """Return `warning` as the value of an HTTP header of at most `most` characters."""
    text = visible(warning[: most + 1])  # truncated first, because it takes linear time
    return text if len(text) <= most else f"{text[: most - 3]}..."

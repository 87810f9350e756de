"""The envelope: what is read from it, and what a verdict looks like as bytes."""

import base64
import json
import tracemalloc
from typing import Any, TypedDict

import pytest

from app.admission.review import (
    BadReview,
    Request,
    encode,
    header_line,
    namespace_in,
    parse,
    parser,
    salvage_uid,
)
from app.admission.verdict import (
    ALLOWED,
    FAILED,
    MOST_FINDINGS,
    Verdict,
    bad_request,
    inapplicable,
    judged,
    not_allowed,
    patched,
    unavailable,
)
from app.objects.fields import FieldError
from app.objects.shape import Object
from tests.reviews import load

REVIEW = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
OBJECT = {"metadata": {"name": "of-object", "namespace": "its-own"}}


def read(**fields: Any) -> Request:
    request = {"uid": "u", "operation": "CREATE", "object": {}, **fields}
    return parse(json.dumps({**REVIEW, "request": request}).encode())


def test_a_recorded_request_is_read_whole() -> None:
    recorded = load("clustertopology.managed-update-by-user")
    assert parse(json.dumps(recorded).encode()) == Request(
        uid=recorded["request"]["uid"],
        group="grove.io",
        kind="ClusterTopology",
        resource="clustertopologies",
        subresource="",
        operation="UPDATE",
        name="grove-topology",
        namespace="",
        username="alice",
        object=recorded["request"]["object"],
        old=recorded["request"]["oldObject"],
        dry_run=False,
    )


class _Named(TypedDict, total=False):
    name: Any


class _Shape(TypedDict, total=False):
    metadata: _Named | None


def test_only_the_fields_of_a_shape_are_read() -> None:
    obj = {"metadata": {"name": "a", "managedFields": [{}]}, "spec": {"replicas": 1}}
    old: Object = {"metadata": None, "status": {}}
    fields = {"uid": "u", "operation": "UPDATE", "object": obj, "oldObject": old}

    request = parser(_Shape)(json.dumps({**REVIEW, "request": fields}).encode())

    assert request.object == {"metadata": {"name": "a"}}
    assert request.old == {"metadata": None}
    assert (request.uid, request.name) == ("u", "a")


@pytest.mark.parametrize("metadata", [[], "text", 7])
def test_an_object_of_another_form_is_read_whole(metadata: Any) -> None:
    obj = {"metadata": metadata, "spec": {"replicas": 1}}
    review = {**REVIEW, "request": {"uid": "u", "operation": "CREATE", "object": obj}}

    assert parser(_Shape)(json.dumps(review).encode()).object == obj


def test_a_review_that_can_not_be_read_is_the_same_problem_with_a_shape() -> None:
    for body in (b"", b"{", b'{"kind": "AdmissionReview"}', b'{"x":' + b"[" * 100_000):
        with pytest.raises(BadReview) as whole:
            parse(body)
        with pytest.raises(BadReview) as shaped:
            parser(_Shape)(body)
        assert str(shaped.value) == str(whole.value)


def test_the_least_request_is_read() -> None:
    assert read() == Request("u", "", "", "", "", "CREATE", "", "", "", {}, None, False)


def test_a_deletion_is_about_the_old_object() -> None:
    request = read(operation="DELETE", object=None, oldObject=OBJECT)
    assert (request.object, request.old, request.name) == (OBJECT, None, "of-object")


def test_a_creation_has_no_old_object() -> None:
    assert read(object=OBJECT, oldObject={"metadata": {}}).old is None


@pytest.mark.parametrize(
    ("fields", "name", "namespace"),
    [
        pytest.param(
            {"name": "a", "namespace": "b", "object": OBJECT}, "a", "b", id="the request says both"
        ),
        pytest.param({"object": OBJECT}, "of-object", "", id="only the object does"),
        pytest.param({"namespace": "b", "object": OBJECT}, "of-object", "b", id="each says one"),
        pytest.param(
            {"name": None, "namespace": "", "object": OBJECT}, "of-object", "", id="null and empty"
        ),
        pytest.param(
            {"object": {"metadata": {"generateName": "a-"}}},
            "",
            "",
            id="a name that is yet to be made",
        ),
        pytest.param({"name": "", "namespace": None}, "", "", id="neither"),
        pytest.param(
            {"object": {"metadata": {"name": 7, "namespace": {}}}}, "", "", id="nor in the object"
        ),
        pytest.param({"object": {"metadata": ["name"]}}, "", "", id="metadata is a list"),
    ],
)
def test_a_name_comes_from_the_request_else_from_the_object_and_a_namespace_only_from_the_request(
    fields: dict[str, Any], name: str, namespace: str
) -> None:
    request = read(**fields)
    assert (request.name, request.namespace) == (name, namespace)


@pytest.mark.parametrize("dry_run", [None, False])
def test_only_true_is_a_dry_run(dry_run: bool | None) -> None:
    assert read(dryRun=dry_run).dry_run is False
    assert read(dryRun=True).dry_run is True


@pytest.mark.parametrize(
    ("metadata", "deleting"),
    [
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, True),
        ({"deletionTimestamp": None}, False),
        (None, False),
    ],
)
def test_an_object_with_a_deletion_timestamp_is_deleting(metadata: Any, deleting: bool) -> None:
    assert read(object={"metadata": metadata}).is_deleting is deleting


@pytest.mark.parametrize("user", [{"username": ""}, {}, None])
def test_a_user_without_a_name_is_nobody(user: Any) -> None:
    assert read(userInfo=user).username == ""


@pytest.mark.parametrize(
    "fields",
    [
        {"uid": None},
        {"operation": "PATCH"},
        {"dryRun": "true"},
        {"dryRun": 1},
        {"name": 7},
        {"namespace": ["b"]},
        {"subResource": {}},
        {"userInfo": {"username": 7}},
        {"kind": {"group": []}},
        {"resource": {"resource": True}},
        {"oldObject": "x"},
    ],
)
def test_a_field_of_another_type_is_named(fields: dict[str, Any]) -> None:
    (name,) = fields
    with pytest.raises(
        BadReview, match=rf"read as an AdmissionReview: .* - at `\$\.request\.{name}"
    ):
        read(**fields)


@pytest.mark.parametrize(
    ("body", "uid"),
    [
        pytest.param(b'{"request":{"uid":"a-b","x', "a-b", id="the API server's order"),
        pytest.param(b'{"request": {"uid" : "a-b"', "a-b", id="with spaces"),
        pytest.param(b'{"uid":"first","uid":"second"', "first", id="the first one"),
        pytest.param(b'{"uid":7,', "", id="not text"),
        pytest.param(b'{"uid":7,"object":{"uid":"a"', "", id="not text, before another one"),
        pytest.param(b'{"uid":"', "", id="cut off in the middle"),
        pytest.param(b'{"uid":""', "", id="empty"),
        pytest.param(b'{"uid":"a\nb"', "", id="with a newline"),
        pytest.param(b'{"uid":"' + b"a" * 129 + b'"', "", id="longer than any uid"),
        pytest.param(b" " * 5000 + b'{"uid":"a"', "", id="too far in"),
        pytest.param(b'{"uid":"\xff"', "\ufffd", id="not UTF-8"),
    ],
)
def test_a_uid_is_saved_from_what_can_not_be_read(body: bytes, uid: str) -> None:
    assert salvage_uid(body) == uid


def test_a_review_with_a_field_of_another_type_is_answered_by_its_uid() -> None:
    """Wherever the uid is, and whatever has a uid before it."""
    owners = [{"uid": f"owner-{number}"} for number in range(1000)]
    fields = {"object": {"metadata": {"ownerReferences": owners}}, "name": 7, "uid": "a-b"}
    with pytest.raises(BadReview, match=r"request\.name") as caught:
        parse(json.dumps({"request": fields}).encode())
    assert (caught.value.uid, caught.value.code) == ("a-b", 400)


def test_a_body_that_breaks_off_is_answered_by_its_uid() -> None:
    with pytest.raises(BadReview) as caught:
        parse(b'{"request":{"uid":"a-b"')
    assert (caught.value.uid, caught.value.code) == ("a-b", 400)


FINDING = FieldError("spec.x", "FieldValueInvalid", 'Invalid value: "1": no')
OTHER = FieldError("spec.y", "FieldValueRequired", "Required value: yes")
NEUTRAL = (
    'grove-admission failed to judge this request; this is a bug. Search its log for "verdict'
    ' failed" to find the cause'
)


def status(code: int, reason: str, message: str, **more: Any) -> dict[str, Any]:
    return {
        "allowed": False,
        "status": {"status": "Failure", "message": message, "reason": reason, "code": code, **more},
    }


def causes(*errors: FieldError) -> dict[str, Any]:
    return {
        "causes": [
            {"reason": error.reason, "message": error.message, "field": error.field}
            for error in errors
        ]
    }


@pytest.mark.parametrize(
    ("verdict", "response"),
    [
        pytest.param(ALLOWED, {"allowed": True}, id="allowed"),
        pytest.param(judged([]), {"allowed": True}, id="nothing found"),
        pytest.param(
            judged([], ["mind"]),
            {"allowed": True, "warnings": ["mind"]},
            id="allowed with a warning",
        ),
        pytest.param(patched([]), {"allowed": True}, id="nothing to patch: no patch at all"),
        pytest.param(not_allowed("no"), status(403, "Forbidden", "no"), id="not allowed"),
        pytest.param(
            judged([FINDING]),
            status(422, "Invalid", 'spec.x: Invalid value: "1": no', details=causes(FINDING)),
            id="one finding",
        ),
        pytest.param(
            judged([FINDING, OTHER], ["mind"]),
            {
                "warnings": ["mind"],
                **status(
                    422,
                    "Invalid",
                    '[spec.x: Invalid value: "1": no, spec.y: Required value: yes]',
                    details=causes(FINDING, OTHER),
                ),
            },
            id="every finding, in order",
        ),
        pytest.param(
            unavailable("later"), status(503, "ServiceUnavailable", "later"), id="unavailable"
        ),
        pytest.param(FAILED, status(500, "InternalError", NEUTRAL), id="failed"),
        pytest.param(
            inapplicable(),
            status(
                500,
                "PatchDoesNotApply",
                "grove-admission created a patch that can't be applied to the object; this is a bug",
            ),
            id="a patch that doesn't fit",
        ),
        pytest.param(bad_request("odd"), status(400, "BadRequest", "odd"), id="bad request"),
        pytest.param(
            bad_request("big", 413), status(413, "RequestEntityTooLarge", "big"), id="too large"
        ),
        pytest.param(
            bad_request("odd", 415), status(415, "UnsupportedMediaType", "odd"), id="no JSON"
        ),
    ],
)
def test_a_verdict_as_bytes(verdict: Verdict, response: dict[str, Any]) -> None:
    """kubectl does not say which webhook found something, so that the audit log has to."""
    if verdict.causes:
        response = {**response, "auditAnnotations": {"verdict": "refused"}}
    assert json.loads(encode('u"\\', verdict)) == {
        **REVIEW,
        "response": {"uid": 'u"\\', **response},
    }


def test_an_answer_lists_a_hundred_findings_and_says_how_many_there_are_besides() -> None:
    findings = [
        FieldError(f"spec.x[{number}]", "FieldValueInvalid", "no") for number in range(12_345)
    ]
    verdict = judged(findings)
    message = "Too many: findings from this one on are not listed (12,245 more)"
    last = FieldError("spec.x[100]", "FieldValueTooMany", message)
    assert verdict.causes == (*findings[:MOST_FINDINGS], last)
    assert verdict.message.endswith(f", spec.x[99]: no, spec.x[100]: {message}]")
    assert judged(findings[:MOST_FINDINGS]).causes == tuple(findings[:MOST_FINDINGS])


def test_an_answer_has_a_hundred_warnings_at_most() -> None:
    warnings = [f"mind {number}" for number in range(1234)]
    response = json.loads(encode("u", judged([], warnings)))["response"]
    assert response["warnings"] == [*warnings[:100], "warnings that are not listed: 1,134"]


def test_a_patch_travels_in_base64() -> None:
    operation = {"op": "add", "path": "/a", "value": {"ü": [1, None]}}
    response = json.loads(encode("u", patched([operation], warnings=["mind"])))["response"]
    assert json.loads(base64.b64decode(response.pop("patch"))) == [operation]
    assert response == {"uid": "u", "allowed": True, "warnings": ["mind"], "patchType": "JSONPatch"}


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        (ALLOWED, "allowed"),
        (patched([{"op": "remove", "path": "/a"}]), "patched"),
        (not_allowed("no"), "refused"),
        (bad_request("odd"), "refused"),
        (unavailable("later"), "failed"),
        (FAILED, "failed"),
    ],
)
def test_outcomes_are_a_small_fixed_set(verdict: Verdict, outcome: str) -> None:
    assert verdict.outcome == outcome


@pytest.mark.parametrize(
    ("warning", "shown"),
    [
        pytest.param("plain", "plain", id="as it is"),
        pytest.param(
            "a\r\nX-Header: b\x00",
            r"a\x0d\x0aX-Header: b\x00",
            id="no control characters in a header",
        ),
        pytest.param("x" * 256, "x" * 256, id="as long as may be"),
        pytest.param("x" * 257, "x" * 253 + "...", id="longer"),
    ],
)
def test_a_warning_fits_into_a_header(warning: str, shown: str) -> None:
    assert header_line(warning, 256) == shown


@pytest.mark.parametrize(
    ("lengths", "shown"),
    [
        pytest.param([300, 3796], [300, 3796], id="as many as an API server shows whole"),
        pytest.param([300, 3797, 20], [256, 256, 20], id="more"),
    ],
)
def test_a_long_warning_keeps_its_end_unless_there_are_many(
    lengths: list[int], shown: list[int]
) -> None:
    verdict = ALLOWED.with_warnings("x" * length for length in lengths)
    warnings = json.loads(encode("u", verdict))["response"]["warnings"]
    assert [len(warning) for warning in warnings] == shown


def test_only_the_beginning_of_a_long_warning_is_read() -> None:
    """A copy of the whole text would need 10 MB."""
    text = "\u00e9" * 5_000_000
    tracemalloc.start()
    try:
        assert len(header_line(text, 256)) == 256
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1_000_000


@pytest.mark.parametrize(
    ("review", "namespace"),
    [
        (b'{"request":{"uid":"u","name":"n","namespace":"team","object":{"x":1}}}', "team"),
        (b'{"request":{"namespace" : "a", "object": {"metadata": {"namespace": "b"}}}}', "a"),
        (rb'{"request":{"name":"\"namespace\":\"b\"","namespace":"a"}}', "a"),
        (b'{"request":{"namespace":""}}', ""),
        (b'{"request":{"namespace":"' + b"x" * 64 + b'"}}', ""),
        (b" " * 4096 + b'{"request":{"namespace":"a"}}', ""),
        (b"", ""),
    ],
)
def test_the_namespace_of_a_review_is_found_before_it_is_read(
    review: bytes, namespace: str
) -> None:
    assert namespace_in(review) == namespace

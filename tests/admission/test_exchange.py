"""What can be wrong with a request: always a review, or a 4xx if there is no uid to answer to;
never a 500, never an allow by accident; and the same over ASGI as on a connection of ours.

Tests `app/admission/asgi.py` and `app/admission/verdict.py`.
"""

import asyncio
import gc
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from app.admission.decide import Route
from app.admission.exchange import FEW_BYTES, MAX_BODY, MAX_VALUES, Exchange, deadline
from app.admission.verdict import ALLOWED, Later, Verdict, patched
from app.base.trace import IS_STRANGE
from tests.admission.ways import ask_both
from tests.reviews import JSON_HEADERS, Caller, OverAsgi, Seen, load

pytestmark = pytest.mark.untraced

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
PATH = "/validate/podgroup"


def review(**changes: Any) -> dict[str, Any]:
    example = load("podgroup.valid")
    example["request"]["uid"] = UID
    example["request"].update(changes)
    return example


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def with_metadata(metadata: Any) -> dict[str, Any]:
    obj = load("podgroup.valid")["request"]["object"]
    return review(object={**obj, "metadata": metadata})


def with_value(value: bytes, **changes: Any) -> bytes:
    """A review that has this JSON in place of the text "@"."""
    return encoded(review(**changes)).replace(b'"@"', value)


async def post(
    caller: Caller, body: bytes, content_type: str | None = "application/json"
) -> httpx.Response:
    """The answer on both ways."""
    headers = {"content-type": content_type} if content_type is not None else {}
    return await ask_both(
        caller.app, "POST", PATH, content=body, headers=headers, params={"timeout": "10s"}
    )


PADDING = {"note": "x" * MAX_BODY}

WITH_UID: list[Any] = [
    pytest.param(encoded(review())[:-40], 400, "read as an AdmissionReview", id="truncated"),
    pytest.param(
        encoded({**review(), "apiVersion": "admission.k8s.io/v1beta1"}),
        400,
        "apiVersion",
        id="old version",
    ),
    pytest.param(
        encoded({**review(), "kind": "Review"}), 400, "kind must be", id="another kind of envelope"
    ),
    pytest.param(encoded(review(object=None)), 400, "request.object is missing", id="no object"),
    pytest.param(
        encoded(review(object=[1])),
        400,
        "Expected `object | null`, got `array` - at `$.request.object`",
        id="object is a list",
    ),
    pytest.param(
        encoded(review(object="x")),
        400,
        "Expected `object | null`, got `str` - at `$.request.object`",
        id="object is text",
    ),
    pytest.param(
        encoded(review(operation="UPDATE", oldObject=3)),
        400,
        "Expected `object | null`, got `int` - at `$.request.oldObject`",
        id="old a number",
    ),
    pytest.param(
        encoded(review(operation="DELETE", oldObject=None)),
        400,
        "oldObject is missing",
        id="no old one",
    ),
    pytest.param(
        encoded(review(operation="PATCH")),
        400,
        "Invalid enum value 'PATCH' - at `$.request.operation`",
        id="unknown operation",
    ),
    pytest.param(
        encoded(review(operation=None)),
        400,
        "Expected `str`, got `null` - at `$.request.operation`",
        id="no operation",
    ),
    pytest.param(
        encoded(review(operation=["CREATE"])),
        400,
        "Expected `str`, got `array` - at `$.request.operation`",
        id="operation a list",
    ),
    pytest.param(
        encoded(review(operation={})),
        400,
        "Expected `str`, got `object` - at `$.request.operation`",
        id="operation is a map",
    ),
    pytest.param(
        encoded(review(resource=[])),
        400,
        "Expected `object | null`, got `array` - at `$.request.resource`",
        id="resource a list",
    ),
    pytest.param(
        encoded(review(operation="CONNECT")), 400, "judges CREATE, UPDATE", id="not one of ours"
    ),
    pytest.param(
        encoded(review(kind=[])), 400, "got `array` - at `$.request.kind`", id="kind is a list"
    ),
    pytest.param(
        encoded(review(userInfo="me")),
        400,
        "got `str` - at `$.request.userInfo`",
        id="user is text",
    ),
    pytest.param(
        encoded(review(kind={"group": "grove.io", "version": "v1alpha1", "kind": "PodClique"})),
        400,
        '"PodClique"',
        id="wrong kind for the path",
    ),
    pytest.param(
        encoded(review(subResource="status")),
        400,
        "podgroups/status",
        id="a subresource we don't judge",
    ),
    pytest.param(
        encoded(with_metadata([])),
        422,
        "metadata: Invalid value: []: must be a map",
        id="metadata a list",
    ),
    pytest.param(
        encoded(with_metadata({"name": "a", "labels": ["x"]})),
        422,
        "metadata.labels: Invalid",
        id="labels are a list",
    ),
    pytest.param(
        encoded(with_metadata({"name": "a", "annotations": 1})),
        422,
        "metadata.annotations",
        id="annotations a number",
    ),
    pytest.param(
        encoded(with_metadata({"name": "a\n"})),
        422,
        r'metadata.name: Invalid value: "a\n"',
        id="newline",
    ),
    pytest.param(
        encoded(with_metadata({"name": "a\u0000b"})), 422, r"a\u0000b", id="NUL in the name"
    ),
    pytest.param(
        encoded(review(object={"spec": []})),
        422,
        "spec: Invalid value: []: must be a map",
        id="spec a list",
    ),
    pytest.param(
        encoded(review(object={"spec": {"subGroups": {}}})),
        422,
        "spec.subGroups: Invalid value",
        id="subGroups a map",
    ),
    pytest.param(
        encoded(with_metadata({"name": "\ud800"})),
        400,
        "read as an AdmissionReview",
        id="a lone surrogate",
    ),
    pytest.param(
        encoded(review())[:-1] + b',"deep":' + b"[" * 400_000 + b"]" * 400_000 + b"}",
        400,
        "JSON is nested too deeply",
        id="deep nesting",
    ),
    pytest.param(
        with_value(b"[" * 900 + b"]" * 900, object={"metadata": {"labels": "@"}}),
        422,
        "metadata.labels: Invalid value: [[[",
        id="deep labels",
    ),
    pytest.param(
        encoded({**review(), **PADDING}),
        413,
        "larger than the limit of 7 MiB",
        id="more than 7 MiB",
    ),
    pytest.param(
        with_value(b"[%b{}]" % (b"{}," * MAX_VALUES), object={"spec": "@"}),
        413,
        "more than 500000 of the characters",
        id="maps without end",
    ),
    pytest.param(
        with_value(b"[%b1]" % (b"1," * MAX_VALUES), object={"spec": "@"}),
        413,
        "more than 500000 of the characters",
        id="a list without end",
    ),
]

WITHOUT_UID: list[Any] = [
    pytest.param(b"", 400, "no body", id="empty"),
    pytest.param(
        b"hello", 400, "can't be read as an AdmissionReview: JSON is malformed", id="not JSON"
    ),
    pytest.param(b"[]", 400, "Expected `object`, got `array`", id="a list"),
    pytest.param(b"null", 400, "got `null`", id="null"),
    pytest.param(b"true", 400, "got `bool`", id="a boolean"),
    pytest.param(b"\x00", 400, "JSON is malformed", id="NUL"),
    pytest.param(
        encoded({**review(), "request": None}),
        400,
        "request.uid is missing",
        id="no request",
    ),
    pytest.param(
        encoded({**review(), "request": []}),
        400,
        "Expected `object | null`, got `array` - at `$.request`",
        id="request a list",
    ),
    pytest.param(encoded(review(uid="")), 400, "request.uid is missing", id="empty uid"),
    pytest.param(
        encoded(review(uid=7)),
        400,
        "Expected `str`, got `int` - at `$.request.uid`",
        id="uid is a number",
    ),
    pytest.param(
        b"[" * 100_000,
        400,
        "can't be read as an AdmissionReview",
        id="deep nesting and nothing else",
    ),
    pytest.param(b"x" * (MAX_BODY + 1), 413, "larger than the limit", id="large and meaningless"),
]


@pytest.mark.parametrize(("body", "code", "message"), WITH_UID)
async def test_a_bad_request_with_a_uid_gets_a_review(body: bytes, code: int, message: str) -> None:
    answer = await post(Caller(), body)
    assert answer.status_code == 200
    response = answer.json()["response"]
    assert response["uid"] == UID
    assert response["allowed"] is False
    assert response["status"]["code"] == code
    assert message in response["status"]["message"]


@pytest.mark.parametrize(("body", "code", "message"), WITHOUT_UID)
async def test_a_bad_request_without_a_uid_gets_a_status(
    body: bytes, code: int, message: str
) -> None:
    caller = Caller()
    answer = await post(caller, body)
    assert answer.status_code == code
    assert answer.json()["kind"] == "Status"
    assert message in answer.json()["message"]
    assert [verdict.allowed for _, _, verdict in caller.seen.verdicts] == [False, False]


@pytest.mark.parametrize(
    "content_type",
    [
        pytest.param("text/plain", id="text"),
        pytest.param("application/yaml", id="YAML"),
        pytest.param("application/jsonp", id="something like JSON"),
        pytest.param(None, id="none"),
    ],
)
async def test_a_wrong_content_type_is_named(content_type: str | None) -> None:
    answer = await post(Caller(), encoded(review()), content_type)
    status = answer.json()["response"]["status"]
    assert (status["code"], answer.json()["response"]["uid"]) == (415, UID)
    assert f"not {content_type or 'none'}" in status["message"]


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON"])
async def test_json_is_recognised_however_it_is_written(content_type: str) -> None:
    answer = await post(Caller(), encoded(review()), content_type)
    assert answer.json()["response"] == {"uid": UID, "allowed": True}


async def test_the_largest_objects_that_etcd_stores_may_consist_of_fields() -> None:
    """As managedFields do: `"f:image":{},`."""
    stored = load("podgroup.valid")["request"]["object"]
    fields: dict[str, Any] = {f"f:name{number}": {} for number in range(95_000)}
    large = {**stored, "metadata": {**stored["metadata"], "managedFields": [{"fieldsV1": fields}]}}
    body = json.dumps(
        review(operation="UPDATE", object=large, oldObject=large), separators=(",", ":")
    ).encode()
    assert len(body) > 2 * 1.5 * 1024 * 1024 > FEW_BYTES
    assert (await post(Caller(), body)).json()["response"] == {"uid": UID, "allowed": True}


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("body", "mebibytes"),
    [
        pytest.param(
            b"[" + b"{}," * (MAX_BODY // 3 - 1) + b"{}]", 1, id="more maps than a review may have"
        ),
        pytest.param(
            b"[" + b"{}," * (MAX_VALUES // 2 - 1) + b"{}]",
            32,
            id="as many maps as a review may have",
        ),
        pytest.param(
            b"[" + b'{"":{}},' * (MAX_VALUES // 3 - 1) + b"{}]", 64, id="as many maps with a member"
        ),
        pytest.param(
            b"[" + b"1.5," * (MAX_VALUES - 2) + b"1]", 48, id="as many numbers as a review may have"
        ),
    ],
)
def test_the_memory_that_reading_a_review_takes_is_bounded(body: bytes, mebibytes: int) -> None:
    exchange = Caller().app.exchange
    gc.collect()
    tracemalloc.start()
    answer = exchange.answer(exchange.routes[PATH], b"", JSON_HEADERS, body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(answer, tuple)
    assert answer[0] == (413 if mebibytes == 1 else 400)
    assert peak < mebibytes * 2**20


@pytest.mark.parametrize("metadata", [None, {"name": "ok", "labels": None, "annotations": None}])
async def test_null_labels_and_annotations_are_none(metadata: Any) -> None:
    answer = await post(Caller(), encoded(with_metadata(metadata)))
    assert answer.json()["response"] == {"uid": UID, "allowed": True}


async def test_a_body_in_pieces_is_put_together() -> None:
    body = encoded(review())
    sent = await raw(Caller().app, [body[:10], body[10:700], body[700:]])
    assert json.loads(sent[1]["body"])["response"] == {"uid": UID, "allowed": True}


async def test_a_large_body_in_pieces_is_refused_before_it_is_held() -> None:
    taken = []

    def pieces() -> Any:
        yield encoded(review())[:-1]
        while True:
            taken.append(1)
            yield b" " * (1024 * 1024)

    sent = await raw(Caller().app, pieces())
    response = json.loads(sent[1]["body"])["response"]
    assert (response["uid"], response["status"]["code"]) == (UID, 413)
    assert len(taken) == 7


async def test_a_caller_that_hangs_up_is_no_verdict() -> None:
    for pieces in ([], [encoded(review())[:100]]):
        sent = await raw(Caller().app, pieces, hang_up=True)
        assert sent[0]["status"] == 400


async def raw(app: OverAsgi, pieces: Any, *, hang_up: bool = False) -> list[Any]:
    """The messages that `app` sends for a POST whose body comes in `pieces`."""
    waiting = iter(pieces)
    last = None if isinstance(pieces, list) else object()
    count = len(pieces) if isinstance(pieces, list) else -1
    delivered = 0
    sent: list[Any] = []

    async def receive() -> Any:
        nonlocal delivered
        delivered += 1
        try:
            body = next(waiting)
        except StopIteration:
            return {"type": "http.disconnect"}
        return {
            "type": "http.request",
            "body": body,
            "more_body": hang_up or last is not None or delivered < count,
        }

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": PATH,
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    await app(scope, receive, send)
    return sent


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        (b"timeout=10s", 9.0),
        (b"timeout=500ms", 0.45),
        (b"timeout=1m", 54.0),
        (b"timeout=1m30s", 9.0),
        (b"timeout=1s500ms", 1.35),
        (b"timeout=.5s", 0.45),
        (b"timeout=5.s", 4.5),
        (b"timeout=900us", 0.00081),
        (b"timeout=1000ns", 0.0000009),
        (b"timeout=-5s", 9.0),
        (b"timeout=5", 9.0),
        (b"timeout=5s!", 9.0),
        (b"timeout=1e3s", 9.0),
        (b"timeout=5s\n", 9.0),
        (b"timeout=2.5s&x=y", 2.25),
        (b"timeout=", 9.0),
        (b"timeout=soon", 9.0),
        (b"timeout=0s", 9.0),
        (b"", 9.0),
    ],
)
def test_the_deadline_is_the_api_servers_less_a_margin(query: bytes, seconds: float) -> None:
    assert deadline(query) == pytest.approx(seconds)


def app_with(handler: Callable[[Any], Any]) -> tuple[OverAsgi, Seen]:
    caller = Caller()
    route = Route(
        PATH, "scheduling.run.ai", "PodGroup", "podgroups", "", frozenset({"CREATE"}), handler
    )
    return OverAsgi(Exchange({PATH: route}, caller.seen)), caller.seen


async def asked(app: OverAsgi, limit: str) -> Any:
    headers = {"content-type": "application/json"}
    answer = await ask_both(
        app, "POST", PATH, content=encoded(review()), headers=headers, params={"timeout": limit}
    )
    return answer.json()["response"]


async def test_a_verdict_that_does_not_come_is_a_503_in_time() -> None:
    async def never() -> Any:
        await asyncio.Event().wait()

    app, _ = app_with(lambda _: Later(never))
    response = await asked(app, "10ms")
    assert (response["uid"], response["status"]["code"]) == (UID, 503)
    assert "took too long" in response["status"]["message"]


@pytest.mark.parametrize("trusted", [False, True])
async def test_calls_for_a_verdict_know_whether_anybody_may_have_asked(trusted: bool) -> None:
    seen: list[bool] = []

    async def judge() -> Verdict:
        seen.append(IS_STRANGE.get())
        return ALLOWED

    app, _ = app_with(lambda _: Later(judge))
    routes = app.exchange.routes
    routes[PATH] = replace(routes[PATH], trusted=trusted)
    assert (await asked(app, "10s"))["allowed"]
    assert seen == [not trusted] * 2


@pytest.mark.parametrize("late", [False, True])
async def test_a_crash_is_a_neutral_500_and_its_trace_is_in_the_log(
    late: bool, caplog: Any
) -> None:
    async def crash_late() -> Any:
        raise RuntimeError("the secret is 42")

    def crash(_: Any) -> Any:
        if late:
            return Later(crash_late)
        raise RuntimeError("the secret is 42")

    app, seen = app_with(crash)
    response = await asked(app, "10s")
    assert (response["uid"], response["allowed"], response["status"]["code"]) == (UID, False, 500)
    assert "secret" not in json.dumps(response)
    assert "the secret is 42" in caplog.text
    assert caplog.records[-1].uid == UID
    assert [verdict.outcome for _, _, verdict in seen.verdicts] == ["failed", "failed"]


async def test_a_patch_that_does_not_fit_is_a_500() -> None:
    app, _ = app_with(lambda _: patched([{"op": "remove", "path": "/spec/nowhere/x"}]))
    response = await asked(app, "10s")
    assert (response["allowed"], response["status"]["reason"]) == (False, "PatchDoesNotApply")
    assert "patch" not in response


async def test_a_patch_that_can_not_be_written_is_the_users_to_mend() -> None:
    """It has a part of the object, which can be read."""
    nested: list[Any] = []
    for _ in range(1_000_000):
        nested = [nested]
    app, seen = app_with(lambda _: patched([{"op": "add", "path": "/x", "value": nested}]))
    response = await asked(app, "10s")
    status = response["status"]
    assert (status["code"], status["message"]) == (400, "the object is nested too deeply")
    assert [verdict.code for _, _, verdict in seen.verdicts] == [400, 400]


async def test_reviews_of_strangers_that_wait_have_a_limit_together() -> None:
    released = asyncio.Event()

    async def judge() -> Verdict:
        await released.wait()
        return ALLOWED

    review = load("podgroup.valid")
    review["request"]["object"]["spec"]["junk"] = [0] * 400_000
    body = json.dumps(review, separators=(",", ":")).encode()
    judged = Route(
        "/a",
        "scheduling.run.ai",
        "PodGroup",
        "podgroups",
        "",
        frozenset({"CREATE"}),
        lambda _: Later(judge),
    )
    trusted = replace(judged, trusted=True)
    exchange = Exchange({}, Seen())

    def ask(route: Route) -> Any:
        return exchange.answer(route, b"", {b"content-type": b"application/json"}, body)

    for _ in range(2):
        waiting = [asyncio.ensure_future(ask(judged))]
        code, refused = ask(judged)
        assert (code, json.loads(refused)["response"]["status"]["code"]) == (200, 503)
        waiting.append(asyncio.ensure_future(ask(trusted)))
        await asyncio.sleep(0)
        waiting.pop(0).cancel()
        await asyncio.sleep(0)
        waiting.append(asyncio.ensure_future(ask(judged)))
        released.set()
        answers = await asyncio.gather(*waiting)
        assert ["503" in answer.decode() for _, answer in answers] == [False] * 2
        released.clear()

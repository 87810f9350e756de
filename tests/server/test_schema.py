"""The HTTP API against its OpenAPI document, with requests that schemathesis makes of it, good and
bad ones.

FastAPI's document describes the endpoints for people. The paths of the webhooks, which are not
FastAPI's, are added.
"""

import asyncio
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import HealthCheck, settings
from starlette.responses import JSONResponse

from app.admission.review import Operation
from app.webhooks.registry import WEBHOOKS
from tests.effort import tries
from tests.server.test_endpoints import Served

if TYPE_CHECKING:
    # It takes long to import, and only the worker that runs the test has to.
    import schemathesis

TEXT = {"type": "string"}
MAP = {"type": "object"}
REVIEW = {"apiVersion": {"const": "admission.k8s.io/v1"}, "kind": {"const": "AdmissionReview"}}
REQUEST = {
    "uid": {"type": "string", "minLength": 1},
    "kind": {"type": "object", "properties": {"group": TEXT, "version": TEXT, "kind": TEXT}},
    "resource": {
        "type": "object",
        "properties": {"group": TEXT, "version": TEXT, "resource": TEXT},
    },
    "operation": {"enum": get_args(Operation)},
    "userInfo": {"type": "object", "properties": {"username": TEXT}},
    "object": MAP,
    "oldObject": MAP,
    "dryRun": {"type": "boolean"},
}
STATUS = {
    "code": {"enum": [400, 403, 413, 415, 422, 503]},
    "message": TEXT,
    "reason": TEXT,
    "status": {"const": "Failure"},
}
RESPONSE = {
    "uid": TEXT,
    "allowed": {"type": "boolean"},
    "status": {"type": "object", "properties": STATUS},
}


def whole(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def answer(schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": "x", "content": {"application/json": {"schema": schema}}}


def admission_path() -> dict[str, Any]:
    """A POST of a review, which is answered with a review, or with a Status if there is no uid to
    answer to.
    """
    request = whole(
        {**REVIEW, "request": whole(REQUEST, "uid", "operation", "object")}, *REVIEW, "request"
    )
    review = whole({**REVIEW, "response": whole(RESPONSE, "uid", "allowed")}, *REVIEW, "response")
    status = whole(
        {"kind": {"const": "Status"}, "code": {"type": "integer"}, "message": TEXT}, "kind", "code"
    )
    responses = {"200": answer(review), **{code: answer(status) for code in ("400", "413", "415")}}
    body = {"required": True, "content": {"application/json": {"schema": request}}}
    return {"post": {"requestBody": body, "responses": responses}}


DESCRIBED = WEBHOOKS[:: tries(3, 1)]
"""The webhooks that get requests: their documents are equal but for the path."""


class Described:
    """The server's ASGI app, whose OpenAPI document has the paths of webhooks too."""

    def __init__(self) -> None:
        self._app = Served().app
        document = asyncio.run(Served().request("GET", "/openapi.json")).json()
        document["paths"] |= {webhook.path: admission_path() for webhook in DESCRIBED}
        self._document = JSONResponse(document)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        app = self._document if scope["path"] == "/openapi.json" else self._app
        await app(scope, receive, send)


@pytest.fixture
def document() -> "schemathesis.BaseSchema":
    import schemathesis

    return schemathesis.openapi.from_asgi("/openapi.json", Described())


@settings(
    max_examples=tries(12, 40),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def is_answered_as_described(case: "schemathesis.Case[Any]") -> None:
    """A webhook rejects bad requests within its review, with HTTP 200.

    The texts of a dry run have to be YAML, which the document cannot say.
    """
    from schemathesis.checks import CHECKS

    rejection, acceptance = CHECKS.get_by_names(
        ["negative_data_rejection", "positive_data_acceptance"]
    )
    excluded: list[Any] = []
    if case.path in {webhook.path for webhook in DESCRIBED}:
        excluded = [rejection]
    elif case.path == "/dry-run":
        excluded = [acceptance]
    case.call_and_validate(excluded_checks=excluded)


@pytest.mark.untraced
@pytest.mark.slow
def test_answers_are_what_the_document_says(request: pytest.FixtureRequest) -> None:
    import schemathesis

    schema = schemathesis.pytest.from_fixture("document")
    schema.parametrize()(is_answered_as_described)(request=request)

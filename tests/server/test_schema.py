"""The HTTP API against its OpenAPI document, with requests that schemathesis makes of it, good and
bad ones.

FastAPI's document describes the endpoints for people. The paths of the webhooks, which are not
FastAPI's, are added.
"""

import asyncio
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import CHECKS, load_all_checks
from starlette.responses import JSONResponse

from app.admission.review import OPERATIONS
from app.webhooks.registry import WEBHOOKS
from tests.effort import tries
from tests.server.test_endpoints import Served

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
    "operation": {"enum": sorted(OPERATIONS)},
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


class Described:
    """The server's ASGI app, whose OpenAPI document has the paths of the webhooks too."""

    def __init__(self) -> None:
        self._app = Served().app
        document = asyncio.run(Served().request("GET", "/openapi.json")).json()
        document["paths"] |= {webhook.path: admission_path() for webhook in WEBHOOKS}
        self._document = JSONResponse(document)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        app = self._document if scope["path"] == "/openapi.json" else self._app
        await app(scope, receive, send)


PATHS = {webhook.path for webhook in WEBHOOKS}
load_all_checks()
REJECTION, ACCEPTANCE = CHECKS.get_by_names(["negative_data_rejection", "positive_data_acceptance"])


@pytest.fixture(scope="module")
def document() -> Any:
    return schemathesis.openapi.from_asgi("/openapi.json", Described())


# with a fixture, the worker that runs the test makes its requests, and not each one that collects it
schema = schemathesis.pytest.from_fixture("document")


@pytest.mark.untraced
@pytest.mark.slow
@schema.parametrize()
@settings(
    max_examples=tries(12, 40),
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_answers_are_what_the_document_says(case: schemathesis.Case[Any]) -> None:
    """A webhook rejects bad requests within its review, with HTTP 200.

    The texts of a dry run have to be YAML, which the document cannot say.
    """
    excluded: list[Any] = (
        [REJECTION] if case.path in PATHS else [ACCEPTANCE] if case.path == "/dry-run" else []
    )
    case.call_and_validate(excluded_checks=excluded)

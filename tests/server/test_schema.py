"""The HTTP API against its OpenAPI document, with requests that schemathesis makes of it, good and
bad ones.

The document has the paths of the webhooks too, which FastAPI doesn't serve.
"""

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from starlette.responses import JSONResponse

from app.webhooks.registry import WEBHOOKS
from tests.effort import tries
from tests.server.test_endpoints import Served

if TYPE_CHECKING:
    # It takes long to import, and only the worker that runs the test has to.
    import schemathesis

DESCRIBED = WEBHOOKS[:: tries(3, 1)]
"""The webhooks that get requests: their documents are equal but for the path."""


class Described:
    """The server's ASGI app, whose OpenAPI document has only some webhooks."""

    def __init__(self) -> None:
        self._app = Served().app
        document = asyncio.run(Served().request("GET", "/openapi.json")).json()
        for webhook in {*WEBHOOKS} - {*DESCRIBED}:
            del document["paths"][webhook.path]
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

"""Requests and responses: bodies, media types, representations and warnings."""

from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from app.sandbox.objects import errors
from app.sandbox.objects.objects import Object
from app.sandbox.requests.reads import Representation

_JSON = "application/json"


def media_type_of(request: Request) -> str:
    """The Content-Type without its parameters."""
    return request.headers.get("content-type", _JSON).partition(";")[0].strip()


async def read_body(request: Request) -> Any:
    """The parsed body, or None if it is empty. Raises 400 or 415 if it cannot be read."""
    content = await request.body()
    if not content:
        return None
    if request.method != "PATCH" and media_type_of(request) != _JSON:
        raise errors.unsupported_media_type(
            f"the body of the request was in an unknown format - accepted media types include: {_JSON}; "
            "instead of `kubectl create <kind>` use `kubectl create -f` or `kubectl apply -f`"
        )
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise errors.bad_request(f"the body of the request can't be read: {error}") from error


def require_object(body: Any) -> Object:
    """`body`. Raises 400 if it is not an object."""
    if not isinstance(body, dict):
        raise errors.bad_request("the body of the request must be an object")
    return body


def representation_of(request: Request) -> Representation:
    """The first representation in Accept that the sandbox supports."""
    for offer in request.headers.get("accept", "").split(","):
        if "as=Table" in offer:
            return Representation("table", request.query_params.get("includeObject", "Metadata"))
        if "as=PartialObjectMetadata" in offer:
            return Representation("metadata")
        if offer.partition(";")[0].strip() in (_JSON, "*/*"):
            break
    return Representation()


def json_response(body: Any, code: int = 200) -> Response:
    return Response(orjson.dumps(body), status_code=code, media_type=_JSON)


def warning(text: str) -> str:
    """The value of a Warning header."""
    printable = "".join(char if char.isprintable() and ord(char) < 256 else "?" for char in text.replace("\n", " "))
    escaped = printable.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'

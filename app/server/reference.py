"""Document the HTTP API: in `/openapi.json`, and in `/docs`, where each path can be tried.

The page loads nothing from other hosts, because a cluster may have no internet access. Its files
are in `static/`. The reviews in `reviews/` were recorded from an API server or have the same form,
without `managedFields`. The answers are those of this version.
"""

from functools import cache
from importlib.resources import files
from typing import Any, get_args

from fastapi import FastAPI
from fastapi.responses import Response

from app.admission.decide import Route
from app.admission.review import Verb
from app.base.json import from_json
from app.objects.shape import JsonMap, Object

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_FILES = {
    "/docs": ("docs.html", "text/html"),
    "/docs/page.js": ("page.js", "text/javascript"),
    "/docs/page.css": ("page.css", "text/css"),
}

_TEXT = {"type": "string"}
_OF_KIND = {"group": _TEXT, "version": _TEXT, "kind": _TEXT}
_OF_RESOURCE = {"group": _TEXT, "version": _TEXT, "resource": _TEXT}
_ENVELOPE = {
    "apiVersion": {"const": "admission.k8s.io/v1"},
    "kind": {"const": "AdmissionReview"},
}
_REQUEST = {
    "uid": {"type": "string", "minLength": 1},
    "kind": {"type": "object", "properties": _OF_KIND},
    "resource": {"type": "object", "properties": _OF_RESOURCE},
    "operation": {"enum": get_args(Verb)},
    "userInfo": {"type": "object", "properties": {"username": _TEXT}},
    "object": {"type": ["object", "null"]},
    "oldObject": {"type": ["object", "null"]},
    "dryRun": {"type": "boolean"},
}
_REFUSAL = {
    "code": {"enum": [400, 403, 413, 415, 422, 500, 503]},
    "message": _TEXT,
    "reason": _TEXT,
    "status": {"const": "Failure"},
}
_RESPONSE = {
    "uid": _TEXT,
    "allowed": {"type": "boolean"},
    "warnings": {"type": "array", "items": _TEXT},
    "patchType": {"const": "JSONPatch"},
    "patch": {"type": "string", "format": "byte", "description": "RFC 6902, in base64"},
    "status": {"type": "object", "properties": _REFUSAL},
}


def _whole(properties: JsonMap, *required: str) -> Object:
    """Return the JSON Schema of a map with `properties`, of which `required` must be set."""
    return {"type": "object", "properties": properties, "required": list(required)}


_STATUS = _whole(
    {"kind": {"const": "Status"}, "code": {"type": "integer"}, "message": _TEXT}, "kind", "code"
)
_ASKED = _whole(
    {**_ENVELOPE, "request": _whole(_REQUEST, "uid", "operation", "object")},
    *_ENVELOPE,
    "request",
)
_ANSWERED = _whole(
    {**_ENVELOPE, "response": _whole(_RESPONSE, "uid", "allowed")}, *_ENVELOPE, "response"
)


def add_reference(api: FastAPI) -> None:
    """Add the page `/docs` and its files to `api`."""
    for path, (name, media_type) in _FILES.items():
        _add_file(api, path, name, media_type)


def _add_file(api: FastAPI, path: str, name: str, media_type: str) -> None:
    content = files("app.server").joinpath("static", name).read_bytes()
    headers = {"content-security-policy": _POLICY, "x-content-type-options": "nosniff"}

    @api.head(path, include_in_schema=False)
    @api.get(path, include_in_schema=False)
    async def file() -> Response:
        return Response(content, media_type=media_type, headers=headers)


def webhook(route: Route) -> dict[str, Any]:
    """Return the arguments that describe a webhook to FastAPI, with an example and its answer."""
    operations = ", ".join(sorted(route.operations))
    example = recorded_review(route.path)
    content = {"schema": _ASKED, "example": example["asked"]}
    return {
        "summary": f"Judge {operations} of a {route.kind}",
        "description": "API servers call this webhook. A review with dryRun: true writes nothing.",
        "tags": ["webhooks"],
        "openapi_extra": {
            "requestBody": {"required": True, "content": {"application/json": content}}
        },
        "responses": {
            200: _answer("The verdict", _ANSWERED, example=example["answered"]),
            **{code: _answer("The review can't be read", _STATUS) for code in (400, 413, 415)},
        },
    }


def _answer(description: str, schema: JsonMap, **more: object) -> Object:
    """Return the OpenAPI description of an answer in JSON. `more` may have an `example`."""
    content = {"application/json": {"schema": schema, **more}}
    return {"description": description, "content": content}


@cache
def recorded_review(path: str) -> Object:
    """Return an example of a review for the webhook at `path`: a map of `asked` and `answered`."""
    name = path.strip("/").replace("/", "-")
    content: Object = from_json(
        files("app.server").joinpath("reviews", f"{name}.json").read_bytes()
    )
    return content

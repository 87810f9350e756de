"""Requests and responses: what a path names and needs of RBAC, bodies, media types, representations and warnings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from app.sandbox.admission.authorization import Access
from app.sandbox.objects import errors
from app.sandbox.objects.objects import Key, Object
from app.sandbox.objects.resources import Registry, Served
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
        if "as=PartialObjectMetadata" in offer:
            return Representation(metadata_only=True)
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


@dataclass(frozen=True, slots=True)
class Target:
    """A collection (without a `name`), an object or a subresource."""

    served: Served
    namespace: str
    name: str
    subresource: str

    @property
    def key(self) -> Key:
        return self.namespace, self.name


def find_target(registry: Registry, parts: list[str]) -> Target:
    """The target of a path `api/v1/...` or `apis/<group>/<version>/...`, split into `parts`. Raises 404 if it is not
    served."""
    group, version, path = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    namespace = ""
    if len(path) > 2 and path[0] == "namespaces" and registry.find(group, version, path[2]):
        namespace, path = path[1], path[2:]
    served = registry.find(group, version, path[0])
    if served is None or len(path) > 3 or (namespace and not served.namespaced):
        raise errors.not_served()
    name, subresource = (*path[1:], "", "")[:2]
    if (subresource and subresource not in served.subresources) or (served.namespaced and name and not namespace):
        raise errors.not_served()
    return Target(served, namespace, name, subresource)


def access_of(method: str, params: Mapping[str, str], target: Target) -> Access:
    """The access that a request needs. A collection with a field selector for one name counts as that object."""
    served, name = target.served, target.name
    resource = f"{served.plural}/{target.subresource}" if target.subresource else served.plural
    if not name and method != "POST":
        key, _, value = params.get("fieldSelector", "").partition("=")
        name = value.removeprefix("=") if key == "metadata.name" and "," not in value else ""
    return Access(_verb(method, params, target), served.group, resource, target.namespace, name)


def _verb(method: str, params: Mapping[str, str], target: Target) -> str:
    if method == "GET":
        if params.get("watch") in ("1", "true"):
            return "watch"
        return "get" if target.name else "list"
    if method == "DELETE" and not target.name:
        return "deletecollection"
    return {"POST": "create", "PUT": "update"}.get(method, method.lower())

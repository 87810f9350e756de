"""Read requests, and write parts of responses.

This covers impersonation, paths and the access that they need, options of reads and writes, bodies,
media types and warnings.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from scripts.apiserver.admission.authorization import Access, Authorizer
from scripts.apiserver.objects import errors
from scripts.apiserver.objects.errors import cause
from scripts.apiserver.objects.objects import Frozen, Key, Object, User
from scripts.apiserver.objects.resources import Registry, Served
from scripts.apiserver.objects.selectors import combined, field_selector, label_selector
from scripts.apiserver.requests.reads import Query, Representation

_JSON = "application/json"
_TRUE = ("1", "true")
_USER = "impersonate-user"
_GROUP = "impersonate-group"
_AUTHENTICATED = "system:authenticated"


def acting_user(headers: Headers, user: User, authorizer: Authorizer) -> User:
    """Return the impersonated user, or `user` without impersonation.

    Raise 403 if `user` may not impersonate the other user, and 400 for unsupported headers. An
    impersonated user has only the permissions that RBAC grants:
    https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
    """
    used = {name for name in headers if name.startswith("impersonate-")}
    if not used:
        return user
    if not used <= {_USER, _GROUP} or _USER not in used:
        raise errors.bad_request("the sandbox impersonates a user, with groups, and nothing else")

    name = headers[_USER]
    groups = headers.getlist(_GROUP)
    authorizer.check(user, Access("impersonate", "", "users", name=name))
    for group in groups:
        authorizer.check(user, Access("impersonate", "", "groups", name=group))
    return User(name, tuple(dict.fromkeys((*groups, _AUTHENTICATED))))


def media_type_of(request: Request) -> str:
    """Return the Content-Type without its parameters."""
    return request.headers.get("content-type", _JSON).partition(";")[0].strip()


async def read_body(request: Request) -> Any:
    """Return the parsed body, or None if it is empty. Raise 400 or 415 if it can't be read."""
    content = await request.body()
    if not content:
        return None
    if request.method != "PATCH" and media_type_of(request) != _JSON:
        raise errors.unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include:"
            f" {_JSON}; instead of `kubectl create <kind>` use `kubectl create -f` or `kubectl"
            " apply -f`"
        )

    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise errors.bad_request(f"the body of the request can't be read: {error}") from error


def require_object(body: Any) -> Object:
    """Return `body`. Raise 400 if it is not an object."""
    if not isinstance(body, dict):
        raise errors.bad_request("the body of the request must be an object")
    return body


def representation_of(request: Request) -> Representation:
    """Return the first representation in Accept that the sandbox supports."""
    for offer in request.headers.get("accept", "").split(","):
        if "as=PartialObjectMetadata" in offer:
            return Representation(metadata_only=True)
        if offer.partition(";")[0].strip() in (_JSON, "*/*"):
            break
    return Representation()


def json_response(body: Any, code: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status_code=code, media_type=_JSON)


def warning(text: str) -> str:
    """Return the value of a Warning header."""
    printable = "".join(
        char if char.isprintable() and ord(char) < 256 else "?" for char in text.replace("\n", " ")
    )
    escaped = printable.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'


class RequestTarget(Frozen):
    """The collection, object or subresource that a path names. A collection has no `name`."""

    served: Served
    namespace: str
    name: str
    subresource: str

    @property
    def key(self) -> Key:
        return self.namespace, self.name

    @property
    def exists(self) -> bool:
        """Whether the resource has such a path."""
        if self.subresource and self.subresource not in self.served.subresources:
            return False
        return bool(self.namespace or not self.name or not self.served.namespaced)


def find_target(registry: Registry, parts: list[str]) -> RequestTarget:
    """Return the target of a path that was split into `parts`.

    The path is `api/v1/...` or `apis/<group>/<version>/...`. Raise 404 if it is not served.
    """
    parts = ["", *parts[1:]] if parts[0] == "api" else parts[1:]
    group, version, *path = parts
    namespace = ""
    if len(path) > 2 and path[0] == "namespaces" and registry.find(group, version, path[2]):
        namespace = path[1]
        path = path[2:]

    served = registry.find(group, version, path[0])
    if served is None or len(path) > 3 or (namespace and not served.namespaced):
        raise errors.not_served()

    target = RequestTarget(served, namespace, *(*path[1:], "", "")[:2])
    if not target.exists:
        raise errors.not_served()

    return target


def access_of(method: str, params: Mapping[str, str], target: RequestTarget) -> Access:
    """Return the access that a request needs.

    A collection with a field selector for one name counts as the object with this name.
    """
    served = target.served
    name = target.name
    resource = f"{served.plural}/{target.subresource}" if target.subresource else served.plural
    if not name and method != "POST":
        key, _, value = params.get("fieldSelector", "").partition("=")
        name = value.removeprefix("=") if key == "metadata.name" and "," not in value else ""
    return Access(_verb(method, params, target), served.group, resource, target.namespace, name)


def _verb(method: str, params: Mapping[str, str], target: RequestTarget) -> str:
    if method == "GET":
        if params.get("watch") in _TRUE:
            return "watch"
        return "get" if target.name else "list"
    if method == "DELETE" and not target.name:
        return "deletecollection"
    return {"POST": "create", "PUT": "update"}.get(method, method.lower())


def is_dry_run(values: Any) -> bool:
    """Return whether a write is a dry run.

    Raise 400 for a misspelt value, because the write must not take effect.
    """
    if any(value != "All" for value in values):
        raise errors.bad_request(f'dryRun: Unsupported value: {values}: supported values: "All"')
    return bool(values)


def list_query(params: Mapping[str, str], served: Served, namespace: str) -> Query:
    """Return the options of a list or watch of `served`.

    Raise 400 or 422 for an option that is malformed or not supported.
    """
    lists_first = "sendInitialEvents" in params
    if problem := _problem_of_streaming(params) if lists_first else None:
        field, message = problem
        forbidden = cause("Forbidden", f"Forbidden: {message}", (field,))
        raise errors.invalid(("meta.k8s.io", "ListOptions"), "", [forbidden])

    labels = params.get("labelSelector", "")
    fields = params.get("fieldSelector", "")
    matches = combined(label_selector(labels), field_selector(fields, served.table))

    return Query(
        namespace=namespace,
        matches=matches,
        resource_version=_number(params, "resourceVersion"),
        limit=_number(params, "limit"),
        continue_token=params.get("continue", ""),
        timeout=float(_number(params, "timeoutSeconds") or 1800),
        bookmarks=params.get("allowWatchBookmarks") in _TRUE,
        lists_first=params.get("sendInitialEvents") in _TRUE,
    )


def _problem_of_streaming(params: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the field and the message of an option that does not fit a streaming list.

    Return None if there is none. Source:
    https://github.com/kubernetes/kubernetes/blob/release-1.34/staging/src/k8s.io/apimachinery/pkg/apis/meta/internalversion/validation/validation.go
    """
    if params.get("watch") not in _TRUE:
        return "sendInitialEvents", "sendInitialEvents is forbidden for list"
    if params.get("resourceVersionMatch") != "NotOlderThan":
        message = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        return "resourceVersionMatch", message
    return None


def _number(params: Mapping[str, str], name: str) -> int:
    text = params.get(name) or "0"
    if not text.isdigit():
        raise errors.bad_request(f"{name}: Invalid value: {text!r}")
    return int(text)

"""The Starlette app: who asks (bearer tokens), what for (paths and queries), and in which form the answer goes back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import yaml
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from app.sandbox.admission.authorization import Access, Authorizer
from app.sandbox.http import discovery
from app.sandbox.http.tokens import Tokens
from app.sandbox.objects import errors
from app.sandbox.objects.objects import Caller, Key, Object, User, is_deleting, key_of, metadata
from app.sandbox.objects.patching import MERGE, apply_patch
from app.sandbox.objects.resources import Registry, Served
from app.sandbox.requests import access_reviews
from app.sandbox.requests.binding import Binder
from app.sandbox.requests.options import delete_options, list_query, write_options
from app.sandbox.requests.reads import Reader, Representation
from app.sandbox.requests.scale import scale_of, scaled
from app.sandbox.requests.writes import Writer

_BODY_LIMIT = 3 * 1024 * 1024
_BODY_TYPES = ("application/json", "application/yaml")
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_OPEN_PATHS = {"healthz", "livez", "readyz", "version"}


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names: a collection (name ""), an object or a subresource."""

    served: Served
    namespace: str
    name: str
    subresource: str

    @property
    def key(self) -> Key:
        return self.namespace, self.name


def find_target(registry: Registry, parts: list[str]) -> Target:
    """Reads `api/v1/...` and `apis/<group>/<version>/...`. Raises 404 for what isn't served."""
    group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and registry.find(group, version, rest[2]):
        namespace, rest = rest[1], rest[2:]
    served = registry.find(group, version, rest[0])
    if served is None or len(rest) > 3 or (namespace and not served.namespaced):
        raise errors.not_served()
    name, subresource = (*rest[1:], "", "")[:2]
    if subresource and subresource not in served.subresources:
        raise errors.not_served()
    if served.namespaced and name and not namespace:
        raise errors.not_served()
    return Target(served, namespace, name, subresource)


def access_of(method: str, params: Mapping[str, str], target: Target) -> Access:
    """What RBAC is asked. A collection that is narrowed down to one name counts as that object."""
    served, name = target.served, target.name
    resource = f"{served.plural}/{target.subresource}" if target.subresource else served.plural
    if not name and method != "POST":
        key, _, value = params.get("fieldSelector", "").partition("=")
        name = value.removeprefix("=") if key == "metadata.name" and "," not in value else ""
    return Access(_verb(method, params, target), served.group, resource, target.namespace, name)


def _verb(method: str, params: Mapping[str, str], target: Target) -> str:
    if method in ("GET", "HEAD"):
        if params.get("watch") in ("1", "true"):
            return "watch"
        return "get" if target.name else "list"
    if method == "DELETE" and not target.name:
        return "deletecollection"
    return {"POST": "create", "PUT": "update"}.get(method, method.lower())


class Api:
    """The HTTP face of one storage."""

    def __init__(
        self,
        registry: Registry,
        reader: Reader,
        writer: Writer,
        binder: Binder,
        tokens: Tokens,
        authorizer: Authorizer,
    ) -> None:
        self._registry, self._reader, self._writer, self._binder = registry, reader, writer, binder
        self._tokens, self._authorizer = tokens, authorizer

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/{path:path}", self._answer, methods=_METHODS)])

    async def _answer(self, request: Request) -> Response:
        parts = [part for part in request.path_params["path"].split("/") if part]
        caller = Caller(User("system:anonymous", ("system:unauthenticated",)))
        try:
            if not (parts and parts[0] in _OPEN_PATHS):
                user = self._user(request)
                caller = Caller(user, write_options(request.method, request.query_params))
            response = await self._dispatch(request, parts, caller)
        except errors.ApiError as error:
            response = _json(error.status(), error.code)
        except ClientDisconnect:
            return Response(status_code=499)
        for warning in dict.fromkeys(caller.warnings):
            response.headers.append("Warning", f"299 - {_quoted(warning)}")
        return response

    def _user(self, request: Request) -> User:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        user = self._tokens.user(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise errors.ApiError(401, "Unauthorized", "Unauthorized")
        return user

    async def _dispatch(self, request: Request, parts: list[str], caller: Caller) -> Response:
        if parts and parts[0] in _OPEN_PATHS:
            return _json(discovery.VERSION) if parts[0] == "version" else Response("ok", media_type="text/plain")
        is_resource = bool(parts) and len(parts) > {"api": 2, "apis": 3}.get(parts[0], len(parts))
        if not is_resource:
            return self._discover(request, parts)
        target = find_target(self._registry, parts)
        if target.served.table != access_reviews.OF_SELF:  # everybody may ask about themselves
            self._authorizer.check(caller.user, access_of(request.method, request.query_params, target))
        if target.served.group == access_reviews.GROUP:
            return await self._review(request, target, caller.user)
        match request.method:
            case "GET" | "HEAD":
                return self._read(request, target)
            case "POST":
                return await self._post(request, target, caller)
            case "PUT" | "PATCH":
                return await self._change(request, target, caller)
            case _:
                return await self._delete(request, target, caller)

    async def _review(self, request: Request, target: Target, user: User) -> Response:
        if request.method != "POST" or target.name:
            raise errors.method_not_allowed()
        review = _object(await _body(request))
        return _json(access_reviews.answered(review, target.served, user, self._authorizer), 201)

    def _discover(self, request: Request, parts: list[str]) -> Response:
        wants_all = "as=APIGroupDiscoveryList" in request.headers.get("accept", "") and ";v=v2;" in _spaceless(
            request.headers.get("accept", "") + ";"
        )
        if parts in (["api"], ["apis"]) and wants_all:
            return _json(discovery.aggregated(self._registry, parts == ["api"]), media_type=discovery.AGGREGATED)
        found = self._discovered(request, parts)
        if found is None:
            raise errors.not_served()
        return _json(found)

    def _discovered(self, request: Request, parts: list[str]) -> Object | None:
        match parts:
            case []:
                return {"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]}
            case ["api"]:
                return discovery.core_versions(request.headers.get("host", ""))
            case ["apis"]:
                return discovery.group_list(self._registry)
            case ["api", version]:
                return discovery.resource_list(self._registry, "", version)
            case ["apis", group]:
                return discovery.group(self._registry, group)
            case ["apis", group, version]:
                return discovery.resource_list(self._registry, group, version)
            case ["openapi", "v3"]:
                return discovery.openapi_index(self._registry)
            case ["openapi", "v3", *prefix]:
                return discovery.openapi_document(self._registry, "/".join(prefix))
        return None

    def _read(self, request: Request, target: Target) -> Response:
        shown = _representation(request)
        if target.subresource == "scale":
            return _json(scale_of(self._reader.get(target.served, target.key, Representation())))
        if target.subresource and target.subresource != "status":
            raise errors.method_not_allowed()
        if target.name:
            return _json(self._reader.get(target.served, target.key, shown))
        query = list_query(request.query_params, target.served, target.namespace)
        if request.query_params.get("watch") in ("1", "true"):
            return StreamingResponse(self._reader.watch(target.served, query, shown), media_type="application/json")
        return _json(self._reader.page(target.served, query, shown))

    async def _post(self, request: Request, target: Target, caller: Caller) -> Response:
        body = _object(await _body(request))
        if target.subresource == "binding":
            await self._binder.bind(target.served, target.key, body, caller)
            return _json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)
        if target.subresource == "token":
            return _json(self._tokens.issue(target.key, body), 201)
        if target.name or (target.served.namespaced and not target.namespace):
            raise errors.method_not_allowed()
        created = await self._writer.create(target.served, body, caller, target.namespace)
        return _json(_representation(request).of(target.served, target.served.write(created)), 201)

    async def _change(self, request: Request, target: Target, caller: Caller) -> Response:
        if not target.name or target.subresource in ("binding", "token"):
            raise errors.method_not_allowed()
        body, media_type = await _body(request), _media_type(request)
        where = (target.served, target.key)
        if target.subresource == "scale":
            return _json(await self._scale(target, body, media_type if request.method == "PATCH" else "", caller))
        if request.method == "PUT":
            changed = await self._writer.update(*where, _object(body), caller, target.subresource)
        else:
            changed = await self._writer.patch(*where, body, media_type, caller, target.subresource)
        return _json(_representation(request).of(target.served, target.served.write(changed)))

    async def _scale(self, target: Target, body: Any, patch_type: str, caller: Caller) -> Object:
        """Sets the replicas to those of the Scale in `body`, or, with a `patch_type`, of the patched one."""
        current = scale_of(self._reader.get(target.served, target.key, Representation()))
        scale = apply_patch(current, body, patch_type, custom=False) if patch_type else _object(body)
        change = scaled(target.served, scale)
        return scale_of(await self._writer.patch(target.served, target.key, change, MERGE, caller))

    async def _delete(self, request: Request, target: Target, caller: Caller) -> Response:
        if target.subresource:
            raise errors.method_not_allowed()
        options = await _body(request)
        options = options if isinstance(options, dict) else {}
        caller.options = delete_options(caller.options, options)
        if not target.name:
            if "deletecollection" not in discovery.verbs(target.served):
                raise errors.method_not_allowed()
            return await self._delete_all(request, target, caller)
        last = await self._writer.delete(target.served, target.key, caller, preconditions=options.get("preconditions"))
        if is_deleting(last):
            return _json(last)
        return _json(_deleted(target.served, last))

    async def _delete_all(self, request: Request, target: Target, caller: Caller) -> Response:
        selected = self._reader.select(target.served, list_query(request.query_params, target.served, target.namespace))
        for obj in selected:
            try:
                await self._writer.delete(target.served, key_of(obj), caller, bulk=True)
            except errors.ApiError as error:
                if error.code != 404:
                    raise
        return _json(Representation().of_list(target.served, selected, {"resourceVersion": ""}))


def _json(body: Any, code: int = 200, media_type: str = "application/json") -> Response:
    return Response(orjson.dumps(body), status_code=code, media_type=media_type)


def _quoted(text: str) -> str:
    printable = "".join(char if char.isprintable() and ord(char) < 256 else "?" for char in text.replace("\n", " "))
    escaped = printable.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _spaceless(text: str) -> str:
    return text.replace(" ", "").replace(",", ";,")


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "application/json").partition(";")[0].strip()


async def _body(request: Request) -> Any:
    """The parsed body; None if there is none. Raises 413, 415 and 400."""
    if int(request.headers.get("content-length") or 0) > _BODY_LIMIT:
        raise _too_large()
    content = b""
    async for chunk in request.stream():
        content += chunk
        if len(content) > _BODY_LIMIT:
            raise _too_large()
    if not content:
        return None
    media_type = _media_type(request)
    if request.method != "PATCH" and media_type not in _BODY_TYPES:
        hint = "; instead of `kubectl create <kind>` use `kubectl create -f` or `kubectl apply -f`"
        raise errors.unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: "
            f"{', '.join(_BODY_TYPES)}{hint if media_type == _PROTOBUF else ''}"
        )
    try:
        return yaml.safe_load(content) if media_type.endswith("yaml") else orjson.loads(content)
    except (orjson.JSONDecodeError, yaml.YAMLError) as error:
        raise errors.bad_request(f"the body of the request can't be read: {error}") from error


def _too_large() -> errors.ApiError:
    return errors.ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {_BODY_LIMIT}")


def _object(body: Any) -> Object:
    if not isinstance(body, dict):
        raise errors.bad_request("the body of the request must be an object")
    return body


def _representation(request: Request) -> Representation:
    """The first form in Accept that the sandbox can give."""
    for offer in request.headers.get("accept", "").split(","):
        if "as=Table" in offer:
            return Representation("table", request.query_params.get("includeObject", "Metadata"))
        if "as=PartialObjectMetadata" in offer:
            return Representation("metadata")
        if offer.partition(";")[0].strip() in ("application/json", "*/*"):
            break
    return Representation()


def _deleted(served: Served, last: Object) -> Object:
    details = {
        "name": metadata(last)["name"],
        "group": served.group,
        "kind": served.plural,
        "uid": metadata(last)["uid"],
    }
    details = {key: value for key, value in details.items() if value}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

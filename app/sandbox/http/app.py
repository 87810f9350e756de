"""The Starlette app: authentication by bearer token, authorization, and one method for each kind of request."""

from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from app.sandbox.admission.authorization import Authorizer
from app.sandbox.http import discovery
from app.sandbox.http.messages import (
    json_response,
    media_type_of,
    read_body,
    representation_of,
    require_object,
    warning,
)
from app.sandbox.http.target import Target, access_of, find_target
from app.sandbox.http.tokens import Tokens
from app.sandbox.objects import errors
from app.sandbox.objects.objects import Caller, Object, User, is_deleting, key_of, metadata
from app.sandbox.objects.patching import MERGE, apply_patch
from app.sandbox.objects.resources import Registry, Served
from app.sandbox.requests import access_reviews
from app.sandbox.requests.binding import Binder
from app.sandbox.requests.options import delete_options, list_query, write_options
from app.sandbox.requests.reads import Reader, Representation
from app.sandbox.requests.scale import scale_of, scaled
from app.sandbox.requests.writes import Writer

_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_OPEN_PATHS = {"healthz", "livez", "readyz", "version"}


class Api:
    """The Kubernetes API over one storage."""

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
            response = json_response(error.status(), error.code)
        except ClientDisconnect:
            return Response(status_code=499)
        for text in dict.fromkeys(caller.warnings):
            response.headers.append("Warning", warning(text))
        return response

    def _user(self, request: Request) -> User:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        user = self._tokens.user(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise errors.ApiError(401, "Unauthorized", "Unauthorized")
        return user

    async def _dispatch(self, request: Request, parts: list[str], caller: Caller) -> Response:
        if parts and parts[0] in _OPEN_PATHS:
            return (
                json_response(discovery.VERSION) if parts[0] == "version" else Response("ok", media_type="text/plain")
            )
        is_resource = bool(parts) and len(parts) > {"api": 2, "apis": 3}.get(parts[0], len(parts))
        if not is_resource:
            return self._discover(request, parts)
        target = find_target(self._registry, parts)
        if target.served.table != access_reviews.OF_SELF:  # every user may review their own access
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
        review = require_object(await read_body(request))
        return json_response(access_reviews.answered(review, target.served, user, self._authorizer), 201)

    def _discover(self, request: Request, parts: list[str]) -> Response:
        document = self._discovered(request, parts)
        if document is None:
            raise errors.not_served()
        return json_response(document)

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
        shown = representation_of(request)
        if target.subresource == "scale":
            return json_response(scale_of(self._reader.get(target.served, target.key, Representation())))
        if target.subresource and target.subresource != "status":
            raise errors.method_not_allowed()
        if target.name:
            return json_response(self._reader.get(target.served, target.key, shown))
        query = list_query(request.query_params, target.served, target.namespace)
        if request.query_params.get("watch") in ("1", "true"):
            return StreamingResponse(self._reader.watch(target.served, query, shown), media_type="application/json")
        return json_response(self._reader.page(target.served, query, shown))

    async def _post(self, request: Request, target: Target, caller: Caller) -> Response:
        body = require_object(await read_body(request))
        if target.subresource == "binding":
            await self._binder.bind(target.served, target.key, body, caller)
            return json_response(
                {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201
            )
        if target.subresource == "token":
            return json_response(self._tokens.issue(target.key, body), 201)
        if target.name or (target.served.namespaced and not target.namespace):
            raise errors.method_not_allowed()
        created = await self._writer.create(target.served, body, caller, target.namespace)
        return json_response(representation_of(request).of(target.served, target.served.write(created)), 201)

    async def _change(self, request: Request, target: Target, caller: Caller) -> Response:
        if not target.name or target.subresource in ("binding", "token"):
            raise errors.method_not_allowed()
        body, media_type = await read_body(request), media_type_of(request)
        where = (target.served, target.key)
        if target.subresource == "scale":
            return json_response(
                await self._scale(target, body, media_type if request.method == "PATCH" else "", caller)
            )
        if request.method == "PUT":
            changed = await self._writer.update(*where, require_object(body), caller, target.subresource)
        else:
            changed = await self._writer.patch(*where, body, media_type, caller, target.subresource)
        return json_response(representation_of(request).of(target.served, target.served.write(changed)))

    async def _scale(self, target: Target, body: Any, patch_type: str, caller: Caller) -> Object:
        """Sets the replicas to those of the Scale in `body`. With a `patch_type`, `body` is a patch of the current
        Scale."""
        current = scale_of(self._reader.get(target.served, target.key, Representation()))
        scale = apply_patch(current, body, patch_type, custom=False) if patch_type else require_object(body)
        change = scaled(target.served, scale)
        return scale_of(await self._writer.patch(target.served, target.key, change, MERGE, caller))

    async def _delete(self, request: Request, target: Target, caller: Caller) -> Response:
        if target.subresource:
            raise errors.method_not_allowed()
        options = await read_body(request)
        options = options if isinstance(options, dict) else {}
        caller.options = delete_options(caller.options, options)
        if not target.name:
            if "deletecollection" not in discovery.verbs(target.served):
                raise errors.method_not_allowed()
            return await self._delete_all(request, target, caller)
        preconditions = options.get("preconditions")
        deleted = await self._writer.delete(target.served, target.key, caller, preconditions=preconditions)
        return json_response(deleted if is_deleting(deleted) else _success(target.served, deleted))

    async def _delete_all(self, request: Request, target: Target, caller: Caller) -> Response:
        selected = self._reader.select(target.served, list_query(request.query_params, target.served, target.namespace))
        for obj in selected:
            try:
                await self._writer.delete(target.served, key_of(obj), caller, bulk=True)
            except errors.ApiError as error:
                if error.code != 404:
                    raise
        return json_response(Representation().of_list(target.served, selected, {"resourceVersion": ""}))


def _success(served: Served, deleted: Object) -> Object:
    meta = metadata(deleted)
    details = {"name": meta["name"], "group": served.group, "kind": served.plural, "uid": meta["uid"]}
    details = {key: value for key, value in details.items() if value}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

"""Serve the Kubernetes API with Starlette: authentication, authorization and requests.

There is one method for each kind of request.
"""

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from scripts.apiserver.admission import authorization
from scripts.apiserver.admission.authorization import Authorizer
from scripts.apiserver.http import discovery
from scripts.apiserver.http.messages import (
    RequestTarget,
    access_of,
    acting_user,
    find_target,
    is_dry_run,
    json_response,
    list_query,
    media_type_of,
    read_body,
    representation_of,
    require_object,
    warning,
)
from scripts.apiserver.http.tokens import Tokens
from scripts.apiserver.objects import errors
from scripts.apiserver.objects.objects import (
    Caller,
    Frozen,
    Object,
    User,
    at,
    is_deleting,
    key_of,
    metadata,
)
from scripts.apiserver.objects.patching import MERGE
from scripts.apiserver.objects.resources import Registry
from scripts.apiserver.requests.binding import Binder, scale_of
from scripts.apiserver.requests.reads import ReadHandlers, Representation
from scripts.apiserver.requests.writes import Writer

_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]
_SUCCESS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


class SandboxApi(Frozen):
    """The Kubernetes API over a storage."""

    registry: Registry
    reader: ReadHandlers
    writer: Writer
    binder: Binder
    tokens: Tokens
    authorizer: Authorizer

    def app(self) -> Starlette:
        answering = Route("/{path:path}", self._answer, methods=_METHODS)
        return Starlette(routes=[Route("/version", _version), answering])

    async def _answer(self, request: Request) -> Response:
        warnings: list[str] = []
        try:
            user = self._user(request)
            params = request.query_params
            dry_run = is_dry_run(params.getlist("dryRun"))
            caller = Caller(user, dry_run, params.get("fieldValidation", ""), warnings)
            response = await self._dispatch(request, caller)
            if not isinstance(response, Response):
                code = 201 if request.method == "POST" else 200
                response = json_response(response, code)
        except errors.ApiError as error:
            response = json_response(error.status(), error.code)
        except ClientDisconnect:
            return Response(status_code=499)
        for text in dict.fromkeys(warnings):
            response.headers.append("Warning", warning(text))
        return response

    def _user(self, request: Request) -> User:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        user = self.tokens.user(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise errors.ApiError(401, "Unauthorized", "Unauthorized")
        return acting_user(request.headers, user, self.authorizer)

    async def _dispatch(self, request: Request, caller: Caller) -> Object | Response:
        """Return the answer to a request: an object, or the response of a watch."""
        parts = list(filter(None, request.path_params["path"].split("/")))
        is_resource = bool(parts) and len(parts) > {"api": 2, "apis": 3}.get(parts[0], len(parts))
        if not is_resource:
            document = discovery.document(self.registry, parts)
            if document is None:
                raise errors.not_served()
            return document

        target = find_target(self.registry, parts)
        # every user may review their own access
        if target.served.table != authorization.REVIEWS_OF_SELF:
            self.authorizer.check(
                caller.user, access_of(request.method, request.query_params, target)
            )

        if request.method not in _methods(target):
            text = "the server does not allow this method on the requested resource"
            raise errors.ApiError(405, "MethodNotAllowed", text)

        match request.method:
            case "GET":
                return self._read(request, target)
            case "POST":
                return await self._post(request, target, caller)
            case "PUT" | "PATCH":
                return await self._change(request, target, caller)
            case _:
                return await self._delete(request, target, caller)

    def _read(self, request: Request, target: RequestTarget) -> Object | Response:
        shown = representation_of(request)
        if target.subresource == "scale":
            return scale_of(self.reader.get(target.served, target.key, Representation()))

        if target.name:
            return self.reader.get(target.served, target.key, shown)

        query = list_query(request.query_params, target.served, target.namespace)
        if request.query_params.get("watch") in ("1", "true"):
            return StreamingResponse(
                self.reader.watch(target.served, query, shown), media_type="application/json"
            )

        return self.reader.page(target.served, query, shown)

    async def _post(self, request: Request, target: RequestTarget, caller: Caller) -> Object:
        body = require_object(await read_body(request))
        if target.served.group == authorization.REVIEWS:
            return authorization.answered(body, target.served, caller.user, self.authorizer)

        if target.subresource == "binding":
            await self.binder.bind(target.served, target.key, body, caller)
            return {**_SUCCESS, "code": 201}
        if target.subresource == "token":
            return self.tokens.issue(target.key, body)

        created = await self.writer.create(target.served, body, caller, target.namespace)

        return representation_of(request).of_read(created)

    async def _change(self, request: Request, target: RequestTarget, caller: Caller) -> Object:
        body = await read_body(request)
        where = (target.served, target.key)
        if target.subresource == "scale":
            # the body is a Scale or a merge patch of it
            patch = {"spec": {"replicas": at(require_object(body), "spec", "replicas")}}
            return scale_of(await self.writer.patch(*where, patch, MERGE, caller))

        if request.method == "PUT":
            changed = await self.writer.update(
                *where, require_object(body), caller, target.subresource
            )
        else:
            changed = await self.writer.patch(
                *where, body, media_type_of(request), caller, target.subresource
            )

        return representation_of(request).of_read(changed)

    async def _delete(self, request: Request, target: RequestTarget, caller: Caller) -> Object:
        options = await read_body(request)
        options = options if isinstance(options, dict) else {}
        if is_dry_run(options.get("dryRun") or []):
            caller.dry_run = True
        if not target.name:
            return await self._delete_all(request, target, caller)
        preconditions = options.get("preconditions")
        deleted = await self.writer.delete(
            target.served, target.key, caller, preconditions=preconditions
        )
        if is_deleting(deleted):
            return deleted
        meta = metadata(deleted)
        details = errors.about(target.served.table, meta["name"], meta["uid"])
        return {**_SUCCESS, "details": details}

    async def _delete_all(self, request: Request, target: RequestTarget, caller: Caller) -> Object:
        selected = self.reader.select(
            target.served, list_query(request.query_params, target.served, target.namespace)
        )
        for obj in selected:
            try:
                await self.writer.delete(target.served, key_of(obj), caller, bulk=True)
            except errors.ApiError as error:
                if error.code != 404:
                    raise

        return Representation().of_list(target.served, selected, {"resourceVersion": ""})


def _version(request: Request) -> Response:
    return json_response(discovery.VERSION)


def _methods(target: RequestTarget) -> tuple[str, ...]:
    """Return the HTTP methods that the target allows."""
    if target.subresource:
        return (
            ("POST",) if target.subresource in discovery.CREATED_ONLY else ("GET", "PUT", "PATCH")
        )

    if target.served.group == authorization.REVIEWS:
        return ("POST",)
    if target.name:
        return ("GET", "PUT", "PATCH", "DELETE")

    return (
        ("GET", "DELETE")
        if target.served.namespaced and not target.namespace
        else ("GET", "POST", "DELETE")
    )

"""A client of a sandbox that runs in this process, without a connection.

TLS and HTTP take most of the time of a request. Whoever is not what a test is about does without
them: users, Grove's operator, and those who make a state.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from multidict import CIMultiDict
from starlette.types import ASGIApp, Message
from yarl import URL

from app.kube.api import Object, error_from
from app.kube.client import HttpClient
from app.kube.credentials import Credentials
from app.kube.decoders import decoded
from app.kube.transport import ApiRequest, CallLimits, Transport
from app.objects.resource import Resource


class InProcessTransport(Transport):
    """Sends requests to the ASGI app of a sandbox. Watches go over HTTP."""

    def __init__(self, credentials: Credentials, limits: CallLimits, app: ASGIApp) -> None:
        super().__init__(credentials, limits)
        self._app = app
        self._answering = set[asyncio.Task[None]]()

    async def _try(self, request: ApiRequest) -> Object:
        url = URL(request.path, encoded=True).update_query(request.params)
        headers = await self._headers(request)
        scope = {
            "type": "http",
            "method": request.method,
            "path": url.path,
            "query_string": url.raw_query_string.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
        }
        body = b"" if request.body is None else msgspec.json.encode(request.body)
        start, *rest = await self._answered(scope, body)
        content = b"".join(message["body"] for message in rest)
        self.calls[request.verb, request.resource, str(start["status"])] += 1
        if start["status"] >= 300:
            raise error_from(start["status"], _texts(start["headers"]), content)
        return decoded(content)

    async def _answered(self, scope: dict[str, Any], body: bytes) -> list[Message]:
        """The messages of the answer. As over HTTP, a caller that is cancelled does not end it."""
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body}

        async def send(message: Message) -> None:
            sent.append(message)

        async def answer() -> None:
            await self._app(scope, receive, send)

        task = asyncio.create_task(answer())
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)
        await asyncio.shield(task)
        return sent


def _texts(headers: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str]:
    return CIMultiDict((name.decode(), value.decode()) for name, value in headers)


class InProcessClient(HttpClient):
    """A client whose requests go to `app`."""

    def __init__(
        self,
        credentials: Credentials,
        resources: Iterable[Resource],
        limits: CallLimits,
        app: ASGIApp,
    ) -> None:
        super().__init__(credentials, resources, limits)
        self._transport = InProcessTransport(credentials, limits, app)
        self.call = self._transport.call

"""A bad network: between a server of ours and the API server, and between the API server and our
servers.
"""

import asyncio
import contextlib
import json
import ssl
import weakref
from collections.abc import AsyncIterator
from random import Random

import aiohttp
from aiohttp import web

from app.kube.api import Object
from app.objects.resource import Resource

_HOP = {"transfer-encoding", "content-length", "connection", "date", "server"}
_WRITES = ("POST", "PATCH", "PUT", "DELETE")


def status(code: int, reason: str) -> web.Response:
    """An error as an API server words it."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "code": code,
        "message": reason,
    }
    headers = {"Retry-After": "1"} if code == 429 else {}
    return web.json_response(
        {**body, "message": f"injected: {reason}"}, status=code, headers=headers
    )


class FaultyProxy:
    """An HTTP server at `url` that passes calls on to the API server at `upstream`, and fails as
    networks and API servers do: late answers, cut connections (before the call and after it),
    401, 409, 410, 429, 500 and 503; watches that are cut within an event, late, silent, and say
    things twice. While `share` is 0, it only passes on.
    """

    def __init__(
        self, upstream: str, context: ssl.SSLContext, random: Random, share: float
    ) -> None:
        self.share = share
        self.injected = 0
        self.created = list[Object]()
        """What the server has created."""
        self._upstream = upstream
        self._context = context
        self._random = random
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self._transports = weakref.WeakSet[asyncio.Transport]()
        self._held = ("", 0.0)
        """The resource whose watches are late, by its name in paths, and until when."""
        self.url = ""

    def hold(self, resource: Resource, seconds: float) -> None:
        """From now on, nothing of `resource` is watched for so long; other watches go on."""
        self._held = resource.plural, asyncio.get_running_loop().time() + seconds

    async def start(self) -> None:
        connector = aiohttp.TCPConnector(ssl=self._context, limit=0)
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        app = web.Application(client_max_size=16 * 2**20)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.01
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Every connection ends here and now, and nothing gets through any more."""
        for transport in self._transports:
            transport.abort()
        if self._session is not None:
            await self._session.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def _fails(self, share: float) -> bool:
        fails = self._random.random() < share * self.share
        self.injected += fails
        return fails

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        watching = request.query.get("watch") in ("1", "true")
        if request.transport is not None:
            self._transports.add(request.transport)
        if self._fails(1.0):
            fault = self._random.choice(
                ("late", "cut", "lost", "429", "500", "503", "401", "409", "410")
            )
            if fault == "late":
                await asyncio.sleep(self._random.uniform(0.05, 0.5))
            elif fault == "cut":
                return self._cut(request)
            elif fault == "lost" and request.method in _WRITES:
                await self._pass_on(request)
                return self._cut(request)
            elif fault in ("401", "429", "500", "503"):
                reason = {"401": "Unauthorized", "429": "TooManyRequests", "500": "InternalError"}
                return status(int(fault), reason.get(fault, "ServiceUnavailable"))
            elif fault == "409" and request.method in _WRITES:
                return status(409, "Conflict")
            elif fault == "410" and (watching or "continue" in request.query):
                return status(410, "Expired")
        try:
            return await (self._watch(request) if watching else self._pass_on(request))
        except (aiohttp.ClientError, OSError, RuntimeError):  # either side is gone
            return self._cut(request)

    def _cut(self, request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    @contextlib.asynccontextmanager
    async def _call(self, request: web.Request) -> AsyncIterator[aiohttp.ClientResponse]:
        assert self._session is not None
        headers = {
            key: value
            for key, value in request.headers.items()
            if key.lower() not in {*_HOP, "host"}
        }
        url = f"{self._upstream}{request.path_qs}"
        body = await request.read()
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.request(
            request.method, url, data=body or None, headers=headers, timeout=timeout
        ) as answer:
            yield answer

    async def _pass_on(self, request: web.Request) -> web.Response:
        async with self._call(request) as answer:
            headers = {
                key: value for key, value in answer.headers.items() if key.lower() not in _HOP
            }
            body = await answer.read()
            if request.method == "POST" and answer.status == 201:
                self.created.append(json.loads(body))
            return web.Response(status=answer.status, body=body, headers=headers)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        async with self._call(request) as answer:
            response = web.StreamResponse(
                status=answer.status, headers={"Content-Type": "application/json"}
            )
            await response.prepare(request)
            clock = asyncio.get_running_loop().time
            resource = request.path.rpartition("/")[2]
            async for line in answer.content:
                held, until = self._held
                if held == resource:
                    await asyncio.sleep(until - clock())
                if self._fails(0.5):
                    fault = self._random.choice(("late", "twice", "half", "silent"))
                    if fault == "late":
                        await asyncio.sleep(self._random.uniform(0.1, 1.5))
                    elif fault == "twice":
                        await response.write(line)
                    elif fault == "half":
                        await response.write(line[: len(line) // 2])
                        return self._cut(request)
                    else:
                        await asyncio.sleep(self._random.uniform(0.5, 3.0))
                        return self._cut(request)
                await response.write(line)
            return response


class Balancer:
    """A TCP port that leads to one of `ports`, as a Service does."""

    def __init__(self, random: Random) -> None:
        self.ports: list[int] = []
        self._random = random
        self._server: asyncio.Server | None = None
        self._writers: dict[int, set[asyncio.StreamWriter]] = {}

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def drop(self, port: int) -> None:
        """The server at `port` is gone, and all connections to it."""
        if port in self.ports:
            self.ports.remove(port)
        for writer in self._writers.pop(port, ()):
            writer.transport.abort()

    async def stop(self) -> None:
        for port in list(self._writers):
            self.drop(port)
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            port = self._random.choice(self.ports)
            above, below = await asyncio.open_connection("127.0.0.1", port)
        except (IndexError, OSError):
            writer.transport.abort()
            return
        self._writers.setdefault(port, set()).update((writer, below))
        await asyncio.gather(_pipe(reader, below), _pipe(above, writer))


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()

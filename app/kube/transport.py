"""Send requests to an API server over aiohttp.

This module applies time limits, the rate limit, retries and credentials, and translates errors.
"""

import asyncio
import math
import os
import ssl
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

import aiohttp
from msgspec import field
from yarl import URL

from app import __version__
from app.base.fair_queue import FairQueue
from app.base.json import to_json
from app.base.trace import IS_STRANGE, TRACEPARENT
from app.base.turns import Turns
from app.base.value import Value
from app.kube.api import ClusterError, Object, TooLong, Unavailable, error_from
from app.kube.credentials import Credentials
from app.kube.decoders import decoded, decoded_list
from app.kube.proxy import proxy_for, shown
from app.kube.reachability import Reach
from app.kube.tls_context import ServerTrust
from app.objects.resource import LEASE

Params = dict[str, str]

JSON = "application/json"
_USER_AGENT = f"grove-admission/{__version__}"
_LONG = 2**16
"""The length, in bytes, of a body that takes about a millisecond to decode."""
STRANGE_CALLS = 10
"""The maximum number of concurrent calls for requests of unknown clients.

Without a limit, these calls could use up the rate limit and the connections.
"""
_UNLIMITED = frozenset({str(LEASE)})
"""Resources without a rate limit, whose answers wait for no turn.

A leader that waited for the calls of its own reconcilers would lose its lease.
"""


class CallLimits(Value):
    """The limits of calls to an API server. Times are in seconds."""

    connect: float = 5.0
    """The time limit for opening a connection, in seconds."""
    total: float = 30.0
    """The time limit of a call in seconds, with its wait for the rate limit and all attempts."""
    watch_silence: float = 90.0
    """The seconds without data after which a watch is ended. `watch.py` notices silence earlier."""
    qps: float = 50.0
    """The maximum number of calls per second, on average."""
    burst: int = 100
    """The maximum number of calls at once after a pause."""
    reads: int = 2
    """The maximum number of attempts of a read."""
    pause: float = 0.2
    """The seconds between two attempts, unless the API server sends a Retry-After."""
    connections: int = 100
    """The maximum number of open connections to the API server."""
    longest: int = 16 * 2**20
    """The maximum size of a response or of a watch event, in bytes.

    A watch with a longer event is ended. An API server stores at most 1.5 MiB of an object. In
    JSON, that is at most 9 MiB, if every character is escaped.
    """
    look: float = 10.0
    """The seconds between two checks of the credential files."""


class ApiRequest(Value):
    """A request to an API server."""

    verb: str
    """The verb under which the request is counted, such as `list`."""
    resource: str
    """The resource under which the request is counted."""
    method: str
    path: str
    params: Params = field(default_factory=dict)
    accept: str = JSON
    body: Any = None
    """The value to send as JSON, or None for no body."""
    content_type: str = JSON
    most: int = 0
    """The maximum size of the response in bytes, or 0 for the limit `longest`."""
    namespace: str = ""
    """The namespace in whose turn the request passes the rate limit."""
    arrived: Callable[[int], None] = lambda _: None
    """A function that is called with the size of the response in bytes."""


Call = Callable[[ApiRequest], Awaitable[Object]]
"""A function that sends a request and returns the JSON object in the response.

It raises ClusterError if the request fails.
"""


class Transport:
    """A sender of requests to one API server with one identity.

    `calls` has the number of requests by verb, resource and HTTP status. The status is "error" if
    there was no response.
    """

    def __init__(self, credentials: Credentials, limits: CallLimits) -> None:
        self.calls: Counter[tuple[str, str, str]] = Counter()
        self.credentials = credentials
        self._limits = limits
        self._opened: aiohttp.ClientSession | None = None
        self._through = ""
        self.reach = Reach()
        self._trust = ServerTrust(credentials, limits.look)
        self._rate_limit = TokenBucket(limits.qps, limits.burst)
        self._strangers = asyncio.Semaphore(STRANGE_CALLS)
        self.turns = AnswerTurns()

    async def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    async def call(self, request: ApiRequest) -> Object:
        """Send `request` and return the JSON object in the response.

        The items of a list may be `msgspec.Raw`, which `Items` decodes. A read is tried again if
        the API server is unavailable. A write is sent again only if it had no effect, such as after
        a 429 with Retry-After. Raise TooLong if the response is too large, or another ClusterError
        if the request fails.
        """
        slot: AbstractAsyncContextManager[Any] = nullcontext()
        if IS_STRANGE.get():
            slot = self._strangers
        try:
            async with asyncio.timeout(self._limits.total), slot:
                return await self._tries(request)
        except TimeoutError:
            self.calls[request.verb, request.resource, "error"] += 1
            text = f"{request.verb} {request.path}: no answer within {self._limits.total:g} s"
            raise Unavailable(text, reason="Timeout") from None

    async def lines(
        self, request: ApiRequest, accepted: Callable[[], None]
    ) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a long response, such as that of a watch.

        `accepted` is called once the API server has accepted the request. Raise ClusterError if the
        request fails or the connection breaks.
        """
        limits = self._limits
        timeouts = aiohttp.ClientTimeout(
            total=None, sock_connect=limits.connect, sock_read=limits.watch_silence
        )
        async with self._translated(), self._send(request, timeouts) as response:
            if response.status != 200:
                raise await _error_in(response, limits.longest)
            self.reach.answered()
            accepted()
            async for line in lines_of(response.content.iter_any(), limits.longest):
                self.reach.answered()
                yield line

    async def _tries(self, request: ApiRequest) -> Object:
        """Send `request`, and send it again after an error if `call` allows that."""
        tries_left = self._limits.reads if request.method == "GET" else 2
        while True:
            tries_left -= 1
            try:
                return await self._try(request)
            except Unavailable as error:
                rejected = error.code == 429 and error.retry_after is not None
                if tries_left <= 0 or not (rejected or request.method == "GET"):
                    raise
                pause = self._limits.pause if error.retry_after is None else error.retry_after
                if pause >= self._limits.total:
                    raise
            await asyncio.sleep(pause)

    async def _try(self, request: ApiRequest) -> Object:
        """Wait for the rate limit, send `request` once, and return the decoded response.

        Raise ClusterError if that fails.
        """
        if request.resource not in _UNLIMITED:
            await self._rate_limit.take(request.namespace)
        timeouts = aiohttp.ClientTimeout(
            total=self._limits.total, sock_connect=self._limits.connect
        )
        async with self._translated(), self._send(request, timeouts) as response:
            error = None
            if response.status >= 300:
                error = await _error_in(response, self._limits.longest)
            else:
                most = request.most or self._limits.longest
                body = await read_body(response.content.iter_any(), most)
        if request.resource not in _UNLIMITED:
            await self.turns.next()  # what waits for an answer may then take 30 ms
        if error is not None:
            raise error
        request.arrived(len(body))
        return decoded_list(body) if request.verb == "list" else decoded(body)

    @asynccontextmanager
    async def _send(
        self, request: ApiRequest, timeouts: aiohttp.ClientTimeout
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        """Yield the response once its headers have arrived.

        After a 401, renew the credentials and send the request once more, because the first request
        had no effect. After a failed handshake, do the same if `renew_after_failure` returns True.
        """
        try:
            response = await self._answer(request, timeouts)
        except aiohttp.ClientSSLError:
            if not await self._trust.renew_after_failure():
                raise
            response = await self._answer(request, timeouts)

        if response.status == 401:
            response.release()
            await self._trust.renew()
            response = await self._answer(request, timeouts)

        async with response:
            yield response

    async def _answer(
        self, request: ApiRequest, timeouts: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        """Send `request`, count it, and return the response before its body is read."""
        headers = await self._headers(request)
        try:
            async with asyncio.timeout(self._limits.total):
                response = await self._session().request(
                    request.method,
                    URL(self.credentials.host + request.path, encoded=True).update_query(
                        request.params
                    ),
                    headers=headers,
                    data=None if request.body is None else to_json(request.body),
                    timeout=timeouts,
                    server_hostname=self.credentials.server_hostname,
                    ssl=await self._trust.context(),
                    allow_redirects=False,
                )
        except Exception as error:
            self.reach.failed(_plainly(error))
            self.calls[request.verb, request.resource, "error"] += 1
            raise

        self.reach.answered()
        self.calls[request.verb, request.resource, str(response.status)] += 1

        return response

    async def _headers(self, request: ApiRequest) -> list[tuple[str, str]]:
        headers = [("Accept", request.accept), ("User-Agent", _USER_AGENT)]
        authorization = await self.credentials.authorization()
        if authorization is not None:
            headers.append(("Authorization", authorization))
        if request.body is not None:
            headers.append(("Content-Type", request.content_type))
        if traceparent := TRACEPARENT.get():
            headers.append(("traceparent", traceparent))
        return [*headers, *self.credentials.impersonation]

    @property
    def _server(self) -> str:
        """The API server, and the proxy if there is one, for messages."""
        return f"{self.credentials.host}{self._through}"

    @asynccontextmanager
    async def _translated(self) -> AsyncGenerator[None, None]:
        """Convert connection errors in the block to Unavailable, with the server in the message."""
        try:
            yield
        except aiohttp.ClientConnectorCertificateError as error:
            why = getattr(error.certificate_error, "verify_message", "") or error.certificate_error
            text = f"{self._server}: the certificate is not trusted: {why}"
            raise Unavailable(text, reason="TLS") from error
        except aiohttp.ClientSSLError as error:
            raise Unavailable(f"{self._server}: TLS: {_plainly(error)}", reason="TLS") from error
        except TimeoutError as error:
            raise Unavailable(f"{self._server} did not answer in time", reason="Timeout") from error
        except (aiohttp.ClientError, OSError, LineTooLong) as error:
            raise Unavailable(f"{self._server}: {_plainly(error)}", reason="Connection") from error

    def _session(self) -> aiohttp.ClientSession:
        if self._opened is None:
            connector = aiohttp.TCPConnector(limit=self._limits.connections)
            # `trust_env` of aiohttp would look for a proxy and read ~/.netrc in another thread for
            # each request.
            proxy = proxy_for(URL(self.credentials.host), self.credentials.proxy)
            if proxy is not None:
                self._through = f" through the proxy {shown(proxy)}"
            self._opened = aiohttp.ClientSession(connector=connector, proxy=proxy)
        return self._opened


async def _error_in(response: aiohttp.ClientResponse, most: int) -> ClusterError:
    body = await read_body(response.content.iter_any(), most)
    return error_from(response.status, response.headers, body)


def _plainly(error: Exception) -> str:
    """Return the message of a network error, such as "Connection refused".

    Words that aiohttp adds to an error of the operating system are omitted.
    """
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"{error.status} {error.message}"
    inner = getattr(error, "os_error", error)
    if isinstance(inner, ssl.SSLError):
        return str(inner.reason or inner).replace("_", " ").lower()
    if isinstance(inner, OSError) and inner.errno is not None:
        return os.strerror(inner.errno) if inner.errno > 0 else inner.strerror or str(inner)
    return str(error) or type(error).__name__


class AnswerTurns(Turns):
    """Turns of the event loop for answers, one answer per turn.

    Without turns, concurrent answers could be decoded and used one after the other while verdicts
    and the renewal of the Lease wait.
    """

    async def take(self, length: int) -> None:
        """Wait for a turn in which an event of `length` bytes can be decoded."""
        if length >= _LONG:
            await self.next()


async def read_body(chunks: AsyncIterable[bytes], most: int) -> bytes:
    """Return the body that arrives in `chunks`. Raise TooLong once it exceeds `most` bytes."""
    parts: list[bytes] = []
    length = 0
    async for chunk in chunks:
        length += len(chunk)
        if length > most:
            raise TooLong(f"the answer has more than {most} bytes", reason="TooLong")
        parts.append(chunk)
    return b"".join(parts)


class LineTooLong(Exception):
    """A line of a response is longer than the limit."""


async def lines_of(chunks: AsyncIterable[bytes], longest: int) -> AsyncGenerator[bytes, None]:
    """Yield the non-empty lines of `chunks` without line ends.

    The last line may have no line end. Raise LineTooLong after more than `longest` bytes without a
    line end.
    """
    parts: list[bytes] = []
    length = 0
    async for chunk in chunks:
        *ends, begin = chunk.split(b"\n")
        for end in ends:
            line = b"".join((*parts, end))
            parts = []
            length = 0
            if line.strip():
                yield line
        # Otherwise, a quiet watch would keep the last chunk and line in memory for minutes.
        chunk = line = end = b""
        ends.clear()
        if begin:
            parts.append(begin)
            length += len(begin)
        if length > longest:
            raise LineTooLong(f"an event has more than {longest} bytes")

    if line := b"".join(parts).strip():
        yield line


class TokenBucket:
    """A limit of `qps` calls per second on average, and of `burst` calls at once after a pause.

    Owners, such as namespaces, take turns, so that calls for one don't delay calls for others. A
    caller that is cancelled while it waits does not use up a call.
    """

    def __init__(self, qps: float, burst: int) -> None:
        self._interval = 1.0 / qps
        self._burst = burst
        self._used_until = -math.inf
        """The time at which the last call would have been made at the average rate."""
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, owner: str = "") -> None:
        """Wait until `owner` may make a call."""
        loop = asyncio.get_running_loop()
        if not self._waiting and self._try_to_take(loop.time()):
            return
        granted = loop.create_future()
        self._waiting.put(owner, granted)
        self._plan()
        try:
            await granted
        except asyncio.CancelledError:
            if not granted.cancelled():
                self._used_until -= self._interval
                self._plan()
            raise

    def _next_at(self, now: float) -> float:
        """Return the time from which the next call is allowed."""
        return max(self._used_until, now - self._burst * self._interval) + self._interval

    def _try_to_take(self, now: float) -> bool:
        """Count a call and return True if one is allowed now, otherwise return False."""
        at = self._next_at(now)
        if at > now:
            return False
        self._used_until = at
        return True

    def _plan(self) -> None:
        """Set the timer for the next call if callers are waiting."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            loop = asyncio.get_running_loop()
            at = self._next_at(loop.time())
            self._timer = loop.call_at(at, self._grant, at)

    def _grant(self, planned: float) -> None:
        """Let waiting callers make the calls that are allowed now."""
        self._timer = None
        # a timer may fire early, by the resolution of the clock
        now = max(planned, asyncio.get_running_loop().time())
        while self._waiting and self._next_at(now) <= now:
            granted = self._waiting.take()
            if not granted.done():  # otherwise, its caller was cancelled
                self._try_to_take(now)
                granted.set_result(None)
        self._plan()

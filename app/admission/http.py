"""The admission paths as a raw ASGI app: a framework's route would cost more than all our rules.

Everything else is passed on to `otherwise` (health, metrics, dry-run, docs).
"""

import functools
import re
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Protocol

from app.admission.decide import Route, decide
from app.admission.review import BadReview, Request, dumps, encode, parse, salvage_uid
from app.admission.verdict import Verdict, bad_request

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY = 7 * 1024 * 1024
"""An API server's own limit is 3 MiB for an object; a review of an UPDATE carries two."""

DEFAULT_TIMEOUT = 10.0
WHOLE_RESPONSE = "grove.response"
"""ASGI extension of our own connections: one message with `status` and a JSON `body`, for a start and a body."""

KNOWN_CALLER = "grove.known_caller"
"""In the scope of a request whose sender has shown a certificate of one of the configured CAs."""

_UNKNOWN = (
    "verdicts are for API servers that show a client certificate (server.clientCaFile): see their "
    "--admission-control-config-file"
)
_MARGIN = 0.9
_DURATION = re.compile(rb"(\d+\.?\d*|\.\d+)(ns|us|ms|s|m|h)")
_DURATIONS = re.compile(rb"(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|ms|s|m|h))+")
_UNITS = {b"ns": 1e-9, b"us": 1e-6, b"ms": 0.001, b"s": 1.0, b"m": 60.0, b"h": 3600.0}
_CONTENT_TYPE = (b"content-type", b"application/json")
_HUNG_UP = "the caller hung up before its request was whole"


class Observer(Protocol):
    """Told of every verdict. `request` None where the envelope could not be read; `uid` "" where it had none."""

    def __call__(self, path: str, uid: str, request: Request | None, verdict: Verdict, seconds: float) -> None: ...

    def started(self) -> None: ...


class AdmissionApp:
    """Answers the paths of `routes`; hands every other request to `otherwise`. `only_known`: asks for a client's
    certificate, which our own connections have looked at."""

    def __init__(
        self, routes: Mapping[str, Route], otherwise: App, observe: Observer, *, only_known: bool = False
    ) -> None:
        self._routes = routes
        self.only_known = only_known
        self.eager_paths = frozenset(routes)
        self._otherwise = otherwise
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._routes.get(scope["path"]) if scope["type"] == "http" else None
        if route is None:
            await self._otherwise(scope, receive, send)
            return
        if scope["method"] != "POST":
            await _answer(send, 405, _plain(405, f"{route.path} takes POST, not {scope['method']}"))
            return
        if self.only_known and not scope.get(KNOWN_CALLER):
            await _answer(send, 401, _plain(401, _UNKNOWN))
            return
        begin = time.perf_counter()
        self._observe.started()
        request: Request | None = None
        status = 200
        try:
            message = await receive()
            body = message.get("body", b"")
            if _is_sound(scope["headers"]) and not message.get("more_body", True):
                request = parse(body)
            else:
                request = parse(await _read(scope, receive, message))
            uid = request.uid
            answer = decide(route, request, deadline(scope["query_string"]))
            verdict = answer if isinstance(answer, Verdict) else await answer
        except BadReview as bad:
            uid, verdict = bad.uid, bad_request(bad.message, bad.code)
            status = 200 if uid else verdict.code
        content, verdict = _content(uid, status, verdict, request)
        if "extensions" in scope and WHOLE_RESPONSE in scope["extensions"]:
            await send({"type": WHOLE_RESPONSE, "status": status, "body": content})
        else:
            await _answer(send, status, content)
        self._observe(route.path, uid, request, verdict, time.perf_counter() - begin)


def _content(uid: str, status: int, verdict: Verdict, request: Request | None) -> tuple[bytes, Verdict]:
    """The answer's body, and the verdict that it says."""
    if status != 200:
        return _plain(status, verdict.message), verdict
    try:
        return encode(uid, verdict, request), verdict
    except RecursionError:  # the patch holds a part of the object that JSON can be read from, but not written to
        verdict = bad_request("the object is nested too deeply")
        return encode(uid, verdict, request), verdict


def _is_sound(headers: Headers) -> bool:
    """Whether the content type is JSON as an API server writes it and the length within the limit, at one look."""
    sound = False
    for name, value in headers:
        if name == b"content-type":
            sound = value == b"application/json"
        elif name == b"content-length" and (len(value) > 7 or int(value) > MAX_BODY):
            return False
    return sound


async def _read(scope: Scope, receive: Receive, first: Message) -> bytes:
    """The body of an admission request. BadReview for a wrong content type, a body over the limit, or one that breaks
    off; of a body that is too large only the beginning, with the uid, is ever held."""
    if first["type"] != "http.request":
        raise BadReview(_HUNG_UP)
    body: bytes = first.get("body", b"")
    headers = dict(scope["headers"])
    content_type = headers.get(b"content-type", b"")
    if content_type.split(b";")[0].strip().lower() != b"application/json":
        shown = content_type.decode("latin-1") or "none"
        raise BadReview(f"the content type must be application/json, not {shown[:100]}", salvage_uid(body), 415)
    if int(headers.get(b"content-length") or 0) > MAX_BODY:
        raise _too_large(body)
    return await _read_rest(body, receive) if first.get("more_body", False) else body


async def _read_rest(first: bytes, receive: Receive) -> bytes:
    chunks, size = [first], len(first)
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise BadReview(_HUNG_UP)
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > MAX_BODY:
            raise _too_large(b"".join(chunks[:8]))
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


def _too_large(beginning: bytes) -> BadReview:
    limit = MAX_BODY // (1024 * 1024)
    return BadReview(f"the body is larger than the limit of {limit} MiB", salvage_uid(beginning), 413)


@functools.lru_cache(maxsize=64)
def deadline(query: bytes) -> float:
    """Seconds in which to answer, from the API server's `?timeout=10s`, less a margin for the way back."""
    for pair in query.split(b"&"):
        name, _, value = pair.partition(b"=")
        if name == b"timeout":
            seconds = _seconds(value)
            if 0 < seconds <= 60:
                return seconds * _MARGIN
    return DEFAULT_TIMEOUT * _MARGIN


def _seconds(value: bytes) -> float:
    """A Go duration (`time.ParseDuration`) in seconds; 0 for what is none."""
    if not _DURATIONS.fullmatch(value):
        return 0.0
    return sum(float(amount) * _UNITS[unit] for amount, unit in _DURATION.findall(value))


def _plain(code: int, message: str) -> bytes:
    return dumps({"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": message, "code": code})


async def _answer(send: Send, status: int, body: bytes) -> None:
    headers = [_CONTENT_TYPE, (b"content-length", b"%d" % len(body))]
    if status == 405:
        headers.append((b"allow", b"POST"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

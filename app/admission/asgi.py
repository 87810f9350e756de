"""The admission paths as an ASGI app, for tests and for other servers.

Its answers are those of `connection`.

Our own server uses it only for admission requests that `connection` doesn't read itself, such as
chunked ones.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from app.admission.decide import Route
from app.admission.exchange import (
    MAX_BODY,
    UNKNOWN_CALLER,
    Answer,
    Exchange,
    check_content_type,
    status,
    too_large,
)
from app.admission.review import BadReview
from app.base.value import Value

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

KNOWN_CALLER = "known_caller"
"""The key in `scope["state"]` for known clients.

It is true if the client has shown a certificate of a configured client CA.
"""

_HUNG_UP = "the caller hung up before its request was whole"


class AdmissionApp(Value):
    """An ASGI app that answers the paths of `exchange`.

    It passes every other request to `otherwise` (health, metrics, dry run, docs).
    """

    exchange: Exchange
    otherwise: App

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self.exchange.route(scope["path"]) if scope["type"] == "http" else None
        if route is None or (route.others and scope["method"] != "POST"):
            await self.otherwise(scope, receive, send)
        elif scope["method"] != "POST":
            message = f"{route.path} takes POST, not {scope['method']}"
            await _send(send, status(405, message), (b"allow", b"POST"))
        elif self.exchange.only_known and not scope.get("state", {}).get(KNOWN_CALLER, False):
            await _send(send, UNKNOWN_CALLER)
        else:
            await _send(send, await self._answer(route, scope, receive))

    async def _answer(self, route: Route, scope: Scope, receive: Receive) -> Answer:
        headers = dict(scope["headers"])
        content_type = headers.get(b"content-type", b"")
        try:
            body = await _read(content_type, int(headers.get(b"content-length") or 0), receive)
        except BadReview as bad:
            return self.exchange.refuse(route, bad)
        answer = self.exchange.answer(route, scope["query_string"], headers, body)
        return answer if isinstance(answer, tuple) else await answer


async def _read(content_type: bytes, length: int, receive: Receive) -> bytes:
    """Return the body of an admission request.

    BadReview for a wrong content type, and for a body that is too large or incomplete. At most the
    limit and one more piece are kept in memory.
    """
    pieces: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise BadReview(_HUNG_UP)
        piece = message.get("body", b"")
        more = message.get("more_body", False)
        if not pieces:
            check_content_type(content_type, piece)
        pieces.append(piece)
        size += len(piece)
        if max(size, length) > MAX_BODY:
            raise too_large(content_type, b"".join(pieces[:8]))

    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def _send(send: Send, answer: Answer, *headers: tuple[bytes, bytes]) -> None:
    code, body = answer
    always = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": code, "headers": [*always, *headers]})
    await send({"type": "http.response.body", "body": body})

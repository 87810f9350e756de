"""A review that comes over ASGI, with the answer that `connection` would give."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from app.admission.decide import Route
from app.admission.exchange import (
    MAX_BODY,
    UNKNOWN_CALLER,
    Answer,
    Exchange,
    check_content_type,
    too_large,
)
from app.admission.review import BadReview

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


async def answer_review(exchange: Exchange, route: Route, scope: Scope, receive: Receive) -> Answer:
    """Return the answer to a POST to the path of `route`."""
    if exchange.only_known and not scope.get("state", {}).get(KNOWN_CALLER, False):
        return UNKNOWN_CALLER

    headers = dict(scope["headers"])
    content_type = headers.get(b"content-type", b"")
    try:
        body = await _read(content_type, int(headers.get(b"content-length") or 0), receive)
    except BadReview as bad:
        return exchange.refuse(route, bad)
    answer = exchange.answer(route, scope["query_string"], headers, body)
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

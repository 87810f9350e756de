"""Answer a review that arrives over ASGI, with the same verdict as on a `Connection`.

A review over ASGI never needs a token. Without client certificates, only deletions of PodGangs
cause writes.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from app.admission.decide import Route
from app.admission.exchange import (
    MAX_BODY,
    Answer,
    Exchange,
)
from app.admission.review import BadReview

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

KNOWN_CALLER = "known_caller"
"""The key in `scope["state"]` for whether the client has presented a valid certificate."""

_HUNG_UP = "the client closed the connection before its request was complete"


async def answer_review(exchange: Exchange, route: Route, scope: Scope, receive: Receive) -> Answer:
    """Return the answer to a POST to the path of `route`.

    Return an error for an unknown caller, and for a body that is too large or incomplete.
    """
    if exchange.only_known:
        is_known = scope.get("state", {}).get(KNOWN_CALLER, False)
        refusal = exchange.refusal(route, has_certificate=is_known)
        if refusal is not None:
            return refusal

    headers = dict(scope["headers"])
    pieces: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return exchange.refuse(route, BadReview(_HUNG_UP))
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        more = message.get("more_body", False)
        if size > MAX_BODY:
            content_type = headers.get(b"content-type", b"")
            return exchange.too_large(route, content_type, b"".join(pieces[:8]))

    answer = exchange.answer(route, scope["query_string"], headers, b"".join(pieces))
    return answer if isinstance(answer, tuple) else await answer

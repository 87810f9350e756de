"""Reject requests without the token, for a foreign Host, or from pages of other sites.

The token is in the path. Browsers send a cookie to every port of the host, so a server of another
local user would receive it. The Host header is checked, because a foreign page with a name that
resolves to 127.0.0.1 would be same-origin.
"""

import hmac
import re
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.base.value import Value
from app.console.connections import SHOWN_TOKEN
from app.objects.shape import integer_in

MOST_BODY = 2 * 2**20
"""The maximum size of a request body, in bytes."""
_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?")
_METHODS = ("GET", "HEAD", "POST")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


class Guard(Value):
    """An ASGI app that passes allowed requests to `app`, with the token as `root_path`.

    Other requests get a response with an empty body. Every response has the security headers.
    """

    app: ASGIApp
    """The ASGI app that answers the allowed requests."""
    token: str
    """The token, with which the path of every allowed request begins."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        sending = _with_headers(send)
        refusal = self.refusal(scope)
        if refusal:
            await Response(status_code=refusal)(scope, receive, sending)
            return
        if shown_token := scope.get("state", {}).get(SHOWN_TOKEN):
            shown_token()
        scope = {**scope, "root_path": f"/{self.token}"}
        await self.app(scope, _Limited(receive), sending)

    def refusal(self, scope: Scope) -> int:
        """Return the status code with which a request is rejected, or 0 if it is allowed."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if _HOST.fullmatch(host) is None:
            return 421

        token, _, rest = scope["path"][1:].partition("/")
        if (
            not hmac.compare_digest(token.encode(), self.token.encode())
            or "/" not in scope["path"][1:]
        ):
            return 404

        if scope["method"] not in _METHODS:
            return 405
        if not _is_ours(headers, entry=not rest and scope["method"] == "GET"):
            return 403
        if scope["method"] == "POST":
            return _refusal_of_post(headers, host)

        return 0


def _is_ours(headers: Mapping[str, str], *, entry: bool) -> bool:
    """Return whether, according to the browser, our own page or the user sent the request.

    The file that opens the browser counts as another site. Other sites may only navigate to the
    entry page, which shows nothing of the cluster. `entry` says whether the entry page is
    requested.
    """
    site = headers.get("sec-fetch-site", "none")
    navigates = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == (
        "navigate",
        "document",
    )
    return site in ("same-origin", "none") or (entry and navigates)


def _refusal_of_post(headers: Mapping[str, str], host: str) -> int:
    """Return the status code with which a POST is rejected, or 0 if it is accepted.

    A POST must come from our own form (otherwise 403), and have a Content-Length (411) of at most
    MOST_BODY (413).

    With `Referrer-Policy: no-referrer`, browsers send `Origin: null` with our own forms. In that
    case, Sec-Fetch-Site, which no page can set, must be `same-origin`.
    """
    own_form = headers.get("origin") == "null" and headers.get("sec-fetch-site") == "same-origin"
    if headers.get("origin") != f"http://{host}" and not own_form:
        return 403
    length = integer_in(headers.get("content-length", ""))
    if length is None or length < 0:
        return 411
    return 413 if length > MOST_BODY else 0


class _Limited:
    """An ASGI `receive` that reports a disconnect once a body has more than MOST_BODY bytes."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._left = MOST_BODY

    async def __call__(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        return message if self._left >= 0 else {"type": "http.disconnect"}


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(HEADERS)
        await send(message)

    return sending

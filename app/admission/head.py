"""Read the head of an HTTP/1.1 request, and write the head of an answer.

httptools (llhttp) decides whether a request is valid.
"""

import functools
import re
from http import HTTPStatus

import httptools

END = b"\r\n\r\n"

MOST_LINES = 100
"""The maximum number of lines of a head.

API servers send eight. Each line takes time, and a head of 16 KiB can have 4,000 of them.
"""

_SHORT = 1024
"""The maximum size of a head that is cached, in bytes. Heads of API servers have about 250."""

_KEPT = (b"content-type", b"traceparent")
"""The headers whose values are needed after the head is read."""

_MOST_KEPT = 256
"""The maximum number of bytes that are kept of the value of a header in _KEPT."""

MOST_QUERY = 1024
"""The maximum size of a query that is read, in bytes. API servers send `timeout=10s`."""

_VERSION = re.compile(rb" HTTP/[0-9]\.[0-9]")
_HOST = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]+)(:[0-9]{0,5})?")

_REFUSAL = (
    b"HTTP/1.1 %d %b\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
    b"connection: close\r\n\r\n%b"
)

_LONGEST_HOST = 253 + len(":65535")
"""The maximum length of a Host header: a DNS name and a port."""

_NO_LENGTH = "Transfer-Encoding is not supported: state the length of the body in Content-Length."


class NotHttp(Exception):
    """A request is not valid HTTP/1.1 or 1.0, exceeds a limit, or needs a feature that we lack.

    `code` is the status of the answer, and the message is for the client.
    """

    def __init__(self, reason: str = "Invalid HTTP request received.", code: int = 400) -> None:
        super().__init__(reason)
        self.code = code


class Head:
    """The head of a request, parsed from its bytes up to the empty line.

    The constructor raises NotHttp if the bytes are invalid. `headers` has only the values that are
    needed later, by lowercase name, so that a head takes little memory while the body is read. A
    Head is never changed, because requests share it (`read_head`).
    """

    __slots__ = (
        "_complete",
        "_fields",
        "expects_continue",
        "headers",
        "keep_alive",
        "length",
        "method",
        "path",
        "query",
    )

    def __init__(self, data: bytes) -> None:
        if data.count(b"\n") > MOST_LINES:
            raise NotHttp(f"The head of the request has more than {MOST_LINES} lines.")
        fields: dict[bytes, bytes] = {}
        self._fields = fields
        """All headers. Values of a repeated header are joined by commas."""
        self._complete = False
        parser = httptools.HttpRequestParser(self)
        self._parse(parser, data)

        self.keep_alive: bool = parser.should_keep_alive()
        # llhttp keeps an HTTP/1.0 connection alive only if a header asks for it
        is_current = self.keep_alive
        if not is_current or b"connection" in fields or b"proxy-connection" in fields:
            is_current = _is_current(parser.get_http_version())
            self.keep_alive &= is_current
        if not _is_host(fields.get(b"host"), is_current):
            raise NotHttp("The Host header must be one name or address, with or without a port.")

        self.method: bytes = parser.get_method()
        self.length = int(fields.get(b"content-length", 0))
        """The length of the body in bytes."""
        if b"transfer-encoding" in fields:
            raise NotHttp(_NO_LENGTH, 411)
        self.expects_continue = b"expect" in fields
        """Whether the client waits for `100 Continue` before it sends the body."""
        if self.expects_continue:
            self.expects_continue = is_current and fields[b"expect"].lower() == b"100-continue"

        self.headers = {name: fields[name][:_MOST_KEPT] for name in _KEPT if name in fields}
        del self._fields

    def _parse(self, parser: httptools.HttpRequestParser, data: bytes) -> None:
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # the request is answered as if it had not asked for an upgrade
        except httptools.HttpParserError:
            raise _refusal(data, self._fields) from None
        if not self._complete:
            raise _refusal(data, self._fields)  # HTTP/2

    def on_url(self, url: bytes) -> None:
        self.path, self.query = _path_and_query(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        fields = self._fields
        if name in fields:
            value = b"%b, %b" % (fields[name], value)
        fields[name] = value

    def on_headers_complete(self) -> None:
        self._complete = True


_known_head = functools.lru_cache(maxsize=256)(Head)


def read_head(data: bytes) -> Head:
    """Return the head in `data`. Raise NotHttp if it is invalid.

    Short heads are cached, because the heads of API servers differ only in path and length. Without
    the cache, reading and answering a request takes a fifth more time (`./scripts/bench verdicts`).
    """
    return _known_head(data) if len(data) <= _SHORT else Head(data)


def _is_current(version: str) -> bool:
    """Return whether `version` is 1.1. Raise NotHttp if it is neither 1.1 nor 1.0."""
    if version not in ("1.0", "1.1"):
        raise _wrong_version()
    return version == "1.1"


def _is_host(value: bytes | None, is_current: bool) -> bool:
    """Return whether the value of Host is a name or an address, with or without a port.

    An HTTP/1.0 request may have no Host.
    """
    if value is None:
        return not is_current
    host = value.strip(b" \t")
    return len(host) <= _LONGEST_HOST and _HOST.fullmatch(host) is not None


def _refusal(data: bytes, fields: dict[bytes, bytes]) -> NotHttp:
    """Return the error for a head that llhttp rejects. `fields` are the headers that it read."""
    first_line = data.strip(b"\r\n").partition(b"\r\n")[0]
    version = first_line[-9:]
    if _VERSION.fullmatch(version) and version not in (b" HTTP/1.0", b" HTTP/1.1"):
        return _wrong_version()
    if b"transfer-encoding" in fields and b"content-length" not in fields:
        return NotHttp(_NO_LENGTH, 411)
    return NotHttp()


def _wrong_version() -> NotHttp:
    return NotHttp("This server supports only HTTP/1.1 and HTTP/1.0.", 505)


def _path_and_query(url: bytes) -> tuple[str, bytes]:
    """Return the path and the query of a request target, or empty ones if it is invalid.

    The path is not decoded, because API servers send the paths of webhooks unencoded. A query of
    more than MOST_QUERY bytes is ignored.
    """
    try:
        target = httptools.parse_url(url)
    except httptools.HttpParserInvalidURLError:
        return "", b""
    query = target.query or b""
    return (target.path or b"").decode("ascii"), query if len(query) <= MOST_QUERY else b""


def refused(refusal: NotHttp) -> bytes:
    """Return the bytes of the answer to an invalid request. The answer closes the connection."""
    reason = str(refusal).encode()
    phrase = HTTPStatus(refusal.code).phrase.encode()
    return _REFUSAL % (refusal.code, phrase, len(reason), reason)


@functools.lru_cache(maxsize=64)
def answer_head(
    code: int, length: int, is_last: bool, content_type: str = "application/json"
) -> bytes:
    """Return the head of an answer with a body of `length` bytes.

    With `is_last`, the head tells the client that the connection is closed after the answer.
    Results are cached, because most answers have the same length.
    """
    end = "connection: close\r\n\r\n" if is_last else "\r\n"
    start = f"HTTP/1.1 {code} {HTTPStatus(code).phrase}\r\ncontent-type: {content_type}\r\n"
    return f"{start}content-length: {length}\r\n{end}".encode()

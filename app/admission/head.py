"""The head of an HTTP/1.1 request, which is valid if httptools (llhttp) accepts it, and the head of
an answer.
"""

import functools
from http import HTTPStatus

import httptools

END = b"\r\n\r\n"


class NotHttp(Exception):
    """Bytes that llhttp rejects, such as a request with two lengths."""


class Head:
    """A complete head, with the empty line at its end. NotHttp if it is invalid."""

    __slots__ = (
        "_complete",
        "expects_continue",
        "fields",
        "is_chunked",
        "keep_alive",
        "length",
        "method",
        "url",
    )

    def __init__(self, data: bytes) -> None:
        self.fields: dict[bytes, bytes] = {}
        """The values of the headers by name in lower case.

        If a header was sent twice, the last one counts.
        """
        self._complete = False
        parser = httptools.HttpRequestParser(self)
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # the request is answered as if it had not asked for an upgrade
        except httptools.HttpParserError:
            raise NotHttp from None
        if not self._complete:
            raise NotHttp  # HTTP/2
        self.method: bytes = parser.get_method()
        self.keep_alive: bool = parser.should_keep_alive()
        self.length = int(self.fields.get(b"content-length", 0))
        """The number of bytes of the body, if it isn't chunked."""
        self.is_chunked = b"transfer-encoding" in self.fields
        self.expects_continue = False
        """Whether the client waits for `100 Continue` before it sends the body."""
        if b"connection" in self.fields or b"expect" in self.fields:
            is_current = parser.get_http_version() == "1.1"
            self.keep_alive &= is_current
            self.expects_continue = (
                is_current and self.fields.get(b"expect", b"").lower() == b"100-continue"
            )

    def on_url(self, url: bytes) -> None:
        self.url = url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields[name.lower()] = value

    def on_headers_complete(self) -> None:
        self._complete = True


@functools.lru_cache(maxsize=64)
def path_and_query(url: bytes) -> tuple[str, bytes]:
    """Returns the path and the query of a request target.

    The path is not decoded: if it contains `%`, it is no admission path here, and `asgi` decodes
    it. Results are cached, because API servers send the same few targets.
    """
    try:
        target = httptools.parse_url(url)
    except httptools.HttpParserInvalidURLError:
        return "", b""
    return (target.path or b"").decode("ascii"), target.query or b""


@functools.lru_cache(maxsize=64)
def answer_head(code: int, length: int, is_last: bool) -> bytes:
    """Returns the head of an answer.

    Results are cached, because most answers have the same length.
    """
    end = "connection: close\r\n\r\n" if is_last else "\r\n"
    start = f"HTTP/1.1 {code} {HTTPStatus(code).phrase}\r\ncontent-type: application/json\r\n"
    return f"{start}content-length: {length}\r\n{end}".encode()

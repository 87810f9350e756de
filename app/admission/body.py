"""The body of one request: collected from the pieces in which it arrives, up to a limit, and then dropped."""

import contextlib
from typing import Protocol

import httptools

from app.admission.exchange import MAX_BODY, SALVAGED
from app.admission.head import NotHttp

MAX_CHUNKED = MAX_BODY + 1024 * 1024
"""Bytes of a chunked request with its head, sizes and trailers."""

MAX_TRAILER = 64 * 1024
"""Bytes of a chunked request in which there is no part of its body, such as trailers."""

_STEP = 4096
_BLOCK = 64 * 1024


class Body(Protocol):
    """`too_large` becomes true once the body is known to be too large and `beginning` is long enough for a uid."""

    complete: bool
    too_large: bool

    def read(self, data: bytes, position: int) -> int:
        """Takes from `data` what belongs to the request, and returns the position behind it."""

    def whole(self) -> bytes:
        """All bytes, once the body is complete."""

    def beginning(self) -> bytes:
        """The first bytes of the body, in which a uid may be found."""

    def drop(self) -> None:
        """From here on, nothing is kept."""


class _Blocks:
    """Collected bytes. They are not in one buffer, because a growing buffer is copied and needs twice its memory; and
    not in the pieces that were sent, because each small piece would take many times its size."""

    def __init__(self) -> None:
        self.size = 0
        self._blocks = [bytearray()]

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        if len(self._blocks[-1]) >= _BLOCK:
            self._blocks.append(bytearray())
        self._blocks[-1] += piece

    def joined(self) -> bytes:
        return b"".join(self._blocks)


class Sized:
    """A body whose head states its length."""

    def __init__(self, length: int) -> None:
        self.complete = False
        self.too_large = False
        self._is_over, self._missing = length > MAX_BODY, length
        self._kept: _Blocks | None = _Blocks()

    def read(self, data: bytes, position: int) -> int:
        piece = data[position : position + self._missing]
        self._missing -= len(piece)
        self.complete = self._missing == 0
        if self._kept is not None:
            self._kept.add(piece)
            self.too_large = self._is_over and self._kept.size >= SALVAGED
        return position + len(piece)

    def whole(self) -> bytes:
        return self._kept.joined() if self._kept is not None else b""

    def beginning(self) -> bytes:
        return self.whole()

    def drop(self) -> None:
        self._kept = None


class Chunked:
    """A chunked body: the bytes as they were sent behind `head`.

    httptools finds the end of the request, but not where in the data that is: what a client sends behind a chunked
    request is not read, and its connection ends with the answer.
    """

    def __init__(self, head: bytes) -> None:
        self.complete = False
        self.too_large = False
        self._unfinished = 0
        self._kept: _Blocks | None = _Blocks()
        self._beginning = b""
        self._parser = httptools.HttpRequestParser(self)
        with contextlib.suppress(httptools.HttpParserUpgrade):  # CONNECT: the request ends here
            self._parser.feed_data(head)

    def read(self, data: bytes, position: int) -> int:
        """NotHttp for an invalid chunk, and if nothing of the body comes for MAX_TRAILER bytes."""
        while position < len(data) and not self.complete:
            step = data[position : position + _STEP]
            position += len(step)
            self._parse(step)
            if self._kept is not None:
                self._kept.add(step)
        self.too_large = self._kept is not None and self._kept.size > MAX_CHUNKED
        return position

    def whole(self) -> bytes:
        return self._kept.joined() if self._kept is not None else b""

    def beginning(self) -> bytes:
        return self._beginning

    def drop(self) -> None:
        self._kept = None

    def on_body(self, piece: bytes) -> None:
        self._unfinished = 0
        if len(self._beginning) < SALVAGED:
            self._beginning += piece

    def on_message_complete(self) -> None:
        self.complete = True

    def _parse(self, step: bytes) -> None:
        self._unfinished += len(step)
        try:
            self._parser.feed_data(step)
        except httptools.HttpParserUpgrade:
            self.complete = True
        except httptools.HttpParserError:
            if not self.complete:  # else it is what comes behind the request
                raise NotHttp from None
        if self._unfinished > MAX_TRAILER and not self.complete:
            raise NotHttp

"""The body of one request, which is collected from the received pieces up to a limit."""

import httptools

from app.admission.exchange import MAX_BODY, SALVAGED
from app.admission.head import NotHttp

MAX_TRAILER = 64 * 1024
"""The most bytes of a chunked request besides its body, such as chunk headers and trailers.

A quarter of the body's size is not counted, so that chunks of 20 bytes or more never exceed it.
"""

_CHUNKED_HEAD = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
"""A head for the parser of the chunked body. The real head was already checked."""

_STEP = 4096
_BLOCK = 64 * 1024


class _Blocks:
    """Collected bytes in blocks of 64 KiB.

    A single growing buffer would be copied and need twice its memory. The received pieces, if they
    are small, would need many times their size.
    """

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


class Body:
    """A body of which some bytes have arrived."""

    complete = False
    """Whether the last byte has arrived."""
    too_large = False
    """Whether the body is too large, and enough bytes have arrived to contain the uid."""
    _kept: _Blocks

    @property
    def size(self) -> int:
        """The number of bytes that have arrived."""
        return self._kept.size

    def read(self, data: bytes, position: int) -> int:
        """Read the bytes of the request from `position` in `data`, and return the position after.

        Raise NotHttp if they are invalid.
        """
        raise NotImplementedError

    def whole(self) -> bytes:
        """Return all bytes that have arrived."""
        return self._kept.joined()


class Sized(Body):
    """A body whose head states its length."""

    def __init__(self, length: int) -> None:
        self._kept = _Blocks()
        self._is_over = length > MAX_BODY
        self._missing = length

    def read(self, data: bytes, position: int) -> int:
        piece = data[position : position + self._missing]
        self._missing -= len(piece)
        self.complete = self._missing == 0
        self._kept.add(piece)
        self.too_large = self._is_over and self._kept.size >= SALVAGED
        return position + len(piece)


class Chunked(Body):
    """A chunked body. API servers don't send one, but a proxy in front of us may.

    httptools reports the end of the request, but not its position in the data. Therefore, bytes
    after a chunked request are not read, and its connection ends with the answer.
    """

    def __init__(self) -> None:
        self._kept = _Blocks()
        self._beside = 0
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(_CHUNKED_HEAD)

    def read(self, data: bytes, position: int) -> int:
        """Read as in `Body`.

        Raise NotHttp for an invalid chunk, and for more than MAX_TRAILER bytes besides the body.
        """
        while position < len(data) and not self.complete:
            step = data[position : position + _STEP]
            position += len(step)
            self._parse(step)
        self.too_large = self._kept.size > MAX_BODY
        return position

    def on_body(self, piece: bytes) -> None:
        self._beside = max(0, self._beside - len(piece) * 5 // 4)
        self._kept.add(piece)

    def on_message_complete(self) -> None:
        self.complete = True

    def _parse(self, step: bytes) -> None:
        self._beside += len(step)
        try:
            self._parser.feed_data(step)
        except httptools.HttpParserError:
            if not self.complete:  # otherwise, the invalid bytes come after the request
                raise NotHttp from None
        if self._beside > MAX_TRAILER and not self.complete:
            raise NotHttp

"""The body of one request, collected from the pieces in which it arrives, up to a limit."""

import httptools

from app.admission.exchange import MAX_BODY, SALVAGED
from app.admission.head import NotHttp

MAX_TRAILER = 64 * 1024
"""The most bytes of a chunked request beside its body, such as trailers.

A quarter of the bytes of the body are not counted, so that chunks of 20 bytes or more are free.
"""

_CHUNKED_HEAD = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
"""What the parser of a chunked body is told of its request, whose head has been checked already."""

_STEP = 4096
_BLOCK = 64 * 1024


class _Blocks:
    """Collected bytes.

    They are not in one buffer, because a growing buffer is copied and needs twice its memory. They
    are not in the received pieces either, because each small piece would need many times its size.
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
    """The bytes of a body that have arrived.

    `complete` is true after the last byte. `too_large` is true as soon as the body is known to be
    too large and enough of it is there to contain a uid.
    """

    complete = False
    too_large = False
    _kept: _Blocks

    @property
    def size(self) -> int:
        """The number of bytes that have arrived."""
        return self._kept.size

    def read(self, data: bytes, position: int) -> int:
        """Read the bytes from `position` in `data` that belong to the request.

        Returns the position after them.
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
    """A chunked body, which API servers don't send, but proxies before us may.

    httptools reports the end of the request, but not its position in the data. Bytes after
    a chunked request are therefore not read, and its connection ends with the answer.
    """

    def __init__(self) -> None:
        self._kept = _Blocks()
        self._beside = 0
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(_CHUNKED_HEAD)

    def read(self, data: bytes, position: int) -> int:
        """Read as in `Body`.

        NotHttp for an invalid chunk, and for more than MAX_TRAILER bytes beside the body.
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

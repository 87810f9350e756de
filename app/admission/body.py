"""The body of one request, collected from the pieces in which it arrives, up to a limit."""

import contextlib

import httptools

from app.admission.exchange import MAX_BODY, SALVAGED
from app.admission.head import NotHttp

MAX_TRAILER = 64 * 1024
"""The most bytes of a chunked request beside its body, such as trailers.

A quarter of the bytes of the body are not counted, so that chunks of 20 bytes or more are free.
"""

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
    """The kept bytes of a body, or none of them any more.

    `complete` is true after the last byte. `too_large` is true as soon as the body is known to be
    too large and `beginning` is long enough to contain a uid.
    """

    complete = False
    too_large = False
    _kept: _Blocks | None

    @property
    def size(self) -> int:
        """The number of kept bytes."""
        return self._kept.size if self._kept is not None else 0

    def read(self, data: bytes, position: int) -> int:
        """Read the bytes from `position` in `data` that belong to the request.

        Returns the position after them.
        """
        raise NotImplementedError

    def whole(self) -> bytes:
        """Return all bytes of a complete body."""
        return self._kept.joined() if self._kept is not None else b""

    def beginning(self) -> bytes:
        """Return the first bytes of the body, which may contain a uid."""
        return self.whole()

    def drop(self) -> None:
        """Drop the kept bytes and all further ones."""
        self._kept = None


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
        if self._kept is not None:
            self._kept.add(piece)
            self.too_large = self._is_over and self._kept.size >= SALVAGED
        return position + len(piece)


class Chunked(Body):
    """A chunked body: that of a review, else the bytes after `head`, as they were received.

    httptools reports the end of the request, but not its position in the data. Bytes after
    a chunked request are therefore not read, and its connection ends with the answer.
    """

    def __init__(self, head: bytes, is_review: bool) -> None:
        self._kept = _Blocks()
        self._is_review = is_review
        self._beside = 0
        self._parser = httptools.HttpRequestParser(self)
        with contextlib.suppress(httptools.HttpParserUpgrade):  # CONNECT: the request ends here
            self._parser.feed_data(head)

    def read(self, data: bytes, position: int) -> int:
        """Read as in `Body`.

        NotHttp for an invalid chunk, and for more than MAX_TRAILER bytes beside the body.
        """
        while position < len(data) and not self.complete:
            step = data[position : position + _STEP]
            position += len(step)
            self._parse(step)
            if self._kept is not None and not self._is_review:
                self._kept.add(step)
        self.too_large = self._kept is not None and self._kept.size > MAX_BODY
        return position

    def on_body(self, piece: bytes) -> None:
        self._beside = max(0, self._beside - len(piece) * 5 // 4)
        if self._kept is not None and self._is_review:
            self._kept.add(piece)

    def on_message_complete(self) -> None:
        self.complete = True

    def _parse(self, step: bytes) -> None:
        self._beside += len(step)
        try:
            self._parser.feed_data(step)
        except httptools.HttpParserUpgrade:
            self.complete = True
        except httptools.HttpParserError:
            if not self.complete:  # otherwise, the invalid bytes come after the request
                raise NotHttp from None
        if self._beside > MAX_TRAILER and not self.complete:
            raise NotHttp

"""Collect the body of a request from the received pieces."""

from app.admission.exchange import MAX_BODY, SALVAGED

_BLOCK = 64 * 1024
"""The size, in bytes, from which a block of a body is full and the next block begins."""


class Body:
    """A body of `length` bytes, some of which have arrived.

    The received bytes are stored in blocks. A single growing buffer would be copied, which needs
    twice its memory. A list of small pieces would need many times their size.
    """

    def __init__(self, length: int) -> None:
        self.size = 0
        """The number of bytes that have arrived."""
        self.missing = length
        """The number of bytes that have not arrived."""
        self._is_over = length > MAX_BODY
        self._blocks = [bytearray()]

    def read(self, data: bytes) -> bytes:
        """Add the part of `data` that belongs to the body, and return the rest of `data`."""
        piece = data[: self.missing]
        self.missing -= len(piece)
        self.size += len(piece)
        if len(self._blocks[-1]) >= _BLOCK:
            self._blocks.append(bytearray())
        self._blocks[-1] += piece
        return data[len(piece) :]

    @property
    def too_large(self) -> bool:
        """Whether the body is too large, and its first SALVAGED bytes have arrived."""
        return self._is_over and self.size >= SALVAGED

    def whole(self) -> bytes:
        """Return all bytes that have arrived."""
        return b"".join(self._blocks)

"""Lines of any length out of a stream of chunks: one event of a watch may be several megabytes."""

from collections.abc import AsyncGenerator, AsyncIterable


class LineTooLong(Exception):
    """A line is longer than it may be."""


async def lines_of(chunks: AsyncIterable[bytes], longest: int) -> AsyncGenerator[bytes, None]:
    """The non-empty lines of `chunks`, without their ends; also the last one if nothing ends it.

    Raises LineTooLong once more than `longest` bytes have come without an end of line.
    """
    parts: list[bytes] = []
    length = 0
    async for chunk in chunks:
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            parts.append(line)
            whole = b"".join(parts)
            parts, length = [], 0
            if whole.strip():
                yield whole
        if rest:
            parts.append(rest)
            length += len(rest)
        if length > longest:
            raise LineTooLong(f"a line of more than {longest} bytes")
    if whole := b"".join(parts).strip():
        yield whole

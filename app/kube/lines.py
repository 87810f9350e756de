"""Lines of a stream of chunks. A line, such as an event of a watch, may have several megabytes."""

from collections.abc import AsyncGenerator, AsyncIterable


class LineTooLong(Exception):
    """A line is longer than the limit."""


async def lines_of(chunks: AsyncIterable[bytes], longest: int) -> AsyncGenerator[bytes, None]:
    """The non-empty lines of `chunks` without line ends, and the last one even without a line end.

    Raises LineTooLong after more than `longest` bytes without a line end.
    """
    parts: list[bytes] = []
    length = 0
    async for chunk in chunks:
        *ends, begin = chunk.split(b"\n")
        for end in ends:
            line = b"".join((*parts, end))
            parts, length = [], 0
            if line.strip():
                yield line
        if begin:
            parts.append(begin)
            length += len(begin)
        if length > longest:
            raise LineTooLong(f"a line of more than {longest} bytes")
    if line := b"".join(parts).strip():
        yield line

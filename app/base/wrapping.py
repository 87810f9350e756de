"""Wrap text and tables to the width of a terminal."""

import itertools
import re
import textwrap
from collections.abc import Iterator, Sequence

NARROWEST = 9
"""The width below which no column of a table is narrowed."""

_DRAWN = "│├└─ "

_COMMANDS = ("kubectl ", "grove-admission ")
_HEAD = re.compile(r" +(\S{1,10} {2,})?")
"""The beginning of an indented line, up to the column at which wrapped lines continue."""


def fitted(text: str, width: int) -> str:
    """Return `text` with lines of at most `width` characters, or unchanged if `width` is 0.

    Lines are broken between words, so a word may be longer than `width`. Commands stay on one line,
    so that they can be copied.
    """
    if not width:
        return text
    return "\n".join(part for line in text.splitlines() for part in _parts(line, width))


def _parts(line: str, width: int) -> Iterator[str]:
    """Yield the lines into which `line` is broken. A command at its end gets a separate line."""
    if len(line) <= width or line.lstrip().startswith(_COMMANDS):
        yield line
        return

    for command in _COMMANDS:
        words, colon, rest = line.partition(f": {command}")
        if colon:
            yield from _broken(f"{words}:", width)
            yield f"{_indent(line)}{command}{rest}"
            return
    yield from _broken(line, width)


def _broken(line: str, width: int) -> list[str]:
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=_indent(line),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _indent(line: str) -> str:
    """Return the indentation for the lines in which `line` continues."""
    head = _HEAD.match(line)
    return " " * head.end() if head else "  "


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def narrowed(rows: Sequence[Sequence[str]], width: int) -> Iterator[list[tuple[str, ...]]]:
    """Yield the lines of each row, as tuples of cells, for a table of at most `width` characters.

    The width counts two spaces between cells. Cells that are too long continue in further lines.
    The widest columns are narrowed first, down to NARROWEST. The first column is narrowed last. If
    it is a drawn tree, its branches continue in further lines. If `width` is 0, each row has one
    line.
    """
    widths = _widths(rows, width)
    for row in rows:
        cells = [_wrapped(cell, most) for cell, most in zip(row, widths, strict=True)]
        drawn = [*cells[0], *[_branches(row[0])] * (max(map(len, cells)) - len(cells[0]))]
        yield list(itertools.zip_longest(drawn, *cells[1:], fillvalue=""))


def _widths(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the widths of the columns in a table of at most `width` characters.

    No column is narrowed below NARROWEST, even if the table is then wider than `width`.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    over = sum(widths) + 2 * (len(widths) - 1) - width if width else 0
    for columns in (range(1, len(widths)), range(len(widths))):
        while over > 0:
            widest = max(columns, key=lambda column: widths[column])
            if widths[widest] <= NARROWEST:
                break
            widths[widest] -= 1
            over -= 1
    return widths


def _wrapped(cell: str, most: int) -> list[str]:
    """Return the lines of a cell, at most `most` characters each.

    A cell is broken at spaces and slashes if possible, otherwise inside a word.
    """
    if len(cell) <= most:
        return [cell]
    drawn = _branches(cell)
    parts = textwrap.wrap(
        cell.replace("/", "/ "),
        most,
        subsequent_indent=drawn,
        break_on_hyphens=False,
    )
    return [part.replace("/ ", "/") for part in parts]


def _branches(cell: str) -> str:
    """Return the branches of a tree that continue below a cell: `│` below `├─ PodGang`."""
    drawn = cell[: len(cell) - len(cell.lstrip(_DRAWN))]
    return drawn.replace("├─", "│ ").replace("└─", "  ")

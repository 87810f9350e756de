"""Text of others, such as names and messages of objects, made safe to show.

An escape sequence rewrites a terminal, a newline begins a line that this program never printed,
marks of direction reorder a line, and characters without width hide in a name. So whatever is
printed, logged or put on a page passes one of these functions.
"""

import json
import re
from typing import Any

from app.base.json import pretty_json, to_json

_INVISIBLE = frozenset(
    map(
        chr,
        (
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0),
            *range(0x180B, 0x1810),
            *range(0xFE00, 0xFE10),
            *range(0xE0100, 0xE01F0),
        ),
    )
)
"""Letters and marks that Unicode counts as printable, and that nobody sees.

They have the property Default_Ignorable_Code_Point.
"""

_IN_JSON = re.compile(r"[^\n\x20-\x7e]")


def visible(text: str, kept: str = "") -> str:
    """Return `text` with every character that is not seen as itself replaced by its code.

    These are control characters, newlines, marks of direction, separators other than a space,
    characters without width, lone surrogates and unassigned characters: `\\x1b`, `\\u202e`. The
    characters in `kept` stay as they are, and so do backslashes.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char in kept else _visible(char) for char in text)


def _visible(char: str) -> str:
    if char.isprintable() and char not in _INVISIBLE:
        return char
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def visible_json(value: Any, *, indented: bool = False) -> str:
    """Return `value` as JSON that says exactly what it is, and is safe on a terminal.

    Characters that are not seen as themselves are written as JSON's own escapes. Numbers beyond 64
    bits and lone surrogates are written as they are.
    """
    text = (pretty_json(value) if indented else to_json(value)).decode()
    return text if text.isascii() and "\x7f" not in text else _IN_JSON.sub(_json_escape, text)


def _json_escape(match: re.Match[str]) -> str:
    char = match[0]
    if _visible(char) == char:
        return char
    return json.dumps(char)[1:-1] if char != "\x7f" else "\\u007f"

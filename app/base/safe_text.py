"""Make untrusted text, such as names and messages of objects, safe to show.

An escape sequence can rewrite a terminal, a newline can forge a line of output, direction marks can
reorder a line, and zero-width characters can hide in a name.
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
            *(0x180B, 0x180C, 0x180D, 0x180F),
            *range(0xFE00, 0xFE10),
            *range(0xE0100, 0xE01F0),
        ),
    )
)
"""Invisible characters that `str.isprintable` accepts.

They have Unicode's property Default_Ignorable_Code_Point.
"""

_IN_JSON = re.compile(r"[^\n\x20-\x7e]")
"""A character of JSON text that may have to be escaped."""


def visible(text: str, kept: str = "") -> str:
    """Return `text` with every invisible character replaced by its code, such as `\\x1b`.

    Examples of invisible characters are control characters, newlines, direction marks, separators
    other than a space, lone surrogates, and private-use code points. The characters in `kept` are
    not replaced.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char in kept else _visible(char) for char in text)


def _visible(char: str) -> str:
    """Return a character, or its code if it is invisible."""
    if char.isprintable() and char not in _INVISIBLE:
        return char
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def visible_json(value: Any, *, indented: bool = False) -> str:
    """Return `value` as JSON that is safe on a terminal.

    Invisible characters are written as JSON escapes, so parsing returns the same value.
    """
    text = (pretty_json(value) if indented else to_json(value)).decode()
    return text if text.isascii() and "\x7f" not in text else _IN_JSON.sub(_json_escape, text)


def _json_escape(match: re.Match[str]) -> str:
    char = match[0]
    if _visible(char) == char:
        return char
    return json.dumps(char)[1:-1] if char != "\x7f" else "\\u007f"

"""HTML from templates.

Every value is escaped, and characters that could disorder or hide text are shown as codes.
"""

import re
import time
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)
"""Control characters but tab and newline, marks of direction, and characters without width."""

GLYPHS = {"well": "●", "waits": "◐", "warning": "▲", "problem": "■", "unknown": "?", "note": "▲"}
"""A state is shown by a glyph and a word, never by colour alone."""


def visible(value: Any) -> Any:
    """Text in which hidden characters are replaced by codes such as \\u202e.

    Other values and HTML are not changed.
    """
    if isinstance(value, str) and not isinstance(value, Markup):
        return _HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", value)
    return value


def clock(seconds: float) -> str:
    """The local time of day."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # `verbatim` is for text that the user has entered: it is escaped, and keeps its hidden
    # characters.
    made.filters |= {"verbatim": escape, "clock": clock, "commas": "{:,}".format}
    made.globals["glyphs"] = GLYPHS
    return made

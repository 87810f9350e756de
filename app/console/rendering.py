"""Create the Jinja environment that renders the pages.

Every value is escaped. Characters that could reorder or hide text are shown as codes, except in
text that the user has entered (filter `verbatim`).
"""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from app.base.logs import time_of_day
from app.base.safe_text import visible
from app.console.page import ref_in_address
from app.explain.reasons.reason import ago, counted

GLYPHS = {"well": "●", "waits": "◐", "warning": "▲", "problem": "■", "unknown": "?", "note": "▲"}
"""The glyph of each state. A state is never shown by colour alone."""


def _finalized(value: Any) -> Any:
    """Return a value as text in which invisible characters are replaced by their codes.

    Tabs and newlines are kept. Numbers and Markup, which is finished HTML, are not changed.
    """
    if isinstance(value, Markup | int | float):
        return value
    return visible(str(value), kept="\t\n")


@cache
def environment() -> Environment:
    """Return the Jinja environment of all templates, which are compiled once."""
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalized,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # `verbatim` is for text that the user has entered: it is escaped, and keeps its hidden
    # characters.
    made.filters |= {"verbatim": escape, "clock": time_of_day, "commas": "{:,}".format}
    made.filters |= {"ago": ago, "counted": counted, "named": ref_in_address}
    made.globals["glyphs"] = GLYPHS

    return made

"""The progress of an audit on standard error.

On a terminal, it is a bar. Elsewhere, it is a line every few seconds.
"""

import time
from typing import TextIO

from app.objects.time import Clock

LINE_SECONDS = 5.0
_WIDTH = 76
_BAR = 30


class Progress:
    """The progress, written to `stream`. `clock` is monotonic, in seconds."""

    def __init__(self, stream: TextIO, clock: Clock = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._terminal = stream.isatty()
        self._written_at = clock()
        self._is_shown = False

    def show(self, kind: str, done: int, remaining: int | None) -> None:
        """Show that `done` objects are checked.

        `remaining` is None if the API server does not report the number.
        """
        total = "" if remaining is None else f" of {done + remaining:,}"
        if self._terminal:
            bar = (
                ""
                if remaining is None
                else f"[{'#' * (_BAR * done // max(1, done + remaining)):<{_BAR}}] "
            )
            self._write(f"\r{f'{kind:<16} {bar}{done:,}{total}':<{_WIDTH}}")
            self._is_shown = True
        elif self._clock() - self._written_at >= LINE_SECONDS:
            self._written_at = self._clock()
            self._write(f"{kind}: {done:,}{total}\n")

    def clear(self) -> None:
        """Remove the bar, so that other text can be written in its place."""
        if self._is_shown:
            self._write("\r" + " " * _WIDTH + "\r")
            self._is_shown = False

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

"""Show the progress of an audit on standard error.

On a terminal, the progress is a bar. Elsewhere, it is one line every few seconds.
"""

import time
from typing import TextIO

from app.objects.time import Clock

LINE_SECONDS = 5.0
"""The minimum number of seconds between two lines, if standard error is not a terminal."""
_WIDTH = 76
"""The width of the line with the bar, in characters."""
_BAR = 30
"""The width of the bar, in characters."""


class Progress:
    """The progress of an audit, written to `stream`. `clock` is monotonic, in seconds."""

    def __init__(self, stream: TextIO, clock: Clock = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._terminal = stream.isatty()
        self._written_at = clock()
        self._is_shown = False

    def show(self, kind: str, done: int, remaining: int | None) -> None:
        """Show that `done` objects of `kind` are checked, and `remaining` objects are not yet.

        `remaining` is None if the API server does not report that number. Off a terminal, write at
        most one line every LINE_SECONDS.
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
        """Erase the bar, if there is one, so that other text can be written there."""
        if self._is_shown:
            self._write("\r" + " " * _WIDTH + "\r")
            self._is_shown = False

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

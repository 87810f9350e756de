"""How far an audit is, on standard error: a bar that is written over on a terminal, else a line now and then."""

import time
from collections.abc import Callable
from typing import TextIO

SAY_SECONDS = 5.0
_WIDTH, _BAR = 76, 30


class Progress:
    """`clock` is monotonic, in seconds."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._terminal, self._said, self._is_shown = stream.isatty(), clock(), False

    def show(self, kind: str, done: int, left: int | None) -> None:
        """`left` is None if the API server doesn't say how many there are."""
        of = "" if left is None else f" of {done + left:,}"
        if self._terminal:
            bar = "" if left is None else f"[{'#' * (_BAR * done // max(1, done + left)):<{_BAR}}] "
            self._write(f"\r{f'{kind:<16} {bar}{done:,}{of}':<{_WIDTH}}")
            self._is_shown = True
        elif self._clock() - self._said >= SAY_SECONDS:
            self._said = self._clock()
            self._write(f"{kind}: {done:,}{of}\n")

    def clear(self) -> None:
        """Takes the bar away, so that something else can be written in its place."""
        if self._is_shown:
            self._write("\r" + " " * _WIDTH + "\r")
            self._is_shown = False

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

"""The log of verdicts."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from app.admission.review import Request
from app.admission.verdict import Verdict
from app.base.json import to_json
from app.base.logs import time_of_day, timestamp
from app.base.sample import Sample, counter
from app.base.visible import visible

MOST_CHARACTERS = 1000
"""Characters of each text of a line. Whoever reaches the port chooses the names in a review."""

STRANGE_BYTES = 2**20
"""The most bytes of lines about reviews of strangers at once.

A log that is rotated at some size would otherwise lose the lines about others: lines of 10 KB can
be caused at 2 MB/s.
"""

STRANGE_RATE = 2**16
"""Bytes of such lines in a second, after these."""

_FLUSH_LINES = 256

_WAITING_CHUNKS = 200


_Subject = tuple[str, str, str, str, bool]
"""User, operation, namespace and name of a request, and whether it is a dry run."""

_Record = tuple[float, str, str, _Subject | None, Verdict, float]
"""When a verdict was given, its path, uid and subject, the verdict, and its seconds."""


class VerdictLog:
    """The writer of a line for each verdict to `stream`.

    A line has the user, the name of the object and the verdict, but never the object, the patch or
    a secret. A thread writes the lines, so that a slow reader does not delay responses.

    Lines are formatted together. Formatting them one by one would take more than twice the
    processor time, because the code and data would not be in the processor caches.
    """

    def __init__(
        self,
        stream: BinaryIO,
        *,
        readable: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`readable` lines are short, for a terminal. Otherwise each line is JSON."""
        self._stream = stream
        self._form = self._readable if readable else self._line
        self._records: list[tuple[bool, _Record]] = []
        """With whether each is about a review of a stranger."""
        self._clock = clock
        self._flushed_at = clock()
        self._strange_left: float = STRANGE_BYTES
        self._queue: queue.Queue[bytes | None] = queue.Queue(_WAITING_CHUNKS)
        self.lost = 0
        """The number of lines that were dropped.

        The reader of the log was too slow, or too many were about reviews of strangers.
        """
        self._millisecond = -1
        self._stamp = ""
        self._thread = threading.Thread(target=self._write, name="verdict-log", daemon=True)
        self._thread.start()

    def record(
        self, path: str, uid: str, request: Request | None, verdict: Verdict, seconds: float
    ) -> None:
        subject: _Subject | None = None
        if request:
            subject = (
                request.username[:MOST_CHARACTERS],
                request.operation,
                request.namespace[:MOST_CHARACTERS],
                request.name[:MOST_CHARACTERS],
                request.dry_run,
            )

        record = (time.time(), path, uid[:MOST_CHARACTERS], subject, verdict, seconds)
        self._records.append((request is None or not request.trusted, record))
        if len(self._records) >= _FLUSH_LINES or verdict.code >= 500:
            self.flush()

    def flush(self) -> None:
        """Give the formatted lines to the writing thread."""
        if self._records:
            records = self._records
            self._records = []
            try:
                self._queue.put_nowait(b"\n".join([*self._lines(records), b""]))
            except queue.Full:
                self.lost += len(records)

    def _lines(self, records: Iterable[tuple[bool, _Record]]) -> Iterator[bytes]:
        """Yield the lines, and those about reviews of strangers while there is room for them."""
        now = self._clock()
        more = STRANGE_RATE * (now - self._flushed_at)
        self._strange_left = min(STRANGE_BYTES, self._strange_left + more)
        self._flushed_at = now
        for is_strange, record in records:
            if is_strange and self._strange_left < 0:
                self.lost += 1
                continue
            line = self._form(record)
            if is_strange:
                self._strange_left -= len(line)
            yield line

    def _readable(self, record: _Record) -> bytes:
        at, path, _, subject, verdict, _ = record
        user, operation, namespace, name, dry_run = subject or (
            "somebody",
            "a request",
            "",
            "",
            False,
        )
        place = "/".join(filter(None, (namespace, name)))
        kind = path.rpartition("/")[2]
        line = f"{time_of_day(at)}  {verdict.outcome:8} {operation} {kind} {place} by {user}"
        line += " (dry run)" if dry_run else ""
        line += f": {verdict.message[:MOST_CHARACTERS]}" if verdict.message else ""

        return visible(line).encode()

    def _line(self, record: _Record) -> bytes:
        at, path, uid, subject, verdict, seconds = record
        line: dict[str, object] = {
            "time": self._timestamp(at),
            "level": "error" if verdict.code >= 500 else "info",
            "logger": "verdict",
            "path": path,
            "uid": uid,
        }
        if subject is not None:
            line["user"], line["operation"], line["namespace"], line["name"], line["dryRun"] = (
                subject
            )

        line["verdict"] = verdict.outcome
        line["code"] = verdict.code
        line["ms"] = int(seconds * 1_000_000) / 1000
        if verdict.message:
            line["message"] = verdict.message[:MOST_CHARACTERS]

        return to_json(line)

    def close(self) -> None:
        """Write all lines and end the thread."""
        self.flush()
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=5)
        self._thread.join(timeout=5)

    def _timestamp(self, at: float) -> str:
        """Return `timestamp(at)`, which many lines share under load."""
        millisecond = int(at * 1000)
        if millisecond != self._millisecond:
            self._millisecond = millisecond
            self._stamp = timestamp(at)
        return self._stamp

    def _write(self) -> None:
        while (chunk := self._queue.get()) is not None:
            try:
                self._stream.write(chunk)
                self._stream.flush()
            except (OSError, ValueError):
                # the reader has closed the stream: the server continues without a log
                continue

    def samples(self) -> Iterable[Sample]:
        text = "Verdicts that were not logged, for a slow reader or many strangers."
        yield counter("log_lines_lost_total", text, self.lost)

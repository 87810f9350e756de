"""Log each verdict, without delaying any response."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import msgspec
from msgspec import UNSET, UnsetType

from app.admission.review import Request
from app.admission.verdict import Verdict
from app.base.json import to_json
from app.base.logs import time_of_day, timestamp
from app.base.safe_text import visible
from app.base.sample import Sample, counter

MOST_CHARACTERS = 1000
"""The maximum length of each text in a line, in characters.

Any client can choose the names in a review.
"""

STRANGE_BYTES = 2**20
"""The maximum bytes that a burst of reviews from unknown callers may add to the log.

Unknown callers can cause lines of 10 KB at 2 MB/s. A log that is rotated by size would then lose
the lines about API servers' reviews.
"""

STRANGE_RATE = 2**16
"""The bytes per second that reviews from unknown callers may add to the log after a burst."""

_FLUSH_LINES = 256
"""The number of lines that are formatted and written together."""

_WAITING_CHUNKS = 200
"""The maximum number of chunks waiting for the writing thread. Further chunks are dropped."""


class _Record(msgspec.Struct, rename={"dry_run": "dryRun"}):
    """A line of the log, with its keys in this order.

    In a line about an unreadable review, `user`, `operation`, `namespace`, `name` and `dry_run` are
    unset.
    """

    time: str
    """The time of the verdict, or "" until the line is formatted."""
    level: str
    logger: str
    path: str
    caller: str
    uid: str
    user: str | UnsetType
    operation: str | UnsetType
    namespace: str | UnsetType
    name: str | UnsetType
    dry_run: bool | UnsetType
    verdict: str
    code: int
    ms: float
    message: str | UnsetType


_UNREAD: Any = UNSET
"""The value of fields that an unreadable review doesn't have."""


class VerdictLog:
    """A log with a line for each verdict, written to `stream`.

    A line has the user, the name of the object and the verdict, but never the object, the patch or
    a secret. A thread writes the lines, so that a slow reader does not delay responses.

    Lines are formatted in batches. Formatting them one by one would take more than twice the
    processor time, because the code and data would not be in the processor caches.
    """

    def __init__(
        self,
        stream: BinaryIO,
        *,
        readable: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the writing thread. With `readable`, lines are short text, otherwise JSON."""
        self._stream = stream
        self._form = self._readable if readable else self._line
        self._records: list[tuple[bool, float, _Record]] = []
        """The next lines: (is the caller unknown, seconds since 1970 of the verdict, record)."""
        self._clock = clock
        self._flushed_at = clock()
        self._strange_left: float = STRANGE_BYTES
        self._queue: queue.Queue[bytes | None] = queue.Queue(_WAITING_CHUNKS)
        self.lost = 0
        """The number of dropped lines.

        Lines are dropped if the reader of the log is too slow, or if too many lines are about
        reviews of unknown callers.
        """
        self._millisecond = -1
        self._stamp = ""
        self._thread = threading.Thread(target=self._write, name="verdict-log", daemon=True)
        self._thread.start()

    def record(
        self, path: str, uid: str, request: Request | None, verdict: Verdict, seconds: float
    ) -> None:
        """Add a line. It is written with the next lines, or at once for a code of 500 or more."""
        is_strange = request is None or not request.trusted
        record = _record(path, uid, request, verdict, seconds)
        self._records.append((is_strange, time.time(), record))
        if len(self._records) >= _FLUSH_LINES or verdict.code >= 500:
            self.flush()

    def flush(self) -> None:
        """Format the lines, and pass them to the writing thread. Drop them if its queue is full."""
        if self._records:
            records = self._records
            self._records = []
            try:
                self._queue.put_nowait(b"\n".join([*self._lines(records), b""]))
            except queue.Full:
                self.lost += len(records)

    def _lines(self, records: Iterable[tuple[bool, float, _Record]]) -> Iterator[bytes]:
        """Yield `records` as lines. Drop lines about unknown callers if there are too many."""
        now = self._clock()
        more = STRANGE_RATE * (now - self._flushed_at)
        self._strange_left = min(STRANGE_BYTES, self._strange_left + more)
        self._flushed_at = now
        for is_strange, at, record in records:
            if is_strange and self._strange_left < 0:
                self.lost += 1
                continue
            line = self._form(at, record)
            if is_strange:
                self._strange_left -= len(line)
            yield line

    def _readable(self, at: float, record: _Record) -> bytes:
        """Return a record as a short line for a terminal."""
        place = "/".join(filter(None, (record.namespace or "", record.name or "")))
        kind = record.path.rpartition("/")[2]
        who = f"{record.operation or 'a request'} {kind} {place} by {record.user or 'unknown user'}"
        line = f"{time_of_day(at)}  {record.verdict:8} {who}"
        line += " (dry run)" if record.dry_run else ""
        line += f": {record.message}" if record.message else ""

        return visible(line).encode()

    def _line(self, at: float, record: _Record) -> bytes:
        record.time = self._timestamp(at)
        try:
            return msgspec.json.encode(record)
        except UnicodeError:
            return to_json(msgspec.to_builtins(record))

    def close(self) -> None:
        """Wait up to ten seconds until all lines are written, and end the thread."""
        self.flush()
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=5)
        self._thread.join(timeout=5)

    def _timestamp(self, at: float) -> str:
        """Return `timestamp(at)`, cached, because many lines have the same timestamp under load."""
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
        """Yield the number of lost lines."""
        text = "Verdicts not logged because of a slow reader or many unknown callers."
        yield counter("log_lines_lost_total", text, self.lost)


UNKNOWN = "unknown"
"""The caller of a review without a token or a certificate. It may nevertheless be an API server."""


def caller_of(request: Request | None) -> str:
    """Return the kind of the caller of a review: `api-server` or `unknown`."""
    return "api-server" if request is not None and request.trusted else UNKNOWN


def _record(
    path: str, uid: str, request: Request | None, verdict: Verdict, seconds: float
) -> _Record:
    """Return the line about a verdict, still without the time. Long texts are truncated."""
    user = operation = namespace = name = dry_run = _UNREAD
    if request:
        user = request.username[:MOST_CHARACTERS]
        operation = request.operation
        namespace = request.namespace[:MOST_CHARACTERS]
        name = request.name[:MOST_CHARACTERS]
        dry_run = request.dry_run

    return _Record(
        "",
        "error" if verdict.code >= 500 else "info",
        "verdict",
        path,
        caller_of(request),
        uid[:MOST_CHARACTERS],
        user,
        operation,
        namespace,
        name,
        dry_run,
        verdict.outcome,
        verdict.code,
        int(seconds * 1_000_000) / 1000,
        verdict.message[:MOST_CHARACTERS] or UNSET,
    )

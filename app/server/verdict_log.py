"""Keep records of verdicts, and log them without delaying responses."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO

import msgspec
from msgspec import UNSET, UnsetType

from app.admission.review import Request
from app.admission.verdict import FAILED, Verdict
from app.base.json import to_json
from app.base.logs import time_of_day, timestamp
from app.base.safe_text import visible
from app.base.sample import Sample, counter

MOST_CHARACTERS = 1000
"""The maximum length, in characters, of a message, and of a text that a client can choose."""

STRANGE_BYTES = 2**20
"""The maximum bytes that a burst of reviews from unknown callers may add to the log.

Unknown callers can cause lines of 10 KB at 2 MB/s. A log that is rotated by size would then lose
the lines about API servers' reviews.
"""

STRANGE_RATE = 2**16
"""The bytes per second that reviews from unknown callers may add to the log after a burst."""

_WAITING_CHUNKS = 200
"""The maximum number of chunks waiting for the writing thread. Further chunks are dropped."""


class VerdictRecord(msgspec.Struct, gc=False):
    """A verdict without the objects of its review. Long texts are truncated."""

    at: float
    """The time of the verdict, in seconds since 1970."""
    path: str
    """The path of the webhook, without a token."""
    uid: str
    """The uid of the review, or "" if it could not be read."""
    outcome: str
    """The outcome of the verdict, such as `refused`."""
    code: int
    """The code of the verdict."""
    message: str
    """The message of the verdict, or ""."""
    seconds: float
    """The seconds from the start of decoding to the encoded answer."""
    has_failed: bool
    """Whether the webhook has raised an unexpected exception."""
    is_read: bool
    """Whether the review could be read. If not, the fields below are "" or False."""
    is_trusted: bool
    """Whether an API server sent the review."""
    user: str
    """The name of the user."""
    operation: str
    """The operation, such as CREATE."""
    namespace: str
    """The namespace of the object."""
    name: str
    """The name of the object."""
    dry_run: bool
    """Whether the review is a dry run."""

    @property
    def caller(self) -> str:
        """The kind of the caller: `api-server` or `unknown`."""
        return "api-server" if self.is_trusted else UNKNOWN


def record_of(
    path: str, uid: str, request: Request | None, verdict: Verdict, seconds: float
) -> VerdictRecord:
    """Return the record of a new verdict. `request` is None if the review could not be read."""
    user = operation = namespace = name = ""
    is_trusted = dry_run = False
    if request is not None:
        is_trusted = request.trusted
        user = request.username[:MOST_CHARACTERS]
        operation = request.operation
        namespace = request.namespace[:MOST_CHARACTERS]
        name = request.name[:MOST_CHARACTERS]
        dry_run = request.dry_run
    return VerdictRecord(
        time.time(),
        path,
        uid[:MOST_CHARACTERS],
        verdict.outcome,
        verdict.code,
        verdict.message[:MOST_CHARACTERS],
        seconds,
        verdict is FAILED,
        request is not None,
        is_trusted,
        user,
        operation,
        namespace,
        name,
        dry_run,
    )


class _Line(msgspec.Struct, rename={"dry_run": "dryRun"}):
    """A line of the log, with its keys in this order.

    In a line about an unreadable review, `user`, `operation`, `namespace`, `name` and `dry_run` are
    unset.
    """

    time: str
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


class VerdictLog:
    """A log of verdicts, one line each, written to `stream`.

    A line has the user, the name of the object and the verdict, but never the object, the patch or
    a secret. A thread writes the lines, so that a slow reader does not delay responses.
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

    def write(self, records: Sequence[VerdictRecord]) -> None:
        """Pass the lines of `records` to the writing thread. Drop them if its queue is full."""
        try:
            self._queue.put_nowait(b"\n".join([*self._lines(records), b""]))
        except queue.Full:
            self.lost += len(records)

    def _lines(self, records: Iterable[VerdictRecord]) -> Iterator[bytes]:
        """Yield `records` as lines. Drop lines about unknown callers if there are too many."""
        now = self._clock()
        more = STRANGE_RATE * (now - self._flushed_at)
        self._strange_left = min(STRANGE_BYTES, self._strange_left + more)
        self._flushed_at = now
        for record in records:
            if not record.is_trusted and self._strange_left < 0:
                self.lost += 1
                continue
            line = self._form(record)
            if not record.is_trusted:
                self._strange_left -= len(line)
            yield line

    def _readable(self, record: VerdictRecord) -> bytes:
        """Return a record as a short line for a terminal."""
        place = "/".join(filter(None, (record.namespace, record.name)))
        kind = record.path.rpartition("/")[2]
        who = f"{record.operation or 'a request'} {kind} {place} by {record.user or 'unknown user'}"
        line = f"{time_of_day(record.at)}  {record.outcome:8} {who}"
        line += " (dry run)" if record.dry_run else ""
        line += f": {record.message}" if record.message else ""

        return visible(line).encode()

    def _line(self, record: VerdictRecord) -> bytes:
        """Return a record as a line of JSON."""
        is_read = record.is_read
        line = _Line(
            time=self._timestamp(record.at),
            level="error" if record.code >= 500 else "info",
            logger="verdict",
            path=record.path,
            caller=record.caller,
            uid=record.uid,
            user=record.user if is_read else UNSET,
            operation=record.operation if is_read else UNSET,
            namespace=record.namespace if is_read else UNSET,
            name=record.name if is_read else UNSET,
            dry_run=record.dry_run if is_read else UNSET,
            verdict=record.outcome,
            code=record.code,
            ms=int(record.seconds * 1_000_000) / 1000,
            message=record.message or UNSET,
        )
        try:
            return msgspec.json.encode(line)
        except UnicodeError:
            return to_json(msgspec.to_builtins(line))

    def close(self) -> None:
        """Wait up to ten seconds until all lines are written, and end the thread."""
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

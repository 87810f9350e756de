"""The log of verdicts."""

import contextlib
import queue
import threading
import time
from collections.abc import Iterable
from typing import BinaryIO

from app.admission.review import Request, dumps
from app.admission.verdict import Verdict
from app.kube.gauge import Gauge

_MAX_MESSAGE = 1000
_FLUSH_LINES = 256

_WAITING_CHUNKS = 200


class VerdictLog:
    """One line per verdict on `stream`. Never the object, the patch or a secret: who, what, and how it was judged."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lines: list[bytes] = []
        self._queue: queue.Queue[bytes | None] = queue.Queue(_WAITING_CHUNKS)
        self.lost = 0
        """Lines that were dropped, because the reader of the log was too slow for too long."""
        self._second = 0
        self._prefix = ""
        self._thread = threading.Thread(target=self._write, name="verdict-log", daemon=True)
        self._thread.start()

    def record(self, path: str, uid: str, request: Request | None, verdict: Verdict, seconds: float) -> None:
        now = time.time()
        line: dict[str, object] = {
            "time": self._timestamp(now),
            "level": "error" if verdict.code >= 500 else "info",
            "logger": "verdict",
            "path": path,
            "uid": uid,
        }
        if request is not None:
            line["user"] = request.username
            line["operation"] = request.operation
            line["namespace"] = request.namespace
            line["name"] = request.name
            line["dryRun"] = request.dry_run
        line["verdict"] = verdict.outcome
        line["code"] = verdict.code
        line["ms"] = int(seconds * 1_000_000) / 1000
        if verdict.message:
            line["message"] = verdict.message[:_MAX_MESSAGE]
        self._lines.append(dumps(line))
        if len(self._lines) >= _FLUSH_LINES or verdict.code >= 500:
            self.flush()

    def flush(self) -> None:
        """Hands what is gathered to the writer."""
        if self._lines:
            lines, self._lines = self._lines, []
            try:
                self._queue.put_nowait(b"\n".join([*lines, b""]))
            except queue.Full:
                self.lost += len(lines)

    def close(self) -> None:
        """Writes everything and ends the thread."""
        self.flush()
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=5)
        self._thread.join(timeout=5)

    def _timestamp(self, now: float) -> str:
        whole = int(now)
        if whole != self._second:
            self._second, self._prefix = whole, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
        return f"{self._prefix}.{int((now - whole) * 1000):03d}Z"

    def _write(self) -> None:
        while (chunk := self._queue.get()) is not None:
            try:
                self._stream.write(chunk)
                self._stream.flush()
            except (OSError, ValueError):  # the reader went away: verdicts matter more than their log
                continue

    def gauges(self) -> Iterable[Gauge]:
        text = "Verdicts that were not logged, for a slow reader of the log."
        yield "log_lines_lost_total", text, {}, float(self.lost)

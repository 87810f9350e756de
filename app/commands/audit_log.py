"""Reads audit logs for `check`: what this version would have said of what people did."""

import gzip
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import orjson

from app.audit.progress import Progress
from app.cluster import documents
from app.config.schema import Configuration
from app.dry_run.audit_log import EVENT_VERSION, History
from app.dry_run.audit_report import Report
from app.dry_run.documents import UnusableInput
from app.dry_run.judge import Asker, judge
from app.kube.api import Object
from app.webhooks.configurations import EXEMPT_NAMESPACE
from app.webhooks.registry import routes_over

MOST_LINE = 16 * 2**20
"""Bytes of one event."""
_GZIP = b"\x1f\x8b"
_EVERY = 1000
_DAMAGED = (OSError, EOFError, zlib.error)
"""What reading a file raises if it, or what is packed in it, cannot be read."""


def is_audit_log(name: str) -> bool:
    """Whether a file, gzip or not, begins with an audit event. False if it can't be read."""
    path = Path(name)
    if name == "-" or not path.is_file():
        return False
    try:
        with _opened(path) as (lines, _):
            event = orjson.loads(next((line for line in _lines(lines) if line.strip()), b""))
    except (*_DAMAGED, ValueError):
        return False
    return isinstance(event, dict) and _is_event(event)


async def report_on(names: Sequence[str], facts: Sequence[Object], configuration: Configuration) -> Report:
    """Judges the events of the logs in their order. `facts` are what there was before; objects of the logs are added
    as they are written. UnusableInput if a log can't be read to its end."""
    report, progress = Report(), Progress(sys.stderr)
    cluster = documents.cluster_of(configuration, facts)
    routes = routes_over(configuration, cluster)
    targets = {(route.group, route.resource, route.subresource): route.operations for route in routes.values()}
    history = History(targets, (EXEMPT_NAMESPACE, configuration.certificates.namespace))
    for name in names:
        for event in _events(name, report, progress):
            write = history.write_of(event)
            if write is None:
                continue
            if write.problem:
                report.skip(write.problem)
            elif write.review is not None:
                verdict = (await judge(routes, write.review, Asker(write.user))).verdict
                if verdict is not None:
                    report.add(write, verdict)
            if write.stored is not None:
                documents.take_in(cluster, write.stored)
    progress.clear()
    return report


def _events(name: str, report: Report, progress: Progress) -> Iterator[Object]:
    path = Path(name)
    size = path.stat().st_size
    try:
        with _opened(path) as (lines, raw):
            for number, line in enumerate(_lines(lines)):
                if number % _EVERY == 0:
                    progress.show(f"{path.name} KiB", raw.tell() // 1024, (size - raw.tell()) // 1024)
                event = _event(line)
                if event is not None:
                    report.events += 1
                    yield event
                elif line.strip():
                    report.unreadable += 1
    except _DAMAGED as problem:
        raise UnusableInput(f"{name}: can't be read: {problem}") from None


def _event(line: bytes) -> Object | None:
    try:
        event = orjson.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and _is_event(event) else None


def _is_event(event: Object) -> bool:
    return event.get("apiVersion") == EVENT_VERSION and event.get("kind") == "Event"


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """The lines of a file, and the file itself, whose position says how far they are read."""
    with path.open("rb") as raw:
        compressed = raw.read(2) == _GZIP
        raw.seek(0)
        if not compressed:
            yield raw, raw
            return
        with gzip.open(raw, "rb") as unpacked:
            yield unpacked, raw  # type: ignore[misc]


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Lines of a bounded length; a longer one comes in pieces, which are no events."""
    while line := stream.readline(MOST_LINE):
        yield line

"""`grove-admission trial`: what a server in a trial period would have refused, by its log.

Exit codes: 0 nothing, 1 something would have been refused, 2 unusable input.
"""

import argparse
import contextlib
import gzip
import io
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

from app.base.json import from_json
from app.commands.files import ANY_NAME, files_in
from app.commands.options import REFUSED, UNUSABLE, Command, add_output, show_answer
from app.commands.trial_report import Report, ReportedMessage
from app.dry_run.budget import UnusableInput
from app.objects.shape import text_at

MOST_LINE = 16 * 2**20
"""Bytes of one line."""

_GZIP = b"\x1f\x8b"
Entry = dict[str, Any]


def add_options(parser: argparse.ArgumentParser) -> None:
    files = "logs of the server, also gzipped; directories of them; - for standard input"
    parser.add_argument("files", nargs="+", metavar="FILES", help=files)
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    report = report_on(files_in(arguments.files, ANY_NAME))
    show_answer(arguments.output, report.json, lambda: "\n".join(report.lines()))
    return UNUSABLE if not report.judged else REFUSED if report.rejected else 0


def report_on(names: Sequence[str]) -> Report:
    """Return the report on the verdicts in the logs `names`; other lines are passed over.

    Raise UnusableInput if a log can't be read to its end.
    """
    report = Report()
    for name in names:
        for entry in _verdicts(name):
            report.events += 1
            _take(entry, report)
    return report


def _verdicts(name: str) -> Iterator[Entry]:
    for line in _lines(name):
        entry = _entry(line)
        if entry.get("logger") == "verdict" and not entry.get("dryRun"):
            yield entry


def _lines(name: str) -> Iterator[bytes]:
    """Yield the lines of a file or of standard input, gzip or not.

    A line of more than a bounded length comes in pieces, which are no entries. Raise UnusableInput
    if it can't be read to its end.
    """
    try:
        with contextlib.ExitStack() as opened:
            raw = sys.stdin.buffer if name == "-" else opened.enter_context(Path(name).open("rb"))
            stream = raw
            if cast(io.BufferedReader, raw).peek(len(_GZIP)).startswith(_GZIP):
                stream = cast(BinaryIO, opened.enter_context(gzip.open(raw, "rb")))
            while line := stream.readline(MOST_LINE):
                yield line
    except (OSError, EOFError, zlib.error) as problem:
        raise UnusableInput(f"{name}: can't be read: {problem}") from None


def _entry(line: bytes) -> Entry:
    """Return a line of a log, {} if it is not JSON. `kubectl logs --prefix` writes names before."""
    try:
        entry = from_json(line[max(line.find(b"{"), 0) :])
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}


def _take(entry: Entry, report: Report) -> None:
    outcome = text_at(entry, "verdict")
    message = text_at(entry, "message")
    if outcome == "failed":
        report.skip(message)
        return

    user = text_at(entry, "user")
    namespace = text_at(entry, "namespace")
    counts = report.counts_of(user, namespace)
    counts.judged += 1
    counts.changed += outcome == "patched"
    if outcome in ("warned", "refused"):
        counts.rejected += 1
        kind = text_at(entry, "path").rpartition("/")[2]
        place = "/".join(filter(None, (namespace, text_at(entry, "name"))))
        operation = text_at(entry, "operation")
        example = f"{operation} {place} by {user} at {text_at(entry, 'time')}"
        report.note(ReportedMessage("rejected", kind, message), example)


COMMAND = Command(
    "Counts, for each user and namespace, the writes that a server with enforcement.mode warn has"
    " allowed and would otherwise have refused, and lists the reasons with an example of each.",
    add_options,
    run,
)

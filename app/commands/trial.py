"""The command `trial`: list what a warn-only server would have rejected, from its log."""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import asdict

from app.base.json import from_json
from app.base.safe_text import visible
from app.base.value import Value
from app.base.wrapping import table
from app.commands.files import lines_of
from app.commands.options import REFUSED, UNUSABLE, Command, add_output, show_answer
from app.kube.api import Object
from app.objects.shape import text_at
from app.server.verdict_log import UNKNOWN

# The report: counts of writes, and messages with an example.


class Counts(Struct):
    """The number of writes of one user in one namespace that had each outcome.

    The JSON report has the same field names.
    """

    judged: int = 0
    """The number of writes with a verdict. Writes that the server failed to judge don't count."""
    rejected: int = 0
    """The number of writes that were rejected, or would have been without warn-only mode."""
    changed: int = 0
    """The number of writes that were allowed with a patch."""
    warned: int = 0
    """Always 0, because the log does not say which allowed writes had warnings."""


class ReportedMessage(Value):
    """A message with which writes of one kind of object were or would have been rejected.

    The JSON report has the same field names.
    """

    kind: str
    """The last part of the webhook's path, such as `podcliqueset`."""
    message: str
    """The message of the rejection."""


class Report(Struct):
    """The result of reading one or several logs."""

    events: int = 0
    """The number of verdicts in the report, including failed ones."""
    unknown_callers: int = 0
    """The number of omitted verdicts: those on reviews without a token or certificate.

    If no review in the logs had a token or certificate, nothing is omitted, and the number is 0.
    """
    places: dict[tuple[str, str], Counts] = {}
    """The counts by (user, namespace)."""
    findings: Counter[ReportedMessage] = field(default_factory=Counter)
    """The number of writes that were or would have been rejected, by kind and message."""
    examples: dict[ReportedMessage, str] = {}
    """A description of the first write that was or would have been rejected, by message."""
    not_judged: Counter[str] = field(default_factory=Counter)
    """The number of failed verdicts, by message."""

    @property
    def judged(self) -> int:
        """The number of verdicts that did not fail."""
        return sum(counts.judged for counts in self.places.values())

    def json(self) -> Object:
        """Return the report as JSON-serializable data."""
        return {
            "events": self.events,
            "judged": self.judged,
            "unknownCallers": self.unknown_callers,
            "users": [
                {"user": user, "namespace": namespace, **asdict(counts)}
                for (user, namespace), counts in self._ordered()
            ],
            "findings": [
                {
                    "outcome": "rejected",
                    **asdict(finding),
                    "count": count,
                    "example": self.examples[finding],
                }
                for finding, count in self.findings.most_common()
            ],
            "notJudged": dict(self.not_judged.most_common()),
        }

    def lines(self) -> Iterator[str]:
        """Yield the report as lines that are safe to print on a terminal."""
        return map(visible, self._lines())

    def _lines(self) -> Iterator[str]:
        reviews = "review" if self.events == 1 else "reviews"
        yield f"{self.events:,} {reviews} in the logs, {self.judged:,} of them with a verdict"
        if self.unknown_callers:
            one = self.unknown_callers == 1
            yield (
                f"{self.unknown_callers:,} more {'review is' if one else 'reviews are'} omitted:"
                f" without a token or certificate of an API server, anyone may have sent"
                f" {'it' if one else 'them'}"
            )
        if self.places:
            yield from ("", *self._table())
        if self.findings:
            yield from ("", "rejected or would have been rejected")
        for finding, count in self.findings.most_common():
            yield f"  {count:>6,}  {finding.kind}: {finding.message}"
            yield f"          first: {self.examples[finding]}"

        if self.not_judged:
            yield from ("", "not judged")
        for reason, count in self.not_judged.most_common():
            yield f"  {count:>6,}  {reason}"

    def _table(self) -> Iterator[str]:
        rows: list[tuple[str, ...]] = [("user", "namespace", "judged", "rejected", "changed")]
        for (user, namespace), counts in self._ordered():
            numbers = (counts.judged, counts.rejected, counts.changed)
            rows.append((user or "-", namespace or "-", *map("{:,}".format, numbers)))
        return table(rows)

    def _ordered(self) -> list[tuple[tuple[str, str], Counts]]:
        """Return the counts by user and namespace, most rejections first."""
        return sorted(self.places.items(), key=lambda item: (-item[1].rejected, item[0]))


# The command.


def add_options(parser: argparse.ArgumentParser) -> None:
    files = "logs of the server, or - for standard input"
    parser.add_argument("files", nargs="+", metavar="FILES", help=files)
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    report = report_on(arguments.files)
    show_answer(arguments.output, report.json, lambda: "\n".join(report.lines()))
    return UNUSABLE if not report.judged else REFUSED if report.findings else 0


def report_on(names: Sequence[str]) -> Report:
    """Return the report on the verdicts in the logs `names`.

    Dry runs and all other lines are ignored. Raise UnusableInput if a log can't be read to its end.
    """
    known, unknown = Report(), Report()
    for name in names:
        for line in lines_of(name):
            entry = _entry(line)
            if entry.get("logger") != "verdict" or entry.get("dryRun"):
                continue
            report = unknown if entry.get("caller") == UNKNOWN else known
            report.events += 1
            _count(entry, report)

    if not known.events:
        return unknown
    known.unknown_callers = unknown.events
    return known


def _entry(line: str) -> Object:
    """Return a log line as a map, or {} if it is not JSON.

    `kubectl logs --prefix` writes the name of the pod before the JSON.
    """
    try:
        entry = from_json(line[max(line.find("{"), 0) :].encode())
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}


def _count(entry: Object, report: Report) -> None:
    """Add the verdict of a log line to the report."""
    outcome = text_at(entry, "verdict")
    message = text_at(entry, "message")
    if outcome == "failed":
        report.not_judged[message] += 1
        return

    user = text_at(entry, "user")
    namespace = text_at(entry, "namespace")
    counts = report.places.setdefault((user, namespace), Counts())
    counts.judged += 1
    counts.changed += outcome == "patched"
    if outcome in ("warned", "refused"):
        counts.rejected += 1
        kind = text_at(entry, "path").rpartition("/")[2]
        place = "/".join(filter(None, (namespace, text_at(entry, "name"))))
        operation = text_at(entry, "operation")
        example = f"{operation} {place} by {user} at {text_at(entry, 'time')}"
        finding = ReportedMessage(kind, message)
        report.findings[finding] += 1
        report.examples.setdefault(finding, example)


COMMAND = Command(
    description=(
        "Count the writes that a server in warn-only mode (enforcement.mode: warn) would otherwise"
        " have rejected, for each user and namespace, and list the reasons, each with an example."
        " Exit code: 0 nothing would have been rejected, 1 something would have been, 2 unusable"
        " input or a log without verdicts."
    ),
    add_options=add_options,
    run=run,
    examples=(
        "grove-admission trial server.log",
        "kubectl logs -n grove-system deploy/grove-admission | grove-admission trial -",
    ),
)

"""The report on audit logs.

It has counts for each user and namespace, and all findings, each with an example.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import asdict, astuple

from app.admission.verdict import Verdict
from app.base.value import Value
from app.base.visible import visible
from app.dry_run.audit_log import Write
from app.dry_run.judge import with_field
from app.kube.api import Object

OUTCOMES = ("rejected", "changed", "warned")
MISSING_FACTS = (
    "facts are missing: give the levels as --config FILE, or the objects from before the log as"
    " files beside it (kubectl get podcliquesets -A -o yaml > sets.yaml, and likewise"
    " clustertopologybindings or clustertopologies)"
)
_MOST_ROWS = 50


class Counts(Struct):
    """Numbers of writes. The names of the fields are those of the report in JSON."""

    judged: int = 0
    rejected: int = 0
    changed: int = 0
    warned: int = 0


class ReportedMessage(Value):
    """One message about objects of one kind.

    `outcome` is rejected, changed or warned. The names of the fields are those of the report in
    JSON.
    """

    outcome: str
    kind: str
    message: str


@dataclass(slots=True)
class Report:
    """The report on one or several logs.

    `events` is the number of events, and `unreadable` that of lines that are no audit event.
    `not_judged` counts writes by the reason why they could not be judged. It `lacks_facts` if one
    of these reasons is that facts from before the log are missing. `changed_by` counts the writes
    that a webhook has changed, as the API server recorded it; `changed_first` has an example.
    """

    events: int = 0
    unreadable: int = 0
    places: dict[tuple[str, str], Counts] = field(default_factory=dict)
    findings: Counter[ReportedMessage] = field(default_factory=Counter)
    examples: dict[ReportedMessage, str] = field(default_factory=dict)
    not_judged: Counter[str] = field(default_factory=Counter)
    lacks_facts: bool = False
    changed_by: Counter[str] = field(default_factory=Counter)
    changed_first: dict[str, str] = field(default_factory=dict)

    @property
    def judged(self) -> int:
        return sum(counts.judged for counts in self.places.values())

    @property
    def rejected(self) -> int:
        return sum(counts.rejected for counts in self.places.values())

    def skip(self, reason: str) -> None:
        self.not_judged[reason] += 1

    def add(self, write: Write, verdict: Verdict) -> None:
        """Add a write and its verdict. A verdict that failed counts as not judged."""
        if verdict.outcome == "failed":
            self.lacks_facts = True
            self.skip(verdict.message)
            return

        counts = self.counts_of(write.user, write.namespace)
        counts.judged += 1
        counts.rejected += not verdict.allowed
        counts.changed += verdict.allowed and bool(verdict.patch)
        counts.warned += bool(verdict.warnings)
        for finding in _findings(write, verdict):
            self.note(finding, _example(write))

    def add_recorded(self, webhooks: Iterable[str], write: Write) -> None:
        """Count a write that `webhooks` have changed."""
        for webhook in webhooks:
            self.changed_by[webhook] += 1
            self.changed_first.setdefault(webhook, _example(write))

    def counts_of(self, user: str, namespace: str) -> Counts:
        return self.places.setdefault((user, namespace), Counts())

    def note(self, finding: ReportedMessage, example: str) -> None:
        """Count a finding. Its first example is kept."""
        self.findings[finding] += 1
        self.examples.setdefault(finding, example)

    def json(self) -> Object:
        return {
            "events": self.events,
            "unreadable": self.unreadable,
            "judged": self.judged,
            "users": [
                {"user": user, "namespace": namespace, **asdict(counts)}
                for (user, namespace), counts in self._ordered()
            ],
            "findings": [
                {**asdict(finding), "count": count, "example": self.examples[finding]}
                for finding, count in self.findings.most_common()
            ],
            "notJudged": dict(self.not_judged.most_common()),
            "changedBy": dict(self.changed_by.most_common()),
            "changedFirst": self.changed_first,
        }

    def lines(self) -> Iterator[str]:
        """Yield the report as lines for people, each of them safe to show."""
        return map(visible, self._lines())

    def _lines(self) -> Iterator[str]:
        writes = self.judged + sum(self.not_judged.values())
        yield (
            f"{self.events:,} events, {writes:,} writes that a webhook looks at, {self.judged:,} of"
            " them judged"
        )
        if self.unreadable:
            yield f"{self.unreadable:,} lines are no audit event"
        if self.places:
            yield ""
            yield from self._table()

        for outcome in OUTCOMES:
            yield from self._messages(outcome)

        if self.not_judged:
            yield ""
            yield "not judged"
            yield from (
                f"  {count:>6,}  {reason}" for reason, count in self.not_judged.most_common()
            )

        if self.changed_by:
            yield ""
            yield "changed at the time, as the API server recorded it"
        for webhook, count in self.changed_by.most_common():
            yield f"  {count:>6,}  by {webhook}"
            yield f"          first: {self.changed_first[webhook]}"

        if self.lacks_facts:
            yield MISSING_FACTS

    def _table(self) -> Iterator[str]:
        rows: list[tuple[str, ...]] = [("user", "namespace", "judged", *OUTCOMES)]
        for (user, namespace), counts in self._ordered()[:_MOST_ROWS]:
            rows.append(
                (user or "-", namespace or "-", *(f"{number:,}" for number in astuple(counts)))
            )

        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        alignments = ("<", "<", *">" * (len(widths) - 2))
        for row in rows:
            cells = zip(row, alignments, widths, strict=True)
            yield "  ".join(f"{cell:{alignment}{width}}" for cell, alignment, width in cells)

        if len(self.places) > _MOST_ROWS:
            yield f"… {len(self.places) - _MOST_ROWS:,} more: --output json"

    def _messages(self, outcome: str) -> Iterator[str]:
        findings = [
            (finding, count)
            for finding, count in self.findings.most_common()
            if finding.outcome == outcome
        ]
        if findings:
            yield ""
            yield outcome
        for finding, count in findings[:_MOST_ROWS]:
            yield f"  {count:>6,}  {finding.kind}: {finding.message}"
            yield f"          first: {self.examples[finding]}"

    def _ordered(self) -> list[tuple[tuple[str, str], Counts]]:
        """Return the counts, those with the most rejections first."""
        return sorted(
            self.places.items(), key=lambda item: (-item[1].rejected, -item[1].warned, item[0])
        )


def _example(write: Write) -> str:
    place = "/".join(filter(None, (write.namespace, write.name)))
    return f"{write.operation} {place} by {write.user} at {write.time}"


def _findings(write: Write, verdict: Verdict) -> Iterator[ReportedMessage]:
    if not verdict.allowed:
        texts = [with_field(cause) for cause in verdict.causes] or [verdict.message]
        yield from (ReportedMessage("rejected", write.kind, text) for text in texts)
    elif verdict.patch:
        paths = ", ".join(dict.fromkeys(operation["path"] for operation in verdict.patch))
        yield ReportedMessage("changed", write.kind, paths)
    yield from (ReportedMessage("warned", write.kind, warning) for warning in verdict.warnings)

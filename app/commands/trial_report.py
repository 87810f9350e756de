"""What a server in a trial period would have refused: counts, and reasons with an example."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import asdict, astuple

from app.base.value import Value
from app.base.visible import visible
from app.kube.api import Object

OUTCOMES = ("rejected", "changed", "warned")
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

    `events` is the number of verdicts in the logs. `not_judged` counts those that failed, by the
    reason.
    """

    events: int = 0
    places: dict[tuple[str, str], Counts] = field(default_factory=dict)
    findings: Counter[ReportedMessage] = field(default_factory=Counter)
    examples: dict[ReportedMessage, str] = field(default_factory=dict)
    not_judged: Counter[str] = field(default_factory=Counter)

    @property
    def judged(self) -> int:
        return sum(counts.judged for counts in self.places.values())

    @property
    def rejected(self) -> int:
        return sum(counts.rejected for counts in self.places.values())

    def skip(self, reason: str) -> None:
        self.not_judged[reason] += 1

    def counts_of(self, user: str, namespace: str) -> Counts:
        return self.places.setdefault((user, namespace), Counts())

    def note(self, finding: ReportedMessage, example: str) -> None:
        """Count a finding. Its first example is kept."""
        self.findings[finding] += 1
        self.examples.setdefault(finding, example)

    def json(self) -> Object:
        return {
            "events": self.events,
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
        }

    def lines(self) -> Iterator[str]:
        """Yield the report as lines for people, each of them safe to show."""
        return map(visible, self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.events:,} verdicts in the logs, {self.judged:,} of them judged"
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

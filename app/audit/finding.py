"""The findings of an audit, and their counts."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from app.visible import visible

Outcome = Literal["refused", "warning", "undecided"]
ONLY_WARNINGS = 3
"""Exit code: there are findings, but nothing would be refused."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An object that would be rejected, or that has a problem.

    `code` is that of the rejection, 5xx if there is no verdict, and 0 for a problem that no webhook
    reports. The names of the fields are those of the JSON.
    """

    kind: str
    namespace: str
    name: str
    code: int
    problems: tuple[str, ...]
    remedy: str

    @property
    def is_undecided(self) -> bool:
        return self.code >= 500

    @property
    def outcome(self) -> Outcome:
        """What the webhooks would say: `warning` also for what no webhook reports."""
        if self.is_undecided:
            return "undecided"
        return "refused" if self.code else "warning"

    def text(self) -> str:
        place = "/".join(filter(None, (self.namespace, self.name)))
        lines = [
            f"{self.outcome:<9} {self.kind} {place}",
            *(f"    {problem}" for problem in self.problems),
        ]
        return "\n".join(map(visible, [*lines, f"    remedy: {self.remedy}"]))

    def json(self) -> dict[str, Any]:
        return {**asdict(self), "outcome": self.outcome, "problems": list(self.problems)}


@dataclass(slots=True)
class Count:
    """The objects of one resource, counted by verdict.

    All of them, those with findings, those without a verdict, and those that would be refused.
    """

    looked_at: int = 0
    with_findings: int = 0
    undecided: int = 0
    refused: int = 0


@dataclass(slots=True)
class Tally:
    """The counts so far, by kind.

    `unread` has the reason for each resource that could not be judged, and `absent` the resources
    that aren't installed.
    """

    counts: dict[str, Count] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def count(self, kind: str) -> Count:
        return self.counts.setdefault(kind, Count())

    def add(self, finding: Finding) -> None:
        count = self.count(finding.kind)
        if finding.is_undecided:
            count.undecided += 1
        else:
            count.with_findings += 1
            count.refused += finding.outcome == "refused"

    @property
    def exit_code(self) -> int:
        """The exit code.

        0 without findings, 1 if an object would be refused, 2 if not all objects could be judged, 3
        if there are only warnings.
        """
        counts = self.counts.values()
        if self.unread or any(count.undecided for count in counts):
            return 2
        if any(count.refused for count in counts):
            return 1
        return ONLY_WARNINGS if any(count.with_findings for count in counts) else 0

    def summary(self) -> str:
        return "\n".join(map(visible, self._lines()))

    def _lines(self) -> Iterator[str]:
        for kind, count in self.counts.items():
            undecided = f", {count.undecided:,} without a verdict" if count.undecided else ""
            warnings = count.with_findings - count.refused
            yield (
                f"{kind}: {count.looked_at:,} looked at, {count.refused:,} refused,"
                f" {warnings:,} with warnings{undecided}"
            )

        yield from self.notes
        yield from (f"not installed in this cluster: {name}" for name in self.absent)
        yield from (
            f"could not be looked at: {name}: {reason}" for name, reason in self.unread.items()
        )

    def json(self) -> dict[str, Any]:
        counts = {
            kind: {
                "lookedAt": count.looked_at,
                "found": count.with_findings,
                "refused": count.refused,
                "undecided": count.undecided,
            }
            for kind, count in self.counts.items()
        }
        return {
            "counts": counts,
            "notInstalled": self.absent,
            "unread": self.unread,
            "notes": self.notes,
        }

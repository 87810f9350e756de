"""What an audit says of one object, and what it counts."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """One object that would be refused, or is in a state it should not be in. `code` is that of the refusal, 5xx where
    there is no verdict, 0 if nobody was asked."""

    kind: str
    namespace: str
    name: str
    code: int
    problems: tuple[str, ...]
    remedy: str

    @property
    def is_undecided(self) -> bool:
        return self.code >= 500

    def text(self) -> str:
        place = "/".join(filter(None, (self.namespace, self.name)))
        code = f" ({self.code})" if self.code else ""
        lines = [f"{self.kind} {place}{code}", *(f"    {problem}" for problem in self.problems)]
        return "\n".join([*lines, f"    remedy: {self.remedy}"])

    def json(self) -> dict[str, Any]:
        where = {"kind": self.kind, "namespace": self.namespace, "name": self.name}
        return {**where, "code": self.code, "problems": list(self.problems), "remedy": self.remedy}


@dataclass(slots=True)
class Count:
    """Of one resource: objects looked at, found wanting, and without a verdict."""

    looked_at: int = 0
    found: int = 0
    undecided: int = 0


@dataclass(slots=True)
class Tally:
    """What has been looked at so far, by kind. `unread` has the resources that could not be, with the reason, `absent`
    those that aren't installed."""

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
            count.found += 1

    @property
    def exit_code(self) -> int:
        """0 nothing found, 1 findings, 2 if not everything could be looked at."""
        if self.unread or any(count.undecided for count in self.counts.values()):
            return 2
        return 1 if any(count.found for count in self.counts.values()) else 0

    def summary(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for kind, count in self.counts.items():
            undecided = f", {count.undecided:,} without a verdict" if count.undecided else ""
            yield f"{kind}: {count.looked_at:,} looked at, {count.found:,} found{undecided}"
        yield from self.notes
        yield from (f"not installed in this cluster: {name}" for name in self.absent)
        yield from (f"could not be looked at: {name}: {why}" for name, why in self.unread.items())

    def json(self) -> dict[str, Any]:
        counts = {
            kind: {"lookedAt": count.looked_at, "found": count.found, "undecided": count.undecided}
            for kind, count in self.counts.items()
        }
        return {"counts": counts, "notInstalled": self.absent, "unread": self.unread, "notes": self.notes}

"""Show the page Findings: findings of the audit, the doctor and the topology in one list.

The audit and the doctor run on demand, never on a timer.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from app.audit.auditor import Auditor
from app.audit.finding import Finding
from app.base.groups import by_key
from app.base.value import Value
from app.config.schema import Configuration
from app.console.page import ConsolePage, Query, Values
from app.console.topology import surveyed
from app.doctor.apis import Read
from app.doctor.certificate import Handshake
from app.doctor.examination import Patient, examine
from app.doctor.report import Check
from app.explain.live import Live
from app.explain.reasons.reason import Reason, counted
from app.explain.state.index import Index
from app.explain.state.snapshot import TITLES
from app.kube.api import Client, ClusterError
from app.objects.fields import listed
from app.rules.dialects.dialect import ORPHANED

MOST_ROWS = 500
"""The maximum number of rows on the page. The filter also finds rows beyond this limit."""
_NAMED = 3
"""The maximum number of objects that the title of a row names."""


class Group(NamedTuple):
    """A group of findings on the page."""

    title: str
    state: str
    """The state of the group's findings, which determines their glyph and colour."""
    words: str
    """The words that the page shows for this state."""


GROUPS = {
    "problem": Group("Problems", "problem", "problem"),
    "refused": Group("Refused today", "problem", "refused today"),
    "leak": Group("Leaks", "problem", "leak"),
    "warning": Group("Warnings", "warning", "warning"),
    "undecided": Group("Not decided", "unknown", "not decided"),
}


class FindingRow(Value):
    """A finding, or equal findings about several objects."""

    group: str
    """A key of GROUPS."""
    source: str
    """`audit`, `doctor` or `topology`."""
    text: str
    """The message of the doctor or the topology, or the kind of the objects for the audit."""
    detail: str
    """The problems that the audit found, the id of a topology finding, or "" for the doctor."""
    remedy: str
    """The remedy, or "" if there is none."""
    commands: tuple[str, ...] = ()
    """The commands of the remedy."""
    objects: tuple[str, ...] = ()
    """The names of the objects that the finding is about, if they are known."""

    @property
    def title(self) -> str:
        """The title of the row: `text`, and for the audit also the names of the first objects."""
        if self.source != "audit":
            return self.text
        return f"{self.text} {listed(self.objects, _NAMED)}"


@dataclass(slots=True)
class Result:
    """The findings of one examination so far."""

    start: float = 0.0
    """The time at which the examination began, in seconds since 1970, or 0 if it has not begun."""
    end: float = 0.0
    """The time at which it ended, in seconds since 1970, or 0 if it has not ended."""
    stage: str = "the stored objects"
    """The subject of the current stage: `the stored objects` (audit), then `the installation`."""
    looked_at: int = 0
    """The number of objects that the audit has examined."""
    rows: list[FindingRow] = field(default_factory=list)
    """The findings of the audit and the doctor."""
    passed: list[tuple[str, Check]] = field(default_factory=list)
    """The doctor's checks that are `ok`, each with its subject."""
    not_seen: list[str] = field(default_factory=list)
    """The kinds and stages that could not be examined, each with the cause."""


class Examination:
    """The last examination by the audit and the doctor, which starts on request.

    `client` is read-only, and `read` returns the JSON at a path of the API server.
    """

    def __init__(
        self,
        client: Client,
        read: Read,
        configuration: Configuration,
        live: Live,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._read = read
        self._configuration = configuration
        self._live = live
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self.result = Result()
        self.page = ConsolePage("findings", "Findings", self.shown)

    @property
    def running(self) -> bool:
        """Is an examination running?"""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Start an examination, unless one is running."""
        if not self.running:
            self.result = Result(self._clock())
            self._task = asyncio.create_task(self._examine(self.result))

    async def finish(self) -> None:
        """Wait until the running examination, if there is one, has ended."""
        if self._task is not None:
            await self._task

    def stop(self) -> None:
        """Cancel the running examination, if there is one."""
        if self._task is not None:
            self._task.cancel()

    async def _examine(self, result: Result) -> None:
        """Run the audit, then the doctor, and add their findings to `result`."""
        try:
            await self._audit(result)
            result.stage = "the installation"
            self._live.touch()
            await self._doctor(result)
        except (ClusterError, OSError) as problem:
            result.not_seen.append(f"{result.stage}: {problem}")
        result.end = self._clock()
        self._live.touch()

    async def _audit(self, result: Result) -> None:
        def show(*_: object) -> None:
            result.looked_at = tally.looked_at
            self._live.touch()

        auditor = Auditor(self._client, self._configuration, show, datetime.now(UTC))
        tally = auditor.tally
        async for finding in auditor.findings(None):
            result.rows.append(_of_audit(finding))
        result.looked_at = tally.looked_at
        result.not_seen += (f"{name} ({why})" for name, why in tally.unread.items())
        result.not_seen += (f"{name} (not installed)" for name in tally.absent)

    async def _doctor(self, result: Result) -> None:
        configuration = self._configuration
        patient = Patient(
            self._client, self._read, _no_handshake, configuration, False, datetime.now(UTC)
        )
        for subject, checks in (await examine(patient)).items():
            for check in checks:
                if check.status == "ok":
                    result.passed.append((subject, check))
                else:
                    group = "undecided" if check.status == "unknown" else check.status
                    text = f"{subject}: {check.message}"
                    result.rows.append(FindingRow(group, "doctor", text, "", check.remedy))

    def count(self, index: Index) -> int:
        """Return the number of findings of the last examination and of the current topology.

        Equal findings about several objects count as one, as on the page.
        """
        return len(self._rows(index))

    def _rows(self, index: Index) -> list[FindingRow]:
        topology = map(_of_topology, surveyed(index).reasons)
        return _grouped(_without_repeats([*self.result.rows, *topology]))

    def shown(self, index: Index, query: Query) -> Values:
        """Return the values of the page's template.

        The rows are the findings of the last examination and the current findings of the topology.
        """
        rows = self._rows(index)
        text = query.get("q", "").lower()
        show = query.get("show", "")
        options = {"q": True, "show": show in GROUPS}
        if not options["show"]:
            show = ""
        kept = []
        for row in rows:
            searched = " ".join((row.source, row.text, row.detail, *row.objects))
            if show in ("", row.group) and text in searched.lower():
                kept.append(row)

        return {
            "result": self.result,
            "groups": GROUPS,
            "counts": Counter(row.group for row in rows),
            "all": len(rows),
            "options": options,
            "show": show,
            "q": query.get("q", ""),
            "rows": kept[:MOST_ROWS],
            "more": max(0, len(kept) - MOST_ROWS),
            "headline": _headline(rows, self.result, running=self.running),
            "running": self.running,
            "not_seen": [*self.result.not_seen, *_not_seen(index)],
        }


async def _no_handshake(host: str, port: int, name: str, ca_bundle: bytes) -> Handshake:
    return Handshake("unreachable", "the console connects to nothing but the API server")


def _of_audit(finding: Finding) -> FindingRow:
    """Return the row of a finding of the audit.

    MNNVL resources whose owners do not exist are in the group `leak`. All other findings are in the
    group of their outcome.
    """
    detail = "; ".join(finding.problems)
    is_leak = finding.outcome == "warning" and detail.startswith(ORPHANED)
    group = "leak" if is_leak else finding.outcome
    return FindingRow(
        group, "audit", finding.kind, detail, finding.remedy, objects=(finding.place,)
    )


def _of_topology(reason: Reason) -> FindingRow:
    group = "problem" if reason.severity == "problem" else "warning"
    names = tuple(ref.name for ref in reason.objects)
    return FindingRow(
        group, "topology", reason.text, reason.id, reason.remedy, reason.commands, names
    )


def _not_seen(index: Index) -> Iterator[str]:
    """Yield the kinds that findings of the topology need and that could not be read."""
    kinds = {need for unknown in surveyed(index).unknown for need in unknown.needs}
    for kind in sorted(kinds):
        yield f"topology: {TITLES[kind]} ({index.facts.unseen[kind]})"


def _without_repeats(rows: Sequence[FindingRow]) -> list[FindingRow]:
    """Return the rows, except for warnings of the audit that a message of the doctor contains."""
    doctor = [row.text for row in rows if row.source == "doctor"]
    remarks = [row for row in rows if (row.source, row.group) == ("audit", "warning")]
    repeated = {row for row in remarks if any(row.detail in text for text in doctor)}
    return [row for row in rows if row not in repeated]


def _grouped(rows: Sequence[FindingRow]) -> list[FindingRow]:
    """Return the rows sorted by group, with equal findings about several objects as one row."""
    alike = by_key((replace(row, objects=()), row.objects) for row in rows)
    merged = [replace(row, objects=tuple(chain(*objects))) for row, objects in alike.items()]
    order = list(GROUPS)
    return sorted(merged, key=lambda row: order.index(row.group))


def _headline(rows: Sequence[FindingRow], result: Result, *, running: bool) -> str:
    """Return the heading of the page: that the check runs, or how many findings there are."""
    if running:
        return "The cluster is being checked"
    if not result.end:
        of_topology = f"{counted(rows, 'topology finding')}; audit and doctor have not run yet"
        return of_topology if rows else "Audit and doctor have not run yet"
    if not rows:
        return "No findings"

    findings = counted(rows, "finding")
    urgent = sum(row.group in ("problem", "refused", "leak") for row in rows)
    if not urgent:
        return f"{findings}, none urgent"

    return f"{findings}, {urgent} urgent"

"""How many recorded decisions explain agrees with, by kind and by what KAI decided."""

from collections.abc import Iterable, Sequence

from app.base.value import Value
from tests.explain.decisions.judge import disagreements
from tests.explain.decisions.recording import Recording

COLUMNS = ("placed", "partly", "pending")


class Verdict(Value):
    """What was found in one recording: `problems` is empty if explain agrees."""

    name: str
    kind: str
    title: str
    outcome: str
    problems: tuple[str, ...]


def judged(recordings: Iterable[Recording]) -> list[Verdict]:
    """Return a verdict on each recording, in their order."""
    return [
        Verdict(
            recording.name,
            recording.kind,
            str(recording.case["title"]),
            recording.outcome,
            tuple(disagreements(recording)),
        )
        for recording in recordings
    ]


def agreeing(verdicts: Iterable[Verdict]) -> str:
    """Return `12 of 13`, "" without verdicts."""
    known = list(verdicts)
    if not known:
        return ""
    return f"{sum(not verdict.problems for verdict in known)} of {len(known)}"


def table(verdicts: Sequence[Verdict]) -> str:
    """Return the agreement as a Markdown table: a row for each kind, and one for all."""
    rows = [["kind", *COLUMNS, "all"], ["---"] * (len(COLUMNS) + 2)]
    kinds = sorted({verdict.kind for verdict in verdicts})
    for kind in [*kinds, ""]:
        of_kind = [verdict for verdict in verdicts if kind in ("", verdict.kind)]
        cells = [
            agreeing(verdict for verdict in of_kind if verdict.outcome == outcome)
            for outcome in COLUMNS
        ]
        rows.append([kind or "all", *cells, agreeing(of_kind)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)

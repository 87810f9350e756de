"""What the reason of each row says besides its text: remedy, commands, objects and evidence.

`reasons.txt` has it. `.venv/bin/python -m tests.explain.table` writes the file again, and so does
`./scripts/fix`: read the differences before you commit them.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from app.explain.answers.answer import Answer
from app.explain.reasons.reason import Reason
from app.facts.identity import Ref
from tests.explain.table.row import Row

FILE = Path(__file__).with_name("reasons.txt")
Asking = Callable[..., Answer]
"""The type of the fixture `answered`: it explains an object of a snapshot."""


def in_full(reasons: Iterable[Reason], row: Row) -> str:
    """The lines about the reasons with the id of a row. Other texts than the row's are in them."""
    return "\n".join(
        line for reason in reasons if reason.id == row.id for line in _lines(reason, row.text)
    )


def whole(answer: Answer) -> Iterator[str]:
    """All lines about an answer, for `said.txt`: its headline, reasons and place in the line."""
    yield answer.headline
    for reason in answer.reasons:
        yield f"{reason.id}: {reason.text}"
        yield from _lines(reason, reason.text)
    yield from (f"line: {own.words}" for own in answer.line)


def _lines(reason: Reason, known: str) -> Iterator[str]:
    text = "" if reason.text == known else f": {reason.text}"
    yield f"  {reason.severity} ({reason.who}){text}"
    yield f"    remedy: {reason.remedy}"
    yield from (f"    $ {command}" for command in reason.commands)
    yield f"    objects: {', '.join(map(_name, reason.objects))}"
    for evidence in reason.evidence:
        yield f"    evidence: {_name(evidence.object)}, {evidence.field}: {evidence.value}"
    if reason.parts:
        yield f"    parts: {', '.join(reason.parts)}"
    if reason.follows:
        yield "    follows from others"


def _name(ref: Ref) -> str:
    return f"{ref.kind} {ref.namespace}/{ref.name}" if ref.namespace else f"{ref.kind} {ref.name}"


def read() -> dict[tuple[str, str], str]:
    """The paragraph of each row and dialect: its first line is `id: name (dialects)`."""
    told = {}
    for paragraph in FILE.read_text().removesuffix("\n").split("\n\n"):
        title, text = paragraph.split("\n", 1)
        row, dialects = title.removesuffix(")").rsplit(" (", 1)
        told.update({(row, dialect): text for dialect in dialects.split(", ")})
    return told


def write(told: dict[tuple[str, str], str]) -> None:
    dialects: dict[tuple[str, str], list[str]] = {}
    for (row, dialect), text in told.items():
        dialects.setdefault((row, text), []).append(dialect)
    FILE.write_text(
        "\n\n".join(f"{row} ({', '.join(of)})\n{text}" for (row, text), of in dialects.items())
        + "\n"
    )

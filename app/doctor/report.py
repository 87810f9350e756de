"""The results of checks, the exit code and the output.

Each result has a status and, for a problem, a remedy.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Literal

from msgspec.structs import asdict

from app.value import Value
from app.visible import visible

Status = Literal["ok", "warning", "problem", "unknown"]


class Check(Value):
    """The result of a check.

    `unknown` means that it could not be made. The names of the fields are those of the JSON.
    """

    subject: str
    status: Status
    message: str
    remedy: str = ""


Checks = list[Check]
"""What was found by one look."""


def exit_code(checks: Sequence[Check]) -> int:
    """0 fine (warnings included), 1 problems, 2 if not everything could be looked at."""
    statuses = {check.status for check in checks}
    return 2 if "unknown" in statuses else 1 if "problem" in statuses else 0


def lines(checks: Sequence[Check], *, everything: bool = False) -> Iterator[str]:
    """Yield the verdict, then the checks for people, by subject.

    Those that are ok are included only if `everything`.

    Each line is safe to show.
    """
    yield verdict(checks)
    shown = [check for check in checks if everything or check.status != "ok"]
    yield from map(visible, _lines(shown))


def _lines(checks: Sequence[Check]) -> Iterator[str]:
    for subject, group in groupby(checks, key=lambda check: check.subject):
        yield subject
        for check in group:
            yield f"  {check.status:<8} {check.message}"
            if check.remedy:
                yield f"{'':11}remedy: {check.remedy}"


_VERDICTS = {
    0: "the installation can do its work",
    1: "the installation has problems",
    2: "not everything could be looked at",
}


def verdict(checks: Sequence[Check]) -> str:
    """Return the answer in one line: `the installation has problems: 1 problem, 41 ok`."""
    counts = summary(checks)
    order: tuple[Status, ...] = ("problem", "unknown", "warning", "ok")
    words = ", ".join(_counted(counts[status], status) for status in order if counts[status])
    return f"{_VERDICTS[exit_code(checks)]}: {words or 'nothing was checked'}"


def _counted(count: int, status: Status) -> str:
    """Return `1 problem`, `2 problems`, `2 ok`."""
    is_noun = status in ("problem", "warning")
    return f"{count} {status}s" if is_noun and count != 1 else f"{count} {status}"


def summary(checks: Sequence[Check]) -> dict[str, int]:
    statuses: tuple[Status, ...] = ("ok", "warning", "problem", "unknown")
    return {status: sum(check.status == status for check in checks) for status in statuses}


def document(checks: Sequence[Check]) -> dict[str, Any]:
    """For programs."""
    return {"checks": [asdict(check) for check in checks], "summary": summary(checks)}

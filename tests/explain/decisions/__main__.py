"""Compares recorded decisions of the KAI scheduler with what explain says.

Arguments are files with recordings; without arguments, those of the tests are compared.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from tests.explain.decisions.recording import Recording, recordings, recordings_of
from tests.explain.decisions.table import Verdict, judged, table


def main(arguments: list[str]) -> int:
    """Print the table and every disagreement; give the exit code."""
    chosen: Iterable[Recording] = recordings()
    if arguments:
        chosen = (
            recording for argument in arguments for recording in recordings_of(Path(argument))
        )
    verdicts = judged(chosen)
    print(table(verdicts))
    for verdict in verdicts:
        if verdict.problems:
            print(_described(verdict))
    return int(any(verdict.problems for verdict in verdicts))


def _described(verdict: Verdict) -> str:
    problems = "".join(f"\n    {problem}" for problem in verdict.problems)
    return f"{verdict.name} ({verdict.title}; {verdict.outcome}){problems}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

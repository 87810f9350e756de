"""Compares recorded lines of the KAI scheduler with what explain says.

Arguments are files with recordings; without arguments, those of the tests are compared.
"""

import sys
from pathlib import Path

from tests.explain.lines.judge import judged_lines, table_of_lines
from tests.explain.lines.recording import line_recordings, line_recordings_of


def main(arguments: list[str]) -> int:
    """Print the table and every disagreement; give the exit code."""
    chosen = line_recordings_of(map(Path, arguments)) if arguments else line_recordings()
    verdicts = judged_lines(chosen)
    print(table_of_lines(verdicts))
    different = [verdict for verdict in verdicts if verdict.problem or verdict.false]
    for verdict in different:
        false = f"; false: {verdict.false}" if verdict.false else ""
        print(f"{verdict.name} cycle {verdict.cycle} {verdict.gang}: {verdict.problem}{false}")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

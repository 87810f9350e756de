"""Write `tests/STATEMENTS.md`: the statements of the designs, and the tests that show each.

The statements come from `tests/statements.txt`, and the tests name them with
`@pytest.mark.statement`. Run this script after a change of either. A test fails if the page is out
of date.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

TESTS = Path(__file__).parents[1] / "tests"
STATEMENTS = TESTS / "statements.txt"
PAGE = TESTS / "STATEMENTS.md"

INTRODUCTION = """\
# Statements of the designs

Written by `.venv/bin/python scripts/statements.py`, from `tests/statements.txt` and the marks
`@pytest.mark.statement` of tests. The five documents are numbered 1, 2, W (KAI's Workloads), 3 and 5. Words in brackets
say where this product deviates from a statement, or which project is responsible if it can't be tested here.
"""


class Statement(Struct):
    """A statement of a design.

    `document` is the title of the design, and `number` is an identifier such as 1.17.
    """

    document: str
    number: str
    text: str
    is_testable: bool


def read_statements(text: str) -> list[Statement]:
    """Return the statements of a text in the format of `tests/statements.txt`.

    A line has a number, then `-` if the statement can't be tested here, and the text. A line that
    begins with `#` has the title of a document.
    """
    statements = []
    document = ""
    for line in text.splitlines():
        if line.startswith("# "):
            document = line.removeprefix("# ")
        elif line:
            number, _, rest = line.partition(" ")
            words = rest.removeprefix("- ")
            statements.append(Statement(document, number, words, words == rest))
    return statements


def named_by_tests(folder: Path) -> dict[str, list[str]]:
    """Return the tests that name each statement, as `FILE: TEST` by the number of the statement."""
    tests: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text()
        if "mark.statement(" not in text:
            continue
        for function in ast.parse(text).body:
            for number in _numbers(function):
                name = f"`{path.relative_to(folder)}`: {getattr(function, 'name', '')}"
                tests.setdefault(number, []).append(name)
    return tests


def _numbers(function: ast.stmt) -> Iterator[str]:
    """Yield the numbers of statements in the marks of a function."""
    for decorator in getattr(function, "decorator_list", ()):
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == (
            "pytest.mark.statement"
        ):
            yield from map(ast.literal_eval, decorator.args)


def problems(statements: list[Statement], tests: dict[str, list[str]]) -> list[str]:
    """Return the problems: untested, unknown and repeated statements."""
    numbers = [statement.number for statement in statements]
    missing = [
        f"no test names statement {statement.number}: {statement.text}"
        for statement in statements
        if statement.is_testable and statement.number not in tests
    ]
    unknown = [
        f"{name} names statement {number}, which is not in tests/statements.txt"
        for number, names in tests.items()
        for name in names
        if number not in numbers
    ]
    twice = [f"statement {n} is there twice" for n in sorted({*numbers}) if numbers.count(n) > 1]
    return [*missing, *unknown, *twice]


def page(statements: list[Statement], tests: dict[str, list[str]]) -> str:
    lines = [INTRODUCTION]
    document = ""
    for statement in statements:
        if statement.document != document:
            document = statement.document
            count = sum(other.document == document for other in statements)
            lines += [
                f"## {document} ({count})",
                "",
                "| # | statement | shown by |",
                "|---|---|---|",
            ]
        shown = "<br>".join(tests.get(statement.number, ())) or "not testable here"
        lines.append(f"| {statement.number} | {statement.text} | {shown} |")
        if statement is statements[-1] or _is_last(statement, statements):
            lines.append("")
    return "\n".join(lines)


def _is_last(statement: Statement, statements: list[Statement]) -> bool:
    """Return whether `statement` is the last one of its document."""
    following = statements[statements.index(statement) + 1]
    return following.document != statement.document


def main() -> int:
    """Write the page, and print the problems. Return 1 if there are any, otherwise 0."""
    statements = read_statements(STATEMENTS.read_text())
    tests = named_by_tests(TESTS)
    wrong = problems(statements, tests)
    PAGE.write_text(page(statements, tests))
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

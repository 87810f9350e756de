"""Every statement of the designs has a test that names it, and the page about them is current."""

from pathlib import Path

from scripts.statements import (
    PAGE,
    STATEMENTS,
    TESTS,
    Statement,
    named_by_tests,
    page,
    problems,
    read_statements,
)


def test_every_testable_statement_has_a_test_and_every_mark_a_statement() -> None:
    statements = read_statements(STATEMENTS.read_text())
    assert problems(statements, named_by_tests(TESTS)) == []
    assert len(statements) == 446


def test_the_page_is_what_the_script_writes() -> None:
    statements = read_statements(STATEMENTS.read_text())
    assert PAGE.read_text() == page(statements, named_by_tests(TESTS))


def test_what_is_wrong_with_statements_and_marks_is_said(tmp_path: Path) -> None:
    statements = read_statements("# A\n\n1.1 one\n1.2 two\n1.3 - three (theirs)\n1.1 again\n")
    assert statements[2] == Statement("A", "1.3", "three (theirs)", is_testable=False)
    (tmp_path / "test_a.py").write_text(
        'import pytest\n\n@pytest.mark.statement("1.1", "9.9")\nasync def test_it() -> None: ...\n'
    )
    assert problems(statements, named_by_tests(tmp_path)) == [
        "no test names statement 1.2: two",
        "`test_a.py`: test_it names statement 9.9, which is not in tests/statements.txt",
        "statement 1.1 is there twice",
    ]

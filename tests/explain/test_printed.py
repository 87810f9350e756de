"""All that people and programs get of some states, compared in full.

Tests `app/explain/output/` and `app/explain/answers/`.
"""

from tests.explain.table.printed import FILE, recorded

TO_RECORD = "if it is right, run: .venv/bin/python -m tests.explain.table, and read the differences"


def test_the_outputs_about_each_state_are_as_recorded() -> None:
    assert recorded() == FILE.read_text(), TO_RECORD

"""The README's table of reasons is the one in the code."""

import re
from pathlib import Path

from app.explain.reasons.table import RULES
from tests.explain.test_reasons import ROWS

README = (Path(__file__).parents[2] / "app" / "explain" / "README.md").read_text()


def rows() -> list[tuple[str, set[str], set[str]]]:
    """(id, who, needs) of each row."""
    matches = re.findall(
        r"^\| `(\w+)` \| \w+ \| [^|]+ \| ([^|]+) \| ([^|]+) \|$", README, re.MULTILINE
    )
    return [
        (id, set(who.strip().split(", ")), _expanded(needs.strip().split(", ")))
        for id, who, needs in matches
    ]


def test_a_reason_is_a_function_of_its_name_in_the_file_of_its_row() -> None:
    files = re.findall(r"^\| `(\w+)` \| (\w+) \|", README, re.MULTILINE)
    named = {
        id: f"app.explain.reasons.{file}.{re.sub('(?!^)(?=[A-Z])', '_', id).lower()}"
        for id, file in files
    }
    checks: dict[str, set[str]] = {}
    for rule in RULES:
        checks.setdefault(rule.id, set()).add(f"{rule.check.__module__}.{rule.check.__name__}")
    assert {id: name for id, name in named.items() if name not in checks[id]} == {}
    assert named.keys() == checks.keys()


def _expanded(needs: list[str]) -> set[str]:
    both = {"topologies", "kai_topologies"}
    return (set(needs) - {"levels", "-"}) | (both if "levels" in needs else set())


def test_ids_are_in_the_order_of_the_rules() -> None:
    assert [id for id, _, _ in rows()] == list(dict.fromkeys(rule.id for rule in RULES))


def test_needs_are_those_of_the_rules() -> None:
    needs: dict[str, set[str]] = {}
    for rule in RULES:
        needs.setdefault(rule.id, set()).update(rule.needs)
    assert {id: of_id for id, _, of_id in rows()} == needs


def test_who_can_act_is_what_the_cases_show() -> None:
    who: dict[str, set[str]] = {}
    for row in ROWS:
        who.setdefault(row.id, set()).add(row.who)
    assert {id: of_id for id, of_id, _ in rows()} == who

"""The README's table of reasons is the one in the code."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from app.explain.reasons.table import CONDITIONS, RULES
from tests.explain.table.creation import OF_WORKLOAD
from tests.explain.test_reasons import ROWS

APP = Path(__file__).parents[2] / "app"
README = (APP / "explain" / "reasons" / "README.md").read_text()
IDS = {rule.id for rule in RULES}


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


def test_the_docstring_of_a_check_says_its_condition() -> None:
    docs = {rule.check: rule.check.__doc__ or "" for rule in RULES}
    assert {of for of, doc in docs.items() if not doc.startswith("Report that ")} == set()
    [opens] = {rule.condition for rule in RULES if rule.id == "GateOpens"}
    assert CONDITIONS["GateOpens"] == opens
    assert CONDITIONS["KubeletRefuses"].count(" Or: ") == 1  # three of its four rules are equal
    assert opens == "Pods still have Grove's gate although its conditions are met."


def _texts(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def test_reasons_with_an_id_are_made_in_one_file() -> None:
    files = defaultdict(set)
    for path in (APP / "explain" / "reasons").glob("*.py"):
        if path.name != "table.py":
            for text in IDS.intersection(_texts(ast.parse(path.read_text()))):
                files[text].add(path.stem)
    assert files.keys() == IDS
    several = {id: names for id, names in files.items() if len(names) > 1}
    assert several == {
        "LevelUnknown": {"constraints", "rejected_constraints"}
    }  # the row has two functions


def test_lists_of_ids_have_only_ids() -> None:
    """An id that was renamed, and not in a list of reasons, would mean nothing there."""
    lists = 0
    for path in APP.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Set | ast.Tuple | ast.List):
                names = {part.value for part in node.elts if isinstance(part, ast.Constant)}
                if len(names & IDS) > 1:
                    lists += 1
                    assert names - IDS == set(), path
    assert lists >= 4


def _expanded(needs: list[str]) -> set[str]:
    stands_for: dict[str, set[str]] = {
        "-": set(),
        "order": {"pod_groups", "queues", "priorities"},
        "levels": {"topologies", "kai_topologies"},
        "places": {"nodes", "topologies", "kai_topologies", "room", "slices"},
    }
    return set().union(*(stands_for.get(need, {need}) for need in needs))


def test_ids_are_in_the_order_of_the_rules() -> None:
    assert [id for id, _, _ in rows()] == list(dict.fromkeys(rule.id for rule in RULES))


def test_needs_are_those_of_the_rules() -> None:
    needs: dict[str, set[str]] = {}
    for rule in RULES:
        needs.setdefault(rule.id, set()).update(rule.needs)
    assert {id: of_id for id, _, of_id in rows()} == needs


def test_who_can_act_is_what_the_cases_show() -> None:
    who: dict[str, set[str]] = {}
    for row in (*ROWS, OF_WORKLOAD):
        who.setdefault(row.id, set()).add(row.who)
    assert {id: of_id for id, of_id, _ in rows()} == who

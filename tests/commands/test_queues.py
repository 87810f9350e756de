"""`grove-admission queues`: what is printed, and the exit code."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.base.record import record_of
from app.cli import main
from app.commands.records import KIND
from app.facts.kai.queue import Queue
from tests.commands.test_explain import FULL
from tests.commands.test_schema import problems
from tests.explain.fleet import facts


def recorded(folder: Path, **more: Any) -> str:
    path = folder / "record"
    path.write_bytes(record_of(KIND, facts(**{**FULL, **more})))
    return str(path)


def test_the_queue_of_a_gang_that_waits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded(tmp_path)
    assert main(["queues", "--offline", path]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "3 queues; 1 pending gang"
    assert "  team-llm  unlimited  unlimited  0     0      24    1" in lines
    assert "team-llm  1 of 1  inference/llm-0  KAI can't place it right now" in lines
    assert main(["queues", "-o", "json", "--offline", path]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert problems("queues", printed) == []
    front = {queue["name"]: queue["front"] for queue in printed["queues"]}
    assert [gang["next"] for gang in front["team-llm"]] == ["waits"]


def test_a_queue_that_is_named_and_missing_is_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recorded(tmp_path, queues=(Queue("other"),))
    assert main(["queues", "--offline", path]) == 1
    assert "! queue team-llm does not exist, but PodGroups name it" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("queues", "could not read queues: no permission to list"),
        (
            "pods",
            "could not read: pods (no permission to list); values that need them are unknown (?)",
        ),
        ("priorities", "could not read: PriorityClasses (no permission to list)"),
    ],
)
def test_what_may_not_be_read_is_exit_code_2(
    kind: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recorded(tmp_path, **{kind: ()}, unseen={kind: "no permission to list"})
    assert main(["queues", "--offline", path]) == 2
    assert words in capsys.readouterr().out


def test_json_names_what_is_not_among_the_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recorded(tmp_path, priorities=(), skipped=frozenset({"priorities"}))
    assert main(["queues", "-o", "json", "--offline", path]) == 2
    assert json.loads(capsys.readouterr().out)["unseen"] == {"priorities": "missing from the files"}

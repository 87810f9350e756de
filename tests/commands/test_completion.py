"""What a shell is told that completes a command line, as it asks for it."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from app.cli import main

ROOT = Path(__file__).parents[2]


def completions(line: str, folder: Path) -> list[str]:
    """What may follow a line, as argcomplete's shell code asks for it."""
    answer = folder / "answer"
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    command = [sys.executable, "-m", "app"]
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "")
    return [word.strip() for word in answer.read_text().split("\n")]


def test_commands_are_completed(tmp_path: Path) -> None:
    assert completions("grove-admission ex", tmp_path) == ["explain"]


def test_the_options_are_those_of_the_command(tmp_path: Path) -> None:
    assert completions("grove-admission explain --no", tmp_path) == ["--no-room"]
    assert completions("grove-admission doctor --all", tmp_path) == ["--all-webhooks", "--all"]
    assert completions("kubectl-grove_admission explain -o j", tmp_path) == ["json"]


def test_kinds_of_objects_are_completed(tmp_path: Path) -> None:
    assert completions("grove-admission explain lw", tmp_path) == ["lws/"]
    assert completions("grove-admission explain rayc", tmp_path) == ["raycluster/", "rayclusters/"]


def test_no_cluster_completes_no_name_and_shows_no_error(tmp_path: Path) -> None:
    line = f"grove-admission explain --kubeconfig {tmp_path}/none lws/"
    assert completions(line, tmp_path) == [""]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_code_names_both_programs(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    code = capsys.readouterr().out
    programs = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert [name for name in programs if name not in code] == []


def test_bash_reads_the_code() -> None:
    code = subprocess.run(
        [sys.executable, "-m", "app", "completion", "bash"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    subprocess.run(["bash", "-n"], input=code.stdout, check=True)

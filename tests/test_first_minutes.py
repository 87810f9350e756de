"""The README's first minutes: its answer is the real one, and its commands are those of the demo."""

import re
import subprocess
import sys
from pathlib import Path

from scripts.fleet import UNLABELLED
from tests.installation.readme import commands

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def without_age(text: str) -> str:
    """Return a text with single spaces, without how long ago something was requested."""
    return re.sub(r", requested .*? ago", "", " ".join(text.split()))


def test_the_demo_tells_its_story_to_the_end() -> None:
    """It shows the same answer of `explain` as the README."""
    command = [sys.executable, "scripts/demo.py"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    order = [
        "$ grove-admission explain llm-serve -n inference\nllm-serve",
        f"node/{UNLABELLED} labelled",
        "Nothing blocks it now; KAI should place it in its next cycle, in\n  zone-c/block-c2/rack-c4.",
        "5 of 5 pods placed",
        "Only the operator can change the topology levels",
        "Everything went as expected.",
    ]
    places = [ended.stdout.find(text) for text in order]
    assert -1 not in places
    assert places == sorted(places)
    answer = README[README.index("$ grove-admission explain") :].split("\n\n")[0]
    assert without_age(answer) in without_age(ended.stdout)
    line = next(text for text in README.splitlines() if "place it next in" in text)
    assert " ".join(line.split()) in " ".join(ended.stdout.split())


def test_the_scripts_of_the_readme_are_there() -> None:
    scripts = [
        line.split()[0]
        for line in commands("In a minute, on this machine")
        if line.startswith("./")
    ]
    assert scripts == ["./scripts/demo", "./scripts/sandbox", "./scripts/test", "./scripts/serve"]
    assert [script for script in scripts if not (ROOT / script).exists()] == []


def test_the_commands_for_a_laptop_are_accepted() -> None:
    lines = commands("On your laptop")
    assert lines[0] == "pipx install '.[console,mcp]'"
    for line in lines[1:]:
        words = re.sub(r'eval "\$\((.*)\)"', r"\1", line).split()[1:]
        ended = subprocess.run(
            [sys.executable, "-m", "app", *words, "--help"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ended.returncode, "usage: grove-admission " in ended.stdout) == (0, True)

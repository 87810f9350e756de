"""Commands are loaded without the garbage collector, and `serve` without what people run."""

import gc
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from app.cli import main


def test_the_collector_does_not_examine_modules_and_works_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    frozen = gc.get_freeze_count()
    sys.modules.pop("app.commands.completion", None)
    assert main(["completion", "bash"]) == 0
    assert gc.isenabled()
    assert gc.get_freeze_count() > frozen
    assert "grove-admission" in capsys.readouterr().out
    gc.unfreeze()


def test_serve_loads_none_of_the_modules_that_its_contract_forbids() -> None:
    """import-linter ignores imports in functions that the contract lists: these must stay there."""
    settings = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["importlinter"]
    [contract] = [each for each in settings["contracts"] if "a server loads" in each["name"]]
    code = "import sys, app.cli, app.commands.serve, app.server.serve; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    forbidden = [*contract["forbidden_modules"], "app.server.dry_runs", "app.server.tracing"]
    within = tuple(f"{name}." for name in forbidden)
    assert "app.webhooks.registry" in loaded
    assert [name for name in loaded if f"{name}.".startswith(within)] == []

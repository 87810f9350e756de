"""Commands are loaded without the garbage collector, which then works as before."""

import gc
import sys

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

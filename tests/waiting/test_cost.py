"""A server without the option pays nothing: it imports, watches and reads nothing more."""

import subprocess
import sys

from app.commands.serve import further_duties
from app.config.schema import Configuration, Waiting
from app.facts.kinds import ALL
from app.server.serve import no_duties
from app.waiting.watcher import RESOURCES

IMPORTED = """
import sys
import app.commands.serve
from app.commands.serve import further_duties
from app.config.schema import Configuration, Waiting
further_duties(Configuration(waiting=Waiting(enabled={enabled})))
print(*(name for name in ("app.waiting", "app.explain.state.index", "app.explain.live") if name in sys.modules))
"""


def imported(enabled: bool) -> list[str]:
    """The packages of the option that the command `serve` has imported when it starts."""
    script = IMPORTED.format(enabled=enabled)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_without_the_option_nothing_of_it_is_imported() -> None:
    assert imported(False) == []
    assert imported(True) == ["app.waiting", "app.explain.state.index", "app.explain.live"]


def test_without_the_option_there_is_no_duty_and_no_further_resource() -> None:
    assert further_duties(Configuration()) == (ALL, no_duties)
    resources, _ = further_duties(Configuration(waiting=Waiting(enabled=True)))
    assert set(resources) == {*ALL, *RESOURCES}

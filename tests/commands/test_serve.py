"""The command `serve` where it can't serve."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from app.cli import main
from tests.commands.test_cli import EXAMPLES


def test_serve_outside_a_cluster_says_so(tmp_path: Path) -> None:
    options = [
        "--config",
        str(EXAMPLES / "configuration.yaml"),
        "--port",
        "0",
        "--certs",
        str(tmp_path),
    ]
    command = [sys.executable, "-m", "app", "serve", *options]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_")
    }
    ended = subprocess.run(
        command,
        cwd=EXAMPLES.parent.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "can't serve: " in ended.stderr


def test_serve_of_a_cluster_needs_a_configuration(capsys: Any) -> None:
    """Without one it would not know the levels of the ClusterTopology that it keeps."""
    assert main(["serve"]) == 2
    assert "serve needs --config FILE" in capsys.readouterr().err

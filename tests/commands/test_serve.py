"""The command `serve` where it can't serve."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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


@pytest.mark.statement("1.41")
def test_levels_that_kai_cannot_have_are_said_at_the_start(tmp_path: Path) -> None:
    levels = "[{domain: host, key: kubernetes.io/hostname}, {domain: numa, key: example.com/numa}]"
    configuration = tmp_path / "config.yaml"
    configuration.write_text(
        "apiVersion: config.grove.io/v1alpha1\nkind: OperatorConfiguration\n"
        f"clusterTopology: {{enabled: true, levels: {levels}}}\n"
    )
    options = ["--config", str(configuration), "--port", "0", "--certs", str(tmp_path)]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_")
    }
    ended = subprocess.run(
        [sys.executable, "-m", "app", "serve", *options],
        cwd=EXAMPLES.parent.parent,
        env={**environment, "KUBECONFIG": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 'constraints on \\"numa\\" are written as \\"host\\"' in ended.stdout + ended.stderr


def test_serve_of_a_cluster_needs_a_configuration(capsys: Any) -> None:
    """Without one it would not know the levels of the ClusterTopology that it keeps."""
    assert main(["serve"]) == 2
    assert "serve needs --config FILE" in capsys.readouterr().err

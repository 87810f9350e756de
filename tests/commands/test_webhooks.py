"""The command `webhooks`: the configurations that it prints."""

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.certificates.certificate import make_ca
from app.cli import main
from tests.commands.test_cli import EXAMPLES


def test_the_webhook_configurations_are_those_of_the_manifests(capsys: Any) -> None:
    assert main(["webhooks"]) == 0
    assert capsys.readouterr().out == (EXAMPLES.parent / "base" / "webhooks.yaml").read_text()


def test_webhook_configurations_for_a_url(capsys: Any, tmp_path: Path) -> None:
    bundle = make_ca("ca", datetime.now(UTC), datetime.now(UTC) + timedelta(days=1)).cert_pem
    (tmp_path / "ca.crt").write_bytes(bundle)
    assert (
        main(
            ["webhooks", "--url", "https://localhost:8443/", "--ca-file", str(tmp_path / "ca.crt")]
        )
        == 0
    )
    mutating, validating = yaml.safe_load_all(capsys.readouterr().out)
    targets = [hook["clientConfig"] for hook in [*mutating["webhooks"], *validating["webhooks"]]]
    assert {base64.b64decode(target["caBundle"]) for target in targets} == {bundle}
    assert targets[0]["url"] == "https://localhost:8443/mutate/podclique"


def test_a_file_of_cas_that_can_not_be_read_is_named(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "ca.crt"
    assert main(["webhooks", "--url", "https://x", "--ca-file", str(path)]) == 2
    assert capsys.readouterr().err == f"{path}: can't be read: No such file or directory\n"
    path.write_text("no PEM")
    assert main(["webhooks", "--url", "https://x", "--ca-file", str(path)]) == 2
    assert capsys.readouterr().err == f"{path}: not a PEM bundle of certificates\n"


@pytest.mark.parametrize(
    "arguments",
    [["--url", "http://x", "--ca-file", "f"], ["--url", "https://x"], ["--service", "x"]],
)
def test_webhook_configurations_need_a_whole_target(arguments: list[str], capsys: Any) -> None:
    assert main(["webhooks", *arguments]) == 2
    assert " takes " in capsys.readouterr().err

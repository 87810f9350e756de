"""`grove-admission certs`: what is printed, and the exit code."""

import base64
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.certificates.certificate import inspect
from app.certificates.secret import read_holdings
from app.certificates.source import file_source
from app.cli import main

MADE = ("ca.crt", "ca.key", "tls.crt", "tls.key")


def run(*arguments: object) -> int:
    return main(["certs", *map(str, arguments)])


@pytest.fixture
def made(tmp_path: Path, capsys: Any) -> Path:
    directory = tmp_path / "made"
    assert run("make", directory, "--name", "a.svc", "--name", "127.0.0.1") == 0
    assert capsys.readouterr().out == f"created in {directory}: ca.crt, ca.key, tls.crt, tls.key\n"
    return directory


def test_what_is_made_is_what_the_secret_takes(made: Path) -> None:
    data = {name: base64.b64encode((made / name).read_bytes()).decode() for name in MADE}
    assert inspect(read_holdings(data).leaf.cert_pem).names == ("a.svc", "127.0.0.1")
    assert sorted(os.listdir(made)) == list(MADE)
    modes = [stat.S_IMODE((made / name).stat().st_mode) & 0o077 for name in ("ca.key", "tls.key")]
    assert modes == [0, 0]


def test_what_is_made_can_be_served_and_is_left_as_it_is(made: Path) -> None:
    before = {name: (made / name).read_bytes() for name in MADE}
    source = file_source(made, b"")
    assert source.not_after == inspect(before["tls.crt"]).not_after
    assert (source.ca_not_after, source.ca_bundle()) == (
        inspect(before["ca.crt"]).not_after,
        before["ca.crt"],
    )
    assert {name: (made / name).read_bytes() for name in MADE} == before


def test_nothing_is_written_over(made: Path, capsys: Any) -> None:
    before = (made / "ca.key").read_bytes()
    (made / "tls.crt").unlink()
    assert run("make", made) == 2
    assert "already has ca.crt, ca.key, tls.key; nothing was overwritten" in capsys.readouterr().err
    assert (made / "ca.key").read_bytes() == before


def test_a_ca_lives_four_times_as_long(tmp_path: Path) -> None:
    assert run("make", tmp_path / "made", "--days", "400") == 0
    leaf, ca = (inspect((tmp_path / "made" / name).read_bytes()) for name in ("tls.crt", "ca.crt"))
    days = [(info.not_after - info.not_before).days for info in (leaf, ca)]
    assert days == [400, 1600]


def test_what_cannot_be_made_is_said(tmp_path: Path, capsys: Any) -> None:
    assert run("make", tmp_path, "--days", "900000000") == 2
    assert "can't make certificates: " in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["bücher.example", "bad name!", "a..b", ""])
def test_names_can_be_asked_for(tmp_path: Path, capsys: Any, name: str) -> None:
    with pytest.raises(SystemExit) as ended:
        run("make", tmp_path, "--name", name)
    assert ended.value.code == 2
    assert "is neither a DNS name nor an IP address" in capsys.readouterr().err


@pytest.mark.parametrize("days", ["x", "-1", "0", "nan", "1e99"])
def test_days_are_a_number(tmp_path: Path, days: str) -> None:
    with pytest.raises(SystemExit) as ended:
        run("make", tmp_path, "--days", days)
    assert ended.value.code == 2


def test_check_is_0_where_all_is_well_and_1_with_the_reason_where_not(
    made: Path, tmp_path: Path, capsys: Any
) -> None:
    assert run("check", made, "--name", "a.svc") == 0
    assert run("check", made, "--name", "b.svc") == 1
    other = tmp_path / "other"
    assert run("make", other) == 0
    (other / "ca.crt").write_bytes((made / "ca.crt").read_bytes())
    assert run("check", other) == 1
    (made / "tls.key").write_bytes((other / "tls.key").read_bytes())
    assert run("check", made) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith("created in ")] == [
        "ok",
        "the certificate doesn't cover 'b.svc'",
        "the certificate is not signed by a CA in the bundle, or that CA is not valid now",
        "the private key doesn't belong to the certificate",
    ]


def test_a_directory_without_certificates_is_checked_too(tmp_path: Path, capsys: Any) -> None:
    assert run("check", tmp_path) == 1
    assert capsys.readouterr().out == "tls.crt is missing\ntls.key is missing\n"


def test_files_that_cannot_be_read_are_unusable(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "tls.crt").mkdir()
    assert run("check", tmp_path) == 2
    assert "can't be read: " in capsys.readouterr().err


def test_a_place_is_needed() -> None:
    with pytest.raises(SystemExit) as ended:
        run("check")
    assert ended.value.code == 2


def test_a_development_directory_is_still_kept_in_step(tmp_path: Path) -> None:
    first = file_source(tmp_path, b"")
    (tmp_path / "tls.crt").write_bytes(b"half a certificate")
    assert file_source(tmp_path, b"").not_after is not None
    assert first.not_after is not None
    assert first.not_after > datetime.now(UTC)

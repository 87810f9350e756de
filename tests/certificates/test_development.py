"""The certificate that a server makes for itself where it finds none.

Tests `app/certificates/source.py`.
"""

import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.certificates.certificate import Pair, check_pair, inspect, make_ca
from app.certificates.source import ensure_development_certificate

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
NAMES = ["localhost", "127.0.0.1", "::1"]
FILES = ("ca.crt", "ca.key", "tls.crt", "tls.key")


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def assert_good(directory: Path, names: list[str], now: datetime) -> None:
    files = contents(directory)
    assert sorted(files) == sorted(FILES)
    assert check_pair(Pair(files["tls.crt"], files["tls.key"]), files["ca.crt"], names, now) == []
    assert check_pair(Pair(files["ca.crt"], files["ca.key"]), None, [], now) == []


def test_first_start_makes_everything(tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "certs"
    ensure_development_certificate(directory, NAMES, NOW)
    assert_good(directory, NAMES, NOW)
    modes = {name: stat.S_IMODE((directory / name).stat().st_mode) for name in FILES}
    assert modes == {"ca.crt": 0o644, "ca.key": 0o600, "tls.crt": 0o644, "tls.key": 0o600}


def rewrite(directory: Path, name: str, content: bytes) -> None:
    (directory / name).write_bytes(content)


def make_the_leaf_its_own_ca(directory: Path) -> None:
    for end in ("crt", "key"):
        rewrite(directory, f"ca.{end}", (directory / f"tls.{end}").read_bytes())


@pytest.mark.parametrize(
    ("change", "names", "now", "changed"),
    [
        pytest.param(None, NAMES, NOW, (), id="a second start keeps all"),
        pytest.param(None, ["localhost"], NOW, (), id="fewer names keep all"),
        pytest.param(None, NAMES, NOW + 357 * DAY, (), id="a leaf with more than 7 days is kept"),
        pytest.param(
            None,
            NAMES,
            NOW + 359 * DAY,
            ("tls.crt", "tls.key"),
            id="a leaf with 6 days is recreated",
        ),
        pytest.param(
            None, NAMES, NOW + 3644 * DAY, FILES, id="all is recreated when the CA has 6 days"
        ),
        pytest.param(None, NAMES, NOW - DAY, FILES, id="all is recreated when it is of the future"),
        pytest.param(
            None,
            [*NAMES, "grove.svc"],
            NOW,
            ("tls.crt", "tls.key"),
            id="a new name makes a new leaf",
        ),
        pytest.param(
            lambda d: rewrite(d, "tls.key", b"garbage"),
            NAMES,
            NOW,
            ("tls.crt", "tls.key"),
            id="a broken leaf key",
        ),
        pytest.param(
            lambda d: (d / "tls.crt").unlink(),
            NAMES,
            NOW,
            ("tls.crt", "tls.key"),
            id="a missing leaf",
        ),
        pytest.param(
            lambda d: rewrite(d, "ca.key", b"garbage"), NAMES, NOW, FILES, id="a broken CA key"
        ),
        pytest.param(lambda d: (d / "ca.crt").unlink(), NAMES, NOW, FILES, id="a missing CA"),
        pytest.param(
            lambda d: rewrite(d, "ca.key", make_ca("x", NOW, NOW + DAY).key_pem),
            NAMES,
            NOW,
            FILES,
            id="another CA key",
        ),
        pytest.param(
            make_the_leaf_its_own_ca,
            NAMES,
            NOW,
            FILES,
            id="a CA that is none",
        ),
    ],
)
def test_later_start(
    tmp_path: Path,
    change: Callable[[Path], object] | None,
    names: list[str],
    now: datetime,
    changed: tuple[str, ...],
) -> None:
    ensure_development_certificate(tmp_path, NAMES, NOW)
    if change:
        change(tmp_path)
    before = contents(tmp_path)
    ensure_development_certificate(tmp_path, names, now)
    after = contents(tmp_path)
    assert tuple(name for name in FILES if before.get(name) != after[name]) == changed
    assert_good(tmp_path, names, now)


def test_leaf_ends_with_its_ca(tmp_path: Path) -> None:
    ensure_development_certificate(tmp_path, NAMES, NOW)
    ensure_development_certificate(tmp_path, NAMES, NOW + 3500 * DAY)
    ends = [inspect((tmp_path / name).read_bytes()).not_after for name in ("ca.crt", "tls.crt")]
    assert ends == [NOW + 3650 * DAY] * 2


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
def test_files_that_were_not_made_here_are_not_written_over(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"somebody's")
    with pytest.raises(FileExistsError, match=f"{name} was not created by this command"):
        ensure_development_certificate(tmp_path, NAMES, NOW)
    assert contents(tmp_path) == {name: b"somebody's"}


def test_a_failed_write_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "ca.key").mkdir()
    with pytest.raises(IsADirectoryError):
        ensure_development_certificate(tmp_path, NAMES, NOW)
    assert [path.name for path in tmp_path.iterdir()] == ["ca.key"]

"""Certificates for development: a CA and a serving certificate in a directory, which the first start creates."""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from app.certificates.inspect import Pair, check_pair, inspect
from app.certificates.issue import make_ca, make_leaf

_CA_NAME = "grove-admission development CA"
_CA_LIFE = timedelta(days=3650)
_LEAF_LIFE = timedelta(days=365)
_SPARE = timedelta(days=7)
_CLOCK_SKEW = timedelta(minutes=5)


def ensure_development_certificate(directory: Path, names: Sequence[str], now: datetime) -> None:
    """Ensures that `directory` has a serving certificate (tls.crt, tls.key) for `names`, signed by its CA (ca.crt,
    ca.key).

    A certificate that is valid for 7 more days and covers the names is kept. Otherwise a new one is created, with a new
    CA if the CA expires within 7 days. A name is a DNS name or an IP address. Raises FileExistsError if the directory
    has other certificates, which are not overwritten.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with _locked(directory):
        _refuse_foreign(directory)
        ca = _read(directory, "ca")
        if ca is None or not _is_good_ca(ca, now):
            ca = make_ca(_CA_NAME, now - _CLOCK_SKEW, now + _CA_LIFE)
            _write(ca, directory, "ca")
        leaf = _read(directory, "tls")
        if leaf is None or not _is_good_leaf(leaf, ca, names, now):
            _write(_make_leaf(ca, names, now), directory, "tls")


def is_development(directory: Path) -> bool:
    """Whether the certificates in `directory` were created here, also if a crash left only some files. The command
    `grove-admission certs make` creates a ca.key too."""
    ca = _read(directory, "ca")
    if ca is None:
        return (directory / "ca.key").exists()
    try:
        return inspect(ca.cert_pem).subject == f"CN={_CA_NAME}"
    except ValueError:
        return True


def _refuse_foreign(directory: Path) -> None:
    """Raises FileExistsError for files without a ca.key, which is always written first."""
    for path in (directory / "tls.crt", directory / "tls.key", directory / "ca.crt"):
        if path.exists() and not (directory / "ca.key").exists():
            raise FileExistsError(f"{path} was not made here (no ca.key beside it): name it as a file, or move it away")


def _is_good_ca(ca: Pair, now: datetime) -> bool:
    if any(check_pair(ca, None, (), at) for at in (now, now + _SPARE)):
        return False
    return inspect(ca.cert_pem).is_ca


def _is_good_leaf(leaf: Pair, ca: Pair, names: Sequence[str], now: datetime) -> bool:
    return not any(check_pair(leaf, ca.cert_pem, names, at) for at in (now, now + _SPARE))


def _make_leaf(ca: Pair, names: Sequence[str], now: datetime) -> Pair:
    end = min(now + _LEAF_LIFE, inspect(ca.cert_pem).not_after)
    return make_leaf(ca, names, now - _CLOCK_SKEW, end)


def _read(directory: Path, name: str) -> Pair | None:
    try:
        return Pair((directory / f"{name}.crt").read_bytes(), (directory / f"{name}.key").read_bytes())
    except FileNotFoundError:
        return None


def _write(pair: Pair, directory: Path, name: str) -> None:
    """Writes the key first. After a crash in between, the next start detects the mismatch and corrects it."""
    _replace(directory / f"{name}.key", pair.key_pem, 0o600)
    _replace(directory / f"{name}.crt", pair.cert_pem, 0o644)


def _replace(path: Path, content: bytes, mode: int) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # 0600 from its first moment
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Locks `directory`, because two processes may start at the same time."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

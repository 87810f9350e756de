"""Certificates on disk for development: made at first start, reused while they last."""

import os
from datetime import datetime, timedelta
from pathlib import Path

from app.tls.issue import Pair, make_ca, make_leaf, problems

NAMES = ("localhost", "127.0.0.1", "::1", "grove-admission.grove-system.svc")

_BACKDATED = timedelta(minutes=5)
_CA_LIFE = timedelta(days=365)
_LEAF_LIFE = timedelta(days=90)
_REUSE = timedelta(days=7)


def ensure_development_certificate(directory: Path, now: datetime) -> None:
    """Makes `ca.crt`, `ca.key`, `tls.crt` and `tls.key` in `directory`, unless they are good for another week.

    A pair that somebody else put there, without a `ca.key`, is left alone. OSError where files can't be written.
    """
    leaf, authority = _read(directory, "tls"), _read(directory, "ca")
    if leaf is not None and authority is None:
        return
    later = now + _REUSE
    if authority is None or problems(authority, None, (), later):
        authority, leaf = make_ca("grove-admission development CA", now - _BACKDATED, now + _CA_LIFE), None
        _write(directory, "ca", authority)
    if leaf is None or problems(leaf, authority.certificate, NAMES, later):
        _write(directory, "tls", make_leaf(authority, NAMES, now - _BACKDATED, now + _LEAF_LIFE))


def _read(directory: Path, name: str) -> Pair | None:
    try:
        return Pair((directory / f"{name}.crt").read_bytes(), (directory / f"{name}.key").read_bytes())
    except FileNotFoundError:
        return None


def _write(directory: Path, name: str, pair: Pair) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for suffix, content, mode in (("key", pair.key, 0o600), ("crt", pair.certificate, 0o644)):
        path = directory / f"{name}.{suffix}"
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(content)
        temporary.replace(path)

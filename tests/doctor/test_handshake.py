"""Handshakes with real servers on loopback."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.certificates.certificate import Pair, make_ca, make_leaf
from app.doctor.certificate import Handshake, handshake

NOW = datetime.now(UTC)
BEGIN = NOW - timedelta(days=2)
END = NOW + timedelta(days=1)
CA = make_ca("ca", BEGIN, END)
OTHER = make_ca("ca", BEGIN, END)
NAME = "grove-admission.grove-system.svc"


@contextlib.asynccontextmanager
async def server(folder: Path, pair: Pair | None) -> AsyncIterator[int]:
    """A server that says nothing, with `pair` or without TLS; gives its port."""
    context = None
    if pair is not None:
        (folder / "crt").write_bytes(pair.cert_pem)
        (folder / "key").write_bytes(pair.key_pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "crt", folder / "key")

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    listening = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=context)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("pair", "ca", "result"),
    [
        pytest.param(make_leaf(CA, [NAME], BEGIN, END), CA, Handshake("trusted"), id="ours"),
        pytest.param(
            make_leaf(CA, ["other.svc"], BEGIN, END),
            CA,
            Handshake("refused", f"Hostname mismatch, certificate is not valid for '{NAME}'."),
            id="another name",
        ),
        pytest.param(
            make_leaf(CA, [NAME], BEGIN, NOW - timedelta(days=1)),
            CA,
            Handshake("refused", "certificate has expired"),
            id="expired",
        ),
    ],
)
async def test_a_server_that_is_reached(
    pair: Pair, ca: Pair, result: Handshake, tmp_path: Path
) -> None:
    async with server(tmp_path, pair) as port:
        assert await handshake("127.0.0.1", port, NAME, ca.cert_pem, 10) == result


async def test_another_ca_of_the_same_name_is_refused(tmp_path: Path) -> None:
    async with server(tmp_path, make_leaf(CA, [NAME], BEGIN, END)) as port:
        assert (await handshake("127.0.0.1", port, NAME, OTHER.cert_pem, 10)).outcome == "refused"


async def test_nobody_there(tmp_path: Path) -> None:
    async with server(tmp_path, None) as port:
        pass
    assert (await handshake("127.0.0.1", port, NAME, CA.cert_pem, 10)).outcome == "unreachable"


async def test_somebody_who_does_not_speak_tls(tmp_path: Path) -> None:
    async with server(tmp_path, None) as port:
        assert (await handshake("127.0.0.1", port, NAME, CA.cert_pem, 10)).outcome == "unreachable"

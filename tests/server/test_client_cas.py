"""Clients that show a certificate: whose verdicts are answered, and what a change of the CA does."""

import asyncio
import socket
import ssl
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from app.admission.serving import ConnectionLimits
from app.certificates.certificate import make_ca
from app.certificates.source import ClientCas
from tests.reviews import load
from tests.server.test_listener import Waiting, answer, listening, uid_of, verdict_request
from tests.server.test_serving import PATIENCE, ROOT, server
from tests.server.test_tls import Client

CONFIGURED = """
apiVersion: config.grove.io/v1alpha1
kind: OperatorConfiguration
server: {{clientCaFile: "{}"}}
"""
JSON = {"content-type": "application/json"}


def client_certificate(directory: Path, name: str) -> tuple[Path, ssl.SSLContext]:
    """A CA of that name, and a client that trusts our server and shows a certificate of that CA."""
    now = datetime.now(UTC)
    ca = make_ca(name, now - timedelta(days=1), now + timedelta(days=1))
    issuer = x509.load_pem_x509_certificate(ca.cert_pem)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "apiserver")])
    builder = (
        x509.CertificateBuilder(issuer.subject, subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    )
    signed = builder.sign(load_pem_private_key(ca.key_pem, None), hashes.SHA256())  # type: ignore[arg-type]
    plain = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    ca_file = directory / f"{name}.crt"
    pair = directory / f"{name}.pem"
    ca_file.write_bytes(ca.cert_pem)
    pair.write_bytes(signed.public_bytes(Encoding.PEM) + plain)
    context = ssl.create_default_context()
    context.load_cert_chain(pair)
    return ca_file, context


async def codes(tools: httpx.AsyncClient) -> list[int]:
    """What a client of the tools gets on each path."""
    answers = [
        await tools.get("/metrics"),
        await tools.get("/docs"),
        await tools.post("/dry-run", content=b""),
        await tools.post("/validate/podgroup", content=b""),
    ]
    return [answer.status_code for answer in answers]


async def test_with_a_client_ca_verdicts_are_for_those_who_show_a_certificate_of_it(
    tmp_path: Path,
) -> None:
    ca_file, known = client_certificate(tmp_path, "ours")
    _, stranger = client_certificate(tmp_path, "another")
    (tmp_path / "config.yaml").write_text(CONFIGURED.format(ca_file))
    review = load("podgroup.mixed-case-name")
    async with server(tmp_path, "--config", str(tmp_path / "config.yaml")) as served:
        async with served.client() as client:
            refused = await client.post("/validate/podgroup?timeout=5s", json=review)
            assert (refused.status_code, "server.clientCaFile" in refused.json()["message"]) == (
                401,
                True,
            )
            async with served.tools() as tools:
                assert await codes(tools) == [200, 401, 401, 401]
            assert (await client.get("/readyz")).text == "ok\n"
        known.load_verify_locations(served.certificates / "ca.crt")
        async with httpx.AsyncClient(base_url=served.url, verify=known) as client:
            for _ in range(2):
                answer = await client.post("/validate/podgroup?timeout=5s", json=review)
                assert answer.json()["response"]["status"]["code"] == 422
            async with httpx.AsyncClient(base_url=served.tools_url, verify=known) as tools:
                assert await codes(tools) == [200, 200, 400, 415]
            assert (await client.get("/readyz")).text == "ok\n"
        stranger.load_verify_locations(served.certificates / "ca.crt")
        with pytest.raises((httpx.TransportError, ssl.SSLError)):
            async with httpx.AsyncClient(base_url=served.url, verify=stranger) as client:
                await client.post("/validate/podgroup?timeout=5s", json=review)


async def test_other_client_cas_are_used_from_the_next_connection(tmp_path: Path) -> None:
    file, former = client_certificate(tmp_path, "former")
    next_file, current = client_certificate(tmp_path, "current")
    waiting = Waiting(tmp_path, client_cas=file.read_bytes())
    cas = ClientCas(file, waiting.source.certificate, waiting.listener.renew)
    assert not cas.poll()
    async with listening(waiting):
        opened = await as_client(waiting, former)
        assert b"connection: close" not in (await verdict_of(opened))[0]
        for bad in (b"", b"no PEM", b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"):
            file.write_bytes(bad)
            assert not cas.poll()
            assert "previous client CAs stay in use" in cas.notes()["client-cas"]
        assert b"connection: close" not in (await verdict_of(opened))[0]

        file.write_bytes(next_file.read_bytes())
        assert (cas.poll(), cas.poll(), cas.notes()) == (True, False, {})
        assert b"connection: close" in (await verdict_of(opened))[0]
        assert await opened[0].read() == b""
        accepted = await as_client(waiting, current)
        assert uid_of((await verdict_of(accepted))[1]) == "u"
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await verdict_of(await as_client(waiting, former))
        for _, writer in (opened, accepted):
            writer.close()
    assert len(waiting.seen.verdicts) == 4


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_session_of_a_former_client_ca_is_not_resumed(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    file, former = client_certificate(tmp_path, "former")
    next_file, _ = client_certificate(tmp_path, "current")
    former.maximum_version = version
    waiting = Waiting(tmp_path, client_cas=file.read_bytes())
    cas = ClientCas(file, waiting.source.certificate, waiting.listener.renew)
    former.load_verify_locations(waiting.directory / "ca.crt")
    port = waiting.listener.port
    async with listening(waiting):
        answered, session = await asyncio.to_thread(asked, port, former, None)
        assert b'"allowed":true' in answered
        answered, session = await asyncio.to_thread(asked, port, former, session)
        assert b'"allowed":true' in answered

        file.write_bytes(next_file.read_bytes())
        assert cas.poll()
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.to_thread(asked, port, former, session)
    assert len(waiting.seen.verdicts) == 2


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_certificate_that_has_expired_gives_no_verdict_in_a_session_or_a_connection(
    tmp_path: Path, version: ssl.TLSVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, client = client_certificate(tmp_path, "ours")
    client.maximum_version = version
    limits = ConnectionLimits(watch_seconds=0.01)
    waiting = Waiting(tmp_path, limits, client_cas=file.read_bytes())
    async with listening(waiting):
        opened = await as_client(waiting, client)
        await verdict_of(opened)
        _, session = await asyncio.to_thread(asked, waiting.listener.port, client, None)
        assert len(waiting.seen.verdicts) == 2

        two_hours_later = time.time() + 7200
        monkeypatch.setattr(time, "time", lambda: two_hours_later)
        answered, _ = await asyncio.to_thread(asked, waiting.listener.port, client, session)
        assert answered.startswith(b"HTTP/1.1 401 ")
        async with asyncio.timeout(PATIENCE):
            while b" 401 " not in (await verdict_of(opened))[0]:
                waiting.seen.verdicts.clear()
                await asyncio.sleep(0)
        opened[1].close()


def asked(
    port: int, context: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[bytes, ssl.SSLSession | None]:
    """Ask for a verdict in the `session` of an earlier connection, if there is one."""
    with (
        socket.create_connection(("localhost", port), timeout=PATIENCE) as raw,
        context.wrap_socket(raw, server_hostname="localhost", session=session) as connection,
    ):
        connection.sendall(verdict_request())
        return connection.recv(65536), connection.session


async def test_a_handshake_that_began_under_former_client_cas_allows_one_request(
    tmp_path: Path,
) -> None:
    file, former = client_certificate(tmp_path, "former")
    next_file, _ = client_certificate(tmp_path, "current")
    waiting = Waiting(tmp_path, client_cas=file.read_bytes())
    cas = ClientCas(file, waiting.source.certificate, waiting.listener.renew)
    former.load_verify_locations(waiting.directory / "ca.crt")
    former.set_ecdh_curve("prime256v1")  # so that its first hello is answered with a certificate
    async with listening(waiting):
        client = Client(waiting, former)
        await client.begin()
        file.write_bytes(next_file.read_bytes())
        assert cas.poll()
        await client.shake_hands()
        client.write(verdict_request())
        assert b"\r\nconnection: close\r\n" in await client.read()
        client.writer.close()


async def as_client(
    server: "Waiting", context: ssl.SSLContext
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection of a client that shows the certificate of `context`."""
    context.load_verify_locations(server.directory / "ca.crt")
    return await asyncio.open_connection("localhost", server.listener.port, ssl=context)


async def verdict_of(
    opened: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> tuple[bytes, bytes]:
    opened[1].write(verdict_request())
    return await answer(opened[0])


async def test_a_client_ca_that_can_not_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "ca.crt.txt").write_text("no PEM")
    (tmp_path / "config.yaml").write_text(CONFIGURED.format(tmp_path / "ca.crt.txt"))
    facts = str(ROOT / "manifests" / "examples" / "facts")
    options = [
        "--config",
        str(tmp_path / "config.yaml"),
        "--objects",
        facts,
        "--certs",
        str(tmp_path),
    ]
    ended = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "app", "serve", *options, cwd=ROOT, stderr=asyncio.subprocess.PIPE
    )
    _, said = await ended.communicate()
    assert (ended.returncode, b"ca.crt.txt: it has no valid PEM block" in said) == (1, True)

"""A certificate that is served, while its files change.

Tests `app/certificates/source.py`.
"""

import asyncio
import base64
import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from app.certificates.certificate import CertificateInfo, Pair, inspect, make_ca, make_leaf
from app.certificates.source import LOOK_SECONDS, BrokenPairError, FileSource, ServingCertificate
from tests.kube import virtual

NOW = datetime.now(UTC)  # handshakes are checked by OpenSSL, which has a clock of its own
DAY = timedelta(days=1)
CA = make_ca("test CA", NOW - 9 * DAY, NOW + 9 * DAY)


def leaf(begin: datetime = NOW - DAY, end: datetime = NOW + DAY) -> Pair:
    return make_leaf(CA, ["localhost", "127.0.0.1"], begin, end)


def rsa_leaf() -> Pair:
    """The same with an RSA key, as a cluster's own issuer may make it."""
    key = rsa.generate_private_key(65537, 2048)
    template = x509.load_pem_x509_certificate(leaf().cert_pem)
    builder = x509.CertificateBuilder(
        template.issuer,
        template.subject,
        key.public_key(),
        7,
        template.not_valid_before_utc,
        template.not_valid_after_utc,
    )
    for extension in template.extensions:
        if extension.oid != x509.SubjectKeyIdentifier.oid:
            builder = builder.add_extension(extension.value, extension.critical)
    builder = builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )
    certificate = builder.sign(load_pem_private_key(CA.key_pem, None), hashes.SHA256())  # type: ignore[arg-type]
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Pair(certificate.public_bytes(Encoding.PEM), pem)


def of_another_curve(pair: Pair) -> Pair:
    """The certificate is as sound as DER can be; its public key says a curve that there isn't."""
    der = x509.load_pem_x509_certificate(pair.cert_pem).public_bytes(Encoding.DER)
    curve = bytes.fromhex("2a8648ce3d030107")
    unknown = bytes.fromhex("2a8648ce3d03017f")
    text = base64.encodebytes(der.replace(curve, unknown)).decode()
    return Pair(
        f"-----BEGIN CERTIFICATE-----\n{text}-----END CERTIFICATE-----\n".encode(), pair.key_pem
    )


FIRST = leaf()
SECOND = leaf()
RSA = rsa_leaf()


def fingerprint(pair: Pair) -> str:
    return inspect(pair.cert_pem).fingerprint


@asynccontextmanager
async def serving(
    certificate: ServingCertificate,
) -> AsyncIterator[Callable[..., asyncio.Future[str]]]:
    """A TLS echo on loopback; gives a call that connects, exchanges a byte, and answers the
    fingerprint seen.
    """

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(1))
        await reader.read()
        writer.close()

    async def look(
        name: str | None = "localhost", version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ) -> str:
        context = ssl.create_default_context(cadata=CA.cert_pem.decode())
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.maximum_version = version
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname=name
        )
        writer.write(b"x")
        assert await reader.read(1) == b"x"
        connection = writer.get_extra_info("ssl_object")
        assert connection.version() == version.name.replace("v1_", "v1.")
        writer.close()
        await writer.wait_closed()
        der = connection.getpeercert(binary_form=True)
        return x509.load_der_x509_certificate(der).fingerprint(hashes.SHA256()).hex()

    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=certificate.context)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield lambda *arguments: asyncio.ensure_future(look(*arguments))


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def runner(request: pytest.FixtureRequest) -> asyncio.Runner:
    return asyncio.Runner(loop_factory=request.param)


def test_handshakes_before_and_after_a_reload_and_with_a_mismatched_pair_in_between(
    runner: asyncio.Runner,
) -> None:
    async def scenario() -> None:
        certificate = ServingCertificate()
        certificate.load(FIRST)
        async with serving(certificate) as look:
            assert await look() == fingerprint(FIRST)
            with pytest.raises(
                BrokenPairError, match="the private key doesn't belong to the certificate"
            ):
                certificate.load(Pair(SECOND.cert_pem, FIRST.key_pem))
            assert await look() == fingerprint(FIRST)
            assert certificate.load(SECOND) == certificate.info == inspect(SECOND.cert_pem)
            assert await look() == fingerprint(SECOND)

    with runner:
        runner.run(scenario())


def handshake(leaf: Pair, ca_pem: bytes, name: str) -> str | None:
    """A whole handshake in memory with a client that checks strictly; the version agreed on."""
    certificate = ServingCertificate()
    certificate.load(leaf)
    client_context = ssl.create_default_context(cadata=ca_pem.decode())
    client_context.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server = ssl.MemoryBIO()
    to_client = ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server, server_hostname=name)
    server = certificate.context.wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server]
    while waiting:
        for side in list(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
    return client.version()


@pytest.mark.parametrize("name", ["grove-admission.grove.svc", "a.example.com", "127.0.0.1"])
def test_a_strict_client_accepts_the_leaf(name: str) -> None:
    begin = NOW - DAY
    end = NOW + DAY
    ca = make_ca("test CA", begin, end)
    leaf = make_leaf(ca, ["grove-admission.grove.svc", "*.example.com", "127.0.0.1"], begin, end)
    assert handshake(leaf, ca.cert_pem, name) == "TLSv1.3"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    "name", ["localhost", "127.0.0.1"], ids=["with a server name", "by address"]
)
def test_a_change_of_the_kind_of_key_leaves_nothing_of_the_old_certificate(
    runner: asyncio.Runner, version: ssl.TLSVersion, name: str
) -> None:
    async def scenario() -> None:
        certificate = ServingCertificate()
        async with serving(certificate) as look:
            for pair in (FIRST, RSA, SECOND):
                certificate.load(pair)
                assert await look(name, version) == fingerprint(pair)

    with runner:
        runner.run(scenario())


async def test_without_a_certificate_a_handshake_is_refused() -> None:
    async with serving(ServingCertificate()) as look:
        with pytest.raises(OSError):  # noqa: PT011 - an alert or a reset, as the loop has it
            await look()


def test_nothing_before_tls_1_2() -> None:
    assert ServingCertificate().context.minimum_version == ssl.TLSVersion.TLSv1_2


def encrypted(pair: Pair) -> Pair:
    key = load_pem_private_key(pair.key_pem, None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    return Pair(pair.cert_pem, pem)


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        pytest.param(Pair(b"", b""), "the certificate can't be read", id="empty"),
        pytest.param(
            Pair(b"garbage", SECOND.key_pem), "the certificate can't be read", id="no certificate"
        ),
        pytest.param(
            Pair(SECOND.cert_pem[:200], SECOND.key_pem),
            "the certificate can't be read",
            id="half of one",
        ),
        pytest.param(
            Pair(SECOND.cert_pem, b"garbage"), "the private key can't be read", id="no key"
        ),
        pytest.param(
            Pair(SECOND.cert_pem, SECOND.key_pem[:100]),
            "the private key can't be read",
            id="half a key",
        ),
        pytest.param(
            Pair(SECOND.cert_pem, FIRST.key_pem),
            "doesn't belong to the certificate",
            id="another EC key",
        ),
        pytest.param(
            Pair(SECOND.cert_pem, RSA.key_pem), "doesn't belong to the certificate", id="an RSA key"
        ),
        pytest.param(encrypted(SECOND), "the private key", id="an encrypted key"),
        pytest.param(of_another_curve(SECOND), "not supported", id="a curve that nobody knows"),
    ],
)
def test_load_refuses_and_keeps_what_was(pair: Pair, message: str) -> None:
    certificate = ServingCertificate()
    certificate.load(FIRST)
    with pytest.raises(BrokenPairError, match=message):
        certificate.load(pair)
    assert certificate.info == inspect(FIRST.cert_pem)


def test_load_leaves_no_file_open() -> None:
    certificate = ServingCertificate()
    certificate.load(FIRST)
    before = os.listdir("/proc/self/fd")
    certificate.load(SECOND)
    with pytest.raises(BrokenPairError):
        certificate.load(Pair(SECOND.cert_pem, FIRST.key_pem))
    assert os.listdir("/proc/self/fd") == before


class Volume:
    """A Secret as the kubelet mounts it: tls.crt -> ..data/tls.crt, ..data -> a directory that is
    swapped as one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._count = 0
        (path / "tls.crt").symlink_to("..data/tls.crt")
        (path / "tls.key").symlink_to("..data/tls.key")

    def write(self, pair: Pair) -> None:
        self._count += 1
        content = self.path / f"..{self._count}"
        content.mkdir()
        (content / "tls.crt").write_bytes(pair.cert_pem)
        (content / "tls.key").write_bytes(pair.key_pem)
        (self.path / "..new").symlink_to(content.name)
        os.replace(self.path / "..new", self.path / "..data")


class Recorded(ServingCertificate):
    """Records what was loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[CertificateInfo] = []

    def load(self, pair: Pair) -> CertificateInfo:
        self.loaded.append(super().load(pair))
        return self.loaded[-1]


class Fixture:
    """A FileSource over a Volume, with a clock that only moves when told."""

    def __init__(self, path: Path) -> None:
        self.volume = Volume(path)
        self.time = NOW
        self.certificate = Recorded()
        self.reloads = self.certificate.loaded
        self.source = FileSource(path, self.certificate, now=lambda: self.time)

    def state(self) -> tuple[str | None, bool, datetime | None]:
        serving = self.certificate.info.fingerprint if self.certificate.info else None
        return serving, self.source.healthy(), self.source.not_after


@pytest.fixture
def files(tmp_path: Path) -> Fixture:
    return Fixture(tmp_path)


def test_first_look_loads(files: Fixture) -> None:
    files.volume.write(FIRST)
    assert files.source.poll()
    assert files.state() == (fingerprint(FIRST), True, inspect(FIRST.cert_pem).not_after)
    assert (files.source.last_error, files.reloads) == (None, [inspect(FIRST.cert_pem)])


def test_a_second_look_at_the_same_content_does_nothing(files: Fixture) -> None:
    files.volume.write(FIRST)
    files.source.poll()
    files.volume.write(FIRST)
    assert not files.source.poll()
    assert len(files.reloads) == 1


def test_a_swapped_symlink_is_seen(files: Fixture) -> None:
    files.volume.write(FIRST)
    files.source.poll()
    files.volume.write(SECOND)
    assert files.source.poll()
    assert files.reloads == [inspect(FIRST.cert_pem), inspect(SECOND.cert_pem)]


def test_new_content_under_the_old_time_stamp_is_seen(files: Fixture, tmp_path: Path) -> None:
    files.volume.write(FIRST)
    files.source.poll()
    for name, content in (("tls.crt", SECOND.cert_pem), ("tls.key", SECOND.key_pem)):
        before = (tmp_path / name).stat()
        (tmp_path / name).write_bytes(content)
        os.utime(tmp_path / name, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert files.source.poll()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        pytest.param(Pair(SECOND.cert_pem, FIRST.key_pem), "doesn't belong", id="mismatched"),
        pytest.param(Pair(b"", b""), "can't be read", id="empty"),
        pytest.param(leaf(end=NOW - timedelta(hours=1)), "expired", id="expired"),
        pytest.param(leaf(begin=NOW + timedelta(hours=1)), "not valid before", id="not yet valid"),
    ],
)
def test_a_bad_pair_never_replaces_a_good_one(files: Fixture, bad: Pair, message: str) -> None:
    files.volume.write(FIRST)
    files.source.poll()
    before = files.state()
    files.volume.write(bad)
    assert not files.source.poll()
    assert files.state() == before
    assert files.source.last_error is not None
    assert message in files.source.last_error
    files.volume.write(SECOND)
    assert files.source.poll()
    assert files.source.last_error is None


def test_a_return_to_the_pair_that_serves_clears_the_error(files: Fixture) -> None:
    for pair in (FIRST, Pair(b"", b""), FIRST):
        files.volume.write(pair)
        files.source.poll()
    assert (files.source.last_error, len(files.reloads)) == (None, 1)


def test_a_pair_of_the_near_future_is_loaded_when_its_time_comes(files: Fixture) -> None:
    files.volume.write(leaf(begin=NOW + timedelta(seconds=5)))
    assert not files.source.poll()
    files.time += timedelta(seconds=6)
    assert files.source.poll()


def test_missing_files_are_an_error_and_the_old_pair_goes_on(
    files: Fixture, tmp_path: Path
) -> None:
    assert not files.source.poll()
    assert (files.source.healthy(), files.source.not_after) == (False, None)
    assert "No such file" in str(files.source.last_error)
    files.volume.write(FIRST)
    files.source.poll()
    (tmp_path / "..data").unlink()
    assert not files.source.poll()
    assert files.source.healthy()


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
def test_a_fifo_does_not_stop_the_server(files: Fixture, tmp_path: Path, name: str) -> None:
    files.volume.write(FIRST)
    assert files.source.poll()
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    assert not files.source.poll()
    problem = f"{tmp_path / name} is not a regular file"
    assert files.source.last_error == (None if name == "ca.crt" else problem)
    assert (files.source.healthy(), files.source.ca_bundle()) == (True, None)


def test_unhealthy_once_the_certificate_has_expired(files: Fixture) -> None:
    files.volume.write(FIRST)
    files.source.poll()
    files.time += 2 * DAY
    assert not files.source.healthy()


def test_an_error_that_stays_is_logged_once(
    files: Fixture, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        files.source.poll()
    assert len(caplog.records) == 1


def test_run_looks_at_every_interval(tmp_path: Path) -> None:
    volume = Volume(tmp_path)
    certificate = Recorded()

    async def scenario() -> None:
        running = asyncio.create_task(FileSource(tmp_path, certificate).run())
        await asyncio.sleep(1)
        for number, pair in enumerate([FIRST, SECOND]):
            volume.write(pair)
            await asyncio.sleep(LOOK_SECONDS - 2)
            assert len(certificate.loaded) == number
            await asyncio.sleep(2)
        running.cancel()
        await asyncio.wait({running})

    virtual.run(scenario())
    assert certificate.loaded == [inspect(FIRST.cert_pem), inspect(SECOND.cert_pem)]

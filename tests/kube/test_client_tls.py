"""HttpClient over TLS, with a kubeconfig: the server's CA is checked and the client shows its
certificate.

Tests `app/kube/reachability.py` and `app/kube/tls_context.py`.
"""

import base64
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from app.facts.kinds import ALL
from app.kube.api import ObjectRef, Unavailable
from app.kube.client import HttpClient
from app.kube.credentials import PodCredentials, from_kubeconfig
from app.kube.reachability import Reach
from app.kube.transport import CallLimits
from app.objects.resource import NODE
from tests.kube.credentials import PlainCredentials


@dataclass(frozen=True)
class Pair:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self) -> bytes:
        plain = serialization.NoEncryption()
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain
        )


def issue(name: str, issuer: Pair | None = None) -> Pair:
    """A CA, or a leaf of `issuer` for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer = issuer or Pair(None, key)  # type: ignore[arg-type]
    begin = datetime.now(UTC) - timedelta(minutes=1)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
    )
    return Pair(builder.sign(signer.key, hashes.SHA256()), key)


def written(path: Path, *parts: bytes) -> str:
    path.write_bytes(b"".join(parts))
    return str(path)


@asynccontextmanager
async def serving(
    tmp_path: Path, ca: Pair, *, port: int = 0, verify: ssl.VerifyMode = ssl.CERT_REQUIRED
) -> AsyncGenerator[str, None]:
    """A server that asks for a certificate of `ca` and answers with the name in it, or "nobody"."""
    leaf = issue("server", ca)
    context = ssl.create_default_context(
        ssl.Purpose.CLIENT_AUTH, cafile=written(tmp_path / "server-ca", ca.pem())
    )
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # as API servers, which are written in Go
    context.verify_mode = verify
    context.load_cert_chain(written(tmp_path / "server", leaf.pem(), leaf.key_pem()))

    async def who(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        shown = request.transport.get_extra_info("peercert") or {
            "subject": ((("commonName", "nobody"),),)
        }
        subject = dict(part[0] for part in shown["subject"])
        return web.json_response({"user": subject["commonName"]})

    runner = web.ServerRunner(web.Server(who), shutdown_timeout=0.05)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
    try:
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def kubeconfig(path: Path, url: str, ca: Pair, client: Pair) -> Path:
    def encoded(data: bytes) -> str:
        return base64.b64encode(data).decode()

    user = {
        "client-certificate-data": encoded(client.pem()),
        "client-key-data": encoded(client.key_pem()),
    }
    cluster = {"server": url, "certificate-authority-data": encoded(ca.pem())}
    document = {
        "current-context": "only",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "only", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.parametrize("trusted", [True, False], ids=["the right CA", "another CA"])
async def test_client_certificates(tmp_path: Path, trusted: bool) -> None:
    ca = issue("ca")
    async with serving(tmp_path, ca) as url:
        shown = kubeconfig(
            tmp_path / "config", url, ca if trusted else issue("other"), issue("alice", ca)
        )
        async with HttpClient(
            await from_kubeconfig(shown, None), ALL, CallLimits(total=240.0)
        ) as client:
            if trusted:
                assert await client.get(ObjectRef(NODE, "a")) == {"user": "alice"}
                return
            with pytest.raises(Unavailable) as raised:
                await client.patch(ObjectRef(NODE, "a"), {})
            assert raised.value.reason == "TLS"


async def test_a_replaced_ca_of_the_api_server_is_read_again(tmp_path: Path) -> None:
    former = issue("former")
    current = issue("current")
    written(tmp_path / "token", b"t")
    ca_file = tmp_path / "ca.crt"
    written(ca_file, former.pem())
    async with serving(tmp_path, former, verify=ssl.CERT_NONE) as url:
        credentials = PodCredentials(url, tmp_path / "token", ca_file)
        client = HttpClient(credentials, ALL, CallLimits(total=240.0, reads=1))
        assert await client.get(ObjectRef(NODE, "a")) == {"user": "nobody"}
    port = int(url.rpartition(":")[2])
    async with client, serving(tmp_path, current, port=port, verify=ssl.CERT_NONE):
        with pytest.raises(Unavailable, match="not trusted"):
            await client.get(ObjectRef(NODE, "a"))
        written(ca_file, current.pem())  # the kubelet is later than the API server
        assert await client.get(ObjectRef(NODE, "a")) == {"user": "nobody"}


@pytest.mark.parametrize("comment", ["é".encode(), b"\xe9"], ids=["UTF-8", "Latin-1"])
async def test_comments_in_the_ca_file_may_have_any_characters(
    comment: bytes, tmp_path: Path
) -> None:
    ca = issue("ca")
    written(tmp_path / "token", b"t")
    written(tmp_path / "ca.crt", b"# %s\n" % comment + ca.pem())
    async with serving(tmp_path, ca, verify=ssl.CERT_NONE) as url:
        credentials = PodCredentials(url, tmp_path / "token", tmp_path / "ca.crt")
        async with HttpClient(credentials, ALL, CallLimits(total=240.0, reads=1)) as client:
            assert await client.get(ObjectRef(NODE, "a")) == {"user": "nobody"}


async def test_a_ca_that_is_there_in_time_fails_no_call(tmp_path: Path) -> None:
    """The file has the new CA before the client connects again: not even a write fails."""
    former = issue("former")
    current = issue("current")
    config = tmp_path / "config"
    async with serving(tmp_path, former) as url:
        kubeconfig(config, url, former, issue("alice", former))
        client = HttpClient(
            await from_kubeconfig(config, None), ALL, CallLimits(total=240.0, reads=1)
        )
        assert await client.get(ObjectRef(NODE, "a")) == {"user": "alice"}
    port = int(url.rpartition(":")[2])
    async with client, serving(tmp_path, current, port=port):
        kubeconfig(config, url, current, issue("bob", current))
        assert await client.patch(ObjectRef(NODE, "a"), {}) == {"user": "bob"}


async def test_files_of_the_identity_are_looked_at_again_and_bad_ones_are_not_used(
    tmp_path: Path,
) -> None:
    """The server trusts the CA of both; the client shows what its files contain."""
    ca = issue("ca")
    config = tmp_path / "config"
    async with serving(tmp_path, ca) as url:
        kubeconfig(config, url, ca, issue("alice", ca))
        limits = CallLimits(total=240.0, look=0.0)
        async with HttpClient(await from_kubeconfig(config, None), ALL, limits) as client:
            assert await client.get(ObjectRef(NODE, "a")) == {"user": "alice"}
            good = config.read_bytes()
            for bad in (b"", b"{", good.replace(b"certificate-authority-data: ", b"&x [] #")):
                config.write_bytes(bad)
                assert await client.get(ObjectRef(NODE, "a")) == {"user": "alice"}
            kubeconfig(config, url, ca, issue("bob", ca))
            assert await client.get(ObjectRef(NODE, "a")) == {"user": "bob"}


@pytest.mark.parametrize(
    ("bundle", "problem"),
    [
        pytest.param(b"\n", "is empty", id="does not mean the CAs of the system"),
        pytest.param(b"a", "does not contain a certificate", id="without certificates"),
    ],
)
async def test_an_unusable_ca_file(bundle: bytes, problem: str, tmp_path: Path) -> None:
    credentials = PodCredentials("https://127.0.0.1:1", tmp_path / "token", tmp_path / "ca.crt")
    written(tmp_path / "token", b"t")
    written(tmp_path / "ca.crt", bundle)
    async with HttpClient(credentials, ALL, CallLimits(total=240.0, reads=1)) as client:
        with pytest.raises(Unavailable, match=f"cannot load the CA .*{problem}"):
            await client.get(ObjectRef(NODE, "a"))


def test_an_api_server_that_does_not_answer_for_a_while_is_a_problem() -> None:
    time = 0.0
    reach = Reach(lambda: time)
    checks = []
    for now, call in (
        (1000.0, "silent"),
        (1000.0, "failed"),
        (1100.0, "answered"),
        (1300.0, "failed"),
        (1399.0, "failed"),
        (1400.0, "failed"),
        (1500.0, "answered"),
        (1900.0, "silent"),
    ):
        time = now
        if call == "answered":
            reach.answered()
        elif call == "failed":
            reach.failed("Connection refused")
        checks.append(reach.check())
    said = "has not answered for {} s, so verdicts use old facts: Connection refused"
    assert checks == [None, said.format(1000), None, None, None, said.format(300), None, None]
    assert [sample.value for sample in reach.samples()] == [400.0]


async def test_what_prevents_an_answer_is_kept_for_the_check(tmp_path: Path) -> None:
    client = HttpClient(
        PlainCredentials("http://127.0.0.1:1"), ALL, CallLimits(total=240.0, reads=1)
    )
    async with client:
        with pytest.raises(Unavailable):
            await client.get(ObjectRef(NODE, "a"))
        assert client.checks() == {"api-server": None}
        client.sibling(CallLimits())._transport.reach._answered_at -= 301
        assert "Connection refused" in str(client.checks()["api-server"])

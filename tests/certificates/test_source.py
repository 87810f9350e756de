"""The source of the serving certificate: which one, what it shows before it is ready, and what
metrics say of it.
"""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.certificates.certificate import make_ca, make_leaf
from app.certificates.reconciler import LOOK_SECONDS, self_managed_source
from app.certificates.rotation import Terms
from app.certificates.source import FileSource, ServingCertificate, file_source
from app.config.schema import Certificates, Configuration
from app.kube.api import ObjectRef, Unavailable
from app.objects.resource import SECRET
from app.server.metrics import Metrics
from app.server.readiness import Readiness
from app.server.serve import certificate_source
from tests.certificates.rotation import configuration
from tests.kube import virtual
from tests.kube.memory.client import MemoryClient

SETTINGS = Certificates.model_validate(
    {
        "mode": "self-managed",
        "namespace": "ns",
        "serviceName": "ours",
        "validityHours": 2,
        "caValidityHours": 6,
    }
)

NOW = datetime.now(UTC)
CA = make_ca("test CA", NOW - timedelta(days=1), NOW + timedelta(days=9))


def unobserved(name: str, result: str, seconds: float) -> None:
    """Nobody counts steps here."""


def values(source: Any) -> dict[str, float]:
    return {f"{sample.name}{sample.labels or ''}": sample.value for sample in source.samples()}


def test_the_configuration_says_what_is_kept_where() -> None:
    source = self_managed_source(SETTINGS, MemoryClient(), unobserved, b"")
    assert source.all_keys() == [("ns", "grove-admission-certificates")]
    assert source.names[0] == "ours.ns.svc"
    assert source.terms == Terms(timedelta(hours=6), timedelta(hours=2))


async def test_before_there_is_a_secret_probes_see_a_stand_in_and_are_told() -> None:
    client = MemoryClient()
    source = self_managed_source(SETTINGS, client, unobserved, b"")
    assert handshake(source.certificate.context) == "TLSv1.3"
    assert (source.healthy(), source.not_after, source.ca_not_after, source.ca_bundle()) == (
        False,
        None,
        None,
        None,
    )
    readiness = Readiness([source])
    assert readiness.ready()["certificate"] == "is not loaded yet"
    client.fail_next("get", SECRET, Unavailable("the API server is down"))
    with pytest.raises(Unavailable):
        await source.reconcile(("ns", "x"))
    assert readiness.ready()["certificate"] == "is not loaded yet: the API server is down"
    assert values(source) == {"certificate_failures_total": 1}
    while not source.healthy():
        await source.reconcile(("ns", "x"))
    assert readiness.ready()["certificate"] is None


def handshake(server: ssl.SSLContext) -> str | None:
    """The version agreed on with a client that trusts anything, as a probe does."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    to_server = ssl.MemoryBIO()
    to_client = ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname="x")
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, answering]
    while waiting:
        for side in list(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)
    return client.version()


async def test_metrics_of_a_self_managed_certificate() -> None:
    source = self_managed_source(SETTINGS, MemoryClient(), unobserved, b"")
    while not source.healthy():
        await source.reconcile(("ns", "x"))
    assert source.not_after is not None
    assert source.ca_not_after is not None
    assert values(source) == {
        "certificate_expiry_timestamp_seconds": source.not_after.timestamp(),
        "certificate_ca_expiry_timestamp_seconds": source.ca_not_after.timestamp(),
        "certificate_rotations_total{'reason': 'issue'}": 1,
        "certificate_failures_total": 0,
    }


def test_watches_wake_it_and_their_restarts_are_counted() -> None:
    async def scenario() -> None:
        client = MemoryClient([configuration("ValidatingWebhookConfiguration")])
        source = self_managed_source(SETTINGS, client, unobserved, b"")
        running = asyncio.create_task(source.run())
        # watches have ended in that time, and the next look is not due yet
        await asyncio.sleep(LOOK_SECONDS - 60)
        begin = virtual.now()
        await client.delete(ObjectRef(SECRET, "grove-admission-certificates", "ns"))
        await asyncio.sleep(1)
        assert [secret["metadata"]["name"] for secret in client.objects(SECRET)] == [
            "grove-admission-certificates"
        ]
        assert virtual.now() - begin < 2
        restarts = {
            key: value
            for key, value in values(source).items()
            if key.startswith("watch_restarts_total")
        }
        ended = "watch_restarts_total{'resource': 'secrets', 'reason': 'ended'}"
        assert restarts[ended] >= 1
        running.cancel()
        await asyncio.wait({running})

    virtual.run(scenario())


def test_metrics_of_files(tmp_path: Path) -> None:
    source = file_source(tmp_path, b"")
    certificate, key = expiring()
    (tmp_path / "tls.crt").write_bytes(certificate)
    source.poll()  # the key is still the old one
    (tmp_path / "tls.key").write_bytes(key)
    (tmp_path / "ca.crt").write_bytes(CA.cert_pem)
    source.poll()
    assert values(source) == {
        "certificate_expiry_timestamp_seconds": int((NOW + timedelta(days=3)).timestamp()),
        "certificate_ca_expiry_timestamp_seconds": int((NOW + timedelta(days=9)).timestamp()),
        "certificate_rotations_total{'reason': 'reload'}": 1,
        "certificate_failures_total": 1,
    }


@pytest.mark.parametrize("content", [None, b"garbage"], ids=["no file", "garbage"])
def test_without_a_ca_that_can_be_read_its_expiry_is_not_told(
    tmp_path: Path, content: bytes | None
) -> None:
    source = file_source(tmp_path, b"")
    (tmp_path / "ca.crt").unlink()
    if content is not None:
        (tmp_path / "ca.crt").write_bytes(content)
    assert (source.ca_not_after, source.ca_bundle()) == (None, content)
    assert "certificate_ca_expiry_timestamp_seconds" not in values(source)


def test_an_expired_certificate_is_not_ready(tmp_path: Path) -> None:
    for name, content in zip(("tls.crt", "tls.key"), expiring(), strict=True):
        (tmp_path / name).write_bytes(content)
    times = iter([NOW, NOW + timedelta(days=4)])
    source = FileSource(tmp_path, ServingCertificate(), now=lambda: next(times))
    source.poll()
    assert Readiness([source]).ready()["certificate"] == "has expired"


def expiring() -> tuple[bytes, bytes]:
    """A pair for three days."""
    pair = make_leaf(CA, ["localhost"], NOW - timedelta(days=1), NOW + timedelta(days=3))
    return pair.cert_pem, pair.key_pem


def test_a_pair_that_cannot_be_used_at_the_start_is_named(tmp_path: Path) -> None:
    (tmp_path / "tls.crt").write_bytes(expiring()[0])
    (tmp_path / "tls.key").write_bytes(expiring()[1])
    with pytest.raises(OSError, match=f"certificate in {tmp_path} can't be used: the private key"):
        file_source(tmp_path, b"")


def test_without_a_cluster_only_files_will_do(tmp_path: Path) -> None:
    configuration = Configuration(certificates=SETTINGS)
    with pytest.raises(OSError, match="self-managed needs a cluster"):
        certificate_source(configuration, tmp_path, None, Metrics())

"""Whether callers trust who answers."""

import base64
from datetime import UTC, datetime, timedelta

import pytest

from app.certificates.certificate import make_ca, make_leaf
from app.doctor.certificate import (
    Bundle,
    Handshake,
    Shown,
    bundles_of,
    check_bundle,
    read_shown,
)
from app.doctor.service import Endpoint, Target
from app.kube.api import Rejected
from app.objects.resource import SECRET
from app.webhooks.configurations import ServiceTarget, UrlTarget, webhook_configurations
from tests.kube.memory.client import MemoryClient

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 6, 1, tzinfo=UTC)
END = datetime(2026, 12, 31, tzinfo=UTC)
SERVICE = "grove-admission.grove-system.svc"
CA = make_ca("ca", BEGIN, END)
OTHER = make_ca("ca", BEGIN, END)
OLD = make_ca("old", BEGIN, NOW - timedelta(days=1))
LEAF = make_leaf(CA, [SERVICE], BEGIN, END)
WRONG_NAME = make_leaf(CA, ["other.svc"], BEGIN, END)
CALLED = Target(SERVICE, 443, ("grove-system", "grove-admission"))
HERE = Endpoint("10.0.0.1", 8443)
THERE = Endpoint("10.0.0.2", 8443)
SHOWN = Shown(LEAF.cert_pem)
TRUSTED = Handshake("trusted")
SILENT = Handshake("unreachable", "no answer within 3 s")
REFUSED = Handshake("refused", "self-signed certificate in certificate chain")


def bundle(*cas: bytes, target: Target = CALLED) -> Bundle:
    return Bundle(base64.b64encode(b"".join(cas)).decode(), target, ("a", "b"))


class Network:
    """Answers of addresses; `asked` are those that were shaken hands with."""

    def __init__(self, answers: dict[str, Handshake]) -> None:
        self.asked: list[tuple[str, int, str]] = []
        self._answers = answers

    async def __call__(self, host: str, port: int, name: str, ca_bundle: bytes) -> Handshake:
        assert ca_bundle.startswith(b"-----BEGIN CERTIFICATE")
        self.asked.append((host, port, name))
        return self._answers.get(host, SILENT)


async def said(
    judged: Bundle,
    answers: dict[str, Handshake],
    shown: Shown = SHOWN,
    places: tuple[Endpoint, ...] = (HERE, THERE),
) -> list[tuple[str, str]]:
    checks = await check_bundle(judged, places, shown, Network(answers), NOW)
    return [(check.status, check.message) for check in checks]


VALID = (
    "ok",
    "valid CAs in the caBundle of 2 webhooks: 1 of 1, the last one until 2026-12-31T00:00:00+00:00",
)
UNREACHED = "10.0.0.1:8443: no answer within 3 s; 10.0.0.2:8443: no answer within 3 s"


@pytest.mark.parametrize(
    ("judged", "told"),
    [
        pytest.param(
            Bundle("", CALLED, ("a", "b")),
            "is empty: API servers cannot verify the server",
            id="none",
        ),
        pytest.param(
            Bundle("UEVN", CALLED, ("a", "b")),
            "is not a base64-encoded PEM bundle: API servers cannot verify the server",
            id="no PEM",
        ),
        pytest.param(
            Bundle("?", CALLED, ("a", "b")),
            "is not a base64-encoded PEM bundle: API servers cannot verify the server",
            id="no base64",
        ),
        pytest.param(bundle(OLD.cert_pem), "has no currently valid CA", id="all expired"),
    ],
)
async def test_a_bundle_that_nobody_can_use_is_a_problem_and_nobody_is_called(
    judged: Bundle, told: str
) -> None:
    network = Network({})
    (check,) = await check_bundle(judged, (HERE,), SHOWN, network, NOW)
    assert (check.status, check.message, network.asked) == (
        "problem",
        f"the caBundle of 2 webhooks {told}",
        [],
    )
    assert "cert-manager" in check.remedy


async def test_all_servers_are_asked() -> None:
    shows = f"the caBundle of 2 webhooks verifies the certificate at {{}} for {SERVICE}"
    doubts = shows.replace("verifies", "does not verify") + f": {REFUSED.reason}"
    assert await said(bundle(CA.cert_pem), {"10.0.0.1": TRUSTED, "10.0.0.2": REFUSED}) == [
        VALID,
        ("ok", shows.format("10.0.0.1:8443")),
        ("problem", doubts.format("10.0.0.2:8443")),
    ]
    assert await said(bundle(CA.cert_pem), {"10.0.0.1": REFUSED, "10.0.0.2": REFUSED}) == [
        VALID,
        ("problem", doubts.format("10.0.0.1:8443, 10.0.0.2:8443")),
    ]
    assert await said(bundle(CA.cert_pem), {"10.0.0.1": TRUSTED}) == [
        VALID,
        ("ok", shows.format("10.0.0.1:8443")),
        (
            "warning",
            "unreachable endpoints, whose certificates were not checked: 10.0.0.2:8443",
        ),
    ]


async def test_one_reachable_address_of_a_pod_is_enough() -> None:
    places = (Endpoint("10.0.0.1", 8443, "a"), Endpoint("fd00::1", 8443, "a"))
    told = await said(bundle(CA.cert_pem), {"10.0.0.1": TRUSTED}, places=places)
    assert [status for status, _ in told] == ["ok", "ok"]


async def test_an_expired_ca_beside_a_valid_one_is_no_problem() -> None:
    (first, *_) = await said(bundle(OLD.cert_pem, CA.cert_pem), {"10.0.0.1": TRUSTED})
    assert first == (
        "ok",
        "valid CAs in the caBundle of 2 webhooks: 1 of 2, the last one until 2026-12-31T00:00:00+00:00",
    )


@pytest.mark.parametrize(
    ("judged", "shown", "status", "told"),
    [
        pytest.param(
            bundle(CA.cert_pem),
            SHOWN,
            "ok",
            f"verifies tls.crt of the Secret for {SERVICE} (no server could be reached: {UNREACHED})",
            id="it fits",
        ),
        pytest.param(
            bundle(OTHER.cert_pem),
            SHOWN,
            "problem",
            "does not verify tls.crt of the Secret: the certificate is not signed by a CA in the bundle, or that CA is not valid now",
            id="another CA of that name",
        ),
        pytest.param(
            bundle(CA.cert_pem),
            Shown(WRONG_NAME.cert_pem),
            "problem",
            f"does not verify tls.crt of the Secret: the certificate doesn't cover '{SERVICE}'",
            id="another name",
        ),
    ],
)
async def test_where_no_server_is_reached_the_secret_is_compared(
    judged: Bundle, shown: Shown, status: str, told: str
) -> None:
    assert await said(judged, {}, shown) == [VALID, (status, f"the caBundle of 2 webhooks {told}")]


async def test_without_server_and_secret_it_is_not_known() -> None:
    reason = "no server could be reached (there is no endpoint), and Secret n/s does not exist"
    message = f"the caBundle of 2 webhooks was not compared with a certificate: {reason}"
    assert await said(bundle(CA.cert_pem), {}, Shown(None, "Secret n/s does not exist"), ()) == [
        VALID,
        ("unknown", message),
    ]


async def test_a_url_is_called_itself() -> None:
    network = Network({"localhost": TRUSTED})
    await check_bundle(
        bundle(CA.cert_pem, target=Target("localhost", 9443)), (HERE,), SHOWN, network, NOW
    )
    assert network.asked == [("localhost", 9443, "localhost")]


def test_bundles_are_told_apart_by_what_they_are_and_where_they_lead() -> None:
    mutating, validating = webhook_configurations(ServiceTarget())
    (outside, _) = webhook_configurations(UrlTarget("https://example.com", b"PEM"))
    mutating["webhooks"][0]["clientConfig"]["caBundle"] = "b"
    bundles = bundles_of([mutating, validating, outside])
    assert [(bundle.ca_bundle, bundle.target, len(bundle.webhooks)) for bundle in bundles] == [
        ("b", CALLED, 1),
        ("", CALLED, 9),
        ("UEVN", Target("example.com", 443), 5),
    ]
    assert bundles[0].title == "the caBundle of podclique.mutate.grove-admission.grove.io"


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        pytest.param({"tls.crt": "UEVN"}, Shown(b"PEM"), id="there"),
        pytest.param(
            {"tls.crt": "?"},
            Shown(None, "Secret n/s has no readable tls.crt"),
            id="garbage",
        ),
        pytest.param(None, Shown(None, "Secret n/s has no readable tls.crt"), id="empty"),
    ],
)
async def test_the_secret(data: dict[str, str] | None, shown: Shown) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "n"},
        "data": data,
    }
    assert await read_shown(MemoryClient([secret]), "n", "s") == shown


async def test_a_secret_that_is_not_there_or_not_ours_to_read() -> None:
    client = MemoryClient()
    assert await read_shown(client, "n", "s") == Shown(None, "Secret n/s does not exist")
    client.fail_next("get", SECRET, Rejected("no", code=403))
    assert await read_shown(client, "n", "s") == Shown(
        None, "Secret n/s can't be read: no", is_readable=False
    )

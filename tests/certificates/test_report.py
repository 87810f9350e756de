"""What people are told of certificates."""

from datetime import UTC, datetime, timedelta

import pytest

from app.certificates.inspect import inspect
from app.certificates.report import Material, describe, validate_material
from app.certificates.rotate import Terms, new_holdings

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
HELD = new_holdings(["a.svc", "127.0.0.1"], NOW, Terms())
OTHER = new_holdings(["a.svc"], NOW, Terms())
GOOD = Material(HELD.leaf.cert_pem, HELD.leaf.key_pem, HELD.bundle_pem)
LAST = NOW + Terms().ca_life


def test_every_certificate_is_described_and_no_key() -> None:
    leaf = inspect(HELD.leaf.cert_pem)
    ca = inspect(HELD.ca.cert_pem)
    assert list(describe(GOOD, NOW + 89 * DAY)) == [
        "tls.crt: CN=a.svc",
        "  names       a.svc, 127.0.0.1",
        "  issuer      CN=grove-admission CA 2026-01-01 00:00:00",
        "  not before  2025-12-31T23:55:00+00:00",
        "  not after   2026-04-01T00:00:00+00:00 (1 days left)",
        f"  sha256      {leaf.fingerprint}",
        "ca.crt: CN=grove-admission CA 2026-01-01 00:00:00",
        "  names       -",
        "  issuer      CN=grove-admission CA 2026-01-01 00:00:00",
        "  not before  2025-12-31T23:55:00+00:00",
        "  not after   2027-01-01T00:00:00+00:00 (276 days left)",
        f"  sha256      {ca.fingerprint}",
    ]


def test_what_has_expired_is_missing_or_unreadable_is_said() -> None:
    material = Material(HELD.leaf.cert_pem, None, None)
    lines = list(describe(material, NOW + 100 * DAY))
    assert (lines[4], lines[-1]) == (
        "  not after   2026-04-01T00:00:00+00:00 (expired 10 days ago)",
        "ca.crt: not there",
    )
    (first, _) = describe(Material(b"garbage", None), NOW)
    assert first.startswith("tls.crt: can't be read: ")


@pytest.mark.parametrize(
    ("material", "names", "now", "within", "findings"),
    [
        pytest.param(GOOD, ["a.svc", "127.0.0.1"], NOW, 89 * DAY, [], id="all is well"),
        pytest.param(
            Material(GOOD.tls_crt, GOOD.tls_key),
            ["a.svc"],
            NOW,
            DAY,
            [],
            id="no CA to judge the chain by",
        ),
        pytest.param(
            GOOD, ["b.svc"], NOW, DAY, ["the certificate doesn't cover 'b.svc'"], id="another name"
        ),
        pytest.param(
            Material(None, None),
            [],
            NOW,
            DAY,
            ["tls.crt is missing", "tls.key is missing"],
            id="nothing",
        ),
        pytest.param(
            Material(GOOD.tls_crt, OTHER.leaf.key_pem, GOOD.ca_crt),
            [],
            NOW,
            DAY,
            ["the private key doesn't belong to the certificate"],
            id="mismatched",
        ),
        pytest.param(
            Material(GOOD.tls_crt, GOOD.tls_key, OTHER.bundle_pem),
            [],
            NOW,
            DAY,
            ["the certificate is not signed by a CA of the bundle that is valid now"],
            id="another CA",
        ),
        pytest.param(
            GOOD,
            [],
            NOW + 91 * DAY,
            DAY,
            ["the certificate expired at 2026-04-01T00:00:00+00:00"],
            id="expired",
        ),
        pytest.param(
            GOOD,
            [],
            NOW,
            90 * DAY,
            ["tls.crt expires at 2026-04-01T00:00:00+00:00 (90 days left)"],
            id="expires within the time asked for",
        ),
        pytest.param(
            GOOD,
            [],
            NOW,
            365 * DAY,
            [
                "tls.crt expires at 2026-04-01T00:00:00+00:00 (90 days left)",
                "the CA of tls.crt expires at 2027-01-01T00:00:00+00:00 (365 days left)",
            ],
            id="so does its CA",
        ),
    ],
)
def test_what_is_wrong(
    material: Material, names: list[str], now: datetime, within: timedelta, findings: list[str]
) -> None:
    assert validate_material(material, names, now, within) == findings


def test_keys_are_not_in_its_representation() -> None:
    assert "PRIVATE" not in repr(GOOD)

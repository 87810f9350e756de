"""Certificates that we issue.

Tests `app/certificates/certificate.py`.
"""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from app.certificates.certificate import CertificateInfo, inspect, make_ca, make_leaf

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
END = datetime(2026, 12, 31, tzinfo=UTC)
NOW = datetime(2026, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)

CA = make_ca("test CA", BEGIN, END)
SAME_NAME_CA = make_ca("test CA", BEGIN, END)
OTHER_CA = make_ca("other CA", BEGIN, END)
EXPIRED_CA = make_ca("expired CA", BEGIN, NOW - DAY)
LEAF = make_leaf(CA, ["grove-admission.grove.svc", "*.example.com", "127.0.0.1", "::1"], BEGIN, END)
OTHER_LEAF = make_leaf(CA, ["other.svc"], BEGIN, END)


def test_inspect_reads_what_make_leaf_wrote() -> None:
    info = inspect(LEAF.cert_pem)
    fingerprint = x509.load_pem_x509_certificate(LEAF.cert_pem).fingerprint(hashes.SHA256()).hex()
    assert info == CertificateInfo(
        subject="CN=grove-admission.grove.svc",
        issuer="CN=test CA",
        names=("grove-admission.grove.svc", "*.example.com", "127.0.0.1", "::1"),
        not_before=BEGIN,
        not_after=END,
        is_ca=False,
        fingerprint=fingerprint,
    )


def test_inspect_reads_what_make_ca_wrote() -> None:
    info = inspect(CA.cert_pem)
    assert (info.subject, info.names, info.is_ca) == ("CN=test CA", (), True)


def test_times_in_another_zone_mean_the_same_instant() -> None:
    zone = timezone(timedelta(hours=5))
    info = inspect(make_ca("test CA", BEGIN.astimezone(zone), END.astimezone(zone)).cert_pem)
    assert (info.not_before, info.not_after) == (BEGIN, END)


@pytest.mark.parametrize(
    ("names", "end", "message"),
    [
        pytest.param([], END, "at least one name", id="no name"),
        pytest.param(["bücher.example"], END, "A-label", id="a DNS name that is not ASCII"),
        pytest.param(["a.svc"], END + DAY, "expire after its CA", id="longer than its CA"),
        pytest.param(["a.svc"], BEGIN - DAY, "must be after", id="ends before it begins"),
    ],
)
def test_make_leaf_refuses(names: list[str], end: datetime, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_leaf(CA, names, BEGIN, end)


@pytest.mark.parametrize(
    ("names", "subject"),
    [
        pytest.param(["a.svc"], "CN=a.svc", id="the first name"),
        pytest.param(
            [f"{'a' * 63}.svc", "a.svc"], "CN=a.svc", id="the first that has at most 64 characters"
        ),
        pytest.param([f"{'a' * 63}.svc"], "CN=grove-admission", id="our own where none has"),
    ],
)
def test_common_name_is(names: list[str], subject: str) -> None:
    assert inspect(make_leaf(CA, names, BEGIN, END).cert_pem).subject == subject


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(
            ["a.svc", "10.0.0.1", "localhost", "::1"],
            ("a.svc", "localhost", "10.0.0.1", "::1"),
            id="both",
        ),
        pytest.param(["10.0.0.1"], ("10.0.0.1",), id="an address alone"),
    ],
)
def test_addresses_come_after_dns_names(names: list[str], expected: tuple[str, ...]) -> None:
    assert inspect(make_leaf(CA, names, BEGIN, END).cert_pem).names == expected

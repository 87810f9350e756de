"""Certificates are read, also those that are not quite as they should be, and pairs are checked.

Tests `app/certificates/certificate.py`.
"""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.hazmat.primitives.serialization import load_pem_private_key as load_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from app.certificates.certificate import (
    Pair,
    check_pair,
    inspect,
    load_certificates,
    make_ca,
    make_leaf,
    renewal_time,
)
from tests.certificates.test_issue import (
    BEGIN,
    CA,
    DAY,
    END,
    EXPIRED_CA,
    LEAF,
    NOW,
    OTHER_CA,
    OTHER_LEAF,
    SAME_NAME_CA,
)

SERIAL_0 = b"""-----BEGIN CERTIFICATE-----
MIIBXjCCAQSgAwIBAgIBADAKBggqhkjOPQQDAjANMQswCQYDVQQDDAJjYTAgFw0y
NjExMjIyMDM0NDRaGA8yMTI2MTAyOTIwMzQ0NFowDTELMAkGA1UEAwwCY2EwWTAT
BgcqhkjOPQIBBggqhkjOPQMBBwNCAAR+ZB84+4VDPBtg7vs9JV+r55uh4AwfMaED
BmPt0V6Fq0L6ibYPe13PmXF1ITBzYSN1K75VPPOBXfXfv8igc2bWo1MwUTAdBgNV
HQ4EFgQUJq+AAoqbsdetEAQwePgXRJyNi1owHwYDVR0jBBgwFoAUJq+AAoqbsdet
EAQwePgXRJyNi1owDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiEA
zz1YFwr+FwO551UxBmp8+6WnVEunuUOT6UFC1qiJhW0CIC6yVdms8ghFsEAbGXjy
y9GDTZUyDOnDPJawYQ/T9Dk5
-----END CERTIFICATE-----
"""
"""A CA as the certificate controller of Grove's operator makes it; warnings fail a test."""


def test_a_ca_with_the_serial_number_0_is_read_without_a_warning() -> None:
    (certificate,) = load_certificates(SERIAL_0)
    assert certificate.subject.rfc4514_string() == "CN=ca"


def test_pair_hides_its_key() -> None:
    assert "PRIVATE" not in repr(LEAF)
    assert "CERTIFICATE" in repr(LEAF)


@pytest.mark.parametrize(
    "pem", [b"", b"nonsense", LEAF.key_pem], ids=["empty", "nonsense", "a key"]
)
def test_inspect_raises_where_there_is_no_certificate(pem: bytes) -> None:
    with pytest.raises(ValueError, match="PEM"):
        inspect(pem)


def test_a_certificate_is_renewed_after_two_thirds_of_its_life() -> None:
    info = inspect(make_ca("test CA", BEGIN, BEGIN + 30 * DAY).cert_pem)
    assert renewal_time(info) == datetime(2026, 1, 21, tzinfo=UTC)


def _intermediate_chain() -> Pair:
    """A leaf under an intermediate CA under CA, the intermediate in the file, as cert-manager
    writes it.
    """
    root = x509.load_pem_x509_certificate(CA.cert_pem)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "intermediate")])
    middle = make_ca("intermediate", BEGIN, END)
    key = load_key(middle.key_pem, None)
    signed = (
        _base(name, root.subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(load_key(CA.key_pem, None), hashes.SHA256())  # type: ignore[arg-type]
    )
    leaf = make_leaf(middle, ["a.svc"], BEGIN, END)
    return Pair(leaf.cert_pem + signed.public_bytes(Encoding.PEM), leaf.key_pem)


def _base(subject: x509.Name, issuer: x509.Name, public_key: object) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)  # type: ignore[arg-type]
        .serial_number(1)
        .not_valid_before(BEGIN)
        .not_valid_after(END)
    )


def _rsa_pair(purpose: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH) -> Pair:
    """Somebody else's kind of certificate: RSA, self-signed."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a.svc")])
    builder = _base(name, name, key.public_key()).add_extension(
        x509.ExtendedKeyUsage([purpose]), critical=False
    )
    certificate = builder.sign(key, hashes.SHA256())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    return Pair(certificate.public_bytes(Encoding.PEM), pem)


def _encrypted(pair: Pair) -> Pair:
    key = load_key(pair.key_pem, None)
    return Pair(
        pair.cert_pem,
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")),
    )


NOT_SIGNED = "the certificate is not signed by a CA in the bundle, or that CA is not valid now"
FOREIGN_KEY = "the private key doesn't belong to the certificate"


@pytest.mark.parametrize(
    ("make", "bundle", "names", "now", "expected"),
    [
        pytest.param(
            lambda: LEAF, CA.cert_pem, ["grove-admission.grove.svc"], NOW, [], id="a good pair"
        ),
        pytest.param(
            lambda: LEAF, None, ["GROVE-admission.grove.svc"], NOW, [], id="names in any case"
        ),
        pytest.param(
            lambda: LEAF,
            None,
            ["a.example.com", "0:0::1", "127.0.0.1"],
            NOW,
            [],
            id="wildcard and addresses",
        ),
        pytest.param(
            lambda: LEAF,
            None,
            ["a.b.example.com", "example.com", "10.0.0.1"],
            NOW,
            [
                f"the certificate doesn't cover '{name}'"
                for name in ("a.b.example.com", "example.com", "10.0.0.1")
            ],
            id="every name that is missing",
        ),
        pytest.param(lambda: LEAF, OTHER_CA.cert_pem, [], NOW, [NOT_SIGNED], id="another CA"),
        pytest.param(
            lambda: LEAF,
            SAME_NAME_CA.cert_pem,
            [],
            NOW,
            [NOT_SIGNED],
            id="another CA of the same name",
        ),
        pytest.param(
            lambda: LEAF,
            SAME_NAME_CA.cert_pem + CA.cert_pem,
            [],
            NOW,
            [],
            id="old and new CA of one name in the bundle",
        ),
        pytest.param(
            lambda: LEAF, LEAF.cert_pem, [], NOW, [NOT_SIGNED], id="a bundle without a CA"
        ),
        pytest.param(
            lambda: make_leaf(EXPIRED_CA, ["a.svc"], BEGIN, NOW - DAY),
            EXPIRED_CA.cert_pem,
            [],
            NOW,
            ["the certificate expired at 2026-05-31T00:00:00+00:00", NOT_SIGNED],
            id="leaf and CA expired",
        ),
        pytest.param(
            _intermediate_chain, CA.cert_pem, ["a.svc"], NOW, [], id="a chain with an intermediate"
        ),
        pytest.param(
            _intermediate_chain,
            OTHER_CA.cert_pem,
            [],
            NOW,
            [NOT_SIGNED],
            id="a chain to another root",
        ),
        pytest.param(lambda: CA, CA.cert_pem, [], NOW, [], id="a CA itself"),
        pytest.param(
            _rsa_pair, None, [], NOW, [], id="an RSA pair without alternative names, no name asked"
        ),
        pytest.param(
            lambda: _rsa_pair(ExtendedKeyUsageOID.CLIENT_AUTH),
            None,
            ["a.svc"],
            NOW,
            [
                "the certificate can't be used by a server: its extended key usage lacks serverAuth",
                "the certificate doesn't cover 'a.svc'",
            ],
            id="a client's certificate, with only a common name",
        ),
        pytest.param(
            lambda: Pair(LEAF.cert_pem, OTHER_LEAF.key_pem),
            None,
            [],
            NOW,
            [FOREIGN_KEY],
            id="another EC key",
        ),
        pytest.param(
            lambda: Pair(LEAF.cert_pem, _rsa_pair().key_pem),
            None,
            [],
            NOW,
            [FOREIGN_KEY],
            id="an RSA key",
        ),
        pytest.param(
            lambda: LEAF,
            None,
            [],
            BEGIN - DAY,
            ["the certificate is not valid before 2026-01-01T00:00:00+00:00"],
            id="not yet valid",
        ),
        pytest.param(
            lambda: Pair(LEAF.cert_pem, OTHER_LEAF.key_pem),
            OTHER_CA.cert_pem,
            ["x.svc"],
            END + DAY,
            [
                FOREIGN_KEY,
                "the certificate expired at 2026-12-31T00:00:00+00:00",
                "the certificate doesn't cover 'x.svc'",
                NOT_SIGNED,
            ],
            id="everything at once",
        ),
    ],
)
def test_check_pair(
    make: Callable[[], Pair],
    bundle: bytes | None,
    names: list[str],
    now: datetime,
    expected: list[str],
) -> None:
    assert check_pair(make(), bundle, names, now) == expected


@pytest.mark.parametrize(
    ("pair", "bundle", "finding"),
    [
        pytest.param(
            Pair(b"x", LEAF.key_pem), None, "the certificate can't be read", id="certificate"
        ),
        pytest.param(Pair(LEAF.cert_pem, b"x"), None, "the private key can't be read", id="key"),
        pytest.param(
            _encrypted(LEAF), None, "the private key can't be read: Password", id="encrypted key"
        ),
        pytest.param(
            Pair(LEAF.key_pem, LEAF.key_pem),
            None,
            "the certificate can't be read: it has no valid PEM block of the expected type",
            id="a key as the certificate",
        ),
        pytest.param(LEAF, b"x", "the CA bundle can't be read", id="bundle"),
    ],
)
def test_check_pair_says_what_it_cannot_read(
    pair: Pair, bundle: bytes | None, finding: str
) -> None:
    findings = check_pair(pair, bundle, [], NOW)
    assert len(findings) == 1
    assert findings[0].startswith(finding)

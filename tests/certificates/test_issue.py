from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

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

from app.certificates.inspect import CertificateInfo, Pair, check_pair, inspect, renewal_time
from app.certificates.issue import make_ca, make_leaf

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


def test_pair_hides_its_key() -> None:
    assert "PRIVATE" not in repr(LEAF)
    assert "CERTIFICATE" in repr(LEAF)


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
    "pem", [b"", b"nonsense", LEAF.key_pem], ids=["empty", "nonsense", "a key"]
)
def test_inspect_raises_where_there_is_no_certificate(pem: bytes) -> None:
    with pytest.raises(ValueError, match="PEM"):
        inspect(pem)


@pytest.mark.parametrize(
    ("names", "end", "message"),
    [
        pytest.param([], END, "at least one name", id="no name"),
        pytest.param(["bücher.example"], END, "A-label", id="a DNS name that is not ASCII"),
        pytest.param(["a.svc"], END + DAY, "outlive its CA", id="longer than its CA"),
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


NOT_SIGNED = "the certificate is not signed by a CA of the bundle that is valid now"
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
                "the certificate is not for servers (its extended key usage lacks serverAuth)",
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
        pytest.param(LEAF, b"x", "the CA bundle can't be read", id="bundle"),
    ],
)
def test_check_pair_says_what_it_cannot_read(
    pair: Pair, bundle: bytes | None, finding: str
) -> None:
    findings = check_pair(pair, bundle, [], NOW)
    assert len(findings) == 1
    assert findings[0].startswith(finding)

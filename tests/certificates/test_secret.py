"""The certificate Secret, read and written."""

import base64
import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from app.certificates.rotation import Terms, new_holdings, rotated
from app.certificates.secret import BrokenHoldingsError, Holdings, read_holdings, written_holdings

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(days=200)
FIRST = new_holdings(["a.svc"], NOW, Terms())
SECOND = rotated("ca", FIRST, ["a.svc"], LATER, Terms())
OTHER = new_holdings(["a.svc"], NOW, Terms())
GOOD = written_holdings(FIRST)


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def rsa_key() -> bytes:
    key = rsa.generate_private_key(65537, 2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def with_undecodable_issuer(pem: bytes) -> bytes:
    """The certificate with an issuer that is not UTF-8.

    In DER, the issuer comes before the subject.
    """
    der = ssl.PEM_cert_to_DER_cert(pem.decode()).replace(
        b"grove-admission CA", b"\xffrove-admission CA", 1
    )
    return ssl.DER_cert_to_PEM_cert(der).encode()


@pytest.mark.parametrize(
    "holdings", [FIRST, SECOND], ids=["one CA", "a new CA beside the one that signed"]
)
def test_what_is_written_can_be_read(holdings: Holdings) -> None:
    assert read_holdings(written_holdings(holdings)) == holdings


def test_the_issuer_is_the_one_that_signed() -> None:
    assert (FIRST.issuer(), SECOND.issuer()) == (FIRST.ca.cert_pem, FIRST.ca.cert_pem)


def test_intermediates_stay_behind_the_leaf() -> None:
    data = GOOD | {"tls.crt": encoded(FIRST.leaf.cert_pem + OTHER.ca.cert_pem)}
    assert read_holdings(data).leaf.cert_pem == FIRST.leaf.cert_pem + OTHER.ca.cert_pem


def test_comments_in_the_bundle_are_not_kept() -> None:
    assert read_holdings(GOOD | {"ca.crt": encoded(b"# ours\n" + FIRST.ca.cert_pem)}) == FIRST


def test_what_has_expired_is_read_all_the_same() -> None:
    old = new_holdings(["a.svc"], datetime(2001, 1, 1, tzinfo=UTC), Terms())
    assert read_holdings(written_holdings(old)) == old


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param({}, "ca.crt is missing", id="empty"),
        pytest.param({"tls.key": None}, "tls.key is not base64", id="null"),
        pytest.param({"tls.crt": 7}, "tls.crt is not base64", id="a number"),
        pytest.param({"tls.crt": "%%%"}, "tls.crt is not base64", id="not base64"),
        pytest.param({"ca.crt": encoded(b"x")}, "ca.crt can't be read", id="no bundle"),
        pytest.param(
            {"ca.crt": encoded(with_undecodable_issuer(FIRST.ca.cert_pem))},
            "ca.crt can't be read",
            id="a damaged CA",
        ),
        pytest.param({"tls.crt": encoded(b"x")}, "tls.crt can't be read", id="no certificate"),
        pytest.param({"tls.crt": ""}, "tls.crt can't be read", id="an empty certificate"),
        pytest.param(
            {"tls.key": encoded(OTHER.leaf.key_pem)}, "key doesn't belong", id="a mismatched pair"
        ),
        pytest.param(
            {"ca.key": encoded(OTHER.ca.key_pem)},
            "CA: the private key doesn't belong",
            id="another CA key",
        ),
        pytest.param(
            {"ca.key": encoded(b"x")}, "CA: the private key can't be read", id="no CA key"
        ),
        pytest.param(
            {"ca.crt": encoded(FIRST.leaf.cert_pem), "ca.key": encoded(FIRST.leaf.key_pem)},
            "in ca.crt is not a CA certificate",
            id="a CA that is none",
        ),
        pytest.param(
            {"ca.crt": encoded(OTHER.ca.cert_pem), "ca.key": encoded(OTHER.ca.key_pem)},
            "not signed by a CA",
            id="another CA",
        ),
    ],
)
def test_what_cannot_be_used(data: dict[str, Any], message: str) -> None:
    with pytest.raises(BrokenHoldingsError, match=message):
        read_holdings(GOOD | data if data else {})


def test_all_reasons_are_given_at_once() -> None:
    mixed = GOOD | {name: written_holdings(OTHER)[name] for name in ("ca.key", "tls.key")}
    with pytest.raises(BrokenHoldingsError) as broken:
        read_holdings(mixed)
    wrong = "the private key doesn't belong to the certificate"
    assert str(broken.value) == f"CA: {wrong}; {wrong}"


def test_keys_are_never_shown() -> None:
    assert "PRIVATE" not in repr(FIRST)

"""Creates certificates.

Names and times, with time zone, are arguments: no clock and no files are used.

Keys are EC P-256. The certificates conform to RFC 5280 strictly (X509_V_FLAG_X509_STRICT of
OpenSSL, crypto/x509 of Go).
"""

from collections.abc import Sequence
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from app.certificates.inspect import (
    Pair,
    address_of,
    authority_key_identifier,
    ec_key,
    load_certificates,
)

_COMMON_NAME_LIMIT = 64


def make_ca(common_name: str, begin: datetime, end: datetime) -> Pair:
    """Return a self-signed CA that can sign serving certificates, but no other CAs."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(common_name)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = (
        _builder(subject, subject, key.public_key(), begin, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(sign_certificates=True), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
            critical=False,
        )
    )

    return _signed(builder, key, key)


def make_leaf(
    ca: Pair,
    names: Sequence[str],
    begin: datetime,
    end: datetime,
) -> Pair:
    """Return a serving certificate for `names`, signed by `ca`.

    Names are DNS names and IP addresses. Raise ValueError if there is no name, if a name is not
    allowed in a certificate, or if the certificate would expire after its CA.
    """
    dns_names = [name for name in names if address_of(name) is None]
    addresses = [address for name in names if (address := address_of(name)) is not None]
    if not names:
        raise ValueError("a serving certificate needs at least one name")

    issuer = _issuer(ca, end)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(_fitting([*dns_names, *map(str, addresses)]))
    alternatives = [*map(x509.DNSName, dns_names), *map(x509.IPAddress, addresses)]
    builder = (
        _builder(subject, issuer.subject, key.public_key(), begin, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(sign_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(authority_key_identifier(issuer), critical=False)
    )

    return _signed(builder, key, ec_key(ca.key_pem))


def _issuer(ca: Pair, end: datetime) -> x509.Certificate:
    """Return the certificate of `ca`. Raise ValueError if it ends before `end`."""
    issuer = load_certificates(ca.cert_pem)[0]
    if end.replace(microsecond=0) > issuer.not_valid_after_utc:  # certificates have whole seconds
        raise ValueError(
            f"the certificate would outlive its CA, which ends at {issuer.not_valid_after_utc}"
        )
    return issuer


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    begin: datetime,
    end: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _signed(
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
) -> Pair:
    certificate = builder.sign(signer, hashes.SHA256())
    return Pair(
        cert_pem=certificate.public_bytes(Encoding.PEM),
        key_pem=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def _subject(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _fitting(names: Sequence[str]) -> str:
    """Return a common name, which has at most 64 characters.

    Clients read only the alternative names.
    """
    return next((name for name in names if len(name) <= _COMMON_NAME_LIMIT), "grove-admission")


def _key_usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )

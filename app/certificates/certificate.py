"""Create certificates, read their fields, and check whether a server can use them.

No clock and no files are read: names and times are arguments. Times have a time zone.

New keys are EC P-256. New certificates strictly conform to RFC 5280 (OpenSSL with
X509_V_FLAG_X509_STRICT and Go's crypto/x509 accept them).
"""

import ipaddress
import warnings
from collections.abc import Iterable, Sequence
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from app.base.value import Value

_CHAIN_LIMIT = 8
"""The maximum number of certificates that are followed in a chain."""


class Pair(Value):
    """A certificate and its private key."""

    cert_pem: bytes
    """The certificate as PEM, with or without intermediates."""
    key_pem: bytes
    """The key as PEM, not encrypted."""

    def __repr__(self) -> str:
        """Return a text that does not contain the key."""
        return f"Pair(cert_pem={self.cert_pem!r})"


class CertificateInfo(Value):
    """The fields of a certificate."""

    subject: str
    """The subject in the format of RFC 4514."""
    issuer: str
    """The issuer in the format of RFC 4514."""
    names: tuple[str, ...]
    """The DNS names, followed by the IP addresses."""
    not_before: datetime
    """The time at which the certificate becomes valid, in UTC."""
    not_after: datetime
    """The time at which the certificate expires, in UTC."""
    is_ca: bool
    """Whether the certificate can sign other certificates."""
    fingerprint: str
    """The SHA-256 digest of the certificate in hex."""


def inspect(pem: bytes) -> CertificateInfo:
    """Return the fields of the first certificate in `pem`. Raise ValueError if it can't be read."""
    return _info(load_certificates(pem)[0])


def split_bundle(pem: bytes) -> tuple[bytes, ...]:
    """Return the certificates in `pem` in order, each as normalized PEM.

    Raise ValueError if there is none, or if one can't be read.
    """
    return tuple(certificate.public_bytes(Encoding.PEM) for certificate in load_certificates(pem))


def is_issued_by(cert_pem: bytes, ca_pem: bytes) -> bool:
    """Return whether the first certificate in `ca_pem` signed the first one in `cert_pem`.

    Raise ValueError if the certificates in `ca_pem` or `cert_pem` can't be read.
    """
    return _issued_by(load_certificates(cert_pem)[0], load_certificates(ca_pem)[0])


def renewal_time(info: CertificateInfo) -> datetime:
    """Return the time at which to replace a certificate: after two thirds of its validity."""
    return info.not_before + (info.not_after - info.not_before) * (2 / 3)


def load_certificates(pem: bytes) -> list[x509.Certificate]:
    """Return all certificates in `pem`.

    Raise ValueError if there is no certificate, or if one can't be parsed or has a key of an
    unknown type.
    """
    try:
        # cryptography warns about the serial number 0, which the CAs of many operators have
        with warnings.catch_warnings(action="ignore", category=CryptographyDeprecationWarning):
            certificates = x509.load_pem_x509_certificates(pem)
        for certificate in certificates:
            certificate.public_key()
            # cryptography decodes these only when they are read
            _ = certificate.extensions, certificate.subject, certificate.issuer
    except (
        UnsupportedAlgorithm,
        x509.InvalidVersion,
        x509.DuplicateExtension,
        x509.UnsupportedGeneralNameType,
    ) as error:
        raise ValueError(f"not supported: {error}") from error

    return certificates


def plainly(error: Exception) -> str:
    """Return the text of an error of reading PEM, without details of cryptography's parser."""
    if "PEM" in str(error):
        return "it has no valid PEM block of the expected type"
    return str(error)


def check_pair(
    pair: Pair, ca_bundle: bytes | None, names: Iterable[str], now: datetime
) -> list[str]:
    """Return the reasons why a server can't use `pair` for `names` at `now`.

    Besides the checks of `check_certificate`, the private key must be readable and belong to the
    certificate.
    """
    findings = check_certificate(pair.cert_pem, ca_bundle, names, now)
    try:
        leaf = load_certificates(pair.cert_pem)[0]
    except ValueError:
        return findings
    return [*_check_key(leaf, pair.key_pem), *findings]


def check_certificate(
    cert_pem: bytes, ca_bundle: bytes | None, names: Iterable[str], now: datetime
) -> list[str]:
    """Return the reasons why a client does not trust `cert_pem` for `names` at `now`.

    `cert_pem` is PEM, with or without intermediates. With a `ca_bundle` (PEM), the certificate must
    be signed by one of its CAs, directly or through intermediates. Without one, signatures are not
    checked. A name is a DNS name or an IP address.
    """
    try:
        leaf, *intermediates = load_certificates(cert_pem)
        info = _info(leaf)
    except ValueError as error:
        return [f"the certificate can't be read: {plainly(error)}"]

    findings = [*_check_time(info, now), *_check_purpose(leaf)]
    findings += [
        f"the certificate doesn't cover {name!r}" for name in names if not _covers(info.names, name)
    ]
    if ca_bundle is not None:
        findings += _check_issuer(leaf, intermediates, ca_bundle, now)

    return findings


def check_ca(ca: Pair) -> list[str]:
    """Return the reasons, except expiry, why `make_leaf` cannot sign with `ca`."""
    try:
        certificate = load_certificates(ca.cert_pem)[0]
        is_ca = _is_ca(certificate)
    except ValueError as error:
        return [f"the CA can't be read: {plainly(error)}"]
    findings = [f"CA: {finding}" for finding in _check_key(certificate, ca.key_pem)]
    if not is_ca:
        findings.append("the certificate in ca.crt is not a CA certificate")
    if not findings:
        findings += _check_signer(certificate, ca.key_pem)
    return findings


def _check_signer(certificate: x509.Certificate, key_pem: bytes) -> list[str]:
    try:
        ec_key(key_pem)
        authority_key_identifier(certificate)
    except (ValueError, x509.ExtensionNotFound) as error:
        return [f"the CA can't sign: {error}"]
    return []


def _check_key(leaf: x509.Certificate, key_pem: bytes) -> list[str]:
    try:
        key = load_pem_private_key(key_pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        return [f"the private key can't be read: {plainly(error)}"]
    encoding = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if key.public_key().public_bytes(*encoding) != leaf.public_key().public_bytes(*encoding):
        return ["the private key doesn't belong to the certificate"]
    return []


def _check_time(info: CertificateInfo, now: datetime) -> list[str]:
    if now < info.not_before:
        return [f"the certificate is not valid before {info.not_before.isoformat()}"]
    if now > info.not_after:
        return [f"the certificate expired at {info.not_after.isoformat()}"]
    return []


def _check_purpose(leaf: x509.Certificate) -> list[str]:
    try:
        usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return []
    if (
        ExtendedKeyUsageOID.SERVER_AUTH in usage
        or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in usage
    ):
        return []
    return ["the certificate can't be used by a server: its extended key usage lacks serverAuth"]


def _check_issuer(
    leaf: x509.Certificate, intermediates: list[x509.Certificate], ca_bundle: bytes, now: datetime
) -> list[str]:
    try:
        anchors = load_certificates(ca_bundle)
    except ValueError as error:
        return [f"the CA bundle can't be read: {plainly(error)}"]

    certificate = leaf
    for _ in range(_CHAIN_LIMIT):
        if _issuer_among(anchors, certificate, now):
            return []
        issuer = _issuer_among(intermediates, certificate, now)
        if issuer is None or issuer == certificate:
            break
        certificate = issuer

    return ["the certificate is not signed by a CA in the bundle, or that CA is not valid now"]


def _issuer_among(
    candidates: list[x509.Certificate], certificate: x509.Certificate, now: datetime
) -> x509.Certificate | None:
    """Return the first CA in `candidates` that is valid now and signed `certificate`, or None."""
    for candidate in candidates:
        info = _info(candidate)
        if (
            info.is_ca
            and info.not_before <= now <= info.not_after
            and _issued_by(certificate, candidate)
        ):
            return candidate
    return None


def _issued_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _covers(names: Sequence[str], name_to_cover: str) -> bool:
    """Return whether `names` cover `name_to_cover` (RFC 6125).

    DNS names are compared case-insensitively, with a wildcard for the leftmost label, and addresses
    by value.
    """
    address = address_of(name_to_cover)
    if address is not None:
        return any(address_of(name) == address for name in names)
    name_to_cover = name_to_cover.lower()
    wildcard = "*." + name_to_cover.partition(".")[2]
    return any(name.lower() in (name_to_cover, wildcard) for name in names)


def address_of(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return `name` as an IP address, or None if it is not one."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _info(certificate: x509.Certificate) -> CertificateInfo:
    return CertificateInfo(
        subject=certificate.subject.rfc4514_string(),
        issuer=certificate.issuer.rfc4514_string(),
        names=_names(certificate),
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        is_ca=_is_ca(certificate),
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
    )


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        alternatives = certificate.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value
    except x509.ExtensionNotFound:
        return ()
    addresses = alternatives.get_values_for_type(x509.IPAddress)
    return (*alternatives.get_values_for_type(x509.DNSName), *map(str, addresses))


def _is_ca(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def ec_key(key_pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Return the key in `key_pem`, not encrypted. Raise ValueError unless it is an EC key."""
    key = load_pem_private_key(key_pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the CA's key is not an elliptic-curve key")  # noqa: TRY004 - the value of a PEM, not a type
    return key


def authority_key_identifier(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    """Return the AuthorityKeyIdentifier for certificates that `issuer` signs.

    Raise ExtensionNotFound if `issuer` has no SubjectKeyIdentifier.
    """
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)


# Creation.


_COMMON_NAME_LIMIT = 64


def make_ca(common_name: str, begin: datetime, end: datetime) -> Pair:
    """Return a new self-signed CA, valid from `begin` to `end`.

    The CA can sign serving certificates, but no other CAs.
    """
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


def make_leaf(ca: Pair, names: Sequence[str], begin: datetime, end: datetime) -> Pair:
    """Return a new serving certificate for `names`, signed by `ca`, valid from `begin` to `end`.

    Names are DNS names and IP addresses. `check_ca` must find nothing wrong with `ca`. Raise
    ValueError if there is no name, if a name is not allowed in a certificate, or if `end` is after
    the end of the CA.
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
    """Return the certificate of `ca`. Raise ValueError if it expires before `end`."""
    issuer = load_certificates(ca.cert_pem)[0]
    if end.replace(microsecond=0) > issuer.not_valid_after_utc:  # certificates have whole seconds
        raise ValueError(
            "the certificate would expire after its CA, which expires at"
            f" {issuer.not_valid_after_utc}"
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
    """Return the first name that fits into a common name, which has at most 64 characters.

    If every name is longer, return a fixed text: clients check only the subject alternative names.
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

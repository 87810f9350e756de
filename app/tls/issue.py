"""Certificate arithmetic: functions of names, begin and end. No clock and no files here."""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate (PEM, perhaps with its chain) and its private key (PEM, never shown)."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class CertificateInfo:
    """What a certificate says. `names` are its DNS names and IP addresses; times are in UTC."""

    subject: str
    names: tuple[str, ...]
    begin: datetime
    end: datetime
    is_ca: bool


def make_ca(name: str, begin: datetime, end: datetime) -> Pair:
    """A self-signed authority that may sign leaves only."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name)
    builder = (
        _builder(subject, subject, key, begin, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(ca=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    return _pair(builder.sign(key, hashes.SHA256()), key)


def make_leaf(authority: Pair, names: Sequence[str], begin: datetime, end: datetime) -> Pair:
    """A serving certificate for `names` (DNS names or IP addresses, the first its subject), signed by `authority`."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    issuer_key = _load_key(authority.key)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(_subject(names[0][:64]), issuer.subject, key, begin, end)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(ca=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    return _pair(builder.sign(issuer_key, hashes.SHA256()), key)


def inspect(pem: bytes) -> CertificateInfo:
    """What the first certificate of `pem` says. ValueError where there is none."""
    certificate = x509.load_pem_x509_certificate(pem)
    return CertificateInfo(
        subject=certificate.subject.rfc4514_string(),
        names=tuple(_names(certificate)),
        begin=certificate.not_valid_before_utc,
        end=certificate.not_valid_after_utc,
        is_ca=_is_ca(certificate),
    )


def problems(pair: Pair, authority: bytes | None, names: Iterable[str], now: datetime) -> list[str]:
    """Everything that is wrong with `pair` for serving `names` at `now`; `authority` None doesn't ask who signed it."""
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate)
        key = _load_key(pair.key)
    except ValueError as problem:
        return [f"not a certificate and key that can be read: {problem}"]
    found: list[str] = []
    if key.public_key() != certificate.public_key():
        found.append("the key is not the certificate's")
    if now < certificate.not_valid_before_utc:
        found.append(f"not valid before {certificate.not_valid_before_utc.isoformat()}")
    if now >= certificate.not_valid_after_utc:
        found.append(f"expired at {certificate.not_valid_after_utc.isoformat()}")
    held = set(_names(certificate))
    found += [f"not valid for {name}" for name in names if name not in held]
    if authority is not None and not _signed_by_any(certificate, authority):
        found.append("not signed by the certificate authority")
    return found


def _signed_by_any(certificate: x509.Certificate, bundle: bytes) -> bool:
    for authority in x509.load_pem_x509_certificates(bundle):
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return True
    return False


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        held = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [*held.get_values_for_type(x509.DNSName), *map(str, held.get_values_for_type(x509.IPAddress))]


def _is_ca(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """A private key of any kind; typed as ours, which is what signing needs."""
    try:
        return serialization.load_pem_private_key(pem, password=None)  # type: ignore[return-value]
    except TypeError as problem:
        raise ValueError("the key is encrypted") from problem


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), encoded)

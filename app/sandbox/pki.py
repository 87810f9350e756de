"""A throwaway certificate authority, and one serving certificate for loopback."""

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = timedelta(days=365)
_LOOPBACK: tuple[x509.GeneralName, ...] = (
    x509.DNSName("localhost"),
    x509.DNSName("kubernetes.default.svc"),
    x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    x509.IPAddress(ipaddress.ip_address("::1")),
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, as PEM, and the CA that signed it."""

    ca: bytes
    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Writes `<name>.crt` and `<name>.key` (readable by the owner only); gives both paths."""
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        certificate.write_bytes(self.certificate)
        key.touch(mode=0o600)
        key.write_bytes(self.key)
        return certificate, key


def issue(names: tuple[x509.GeneralName, ...] = _LOOPBACK, now: datetime | None = None) -> Pair:
    """A new CA and one certificate for `names`, valid from an hour ago for a year."""
    begin = (now or datetime.now(UTC)) - timedelta(hours=1)
    ca_key, leaf_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = _name("grove-admission sandbox CA")
    ca_builder = _builder(ca_name, ca_name, ca_key, begin).add_extension(x509.BasicConstraints(True, 0), critical=True)
    ca = ca_builder.add_extension(_ca_usage(), critical=True).sign(ca_key, hashes.SHA256())
    leaf = (
        _builder(_name("grove-admission sandbox"), ca_name, leaf_key, begin)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    key = leaf_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Pair(ca.public_bytes(Encoding.PEM), leaf.public_bytes(Encoding.PEM), key)


def context(ca: bytes) -> ssl.SSLContext:
    """A client's context that trusts `ca` (PEM) alone."""
    return ssl.create_default_context(cadata=ca.decode("ascii"))


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, begin: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _ca_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )

"""Create a temporary certificate authority and serving certificates with trustme."""

from collections.abc import Sequence
from pathlib import Path

import trustme

from scripts.apiserver.objects.objects import Frozen

_LOOPBACK = ("localhost", "kubernetes.default.svc", "127.0.0.1", "::1")


class SignedPair(Frozen):
    """A certificate and its key, as PEM, and the CA that signed the certificate."""

    ca: bytes
    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write `<name>.crt` and `<name>.key`, which only the owner can read. Return both paths."""
        certificate = folder / f"{name}.crt"
        key = folder / f"{name}.key"
        certificate.write_bytes(self.certificate)
        key.touch(mode=0o600)
        key.write_bytes(self.key)
        return certificate, key


def issue(names: Sequence[str] = _LOOPBACK) -> SignedPair:
    """Return a new CA, and a serving certificate for the DNS names and IP addresses `names`."""
    authority = trustme.CA(organization_name="grove-admission sandbox")
    certificate = authority.issue_cert(*names)
    return SignedPair(
        authority.cert_pem.bytes(),
        certificate.cert_chain_pems[0].bytes(),
        certificate.private_key_pem.bytes(),
    )

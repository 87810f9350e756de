"""Where the serving certificate comes from, as the rest of the program sees it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from app.certificates.development import ensure_development_certificate, is_development
from app.certificates.inspect import plainly, split_bundle
from app.certificates.reload import FileSource, ServingCertificate
from app.config.schema import Server


class CertificateSource(Protocol):
    """Keeps `certificate` in step with its origin while `run` runs."""

    @property
    def certificate(self) -> ServingCertificate: ...

    @property
    def failures(self) -> int:
        """How many looks found something that can't be used or done."""
        ...

    @property
    def last_error(self) -> str | None:
        """What the last look found so."""
        ...

    @property
    def rotations(self) -> Mapping[str, int]:
        """How often something was replaced, by why."""
        ...

    async def run(self) -> None: ...

    def healthy(self) -> bool:
        """A certificate of this source serves, and has not expired."""
        ...

    @property
    def not_after(self) -> datetime | None:
        """When the certificate that serves expires; None before there is one."""
        ...

    @property
    def ca_not_after(self) -> datetime | None:
        """When the CA expires; None where it isn't known."""
        ...

    def ca_bundle(self) -> bytes | None:
        """What clients are to trust (PEM); None where it isn't known."""
        ...


DEVELOPMENT_NAMES = ("localhost", "127.0.0.1", "::1", "grove-admission.grove-system.svc")

Gauge = tuple[str, str, dict[str, str], float]


def file_source(directory: Path, client_cas: bytes = b"") -> FileSource:
    """The pair of `directory`, followed when its files change. Where there is no `tls.crt`, or one that was made here,
    a development pair is seen to. OSError where none can be had."""
    certificate, key = directory / "tls.crt", directory / "tls.key"
    if not certificate.exists() or is_development(directory):
        ensure_development_certificate(directory, DEVELOPMENT_NAMES, datetime.now(UTC))
    source = FileSource(certificate, key, ServingCertificate(client_cas), ca_path=directory / "ca.crt")
    source.poll()
    if source.not_after is None:
        raise OSError(source.last_error)
    return source


def client_cas_of(server: Server) -> bytes:
    if not server.client_ca_file:
        return b""
    pem = Path(server.client_ca_file).read_bytes()
    try:
        split_bundle(pem)
    except ValueError as error:
        raise OSError(f"server.clientCaFile {server.client_ca_file}: {plainly(error)}") from None
    return pem

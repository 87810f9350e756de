"""The source of the serving certificate: its Protocol, its metrics, and the choice of the source of files."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from app.certificates.development import ensure_development_certificate, is_development
from app.certificates.inspect import plainly, split_bundle
from app.certificates.reload import FileSource, ServingCertificate
from app.config.schema import Server
from app.kube.gauge import Gauge


class CertificateSource(Protocol):
    """Updates `certificate` while `run` runs."""

    @property
    def certificate(self) -> ServingCertificate: ...

    @property
    def failures(self) -> int:
        """The number of looks that failed."""
        ...

    @property
    def last_error(self) -> str | None:
        """The reason why the last look failed, or None."""
        ...

    @property
    def rotations(self) -> Mapping[str, int]:
        """The number of replacements by reason."""
        ...

    def restarts(self) -> Mapping[str, Mapping[str, int]]:
        """The number of restarts of the watches of this source by resource and reason."""
        ...

    async def run(self) -> None: ...

    def healthy(self) -> bool:
        """Whether a certificate of this source is loaded and has not expired."""
        ...

    @property
    def not_after(self) -> datetime | None:
        """The time at which the serving certificate expires; None if there is none."""
        ...

    @property
    def ca_not_after(self) -> datetime | None:
        """The time at which the CA expires; None if it is not known."""
        ...

    def ca_bundle(self) -> bytes | None:
        """The CAs (PEM) that clients must trust; None if they are not known."""
        ...


class CertificatePart:
    """The readiness check and the metrics of `source`."""

    def __init__(self, source: CertificateSource) -> None:
        self.source = source

    def checks(self) -> dict[str, str | None]:
        return {"certificate": None if self.source.healthy() else self._problem()}

    def notes(self) -> dict[str, str]:
        return {}

    def gauges(self) -> Iterator[Gauge]:
        source = self.source
        if source.not_after is not None:
            text = "When the serving certificate expires, in seconds since the epoch."
            yield "certificate_expiry_timestamp_seconds", text, {}, source.not_after.timestamp()
        if source.ca_not_after is not None:
            text = "When the CA expires, in seconds since the epoch."
            yield "certificate_ca_expiry_timestamp_seconds", text, {}, source.ca_not_after.timestamp()
        for reason, count in source.rotations.items():
            yield "certificate_rotations_total", "Certificates replaced, by why.", {"reason": reason}, count
        text = "Looks at certificates that found something that can't be used or done."
        yield "certificate_failures_total", text, {}, source.failures
        for resource, restarts in source.restarts().items():
            for reason, count in restarts.items():
                labels = {"resource": resource, "reason": reason}
                yield "watch_restarts_total", "Watches begun again.", labels, count

    def _problem(self) -> str:
        state = "is not there yet" if self.source.not_after is None else "has expired"
        return f"{state}: {self.source.last_error}" if self.source.last_error else state


DEVELOPMENT_NAMES = ("localhost", "127.0.0.1", "::1", "grove-admission.grove-system.svc")


def file_source(directory: Path, client_cas: bytes = b"") -> FileSource:
    """The source of the files in `directory`. If there is no `tls.crt`, or if it is a development certificate, a
    development certificate is created or renewed. Raises OSError if there is no usable certificate."""
    certificate, key = directory / "tls.crt", directory / "tls.key"
    if not certificate.exists() or is_development(directory):
        ensure_development_certificate(directory, DEVELOPMENT_NAMES, datetime.now(UTC))
    source = FileSource(certificate, key, ServingCertificate(client_cas), ca_path=directory / "ca.crt")
    source.poll()
    if source.not_after is None:
        raise OSError(source.last_error)
    return source


def client_cas_of(server: Server) -> bytes:
    """The content (PEM) of `server.clientCaFile`, or b"" without one. Raises OSError if it is not usable."""
    if not server.client_ca_file:
        return b""
    pem = Path(server.client_ca_file).read_bytes()
    try:
        split_bundle(pem)
    except ValueError as error:
        raise OSError(f"server.clientCaFile {server.client_ca_file}: {plainly(error)}") from None
    return pem

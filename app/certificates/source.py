"""Where the serving certificate comes from, as the rest of the program sees it."""

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

    def restarts(self) -> Mapping[str, Mapping[str, int]]:
        """How often the watches of this source began again, by resource and reason."""
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
        """When the CA expires; None if it isn't known."""
        ...

    def ca_bundle(self) -> bytes | None:
        """What clients are to trust (PEM); None if it isn't known."""
        ...


class CertificatePart:
    """What `source` reports: whether a certificate serves, and numbers for metrics."""

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
    """The pair of `directory`, followed when its files change. If there is no `tls.crt`, or one that was made here,
    a development pair is seen to. OSError if none can be had."""
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

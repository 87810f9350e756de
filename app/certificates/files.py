"""The serving certificate from files: those of a mounted Secret, or those of development."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from app.certificates.development import ensure_development_certificate, is_development
from app.certificates.inspect import CertificateInfo, Pair, check_pair, plainly, split_bundle
from app.certificates.reload import BrokenPairError, ServingCertificate
from app.certificates.source import CertificateSource, utc_now
from app.config.schema import Server

DEVELOPMENT_NAMES = ("localhost", "127.0.0.1", "::1", "grove-admission.grove-system.svc")
LOOK_SECONDS = 10.0

logger = logging.getLogger(__name__)


class FileSource(CertificateSource):
    """Loads a ServingCertificate from `tls.crt` and `tls.key` in `directory` after each change.

    It compares the content of the files, so that it does not matter how they are replaced. A pair that is invalid,
    mismatched (because it was read during a change) or not valid now is not loaded, and is tried again at the next
    look. `ca.crt` is the CA bundle of the pair. `rotations` counts reloads, and `failures` counts looks at an unusable
    pair.
    """

    def __init__(
        self, directory: Path, certificate: ServingCertificate, *, now: Callable[[], datetime] = utc_now
    ) -> None:
        super().__init__(certificate, now)
        self._directory = directory
        self._loaded: Pair | None = None

    async def run(self) -> None:
        """Looks at the files now and every `LOOK_SECONDS`, until it is cancelled."""
        while True:
            self.poll()
            await asyncio.sleep(LOOK_SECONDS)

    def poll(self) -> bool:
        """Looks at the files once. Returns whether a new pair was loaded. Does not raise for the content of the
        files."""
        try:
            loaded = self._load_changes()
        except (OSError, BrokenPairError) as error:
            self._note_failure(str(error))
            return False
        self.last_error = None
        if loaded is None:
            return False
        logger.info("serving certificate loaded: %s, valid until %s", loaded.subject, loaded.not_after.isoformat())
        return True

    @property
    def not_after(self) -> datetime | None:
        return self.certificate.info.not_after if self.certificate.info else None

    def ca_bundle(self) -> bytes | None:
        """The content of the CA bundle now; None if it cannot be read."""
        try:
            return (self._directory / "ca.crt").read_bytes()
        except OSError:
            return None

    def _load_changes(self) -> CertificateInfo | None:
        pair = Pair((self._directory / "tls.crt").read_bytes(), (self._directory / "tls.key").read_bytes())
        if pair == self._loaded:
            return None
        if findings := check_pair(pair, None, (), self._now()):
            raise BrokenPairError("; ".join(findings))
        info = self.certificate.load(pair)
        if self._loaded is not None:
            self.rotations["reload"] += 1
        self._loaded = pair
        return info

    def _note_failure(self, reason: str) -> None:
        self.failures += 1
        if reason != self.last_error:
            effect = "the one before goes on" if self._loaded else "nothing can be served"
            logger.error("serving certificate %s not loaded, %s: %s", self._directory / "tls.crt", effect, reason)
        self.last_error = reason


def file_source(directory: Path, client_cas: bytes = b"") -> FileSource:
    """The source of the files in `directory`. If there is no `tls.crt`, or if it is a development certificate, a
    development certificate is created or renewed. Raises OSError if there is no usable certificate."""
    if not (directory / "tls.crt").exists() or is_development(directory):
        ensure_development_certificate(directory, DEVELOPMENT_NAMES, datetime.now(UTC))
    source = FileSource(directory, ServingCertificate(client_cas))
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

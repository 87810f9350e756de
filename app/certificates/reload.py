"""The certificate that the server shows, replaced while it serves, and a source that reads it from files."""

import asyncio
import contextlib
import logging
import os
import ssl
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from app.certificates.inspect import CertificateInfo, Pair, check_pair, inspect, plainly, split_bundle

logger = logging.getLogger(__name__)


class BrokenPairError(ValueError):
    """This certificate and key can't serve; the message says why."""


class ServingCertificate:
    """A server-side SSL context whose certificate can be replaced between two handshakes.

    Every handshake is handed to the context of the newest good pair. Loading into one live context instead would
    leave the old certificate beside the new one if the kind of key changes, and a half-loaded pair if it fails.
    With `client_cas` (PEM) a client may show a certificate, which has to lead to one of them; whether it has to is for
    the app to say. ValueError if they can't be read.
    """

    def __init__(self, client_cas: bytes = b"") -> None:
        self._client_cas = client_cas
        self.context = _server_context(client_cas)
        self.context.sni_callback = self._hand_over
        self.info: CertificateInfo | None = None
        self._newest: ssl.SSLContext | None = None

    def load(self, pair: Pair) -> CertificateInfo:
        """Shows `pair` from the next handshake on. BrokenPairError if it can't serve: then nothing has changed."""
        context = _server_context(self._client_cas)
        try:
            info = inspect(pair.cert_pem)
            with _as_file(pair.cert_pem) as certificate, _as_file(pair.key_pem) as key:
                context.load_cert_chain(certificate, key, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            raise BrokenPairError("; ".join(_reasons(pair)) or plainly(error)) from error
        self._newest, self.info = context, info
        return info

    def _hand_over(self, connection: ssl.SSLObject, _name: str, _context: ssl.SSLContext) -> int | None:
        """Called in each handshake, with or without a server name, before a certificate is chosen."""
        if self._newest is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._newest
        return None


def _utc_now() -> datetime:
    return datetime.now(UTC)


class FileSource:
    """Keeps a ServingCertificate in step with two files, such as those of a mounted Secret.

    It compares contents: symlinks that are swapped, files that are replaced and files that keep their time stamp are
    all the same to it. A pair that is broken, mismatched (read in the middle of a change) or not valid now never
    replaces one that serves; it is tried again at the next look. `ca_path` may name the CA bundle that lies beside
    them: it is only told on, to those who ask. `rotations` counts reloads, `failures` looks at what can't be used.
    """

    def __init__(
        self,
        cert_path: Path,
        key_path: Path,
        certificate: ServingCertificate,
        *,
        ca_path: Path | None = None,
        interval: float = 10.0,
        on_reload: Callable[[CertificateInfo], None] | None = None,
        now: Callable[[], datetime] = _utc_now,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.last_error: str | None = None
        self.failures = 0
        self.rotations: Counter[str] = Counter()
        self._paths, self._ca_path = (cert_path, key_path), ca_path
        self.certificate = certificate
        self._interval, self._on_reload, self._now, self._sleep = interval, on_reload, now, sleep
        self._loaded: Pair | None = None

    async def run(self) -> None:
        """Looks at the files now and then every `interval` seconds, until cancelled."""
        while True:
            self.poll()
            await self._sleep(self._interval)

    def poll(self) -> bool:
        """Looks once; True if a new pair was loaded. Never raises for what is in the files."""
        try:
            loaded = self._load_changes()
        except (OSError, BrokenPairError) as error:
            self._note_failure(str(error))
            return False
        self.last_error = None
        if loaded is None:
            return False
        logger.info("serving certificate loaded: %s, valid until %s", loaded.subject, loaded.not_after.isoformat())
        if self._on_reload:
            self._on_reload(loaded)
        return True

    @property
    def not_after(self) -> datetime | None:
        """When the certificate that serves expires; None before one is loaded."""
        return self.certificate.info.not_after if self.certificate.info else None

    @property
    def ca_not_after(self) -> datetime | None:
        """When the first CA of the bundle expires; None if there is none that can be read."""
        try:
            return inspect(self.ca_bundle() or b"").not_after
        except ValueError:
            return None

    def ca_bundle(self) -> bytes | None:
        """The CA bundle as it lies there now; None without one."""
        try:
            return self._ca_path.read_bytes() if self._ca_path else None
        except OSError:
            return None

    def restarts(self) -> Mapping[str, Mapping[str, int]]:
        return {}

    def healthy(self) -> bool:
        """A certificate serves and has not expired. A failed reload alone (see `last_error`) is no reason to stop."""
        return self.not_after is not None and self._now() <= self.not_after

    def _load_changes(self) -> CertificateInfo | None:
        pair = Pair(*(path.read_bytes() for path in self._paths))
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
            kept = "the one before goes on" if self._loaded else "nothing can be served"
            logger.error("serving certificate %s not loaded, %s: %s", self._paths[0], kept, reason)
        self.last_error = reason


def _server_context(client_cas: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    if client_cas:
        context.verify_mode = ssl.CERT_OPTIONAL
        for pem in split_bundle(client_cas):
            context.load_verify_locations(cadata=pem.decode("ascii"))
    return context


def _no_password() -> str:
    """Without this an encrypted key would ask on the terminal."""
    raise BrokenPairError("the private key is encrypted")


def _reasons(pair: Pair) -> list[str]:
    """Why OpenSSL refused, in our words; when the pair is valid is not asked here."""
    try:
        now = inspect(pair.cert_pem).not_before
    except ValueError:
        now = datetime.min.replace(tzinfo=UTC)
    return check_pair(pair, None, (), now)


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path for the ssl module, which reads keys only from files: in memory if the system can, so that a key
    never reaches a disk and a read-only root file system will do."""
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{descriptor}"

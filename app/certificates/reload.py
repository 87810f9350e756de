"""The certificate of the server, which can be replaced while it serves, and a source that reads it from files."""

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
    """This certificate and key cannot serve, for the reasons in the message."""


class ServingCertificate:
    """A server-side SSL context whose certificate can be replaced between two handshakes.

    Every handshake uses the context of the newest valid pair. If pairs were loaded into the same context, it would have
    two certificates after a change of the key type, and a mismatched pair after an error. With `client_cas` (PEM), a
    client may show a certificate that one of them signed; the app decides whether it must. Raises ValueError if
    `client_cas` are invalid.
    """

    def __init__(self, client_cas: bytes = b"") -> None:
        self._client_cas = client_cas
        self.context = _server_context(client_cas)
        self.context.sni_callback = self._hand_over
        self.info: CertificateInfo | None = None
        self._newest: ssl.SSLContext | None = None

    def load(self, pair: Pair) -> CertificateInfo:
        """Uses `pair` from the next handshake. Raises BrokenPairError, without a change, if it cannot serve."""
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
        """The `sni_callback`, which is called in each handshake before a certificate is chosen."""
        if self._newest is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._newest
        return None


def _utc_now() -> datetime:
    return datetime.now(UTC)


class FileSource:
    """Loads a ServingCertificate from two files, such as those of a mounted Secret, after each change.

    It compares the content of the files, so that it does not matter how they are replaced. A pair that is invalid,
    mismatched (because it was read during a change) or not valid now is not loaded, and is tried again at the next
    look. `ca_path` is the CA bundle of the pair, for `ca_bundle`. `rotations` counts reloads, and `failures` counts
    looks at an unusable pair.
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
        """Looks at the files now and every `interval` seconds, until it is cancelled."""
        while True:
            self.poll()
            await self._sleep(self._interval)

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
        if self._on_reload:
            self._on_reload(loaded)
        return True

    @property
    def not_after(self) -> datetime | None:
        """The time at which the serving certificate expires; None before one is loaded."""
        return self.certificate.info.not_after if self.certificate.info else None

    @property
    def ca_not_after(self) -> datetime | None:
        """The time at which the first CA of the bundle expires; None if it cannot be read."""
        try:
            return inspect(self.ca_bundle() or b"").not_after
        except ValueError:
            return None

    def ca_bundle(self) -> bytes | None:
        """The content of the CA bundle now; None if it cannot be read."""
        try:
            return self._ca_path.read_bytes() if self._ca_path else None
        except OSError:
            return None

    def restarts(self) -> Mapping[str, Mapping[str, int]]:
        return {}

    def healthy(self) -> bool:
        """Whether a certificate is loaded and has not expired, even if a later reload failed (`last_error`)."""
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
            effect = "the one before goes on" if self._loaded else "nothing can be served"
            logger.error("serving certificate %s not loaded, %s: %s", self._paths[0], effect, reason)
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
    """Prevents OpenSSL from asking for a password on the terminal."""
    raise BrokenPairError("the private key is encrypted")


def _reasons(pair: Pair) -> list[str]:
    """The reasons why OpenSSL rejected `pair`, without regard to its validity period."""
    try:
        now = inspect(pair.cert_pem).not_before
    except ValueError:
        now = datetime.min.replace(tzinfo=UTC)
    return check_pair(pair, None, (), now)


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path to `content` for the ssl module, which reads keys only from files. If the system supports it, the file is
    in memory, so that keys are not written to a disk and the root file system can be read-only."""
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

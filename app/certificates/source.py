"""The certificate of the server, which can be replaced while it serves.

Its source has what readiness and metrics read of it, whichever source it is.
"""

import contextlib
import os
import ssl
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

from app.base.sample import Part, Sample, counter, gauge
from app.certificates.certificate import (
    CertificateInfo,
    Pair,
    check_pair,
    inspect,
    plainly,
    split_bundle,
)


class BrokenPairError(ValueError):
    """This certificate and key cannot serve, for the reasons in the message."""


class ServingCertificate:
    """A server-side SSL context whose certificate can be replaced between two handshakes.

    Every handshake uses the context of the newest valid pair. If pairs were loaded into the same
    context, it would have two certificates after a change of the key type, and a mismatched pair
    after an error. With `client_cas` (PEM), a client may show a certificate that one of them
    signed; the app decides whether it must. Raises ValueError if `client_cas` are invalid.
    """

    def __init__(self, client_cas: bytes = b"") -> None:
        self.client_cas = client_cas
        self.context = self._first_context(client_cas)
        """The context with which a handshake begins. Other client CAs have another one.

        A client can resume the sessions of one context, and shows no certificate then.
        """
        self.info: CertificateInfo | None = None
        self._pair: Pair | None = None
        self._newest: ssl.SSLContext | None = None

    def load(self, pair: Pair) -> CertificateInfo:
        """Use `pair` from the next handshake.

        Raise BrokenPairError, without a change, if it cannot serve.
        """
        try:
            info = inspect(pair.cert_pem)
            context = _context_of(pair, self.client_cas)
        except (ssl.SSLError, ValueError) as error:
            raise BrokenPairError("; ".join(_reasons(pair)) or plainly(error)) from error
        self._pair = pair
        self._newest = context
        self.info = info
        return info

    def trust_clients(self, client_cas: bytes) -> None:
        """Use `client_cas` (PEM) from the next handshake, in place of the former ones.

        Raise ValueError or OSError, without a change, if they are invalid.
        """
        context = self._first_context(client_cas)
        if self._pair:
            self._newest = _context_of(self._pair, client_cas)
        self.context = context
        self.client_cas = client_cas

    def _first_context(self, client_cas: bytes) -> ssl.SSLContext:
        context = _server_context(client_cas)
        context.sni_callback = self._hand_over
        return context

    def _hand_over(
        self,
        connection: ssl.SSLObject,
        _name: str,
        _context: ssl.SSLContext,
    ) -> int | None:
        """Choose the certificate of a handshake, as its `sni_callback`."""
        if self._newest is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._newest
        return None


def _context_of(pair: Pair, client_cas: bytes) -> ssl.SSLContext:
    context = _server_context(client_cas)
    with _as_file(pair.cert_pem) as certificate, _as_file(pair.key_pem) as key:
        context.load_cert_chain(certificate, key, password=_no_password)
    return context


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
    """Return the reasons why OpenSSL rejected `pair`, without regard to its validity period."""
    try:
        now = inspect(pair.cert_pem).not_before
    except ValueError:
        now = datetime.min.replace(tzinfo=UTC)
    return check_pair(pair, None, (), now)


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield a path to `content` for the ssl module, which reads keys only from files.

    If the system supports it, the file is in memory, so that keys are not written to a disk and the
    root file system can be read-only.
    """
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


class CertificateSource(Part, ABC):
    """A source of `certificate`, which it updates while `run` runs.

    `rotations` counts replacements by reason, and `failures` counts looks that failed. `last_error`
    is the reason why the last look failed, or None. `now` is the wall clock with time zone.
    """

    def __init__(self, certificate: ServingCertificate, now: Callable[[], datetime]) -> None:
        self.certificate = certificate
        self.rotations: Counter[str] = Counter()
        self.failures = 0
        self.last_error: str | None = None
        self._now = now

    @abstractmethod
    async def run(self) -> None:
        """Run until it is cancelled."""

    @property
    def not_after(self) -> datetime | None:
        """The time at which the serving certificate of this source expires.

        None before one is loaded.
        """
        return self.certificate.info.not_after if self.certificate.info else None

    @abstractmethod
    def ca_bundle(self) -> bytes | None:
        """Return the CAs (PEM) that clients must trust; None if they are not known."""

    def restarts(self) -> Mapping[str, Mapping[str, int]]:
        """Return the number of restarts of the watches of this source by resource and reason."""
        return {}

    def healthy(self) -> bool:
        """Return whether a certificate of this source is loaded and has not expired.

        It stays true if a later look failed.
        """
        return self.not_after is not None and self._now() <= self.not_after

    @property
    def ca_not_after(self) -> datetime | None:
        """The time at which the first CA of the bundle expires; None if it is not known."""
        try:
            return inspect(self.ca_bundle() or b"").not_after
        except ValueError:
            return None

    def checks(self) -> dict[str, str | None]:
        return {"certificate": None if self.healthy() else self._problem()}

    def samples(self) -> Iterator[Sample]:
        if self.not_after is not None:
            text = "When the serving certificate expires, in seconds since the epoch."
            yield gauge("certificate_expiry_timestamp_seconds", text, self.not_after.timestamp())
        if (ca_not_after := self.ca_not_after) is not None:
            text = "When the CA expires, in seconds since the epoch."
            yield gauge("certificate_ca_expiry_timestamp_seconds", text, ca_not_after.timestamp())

        text = "Certificates replaced, by why."
        for reason, count in self.rotations.items():
            yield counter("certificate_rotations_total", text, count, reason=reason)

        text = "Looks at certificates that found something that can't be used or done."
        yield counter("certificate_failures_total", text, self.failures)

        text = "Watches begun again."
        for resource, restarts in self.restarts().items():
            for reason, count in restarts.items():
                yield counter("watch_restarts_total", text, count, resource=resource, reason=reason)

    def _problem(self) -> str:
        state = "is not there yet" if self.not_after is None else "has expired"
        return f"{state}: {self.last_error}" if self.last_error else state

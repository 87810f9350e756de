"""The certificate of the server, which can be replaced while it serves."""

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime

from app.certificates.inspect import CertificateInfo, Pair, check_pair, inspect, plainly, split_bundle


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

"""Serve a certificate that can be replaced while the server runs, and load it from files.

A source provides the certificate, its readiness check and its metrics. The files are a mounted
Secret, or a development certificate and its CA, which the first start creates in a directory. The
client CAs are in the file `server.clientCaFile`. All files are loaded again after a change.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import ssl
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from app.base.mounted import read_mounted
from app.base.sample import Checks, Part, Sample, counter, gauge
from app.certificates.certificate import (
    CertificateInfo,
    Pair,
    check_pair,
    inspect,
    make_ca,
    plainly,
    split_bundle,
)
from app.certificates.groups import restrict_groups
from app.certificates.rotation import Terms, new_leaf
from app.objects.time import Now, utc_now

DEVELOPMENT_NAMES = ("localhost", "127.0.0.1", "::1", "grove-admission.grove-system.svc")
LOOK_SECONDS = 10.0
"""The time between two checks of the files, in seconds."""
_CA_NAME = "grove-admission development CA"
_TERMS = Terms(timedelta(days=3650), timedelta(days=365))
_SPARE = timedelta(days=7)
"""The remaining validity period below which a development certificate is replaced."""

logger = logging.getLogger(__name__)


class BrokenPairError(ValueError):
    """A certificate and key can't be used, for the reasons in the message."""


class ServingCertificate:
    """A server-side SSL context whose certificate can be replaced between two handshakes.

    Every handshake uses the context of the newest valid pair. Each pair gets a new context. If
    several pairs were loaded into one context, it would have two certificates after a change of the
    key type, and a mismatched pair after an error.

    With `client_cas` (PEM), a client may present a certificate that one of these CAs signed. The
    application decides whether the client must. The constructor raises ValueError or SSLError if
    `client_cas` are invalid.
    """

    def __init__(self, client_cas: bytes = b"") -> None:
        self.client_cas = client_cas
        self.context = self._first_context(client_cas)
        """The context with which a handshake begins.

        The context is replaced together with the client CAs. A client that resumes a session
        presents no certificate, but it can resume only sessions of the same context.
        """
        self.info: CertificateInfo | None = None
        """The fields of the loaded certificate, or None if none is loaded yet."""
        self._pair: Pair | None = None
        self._newest: ssl.SSLContext | None = None

    def load(self, pair: Pair) -> CertificateInfo:
        """Use `pair` from the next handshake on, and return the fields of its certificate.

        If `pair` can't be used, change nothing, and raise BrokenPairError.
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
        """Use `client_cas` (PEM) instead of the previous client CAs from the next handshake on.

        If `client_cas` are invalid, change nothing, and raise ValueError or OSError.
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
        self, connection: ssl.SSLObject, _name: str, _context: ssl.SSLContext
    ) -> int | None:
        """Give the newest context to a handshake, as its `sni_callback`.

        Return None, or the TLS alert that ends the handshake if no certificate is loaded yet.
        """
        if self._newest is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._newest
        return None


def _context_of(pair: Pair, client_cas: bytes) -> ssl.SSLContext:
    """Return a new context that serves `pair`. Raise SSLError or ValueError if it is unusable."""
    context = _server_context(client_cas)
    with _as_file(pair.cert_pem) as certificate, _as_file(pair.key_pem) as key:
        context.load_cert_chain(certificate, key, password=_no_password)
    return context


def _server_context(client_cas: bytes) -> ssl.SSLContext:
    """Return a new context without a certificate.

    Raise ValueError or SSLError if `client_cas` are invalid.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    restrict_groups(context)
    if client_cas:
        context.verify_mode = ssl.CERT_OPTIONAL
        for pem in split_bundle(client_cas):
            context.load_verify_locations(cadata=pem.decode("ascii"))
    return context


def _no_password() -> str:
    """Raise BrokenPairError, so that OpenSSL does not ask for a password on the terminal."""
    raise BrokenPairError("the private key is encrypted: store it without a password")


def _reasons(pair: Pair) -> list[str]:
    """Return the reasons why OpenSSL may have rejected `pair`.

    The validity period is not examined, because OpenSSL loads expired certificates.
    """
    try:
        now = inspect(pair.cert_pem).not_before
    except ValueError:
        now = datetime.min.replace(tzinfo=UTC)
    return check_pair(pair, None, (), now)


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield the path of a file with `content`, because the ssl module reads keys only from files.

    On Linux, the file is in memory. So no key is written to a disk, and the root file system can be
    read-only.
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
    """A source that keeps `certificate` up to date while `run` runs.

    `now` returns the time with a time zone.
    """

    def __init__(self, certificate: ServingCertificate, now: Now) -> None:
        self.certificate = certificate
        self.rotations: Counter[str] = Counter()
        """The number of times that this replica changed the Secret or reloaded files, by reason."""
        self.failures = 0
        """The number of checks that found a problem."""
        self.last_error: str | None = None
        """The reason why the last check failed, or None if it succeeded."""
        self._now = now

    @abstractmethod
    async def run(self) -> None:
        """Keep the certificate up to date until cancelled."""

    @property
    def not_after(self) -> datetime | None:
        """The time at which the serving certificate expires, or None if none is loaded yet."""
        return self.certificate.info.not_after if self.certificate.info else None

    @abstractmethod
    def ca_bundle(self) -> bytes | None:
        """Return the CAs (PEM) that clients must trust, or None if they are not known."""

    def healthy(self) -> bool:
        """Return whether a certificate of this source is loaded and has not expired.

        A check that fails later does not change this: the loaded certificate stays in use.
        """
        return self.not_after is not None and self._now() <= self.not_after

    @property
    def ca_not_after(self) -> datetime | None:
        """The time at which the first CA in the bundle expires, or None if it can't be read."""
        try:
            return inspect(self.ca_bundle() or b"").not_after
        except ValueError:
            return None

    def checks(self) -> Checks:
        return {"certificate": None if self.healthy() else self._problem()}

    def samples(self) -> Iterator[Sample]:
        if self.not_after is not None:
            text = "Time at which the serving certificate expires, in seconds since the epoch."
            yield gauge("certificate_expiry_timestamp_seconds", text, self.not_after.timestamp())
        if (ca_not_after := self.ca_not_after) is not None:
            text = "Time at which the CA expires, in seconds since the epoch."
            yield gauge("certificate_ca_expiry_timestamp_seconds", text, ca_not_after.timestamp())

        text = "Changes of the certificate Secret by this replica, or reloads of files, by reason."
        for reason, count in self.rotations.items():
            yield counter("certificate_rotations_total", text, count, reason=reason)

        text = "Checks of the certificate that failed."
        yield counter("certificate_failures_total", text, self.failures)

    def _load(self, pair: Pair) -> None:
        """Use `pair` from the next handshake on. Raise BrokenPairError if it can't be used."""
        info = self.certificate.load(pair)
        until = info.not_after.isoformat()
        logger.info("serving certificate loaded: %s, valid until %s", info.subject, until)

    def _note(self, what: str, problem: str) -> None:
        """Count `problem`, and log it if it is new. "" means that there is no problem.

        `what` begins the log message.
        """
        if problem:
            self.failures += 1
        if problem and problem != self.last_error:
            effect = (
                "the loaded certificate stays in use"
                if self.healthy()
                else "no valid certificate is loaded"
            )
            logger.error("%s, %s: %s", what, effect, problem)
        self.last_error = problem or None

    def _problem(self) -> str:
        """Return the reason why no valid certificate is loaded, for the readiness check."""
        state = "is not loaded yet" if self.not_after is None else "has expired"
        return f"{state}: {self.last_error}" if self.last_error else state


class FileSource(CertificateSource):
    """A source that loads `tls.crt` and `tls.key` in `directory` after each change.

    A pair that is unusable, for example because it was read during a change, is not loaded, and is
    tried again at the next check. `ca.crt` is the CA bundle of the pair. `rotations` counts
    reloads, and `failures` counts checks that found no usable pair.
    """

    def __init__(
        self,
        directory: Path,
        certificate: ServingCertificate,
        *,
        now: Now = utc_now,
    ) -> None:
        super().__init__(certificate, now)
        self._directory = directory
        self._loaded: Pair | None = None

    async def run(self) -> None:
        """Check the files now and every `LOOK_SECONDS`, until cancelled."""
        while True:
            self.poll()
            await asyncio.sleep(LOOK_SECONDS)

    def poll(self) -> bool:
        """Check the files once, and return whether a new pair was loaded.

        If the files are unusable, count and log the problem, and return False.
        """
        try:
            is_new = self._load_changes()
        except (OSError, BrokenPairError) as error:
            path = self._directory / "tls.crt"
            self._note(f"could not load the serving certificate {path}", str(error))
            return False

        self.last_error = None
        return is_new

    def ca_bundle(self) -> bytes | None:
        """Return the current content of the CA bundle, or None if it can't be read."""
        try:
            return read_mounted(self._directory / "ca.crt")
        except OSError:
            return None

    def _load_changes(self) -> bool:
        """Load the files if they have changed, and return whether they have changed.

        Raise OSError or BrokenPairError if the changed files are unusable.
        """
        pair = Pair(
            read_mounted(self._directory / "tls.crt"), read_mounted(self._directory / "tls.key")
        )
        if pair == self._loaded:
            return False
        if findings := check_pair(pair, None, (), self._now()):
            raise BrokenPairError("; ".join(findings))

        self._load(pair)
        if self._loaded:
            self.rotations["reload"] += 1

        self._loaded = pair
        return True


def file_source(directory: Path, client_cas: bytes) -> FileSource:
    """Return a source that has loaded the files in `directory`.

    If there is no `tls.crt`, create a development certificate first. If there is a development
    certificate, renew it if necessary. Raise OSError if there is no usable certificate.
    """
    if not (directory / "tls.crt").exists() or is_development(directory):
        ensure_development_certificate(directory, DEVELOPMENT_NAMES, utc_now())
    source = FileSource(directory, ServingCertificate(client_cas))
    source.poll()
    if source.not_after is None:
        raise OSError(f"the certificate in {directory} can't be used: {source.last_error}")
    return source


def ensure_development_certificate(directory: Path, names: Sequence[str], now: datetime) -> None:
    """Ensure that `directory` has a serving certificate (tls.crt, tls.key) for `names`.

    The CA in the directory (ca.crt, ca.key) signs it. A certificate that is valid for 7 more days
    and covers the names is kept. Otherwise, a new one is created, with a new CA if the CA expires
    within 7 days or is unusable. A name is a DNS name or an IP address. Raise FileExistsError, and
    overwrite nothing, if the directory has certificates but no ca.key, which this program always
    writes first.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with _locked(directory):
        _refuse_foreign(directory)
        ca = _read(directory, "ca")
        if not ca or _is_bad(ca, None, (), now) or not inspect(ca.cert_pem).is_ca:
            ca = make_ca(_CA_NAME, now - _TERMS.skew, now + _TERMS.ca_life)
            write_pair(ca, directory, "ca")
        leaf = _read(directory, "tls")
        if not leaf or _is_bad(leaf, ca.cert_pem, names, now):
            write_pair(new_leaf(ca, names, now, _TERMS), directory, "tls")


def is_development(directory: Path) -> bool:
    """Return whether the certificates in `directory` are development certificates of this program.

    The subject of the CA decides, because `grove-admission certs make` creates files with the same
    names. A ca.key without a valid ca.crt, which a crash may leave, counts too.
    """
    ca = _read(directory, "ca")
    if not ca:
        return (directory / "ca.key").exists()
    try:
        return inspect(ca.cert_pem).subject == f"CN={_CA_NAME}"
    except ValueError:
        return True


def _refuse_foreign(directory: Path) -> None:
    """Raise FileExistsError for files without a ca.key, which this program always writes first."""
    for path in (directory / "tls.crt", directory / "tls.key", directory / "ca.crt"):
        if path.exists() and not (directory / "ca.key").exists():
            raise FileExistsError(
                f"{path} was not created by this command: there is no ca.key next to it. Move it to"
                " another directory, or choose another directory with --certs DIR"
            )


def _is_bad(pair: Pair, ca_bundle: bytes | None, names: Sequence[str], now: datetime) -> bool:
    """Return whether `pair` can't serve `names` now, or won't be able to after _SPARE."""
    return any(check_pair(pair, ca_bundle, names, at) for at in (now, now + _SPARE))


def _read(directory: Path, name: str) -> Pair | None:
    """Return the content of `<name>.crt` and `<name>.key`, or None if one is missing."""
    try:
        return Pair(
            read_mounted(directory / f"{name}.crt"), read_mounted(directory / f"{name}.key")
        )
    except FileNotFoundError:
        return None


def write_pair(pair: Pair, directory: Path, name: str) -> None:
    """Write or replace the files `<name>.key` and `<name>.crt`, in this order.

    After a crash between the two writes, `ensure_development_certificate` corrects the mismatch.
    """
    _replace(directory / f"{name}.key", pair.key_pem, 0o600)
    _replace(directory / f"{name}.crt", pair.cert_pem, 0o644)


def _replace(path: Path, content: bytes, mode: int) -> None:
    """Write a file so that readers get either the old or the new content."""
    # mkstemp creates the file with mode 0600, so that nobody else can ever read a key
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Lock `directory` during the block, because two processes may start at the same time."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def read_client_cas(path: Path) -> bytes:
    """Return the content (PEM) of `server.clientCaFile`. Raise OSError if it can't be used."""
    pem = read_mounted(path)
    try:
        split_bundle(pem)
    except ValueError as error:
        raise OSError(f"server.clientCaFile {path}: {plainly(error)}") from None
    return pem


class ClientCas(Part):
    """A part that loads the client CAs of `certificate` from the file `path` after each change.

    An unusable file never replaces usable CAs. `changed` is called after each change, because
    connections whose client presented a certificate of a removed CA must end.
    """

    def __init__(
        self, path: Path, certificate: ServingCertificate, changed: Callable[[], None]
    ) -> None:
        self._path = path
        self._certificate = certificate
        self._changed = changed
        self._loaded = certificate.client_cas
        self._problem: str | None = None

    async def run(self) -> None:
        """Check the file every `LOOK_SECONDS`, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.poll()

    def poll(self) -> bool:
        """Check the file once, and return whether other CAs were loaded.

        If the file is unusable, log the problem, and return False.
        """
        try:
            pem = read_client_cas(self._path)
            if pem != self._loaded:
                self._certificate.trust_clients(pem)
        except (OSError, ValueError) as error:
            self._note_failure(str(error))
            return False

        self._problem = None
        if pem == self._loaded:
            return False
        self._loaded = pem
        logger.info("client CAs loaded from %s", self._path)
        self._changed()
        return True

    def notes(self) -> dict[str, str]:
        if self._problem is None:
            return {}
        return {"client-cas": f"the previous client CAs stay in use: {self._problem}"}

    def samples(self) -> Iterator[Sample]:
        ends = [inspect(pem).not_after.timestamp() for pem in split_bundle(self._loaded)]
        text = "Time at which the first client CA expires, in seconds since the epoch."
        yield gauge("client_ca_expiry_timestamp_seconds", text, min(ends))

    def _note_failure(self, problem: str) -> None:
        """Store the reason why the file is unusable, and log the reason if it is new."""
        if problem != self._problem:
            logger.error("client CAs not loaded, the previous ones stay in use: %s", problem)
        self._problem = problem

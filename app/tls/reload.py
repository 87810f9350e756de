"""The serving certificate: loaded from two files, and loaded again when they change. A broken or mismatched pair never
replaces a good one: it is tried in a scratch context first, because loading a bad pair into a live one breaks every
later handshake."""

import asyncio
import logging
import os
import ssl
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from app.tls.issue import Pair, inspect, problems

POLL_SECONDS = 5.0

log = logging.getLogger(__name__)


class CertificateError(OSError):
    """A certificate and key that can't be served; the text names the files and says why."""


class ServingCertificate:
    """An SSL context that follows `certificate` and `key`. CertificateError where they can't be used at the start."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._paths = (certificate, key)
        self._loaded: Pair | None = None
        self._refused: Pair | None = None
        self.problem: str | None = None
        self.context = server_context()
        self.not_after = datetime.now(UTC)
        self.reload()
        if self.problem is not None:
            raise CertificateError(self.problem)

    def reload(self) -> bool:
        """Reads the files and takes over what changed; True where a new pair is served. `problem` says what is wrong
        with the files, None where they are what is served."""
        try:
            pair = Pair(self._paths[0].read_bytes(), self._paths[1].read_bytes())
        except OSError as problem:
            self.problem = f"{self._paths[0]}: {problem.strerror or problem}"
            return False
        if pair == self._loaded:
            self.problem = None
            return False
        if pair == self._refused:
            return False
        return self._take(pair)

    def _take(self, pair: Pair) -> bool:
        found = problems(pair, None, (), datetime.now(UTC))
        try:
            if not found:
                load_pair(server_context(), pair)
                load_pair(self.context, pair)
        except ssl.SSLError as problem:
            found = [str(problem)]
        if found:
            self._refused, self.problem = pair, f"{self._paths[0]}: {'; '.join(found)}"
            log.error("certificate refused, the old one is kept: %s", self.problem)
            return False
        self._loaded, self._refused, self.problem = pair, None, None
        self.not_after = inspect(pair.certificate).end
        log.info("certificate loaded, valid until %s", self.not_after.isoformat())
        return True

    async def run(self) -> None:
        """Follows the files for ever. A poll: Secret volumes swap a symlink, and it is two small reads."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            self.reload()


def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def load_pair(context: ssl.SSLContext, pair: Pair) -> None:
    """Loads `pair` from memory; the ssl module reads files only. SSLError where key and certificate don't match."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "pair.pem"
        with open(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as opened:
            opened.write(pair.certificate.rstrip() + b"\n" + pair.key)
        context.load_cert_chain(file)

"""Keep a TLS context for calls to an API server, and renew the context when its files change."""

import asyncio
import contextlib
import logging
import math
import ssl

from msgspec import Struct

from app.base.mounted import read_mounted
from app.kube.api import Unavailable
from app.kube.credentials import Credentials

logger = logging.getLogger(__name__)


class ServerTrust(Struct):
    """The current TLS context of `credentials`, with the CA and the client certificate.

    Unusable files never replace a context. A new context is used for new connections only.
    """

    credentials: Credentials
    """The credentials, with the paths of their files."""
    look_seconds: float
    """The seconds between two checks of the files.

    After a renewal, a failed handshake causes another renewal only after this time, or if the files
    have changed.
    """
    _context: ssl.SSLContext | bool | None = None
    _is_stale: bool = False
    _content: list[bytes] = []
    _looked_at: float = 0.0
    _renewed_at: float = -math.inf

    async def context(self) -> ssl.SSLContext | bool:
        """Return the context for the next connection, or True for a connection without TLS.

        Raise Unavailable if the files are unusable and there is no earlier context.
        """
        now = asyncio.get_running_loop().time()
        if self._context is not None and now - self._looked_at >= self.look_seconds:
            self._looked_at = now
            if self._read() != self._content:
                self._is_stale = True
                # a file that is being written is read again at the next check
                with contextlib.suppress(Unavailable):
                    await self.credentials.renew()
        if self._context is None or self._is_stale:
            self._looked_at = now
            self._make()
        return self._context or True

    async def renew(self) -> None:
        """Read the credentials again, after a 401 or a failed TLS handshake.

        Raise Unavailable if the credentials can't be read.
        """
        self._is_stale = True
        self._renewed_at = asyncio.get_running_loop().time()
        await self.credentials.renew()

    async def renew_after_failure(self) -> bool:
        """Renew the context after a failed handshake, and return True.

        If the credentials were renewed less than `look_seconds` ago and the files are unchanged, do
        not renew them, and return False. Raise Unavailable if the credentials can't be read.
        """
        self._is_stale = True
        is_recent = asyncio.get_running_loop().time() - self._renewed_at < self.look_seconds
        if is_recent and self._read() == self._content:
            return False
        await self.renew()
        return True

    def _make(self) -> None:
        content = self._read()
        try:
            self._context = self.credentials.ssl_context() or True
        except (OSError, ValueError) as error:
            text = "cannot load the CA or the client certificate for the API server"
            if self._context is None:
                raise Unavailable(f"{text}: {error}", reason="TLS") from error
            logger.warning("%s, still using the previous ones: %s", text, error)
            return
        self._content = content
        self._is_stale = False

    def _read(self) -> list[bytes]:
        return [_content(path) for path in self.credentials.files()]


def _content(path: str) -> bytes:
    try:
        return read_mounted(path)
    except OSError:
        return b""

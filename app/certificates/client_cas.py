"""The client CAs of `server.clientCaFile`, loaded again after each change of the file."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

from app.base.mounted import read_mounted
from app.base.sample import Part, Sample, gauge
from app.certificates.certificate import inspect, plainly, split_bundle
from app.certificates.source import ServingCertificate

LOOK_SECONDS = 10.0

logger = logging.getLogger(__name__)


def read_client_cas(path: Path) -> bytes:
    """Return the content (PEM) of `server.clientCaFile`. Raise OSError if it is not usable."""
    pem = read_mounted(path)
    try:
        split_bundle(pem)
    except ValueError as error:
        raise OSError(f"server.clientCaFile {path}: {plainly(error)}") from None
    return pem


class ClientCas(Part):
    """The client CAs of `certificate`, kept as they are in the file at `path`.

    An unusable file never replaces usable CAs. `changed` is called after each change: connections
    whose client has shown a certificate of a former CA should end.
    """

    def __init__(
        self,
        path: Path,
        certificate: ServingCertificate,
        changed: Callable[[], None],
    ) -> None:
        self._path = path
        self._certificate = certificate
        self._changed = changed
        self._loaded = certificate.client_cas
        self._problem: str | None = None

    async def run(self) -> None:
        """Look at the file every `LOOK_SECONDS`, until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.poll()

    def poll(self) -> bool:
        """Look at the file once. Return whether other CAs were loaded."""
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
        return {"client-cas": f"the former ones are used: {self._problem}"}

    def samples(self) -> Iterator[Sample]:
        ends = [inspect(pem).not_after.timestamp() for pem in split_bundle(self._loaded)]
        text = "When the first client CA expires, in seconds since the epoch."
        yield gauge("client_ca_expiry_timestamp_seconds", text, min(ends))

    def _note_failure(self, problem: str) -> None:
        if problem != self._problem:
            logger.error("client CAs not loaded, the former ones are used: %s", problem)
        self._problem = problem

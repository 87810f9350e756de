"""Where the serving certificate comes from, as the rest of the program sees it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from app.tls.reload import ServingCertificate


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
        """When the CA expires; None where it isn't known."""
        ...

    def ca_bundle(self) -> bytes | None:
        """What clients are to trust (PEM); None where it isn't known."""
        ...

"""The source of the serving certificate: what readiness and metrics read of it, whichever it is."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

from app.certificates.inspect import inspect
from app.certificates.reload import ServingCertificate
from app.kube.gauge import Gauge


def utc_now() -> datetime:
    return datetime.now(UTC)


class CertificateSource(ABC):
    """Updates `certificate` while `run` runs.

    `rotations` counts replacements by reason, and `failures` counts looks that failed. `last_error` is the reason why
    the last look failed, or None. `now` is the wall clock with time zone.
    """

    def __init__(self, certificate: ServingCertificate, now: Callable[[], datetime]) -> None:
        self.certificate = certificate
        self.rotations: Counter[str] = Counter()
        self.failures = 0
        self.last_error: str | None = None
        self._now = now

    @abstractmethod
    async def run(self) -> None:
        """Runs until it is cancelled."""

    @property
    @abstractmethod
    def not_after(self) -> datetime | None:
        """The time at which the serving certificate of this source expires; None before one is loaded."""

    @abstractmethod
    def ca_bundle(self) -> bytes | None:
        """The CAs (PEM) that clients must trust; None if they are not known."""

    def restarts(self) -> Mapping[str, Mapping[str, int]]:
        """The number of restarts of the watches of this source by resource and reason."""
        return {}

    def healthy(self) -> bool:
        """Whether a certificate of this source is loaded and has not expired, even if a later look failed."""
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

    def notes(self) -> dict[str, str]:
        return {}

    def gauges(self) -> Iterator[Gauge]:
        if self.not_after is not None:
            text = "When the serving certificate expires, in seconds since the epoch."
            yield "certificate_expiry_timestamp_seconds", text, {}, self.not_after.timestamp()
        if (ca_not_after := self.ca_not_after) is not None:
            text = "When the CA expires, in seconds since the epoch."
            yield "certificate_ca_expiry_timestamp_seconds", text, {}, ca_not_after.timestamp()
        for reason, count in self.rotations.items():
            yield "certificate_rotations_total", "Certificates replaced, by why.", {"reason": reason}, count
        text = "Looks at certificates that found something that can't be used or done."
        yield "certificate_failures_total", text, {}, self.failures
        for resource, restarts in self.restarts().items():
            for reason, count in restarts.items():
                labels = {"resource": resource, "reason": reason}
                yield "watch_restarts_total", "Watches begun again.", labels, count

    def _problem(self) -> str:
        state = "is not there yet" if self.not_after is None else "has expired"
        return f"{state}: {self.last_error}" if self.last_error else state

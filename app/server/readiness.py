"""Collect the checks and notes of the server's parts for /readyz, and their metrics."""

import logging
from collections.abc import Iterable, Iterator, Mapping

from app.base.sample import Part, Sample, gauge

logger = logging.getLogger(__name__)


class Readiness:
    """The state of `parts`, which decides whether the server is ready."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self.parts = list(parts)
        """The parts of the server. More parts are added while the server starts."""
        self.draining = False
        """Whether the server is shutting down, so that it is not ready."""
        self._failing: frozenset[str] = frozenset()
        self._was_ready = False

    def ready(self) -> dict[str, str | None]:
        """Return the problem of each check by its name, or None for a check that passes."""
        checks: dict[str, str | None] = {"draining": "in progress" if self.draining else None}
        for part in self.parts:
            checks |= part.checks()
        self._log_change(checks)
        return checks

    @property
    def is_ready(self) -> bool:
        """Whether no check finds a problem."""
        return all(problem is None for problem in self.ready().values())

    def notes(self) -> dict[str, str]:
        """Return the notes of all parts by name. A note is information, not a problem."""
        return {name: note for part in self.parts for name, note in part.notes().items()}

    def samples(self) -> Iterator[Sample]:
        """Yield the readiness, and the samples of all parts."""
        yield gauge("ready", "1 if /readyz reports no problem.", self.is_ready)
        for part in self.parts:
            yield from part.samples()

    def _log_change(self, checks: Mapping[str, str | None]) -> None:
        """Log the failing checks, or that the server is ready, if other checks fail than before."""
        failing = {
            name: f"{name} {problem}" for name, problem in checks.items() if problem is not None
        }
        if failing.keys() != self._failing:
            level = logging.WARNING if failing and self._was_ready else logging.INFO
            state = "not ready" if self._was_ready else "starting"
            logger.log(
                level, "%s", f"{state}: {'; '.join(failing.values())}" if failing else "ready"
            )
        self._was_ready |= not failing
        self._failing = frozenset(failing)

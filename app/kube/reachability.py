"""Record whether the API server answers, for readiness and metrics."""

import time
from collections.abc import Iterator

from app.base.sample import Sample, gauge
from app.objects.time import Clock

UNREACHABLE_SECONDS = 300.0
"""The time without an answer of the API server after which this server becomes unready.

During an upgrade, the API server of a single control plane is down for some minutes. If all
replicas became unready then, no review could be answered right after the upgrade.
"""


class Reach:
    """The time of the API server's last response, and the problem of the last call if it failed."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._answered_at = clock()
        self._problem = ""

    def answered(self) -> None:
        """Note that the API server has just answered."""
        self._answered_at = self._clock()
        self._problem = ""

    def failed(self, problem: str) -> None:
        """Note that a call got no answer, because of `problem`."""
        self._problem = problem

    def check(self) -> str | None:
        """Return the problem if the last call failed and the last answer is too long ago.

        Otherwise, return None.
        """
        age = self._clock() - self._answered_at
        if not self._problem or age < UNREACHABLE_SECONDS:
            return None
        return f"has not answered for {age:.0f} s, so verdicts use old facts: {self._problem}"

    def samples(self) -> Iterator[Sample]:
        """Yield the time since the last answer of the API server."""
        age = self._clock() - self._answered_at
        yield gauge(
            "api_answer_age_seconds", "Seconds since the last answer of the API server.", age
        )

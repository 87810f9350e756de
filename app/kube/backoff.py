"""Calculate pauses between attempts."""

from collections.abc import Callable

from msgspec import Struct


class Backoff(Struct):
    """Pauses that double from `first` to `most`.

    Each pause is shortened by up to half at random, so that clients do not retry at the same time.
    """

    random: Callable[[], float]
    """Returns random numbers in [0, 1)."""
    first: float = 0.5
    """The first pause in seconds."""
    most: float = 30.0
    """The longest pause in seconds."""
    _failures: int = 0
    """The number of pauses since the last success."""

    def next(self, at_least: float | None = None) -> float:
        """Return the next pause in seconds.

        The pause is at least `at_least`, such as the Retry-After of a server, but never longer than
        `most`.
        """
        full = min(self.most, self.first * float(1 << min(self._failures, 30)))
        self._failures += 1
        return min(self.most, max(at_least or 0.0, full * (1 - self.random() / 2)))

    def reset(self) -> None:
        """Begin with `first` again, after a success."""
        self._failures = 0

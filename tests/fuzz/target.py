"""What every fuzz target has, and how its inputs are changed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from tests.effort import tries

Mutate = Callable[[bytes, Random], bytes]
"""An input that was changed a little. It knows how inputs of the target are built."""


@dataclass(frozen=True)
class Target:
    """`run` raises for an input that is handled wrongly.

    `corpus` makes the inputs to begin with.
    """

    name: str
    run: Callable[[bytes], None]
    corpus: Callable[[], Sequence[bytes]]
    mutate: Mutate
    most: int = 32 * 1024
    """Bytes of an input."""

    replayed: int = tries(50, 150)
    """Changed inputs that the tests run."""

"""Detect another writer of the same fields, by the number of our writes to each object.

The reconcilers then back off instead of continuing the fight.
"""

import time
from collections import OrderedDict
from hashlib import blake2b

import msgspec
from msgspec import Struct, field

from app.base.groups import remember
from app.kube.api import Key, Object
from app.objects.time import Clock

WINDOW_SECONDS = 120.0
TOLERATED = 5
MAX_KEYS = 10_000


class Rewrites(Struct, kw_only=True):
    """Counts of our writes to each key.

    More than `tolerated` writes in `window` seconds mean that another writer reverts them. Only the
    last `MAX_KEYS` written keys are counted. `clock` is monotonic, in seconds.
    """

    tolerated: int = TOLERATED
    window: float = WINDOW_SECONDS
    clock: Clock = time.monotonic
    fights: int = 0
    """The number of writes that were skipped because of another writer."""
    _writes: OrderedDict[Key, tuple[float, ...]] = field(default_factory=OrderedDict)

    def count(self, key: Key) -> None:
        """Count a write to `key` now."""
        times = (*self._writes.get(key, ()), self.clock())
        remember(self._writes, key, times[-self.tolerated :], MAX_KEYS)

    def pause(self, key: Key) -> float | None:
        """Return the seconds to wait before a write to `key`, or None if it can be made now."""
        times = self._writes.get(key)
        if times is None or len(times) < self.tolerated:
            return None
        seconds = times[0] + self.window - self.clock()
        if seconds <= 0:
            return None
        self.fights += 1
        return seconds

    def may(self, key: Key) -> bool:
        """Return whether `key` can be written now.

        If so, the write is counted, even if it fails later.
        """
        if self.pause(key) is not None:
            return False
        self.count(key)
        return True


def same(target: str, written: Object | list[Object]) -> Key:
    """Return a key for `written` in `target`.

    Writes of other content have other keys, because frequent changes of the desired content are not
    a fight.
    """
    return (
        target,
        blake2b(msgspec.json.encode(written, order="sorted"), digest_size=8).hexdigest(),
    )

"""Is somebody else writing the same fields back? Counted per object, so that a fight is seen and not fought."""

import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b

import orjson

from app.kube.api import Key, Object

WINDOW_SECONDS = 120.0
TOLERATED = 5
MAX_KEYS = 10_000


class Rewrites:
    """Counts our writes of each key. More than `tolerated` within `window` seconds is a fight: nothing legitimate
    changes that often. At most `MAX_KEYS` keys are watched, the last written ones. `clock` is monotonic, in seconds."""

    def __init__(
        self,
        *,
        tolerated: int = TOLERATED,
        window: float = WINDOW_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.fights = 0
        """Writes held back because of a fight, ever."""
        self._tolerated, self._window, self._clock = tolerated, window, clock
        self._writes: OrderedDict[Key, tuple[float, ...]] = OrderedDict()

    def count(self, key: Key) -> None:
        """`key` was written by us just now."""
        times = (*self._writes.get(key, ()), self._clock())
        self._writes[key] = times[-self._tolerated :]
        self._writes.move_to_end(key)
        while len(self._writes) > MAX_KEYS:
            self._writes.popitem(last=False)

    def pause(self, key: Key) -> float | None:
        """Before a write: None if it may be made, else the seconds to leave the object alone."""
        times = self._writes.get(key)
        if times is None or len(times) < self._tolerated:
            return None
        left = times[0] + self._window - self._clock()
        if left <= 0:
            return None
        self.fights += 1
        return left

    def may(self, key: Key) -> bool:
        """Before a write that counts whether it succeeds or not: whether it may be made, and then it is counted."""
        if self.pause(key) is not None:
            return False
        self.count(key)
        return True


def same(target: str, written: Object | list[Object]) -> Key:
    """The key of the very same content, written to one target. What we want may change as often as it likes, and then
    we write often and fight nobody."""
    return target, blake2b(orjson.dumps(written, option=orjson.OPT_SORT_KEYS), digest_size=8).hexdigest()

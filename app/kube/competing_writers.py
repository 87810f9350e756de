"""Detect another writer of the same fields, by the number of times that we repeat a write.

Reconcilers then back off.
"""

import time
from collections import OrderedDict
from hashlib import blake2b

import msgspec
from msgspec import Struct, field

from app.base.groups import remember
from app.kube.api import Key, Object, ObjectRef
from app.objects.time import Clock

WINDOW_SECONDS = 120.0
TOLERATED = 5
MAX_KEYS = 10_000


class Rewrites(Struct, kw_only=True):
    """The times of our recent writes by key, such as a key of `write_key`.

    If a key needs more than `tolerated` writes in `window` seconds, another writer is probably
    reverting them. Only the `MAX_KEYS` most recently written keys are remembered.
    """

    tolerated: int = TOLERATED
    """The maximum number of writes to a key within `window`."""
    window: float = WINDOW_SECONDS
    """The length, in seconds, of the time window in which writes are counted."""
    clock: Clock = time.monotonic
    """A monotonic clock, in seconds."""
    fights: int = 0
    """The number of writes that were skipped because of another writer."""
    _writes: OrderedDict[Key, tuple[float, ...]] = field(default_factory=OrderedDict)
    """The times of the last `tolerated` writes to each key."""

    def count(self, key: Key) -> None:
        """Count a write to `key` now."""
        times = (*self._writes.get(key, ()), self.clock())
        remember(self._writes, key, times[-self.tolerated :], MAX_KEYS)

    def pause(self, key: Key) -> float | None:
        """Return None if `key` may be written now.

        Otherwise, count a skipped write in `fights`, and return the seconds until a write is
        allowed.
        """
        times = self._writes.get(key)
        if times is None or len(times) < self.tolerated:
            return None
        seconds = times[0] + self.window - self.clock()
        if seconds <= 0:
            return None
        self.fights += 1
        return seconds

    def may_write(self, key: Key) -> bool:
        """Return whether `key` may be written now, and count the write or the skipped write.

        A write is counted even if it fails later.
        """
        if self.pause(key) is not None:
            return False
        self.count(key)
        return True


def remedy_for_writers(ref: ObjectRef) -> str:
    """Return the remedy for another writer of `ref`, with a command that lists its writers."""
    namespace = f"-n {ref.namespace} " if ref.namespace else ""
    return (
        f"Find and stop that writer: kubectl {namespace}get {ref.resource} {ref.name}"
        " -o jsonpath='{.metadata.managedFields[*].manager}'"
    )


def write_key(target: str, written: Object | list[Object]) -> Key:
    """Return the key under which writes of the content `written` to `target` are counted.

    Writes of other content have other keys: the desired content may change often without another
    writer.
    """
    return (
        target,
        blake2b(msgspec.json.encode(written, order="sorted"), digest_size=8).hexdigest(),
    )

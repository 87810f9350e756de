"""What reading documents may cost, so that no text takes all memory or time of its reader."""

import time
from collections.abc import Callable

from msgspec.structs import replace

from app.base.value import Value

MIB = 2**20


class UnusableInput(ValueError):
    """The text contains no valid documents, or too many.

    The message states the reason and the place.
    """


class NoDocument(UnusableInput):
    """The text has no document. If it `has_text`, that are Lists without items, or comments."""

    def __init__(self, *, has_text: bool) -> None:
        super().__init__("there is no document in it")
        self.has_text = has_text


class ReadingLimits(Value):
    """The most that may be read.

    `values` are maps, lists, keys and all else, and `size` is that of their text in bytes of UTF-8.
    Both count what an alias refers to again at each place of the alias, because whatever is done
    with a document later visits it there. `seconds` is the time of reading.
    """

    documents: int
    values: int
    size: int
    seconds: float
    depth: int = 200
    """Levels of maps and lists, because most of what reads them is recursive."""


OF_REQUEST = ReadingLimits(documents=1000, values=250_000, size=4 * MIB, seconds=5.0)
"""Of all documents of one request. Its body is limited too."""

OF_FILE = ReadingLimits(documents=1000, values=2_000_000, size=64 * MIB, seconds=300.0)
"""Of one file that is named on a command line: as much as its reader has patience for."""

TO_CREATE = replace(OF_FILE, documents=100_000)
"""Of one file whose objects the sandbox creates: nobody judges them at once."""


class Budget:
    """What is left of some limits. `clock` is monotonic, in seconds.

    Several texts can share one; only the time while one of them is read counts.
    """

    def __init__(self, limits: ReadingLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._documents = limits.documents
        self._values = limits.values
        self._size = limits.size
        self._seconds = limits.seconds
        self._clock = clock
        self._since = 0.0

    def __enter__(self) -> "Budget":
        self._since = self._clock()
        return self

    def __exit__(self, *_: object) -> None:
        self._seconds -= self._clock() - self._since

    def spend(self, values: int, size: int) -> None:
        """Count some values with their text. Raise UnusableInput if too little is left."""
        self._values -= values
        self._size -= size
        if self._values < 0:
            limit = f"{self.limits.values:,} values"
        elif self._size < 0:
            limit = f"{self.limits.size // MIB} MiB of text"
        else:
            return
        raise UnusableInput(f"it has more than {limit}, counting its aliases where they are used")

    def spend_documents(self, count: int) -> None:
        """Count some documents. Raise UnusableInput if too few are left."""
        self._documents -= count
        if self._documents < 0:
            raise UnusableInput(
                f"there are more than {self.limits.documents} documents in it, which is the most"
                " that is read at once"
            )

    def check_time(self) -> None:
        """Raise UnusableInput if the time is over."""
        if self._clock() - self._since > self._seconds:
            raise UnusableInput(f"it takes more than {self.limits.seconds:g} s to read")

    def check_depth(self, depth: int) -> None:
        """Raise UnusableInput for a value below too many maps and lists."""
        if depth > self.limits.depth:
            raise UnusableInput(f"it is nested too deeply: more than {self.limits.depth} levels")

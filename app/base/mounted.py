"""Read files that may be replaced while the process runs, such as certificates and tokens."""

import os
import stat
from pathlib import Path

MOST_BYTES = 1024 * 1024
"""The maximum size of a file, in bytes. A bundle of 500 CAs has about this size."""


def read_mounted(path: Path | str) -> bytes:
    """Return the content of the regular file `path`.

    Raise OSError if it can't be read, is larger than MOST_BYTES, or is not a regular file: reading
    a FIFO would block the event loop until its other end is opened, and a device may have no end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a regular file")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(f"{path} is larger than {MOST_BYTES // 1024} KiB")
    return content

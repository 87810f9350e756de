"""Return freed memory to the system.

glibc keeps freed memory that lies between blocks in use. After a server had read 47,000 objects,
such memory took 6 of the server's 126 MiB. After 3,000 unfinished handshakes were closed, the
server still held all their memory.
"""

import contextlib


def give_back() -> None:
    """Give freed memory back to the system if the C library has a function for it.

    The call took 1 ms after lists were read, and 55 ms after 2,000 connections were closed. musl
    has no such function, and keeps less freed memory than glibc.
    """
    # imported here, because loading it takes 2 ms, which most commands don't need
    import ctypes

    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)

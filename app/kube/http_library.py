"""aiohttp, without the certificate authorities of the system.

When it is imported, it makes a TLS context with all of them, which costs each process 40 ms of
processor time and 2 MiB. Our connections never use it: they have contexts of their own, with the
authorities of the cluster.
"""

import contextlib
import os
from collections.abc import Iterator

_FILE = "SSL_CERT_FILE"
"""The variable in which OpenSSL looks for the file with the authorities."""


@contextlib.contextmanager
def _without_authorities() -> Iterator[None]:
    before = os.environ.get(_FILE)
    os.environ[_FILE] = os.devnull
    try:
        yield
    finally:
        del os.environ[_FILE]
        if before is not None:
            os.environ[_FILE] = before


with _without_authorities():
    import aiohttp as aiohttp

"""aiohttp, without the certificate authorities of the system.

When it is imported, it makes a TLS context with all of them, which costs each process 40 ms of
processor time and 2 MiB. Our connections never use it: they have contexts of their own, with the
authorities of the cluster.
"""

import os

_FILE = "SSL_CERT_FILE"
"""The variable in which OpenSSL looks for the file with the authorities."""

_before = os.environ.get(_FILE)
os.environ[_FILE] = os.devnull
try:
    import aiohttp as aiohttp
finally:
    del os.environ[_FILE]
    if _before is not None:
        os.environ[_FILE] = _before

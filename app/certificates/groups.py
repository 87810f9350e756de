"""Restrict TLS key exchange to the groups X25519 and P-256.

Groups with finite fields (ffdhe) are excluded, because a ClientHello with a key share for ffdhe8192
costs the server 158 ms and its client nothing. Up to 3.14, Python can restrict a context to a
single group only. A list of groups must be in a configuration file, which OpenSSL reads when it is
loaded. So `configure_openssl` must be called before `ssl` is imported, and this module imports no
module that loads OpenSSL.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssl import SSLContext

_FILE = str(Path(__file__).with_name("openssl.cnf"))
_VARIABLE = "OPENSSL_CONF"
_LIBRARIES = {"_ssl", "_hashlib"}
"""Python's modules that load OpenSSL."""


def configure_openssl() -> None:
    """Make OpenSSL read our configuration file when it is loaded.

    Do nothing if OpenSSL is already loaded, or if OPENSSL_CONF names another file.
    """
    if not _LIBRARIES & sys.modules.keys():
        os.environ.setdefault(_VARIABLE, _FILE)


def restrict_groups(context: "SSLContext") -> None:
    """Restrict `context` to P-256 if OpenSSL has not read our configuration file."""
    if os.environ.get(_VARIABLE) != _FILE:
        context.set_ecdh_curve("prime256v1")

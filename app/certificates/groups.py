"""The groups of TLS key exchanges: X25519 and P-256, and none with finite fields (ffdhe).

A ClientHello with a share of ffdhe8192 takes 158 ms of a server, and its client nothing. Python up
to 3.14 can restrict a context to one group only. Several have to be in a configuration file of
OpenSSL, which that reads when it is loaded. So this module must be imported before `ssl`, and
imports nothing that needs it.
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
"""The modules of Python that load OpenSSL."""


def configure_openssl() -> None:
    """Let OpenSSL read our configuration file, unless it is loaded or has another one already."""
    if not _LIBRARIES & sys.modules.keys():
        os.environ.setdefault(_VARIABLE, _FILE)


def restrict_groups(context: "SSLContext") -> None:
    """Restrict a context to P-256 if OpenSSL has not read our configuration file."""
    if os.environ.get(_VARIABLE) != _FILE:
        context.set_ecdh_curve("prime256v1")

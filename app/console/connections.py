"""Limit the connections to the console's port, and the size of their requests' heads.

Every user of the machine can open connections and never send a request. uvicorn has no limit on the
number of connections, so they could use up all file descriptors. httptools, its usual parser, has
no limit on the size of a head: 5 million short headers (30 MB) took 500 MB of memory.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from app.server.handshakes import Backlog

STRANGERS = 64
"""The maximum number of connections that have not sent the token.

If there are more, the oldest one is closed.
"""

MOST_HEAD = 64 * 1024
"""The maximum size of a request's head, in bytes. It must have space for the edits of What if."""

SHOWN_TOKEN = "console.shown_token"
"""The key under which a request's state has the function to call if the token is right."""


def connection_class() -> type[asyncio.Protocol]:
    """Return a uvicorn protocol that allows at most STRANGERS connections without the token."""
    strangers = Backlog(STRANGERS)

    class Connection(H11Protocol):
        def __init__(self, **options: Any) -> None:
            super().__init__(**{**options, "app_state": {SHOWN_TOKEN: self._shown_token}})

        # uvloop's transports are not of the class asyncio.Transport
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            strangers.add(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            strangers.remove(self.transport)
            super().connection_lost(exc)

        def _shown_token(self) -> None:
            strangers.remove(self.transport)

    return Connection

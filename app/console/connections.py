"""The connections of the console's port.

Every user of the machine can open connections and never send a request. uvicorn has no limit on
their number, so they could take all file descriptors. httptools, its usual parser, has no limit on
the size of a head: 5 million short headers (30 MB) took 500 MB.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from app.server.handshakes import Backlog

STRANGERS = 64
"""The maximum number of connections that have not shown the token.

If there are more, the oldest one is closed.
"""

MOST_HEAD = 64 * 1024
"""The maximum size of a head, in bytes. The query of a page may contain edits."""

SHOWN_TOKEN = "console.shown_token"
"""The key, in the state of a request, of the function to call once a request has the token."""


def connection_class() -> type[asyncio.Protocol]:
    """Return a uvicorn protocol that allows STRANGERS connections without the token."""
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

"""How long a verdict waits for calls of the API server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from app.kube.api import Unavailable


@contextlib.asynccontextmanager
async def patience(seconds: float) -> AsyncIterator[None]:
    """Raise Unavailable if the block takes longer than that."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise Unavailable("the API server has not answered in time") from None

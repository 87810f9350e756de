"""A client of the program `grove-admission mcp`, which it starts.

Each call has a time limit of its own, because each starts a program.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.commands.test_mcp import answer
from tests.integration.system import PATIENCE

ROOT = Path(__file__).parents[2]
_PATIENT = f"""
import sys
from app.cli import main
from app.commands import mcp
mcp.SECONDS = {PATIENCE}
sys.exit(main())
"""
"""The program, which gives up later than it does for people."""

Call = Callable[..., Awaitable[dict[str, Any]]]
"""Calls a tool with arguments, and returns the data of its answer."""


@asynccontextmanager
async def mcp_client(*options: str) -> AsyncIterator[tuple[ClientSession, Call]]:
    """Start the program with these options. Give a session, and a function that calls a tool."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-c", _PATIENT, "mcp", *options],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    async with stdio_client(server) as streams, ClientSession(*streams) as client:

        async def call(tool: str, **given: Any) -> dict[str, Any]:
            async with asyncio.timeout(PATIENCE):
                return await answer(client, tool, **given)

        async with asyncio.timeout(PATIENCE):
            await client.initialize()
        yield client, call

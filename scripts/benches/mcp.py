"""Measure the tools for assistants in a cluster of 15,000 nodes and 60,000 pods.

`fleet.py` serves the cluster. The client of the SDK calls `grove-admission mcp` over standard input
and output. For each tool, the lowest figures of several rounds are printed: wall time, which
depends on other work of the machine, and CPU time. The last line has the peak memory of the largest
process.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import TextContent

from benches.common import ENVIRONMENT, ROOT, process, until
from benches.fleet import LEVELS, Fleet

ROUNDS = 3
WEIGHED = """
import os, sys
pid = os.posix_spawn(sys.executable, [sys.executable, *sys.argv[2:]], os.environ)
open(sys.argv[1] + "/pid", "w").write(str(pid))
_, _, usage = os.wait4(pid, 0)
open(sys.argv[1] + "/peak", "w").write(str(usage.ru_maxrss))
"""
"""A program that runs the server. It writes the server's pid to a file.

In the end, it writes the peak memory of the largest process, in KiB, to another file.
"""

PATIENT = """
import sys
from app.cli import main
from app.commands import mcp
mcp.SECONDS = 600.0
sys.exit(main())
"""
"""A program that runs the command with a longer time limit for answers."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "nodes", nargs="?", type=int, default=15_000, help="number of nodes (default: 15000)"
    )
    fleet = Fleet(parser.parse_args().nodes)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        api = [sys.executable, str(ROOT / "scripts" / "benches" / "fleet.py"), name]
        with process([*api, str(fleet.nodes)]):
            until((directory / "kubeconfig").exists)
            asyncio.run(asked(directory, fleet))
        peak = int((directory / "peak").read_text()) / 2**10

    print(f"\nAt most {peak:.0f} MiB. Load of the machine at the end: {os.getloadavg()[0]:.1f}.")
    return 0


def questions(fleet: Fleet) -> Mapping[str, Mapping[str, Any]]:
    level = next(reversed(LEVELS))
    return {
        "waiting": {},
        "why": {"workload": fleet.last_set, "namespace": fleet.last_namespace},
        "topology": {},
        "room": {"pods": 4, "gpus": 8},
        "what_if": {"edits": ["drain gpu-00000"]},
        "check": {"documents": f"kind: Unknown\nmetadata: {{name: {level}}}"},
    }


async def asked(directory: Path, fleet: Fleet) -> None:
    words = ["-c", PATIENT, "mcp", "--kubeconfig", str(directory / "kubeconfig")]
    server = StdioServerParameters(
        command=sys.executable,
        args=["-c", WEIGHED, str(directory), *words],
        env=ENVIRONMENT,
        cwd=ROOT,
    )
    print("| tool | s | CPU s | characters |\n|---|---|---|---|")
    async with stdio_client(server) as streams, ClientSession(*streams) as client:
        await client.initialize()
        for tool, given in questions(fleet).items():
            taken = []
            for _ in range(ROUNDS):
                begin = time.monotonic(), cpu_of_commands(directory)
                result = await client.call_tool(tool, dict(given))
                taken.append((time.monotonic() - begin[0], cpu_of_commands(directory) - begin[1]))
            (content,) = result.content
            assert isinstance(content, TextContent)
            if result.isError:
                raise SystemExit(f"{tool}: {content.text}")
            seconds, cpu = map(min, zip(*taken, strict=True))
            print(f"| `{tool}` | {seconds:.1f} | {cpu:.1f} | {len(content.text):,} |", flush=True)


def cpu_of_commands(directory: Path) -> float:
    """Return the CPU seconds of all commands that the server has run."""
    stat = Path(f"/proc/{(directory / 'pid').read_text()}/stat").read_text()
    ticks = stat.rpartition(")")[2].split()[13:15]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    raise SystemExit(main())

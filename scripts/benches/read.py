"""Read everything of the cluster of `cluster.py` once, and print the numbers of objects.

Only modules for reading are imported, because the memory of this process is measured.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

from app.cluster.command_clients import reading_client
from app.explain.state.index import Index
from app.explain.state.read import read_all
from app.explain.state.snapshot import RESOURCES


async def counts(kubeconfig: Path) -> dict[str, int]:
    async with reading_client(RESOURCES, kubeconfig, None) as client:
        facts = await read_all(client, now=time.time())
    Index(facts)
    return {"nodes": len(facts.nodes), "pods": len(facts.pods), "cliques": len(facts.cliques)}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(counts(Path(sys.argv[1]) / "kubeconfig"))))

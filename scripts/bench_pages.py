"""The pages of a console over the cluster of `bench_console`, in a process of its own; prints JSON.

`ready` is the seconds until every list is in. Each page is asked for five times after a change of the cluster, so that
all joins are made anew, and five times without one; the middle values count. A page's elements are its start tags.
"""

import asyncio
import gzip
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx

from app.config.schema import Configuration
from app.console.app import ConsoleSettings, Opened, opened

PATHS = {
    "workloads": "workloads?object=PodCliqueSet/inference/llm-serve",
    "topology": "topology?pods=10&gpus=8&level=rack",
    "topology, one block": "topology?at=zone-0/block-07",
    "findings": "findings",
}
TIMES = 5


class Counting(HTMLParser):
    elements = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements += 1


async def pages(kubeconfig: Path) -> dict[str, Any]:
    """Everything that is measured, by name."""
    begin = time.monotonic()
    async with opened(ConsoleSettings(Configuration(), kubeconfig)) as console:
        while not console.live.ready:
            await console.live.changes(console.live.revision)
        found: dict[str, Any] = {"ready": time.monotonic() - begin, "read MiB": peak()}
        async with httpx.AsyncClient(base_url=console.url, timeout=120) as client:
            for name, path in PATHS.items():
                found[name] = await page(console, client, path)
        begin_cpu = time.process_time()
        await asyncio.sleep(5)
        idle = (time.process_time() - begin_cpu) / 5
        return {**found, "peak MiB": peak(), "idle": idle, "calls": sum(console.calls.values())}


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def page(console: Opened, client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    changed = [await timed(client, path, console.live.touch) for _ in range(TIMES)]
    same = [await timed(client, path, lambda: None) for _ in range(TIMES)]
    text = (await client.get(path)).text
    counting = Counting()
    counting.feed(text)
    return {
        "changed ms": statistics.median(changed) * 1000,
        "same ms": statistics.median(same) * 1000,
        "KB": len(text.encode()) / 1000,
        "gzip KB": len(gzip.compress(text.encode())) / 1000,
        "elements": counting.elements,
    }


async def timed(client: httpx.AsyncClient, path: str, before: Callable[[], None]) -> float:
    """CPU seconds of this process for one page; the client's part is small."""
    before()
    begin = time.process_time()
    (await client.get(path)).raise_for_status()
    return time.process_time() - begin


if __name__ == "__main__":
    print(json.dumps(asyncio.run(pages(Path(sys.argv[1]) / "kubeconfig"))))

"""Measure the console with the cluster of `cluster.py`, and print the figures as JSON.

`read` has the time, CPU time and memory until every list is read, and the longest stall: the most
CPU time between two turns of the event loop. Each page is requested five times after a change of
a pod, after a change of a node, and without a change. The figures are medians, in milliseconds of
CPU of this process. `elements` counts start tags.

With Playwright and a Chromium (CHROMIUM, or in PATH), `load ms` is the time from the first byte of
the Topology page until it is loaded and painted, and `change to shown` the time from a change of the
cluster until a page shows it. `idle` is the share of a core that the console uses in 30 s without
changes, with an open tab if there is a browser.
"""

import asyncio
import contextlib
import gzip
import importlib.util
import json
import os
import re
import resource
import shutil
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import uvloop
import yaml

from app.config.schema import Configuration
from app.console.app import Opened, opened
from app.console.settings import ConsoleSettings
from benches.cluster import MEMBERS, NODES

WORKLOADS = "workloads?object=PodCliqueSet/inference/llm-serve"
TOPOLOGY = "topology?pods=10&gpus=8&level=rack"
PATHS = {
    "workloads": WORKLOADS,
    "topology": TOPOLOGY,
    "topology, one block": "topology?at=zone-0/block-07",
    "findings": "findings",
}
TIMES = 5
IDLE = 30.0
LOADED = """() => {
  const page = performance.getEntriesByType("navigation")[0];
  const painted = performance.getEntriesByName("first-contentful-paint")[0]?.startTime || 0;
  return Math.max(page.loadEventEnd, painted) - page.responseStart;
}"""
Change = Callable[[], Awaitable[None]]


class Counting(HTMLParser):
    elements = 0

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements += 1


class Cluster:
    """The cluster of a console, with a method for each kind of change."""

    def __init__(self, directory: Path, client: httpx.AsyncClient, console: Opened) -> None:
        configuration = yaml.safe_load((directory / "kubeconfig").read_text())
        self._url = configuration["clusters"][0]["cluster"]["server"]
        self._client = client
        self._live = console.live
        self._count = 0

    async def nothing(self) -> None:
        return

    async def pod(self) -> None:
        self._count += 1
        await self.change(f"pod/{self._count * 41}/gpu-{self._count * 97 % NODES:05}")

    async def node(self) -> None:
        self._count += 1
        await self.change(f"node/{self._count * 89 % NODES}/true")

    async def change(self, what: str) -> None:
        """Make a change, and wait until the console has received it."""
        revision = self._live.revision
        (await self._client.get(f"{self._url}/change/{what}")).raise_for_status()
        async with asyncio.timeout(10):
            await self._live.changes(revision)


async def measured(directory: Path) -> dict[str, Any]:
    """Return all figures by name."""
    begin = time.monotonic()
    cpu = time.process_time()
    settings = ConsoleSettings(Configuration(), directory / "kubeconfig", None, "")
    async with (
        opened(settings) as console,
        httpx.AsyncClient(base_url=console.url, timeout=120) as client,
    ):
        async with stalls() as longest:
            await console.live.until_ready()
        read = {
            "seconds": time.monotonic() - begin,
            "CPU s": time.process_time() - cpu,
            "MiB": peak(),
        }
        cluster = Cluster(directory, client, console)
        figures: dict[str, Any] = {"read": {**read, "stall ms": max(longest) * 1000}}
        figures |= {name: await page(cluster, client, path) for name, path in PATHS.items()}
        async with browser() as chromium:
            if chromium is not None:
                figures["in the browser"] = {"load ms": await load(chromium, console)}
                figures["change to shown"] = await shown(chromium, console, cluster)
            figures["idle"] = {"% of a core": await idle(chromium, console) * 100}
        return {**figures, "peak MiB": peak(), "calls": sum(console.calls.values())}


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextlib.asynccontextmanager
async def stalls() -> AsyncIterator[list[float]]:
    """Yield a list that grows by the CPU seconds of this thread between two turns."""
    longest: list[float] = [0.0]

    async def look() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.001)
            longest.append(time.thread_time() - before)

    looking = asyncio.create_task(look())
    try:
        yield longest
    finally:
        looking.cancel()


# On the server.


async def page(cluster: Cluster, client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    await timed(client, path, cluster.nothing)
    changes = {
        "pod changed ms": cluster.pod,
        "node changed ms": cluster.node,
        "same ms": cluster.nothing,
    }
    times = {
        name: statistics.median([await timed(client, path, change) for _ in range(TIMES)]) * 1000
        for name, change in changes.items()
    }
    text = (await client.get(path)).text
    counting = Counting()
    counting.feed(text)
    size = len(text.encode()) / 1000
    zipped = len(gzip.compress(text.encode())) / 1000

    return {**times, "KB": size, "gzip KB": zipped, "elements": counting.elements}


async def timed(client: httpx.AsyncClient, path: str, change: Change) -> float:
    """Return the CPU seconds of this process for one page after a change."""
    await change()
    begin = time.process_time()
    (await client.get(path)).raise_for_status()
    return time.process_time() - begin


# In a browser.


@contextlib.asynccontextmanager
async def browser() -> AsyncIterator[Any]:
    """Yield a Chromium, or None if it or Playwright is missing."""
    path = (
        os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    )
    if path is None or importlib.util.find_spec("playwright") is None:
        yield None
        return
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        started = await playwright.chromium.launch(executable_path=path, args=options)
        yield started
        await started.close()


async def load(chromium: Any, console: Opened) -> float:
    """Return the median time of loading the Topology page, in milliseconds."""
    tab = await chromium.new_page()
    times = []
    for _ in range(2 * TIMES):
        await tab.goto(f"{console.url}{TOPOLOGY}")
        await tab.get_by_text("● live").wait_for()
        times.append(await tab.evaluate(LOADED))
    await tab.close()
    return float(statistics.median(times))


async def shown(chromium: Any, console: Opened, cluster: Cluster) -> dict[str, float]:
    """Return the median and the longest time until a page shows a change, in seconds."""
    tab = await chromium.new_page()
    await tab.goto(f"{console.url}{WORKLOADS}")
    await tab.get_by_text("● live").wait_for()
    times = []
    for number in range(min(MEMBERS, 2 * TIMES)):
        said = re.compile(f"{number + 1} of {MEMBERS} pods placed")
        answer = tab.locator(".sub", has_text=said)
        begin = time.monotonic()
        await cluster.change(f"worker/{number}/gpu-{number:05}")
        await answer.wait_for()
        times.append(time.monotonic() - begin)

    await tab.close()

    return {"median s": statistics.median(times), "longest s": max(times)}


async def idle(chromium: Any, console: Opened) -> float:
    """Return the share of a core that this process uses without changes."""
    if chromium is not None:
        tab = await chromium.new_page()
        await tab.goto(f"{console.url}{TOPOLOGY}")
        await tab.get_by_text("● live").wait_for()
        await asyncio.sleep(1)
    begin = time.process_time()
    await asyncio.sleep(IDLE)
    return (time.process_time() - begin) / IDLE


if __name__ == "__main__":
    print(json.dumps(uvloop.run(measured(Path(sys.argv[1])))))

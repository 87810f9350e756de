"""`grove-admission serve` as a process, from its start to its end.

Tests `app/server/serve.py`.
"""

import asyncio
import contextlib
import json
import signal
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx

from scripts.apiserver.processes import free_port
from tests.reviews import load

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 120.0
"""Ends a test that hangs: a busy machine takes its time."""


class Process:
    """A server with the facts of the examples, on a free port."""

    def __init__(
        self, process: asyncio.subprocess.Process, port: int, tools_port: int, certificates: Path
    ) -> None:
        self.process = process
        self.certificates = certificates
        self.url = f"https://localhost:{port}"
        self.tools_url = f"https://localhost:{tools_port}"

    def client(self) -> httpx.AsyncClient:
        """A client of the port for API servers."""
        return self._client(self.url)

    def tools(self) -> httpx.AsyncClient:
        """A client of the tools port."""
        return self._client(self.tools_url)

    def _client(self, url: str) -> httpx.AsyncClient:
        context = ssl.create_default_context(cafile=self.certificates / "ca.crt")
        return httpx.AsyncClient(base_url=url, verify=context)


@contextlib.asynccontextmanager
async def server(directory: Path, *arguments: str) -> AsyncIterator[Process]:
    port, tools_port = free_port(), free_port()
    options = ["--host", "127.0.0.1", "--port", str(port), "--certs", str(directory)]
    options += ["--tools-port", str(tools_port)]
    options += ["--objects", str(ROOT / "manifests" / "examples" / "facts"), *arguments]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "app",
        "serve",
        *options,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE):
            while line := await process.stderr.readline():
                if "serving on" in json.loads(line)["message"]:
                    break
        yield Process(process, port, tools_port, directory)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_a_server_from_start_to_end(tmp_path: Path) -> None:
    async with server(tmp_path) as served, served.client() as client, served.tools() as tools:
        review = load("podgroup.mixed-case-name")
        answer = await client.post("/validate/podgroup?timeout=5s", json=review)
        assert answer.json()["response"]["status"]["code"] == 422
        assert (await client.get("/readyz")).text == "ok\n"
        metrics = (await tools.get("/metrics")).text
        assert "grove_admission_certificate_expiry_timestamp_seconds" in metrics
        assert 'grove_admission_cache_objects{resource="nodes"} 1.0' in metrics
        served.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            ready = await tools.get("/readyz?verbose")
            while ready.status_code == 200:
                ready = await tools.get("/readyz?verbose")
        assert "[-] draining in progress" in ready.text
        again = await client.post("/validate/podgroup?timeout=5s", json=review)
        assert again.json()["response"]["uid"] == review["request"]["uid"]
        served.process.send_signal(signal.SIGTERM)
        assert served.process.stdout is not None
        lines = [json.loads(line) for line in (await served.process.stdout.read()).splitlines()]
        assert [(line["uid"], line["code"]) for line in lines] == [
            (review["request"]["uid"], 422)
        ] * 2
        assert await served.process.wait() == 0


async def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    async with server(tmp_path) as served:
        port = served.url.rpartition(":")[2]
        options = [
            "--port",
            port,
            "--tools-port",
            "0",
            "--host",
            "127.0.0.1",
            "--certs",
            str(tmp_path),
        ]
        options += ["--objects", str(ROOT / "manifests" / "examples" / "facts")]
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "app", "serve", *options, cwd=ROOT, stderr=asyncio.subprocess.PIPE
        )
        _, said = await other.communicate()
        assert other.returncode == 1
        assert b": Address already in use" in said

"""`app.asgi:app` under stock uvicorn, in a process of its own."""

import asyncio
import os
import sys
from pathlib import Path

import httpx

from app.webhooks.registry import WEBHOOKS
from scripts.apiserver.processes import free_port
from tests.integration.system import eventually
from tests.reviews import load

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "manifests" / "examples"


async def test_any_server_serves_verdicts_probes_metrics_and_dry_runs() -> None:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "uvicorn", "app.asgi:app", "--port", str(port)),
        cwd=ROOT,
        env={
            **os.environ,
            "GROVE_ADMISSION_CONFIG": str(EXAMPLES / "configuration.yaml"),
            "GROVE_ADMISSION_OBJECTS": str(EXAMPLES / "facts"),
        },
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:

            async def is_ready() -> bool:
                try:
                    return (await client.get("/readyz")).status_code == 200
                except httpx.TransportError:
                    return False

            assert await eventually(is_ready)
            review = load("podgroup.mixed-case-name")
            answer = await client.post("/validate/podgroup?timeout=5s", json=review)
            assert answer.json()["response"]["status"]["code"] == 422
            document = (await client.get("/openapi.json")).json()
            assert {webhook.path for webhook in WEBHOOKS} < document["paths"].keys()
            refused = (EXAMPLES / "podcliqueset-refused.yaml").read_text()
            dry_run = await client.post("/dry-run?output=text", content=refused)
            assert dry_run.text.startswith("REFUSED")
            metrics = (await client.get("/metrics")).text
            assert 'code="422"' in metrics
    finally:
        process.terminate()
        await process.wait()

"""The FastAPI application for any ASGI server: `uvicorn app.asgi:app`.

GROVE_ADMISSION_CONFIG names the configuration file. Without it, all settings have their defaults,
but topology support is enabled. Facts come from the cluster of this Pod, or from the file or
directory GROVE_ADMISSION_OBJECTS. Verdicts, dry runs and docs are the same as with
`grove-admission serve`. Metrics of connections, certificates and the leader are missing. The ASGI
server handles TLS and limits connections.

The application never leads. Its only writes give the MNNVL resources of a PodGang that is deleted
to the PodCliqueSet. Paths with a token get a 404, so the webhook configurations must not have the
annotation that makes `grove-admission serve` write tokens into their paths. Run that command too:
it has the reconcilers.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.applications import Starlette

from app.base.sample import Part
from app.commands.files import objects_in
from app.config.read import configuration_or_defaults, with_overrides
from app.facts.kinds import ALL
from app.server.endpoints import Reports, build_app
from app.server.metrics import Metrics
from app.server.readiness import Readiness
from app.server.serve import connected, exchange_of, flush
from app.server.verdict_log import VerdictLog
from app.stores import stores


@contextlib.asynccontextmanager
async def running(app: Starlette) -> AsyncIterator[None]:
    """Mount all endpoints on `app`, and keep their caches up to date until `app` shuts down."""
    config = os.environ.get("GROVE_ADMISSION_CONFIG")
    configuration = configuration_or_defaults(Path(config) if config else None)
    configuration = with_overrides(configuration, os.environ, {})
    folder = os.environ.get("GROVE_ADMISSION_OBJECTS")
    objects = objects_in(Path(folder)) if folder else None
    async with (
        connected(configuration, objects, None, None, ALL) as (cluster, client),
        asyncio.TaskGroup() as tasks,
    ):
        metrics = Metrics()
        log = VerdictLog(sys.stdout.buffer)
        parts: list[Part] = [cluster, *([client] if client else [])]
        readiness = Readiness(parts)
        reports = Reports(metrics, log, readiness.ready, readiness.notes)
        exchange = exchange_of(configuration, cluster, reports)
        for samples in (readiness.samples, log.samples, exchange.samples):
            metrics.add(samples)
        app.mount("/", build_app(exchange, reports))

        background = [tasks.create_task(flush(reports))]
        if client:
            discovery = client.discovery
            background += [
                tasks.create_task(stores.run(cluster.stores, client, discovery)),
                tasks.create_task(stores.run_hints(cluster.hints, client, discovery)),
            ]
        yield
        for task in background:
            task.cancel()
        reports.close()


app = Starlette(lifespan=running)

"""Fills the stores of a cluster from watches, and keeps them in step."""

import asyncio
from collections.abc import Coroutine
from typing import Any, NoReturn

from app.cluster.cluster import Cluster
from app.cluster.table import BINDINGS, NODES, TOPOLOGIES, Fact
from app.kube.api import Client
from app.kube.discovery import Discovery, watch_crds
from app.kube.store import WatchStore
from app.kube.watch import run_store


async def run(cluster: Cluster, client: Client, discovery: Discovery) -> None:
    """Keeps every store in step until cancelled. Errors of the API server are retried; anything else is raised."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(discovery.run(), name="discovery")
        await discovery.until_known()
        tasks.create_task(watch_crds(client, discovery), name="watch crds")
        for fact, store in cluster.stores:
            watching = _nodes(cluster, client, discovery) if fact is NODES else follow(fact, store, client, discovery)
            tasks.create_task(watching, name=f"watch {fact.resource}")


async def follow(fact: Fact[Any], store: WatchStore[Any], client: Client, discovery: Discovery) -> NoReturn:
    """Keeps the store of one fact in step. It is listed again if its CRD has changed."""
    while True:
        watching = run_store(
            client,
            store,
            fact.resource,
            label_selector=fact.labels,
            metadata_only=fact.metadata_only,
            served_changed=discovery.changed,
        )
        await _until(watching, discovery.redefined(fact.resource))


async def _nodes(cluster: Cluster, client: Client, discovery: Discovery) -> NoReturn:
    """Lists nodes once the levels are known, and again if a label is needed that was not kept."""
    for levels in (TOPOLOGIES, BINDINGS):
        await cluster.stores[levels].until_synced()
    changed = cluster.node_keys.changed
    while True:
        changed.clear()
        await _until(follow(NODES, cluster.stores[NODES], client, discovery), changed.wait())


async def _until(watch: Coroutine[Any, Any, NoReturn], happened: Coroutine[Any, Any, object]) -> None:
    """Runs `watch` until `happened` returns. What `watch` raises is raised."""
    watching, waiting = asyncio.create_task(watch), asyncio.create_task(happened)
    try:
        await asyncio.wait({watching, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            await watching
    finally:
        for task in (watching, waiting):
            task.cancel()
        await asyncio.gather(watching, waiting, return_exceptions=True)

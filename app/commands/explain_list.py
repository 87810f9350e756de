"""`explain` without a name: what waits in a namespace, or in all."""

import argparse
import asyncio
import os
import shutil
import sys
import time
from collections.abc import Iterable

from app.explain.answers.waiting import rows, workloads
from app.explain.known.index import Index
from app.explain.known.read import Reading
from app.explain.known.snapshot import BY_RESOURCE, ROOM, Snapshot
from app.explain.shown.waiting_text import exit_code, list_document, list_text
from app.facts.kinds import RESOURCE_CLAIM, RESOURCE_SLICE
from app.kube.api import Reader
from app.objects.resource import NODE, POD, Resource
from app.stores.collector import paused
from app.visible import visible_json

_OF_CLUSTER = (POD, RESOURCE_CLAIM)
"""What other namespaces have of it takes room too."""
_ONLY_FOR_ROOM = (NODE, RESOURCE_SLICE)


async def read_list(client: Reader, namespace: str, *, room: bool) -> Snapshot:
    """Read what tells which workloads of a namespace wait and why; of all namespaces for "".

    Without `room`, neither the nodes nor the pods of other namespaces are read.
    """
    reading = Reading(client)
    with paused():
        await asyncio.gather(
            *(_read(reading, resource, namespace, room) for resource in _resources(room))
        )
    if not room:
        reading.skip(ROOM)
    return reading.facts(time.time())


def _resources(room: bool) -> Iterable[Resource]:
    return (resource for resource in BY_RESOURCE if room or resource not in _ONLY_FOR_ROOM)


async def _read(reading: Reading, resource: Resource, namespace: str, room: bool) -> None:
    if namespace and room and resource in _OF_CLUSTER:
        await reading.list_everywhere(resource, namespace)
    elif namespace and resource.namespaced:
        await reading.list(resource, namespace)
    else:
        await reading.list_everywhere(resource)


def print_list(index: Index, namespace: str, arguments: argparse.Namespace) -> int:
    """Print what waits in a namespace, or in all for "". Return the exit code."""
    facts = index.facts
    listed = rows(index, workloads(index, namespace and [namespace]))
    if arguments.output == "json":
        print(visible_json(list_document(listed, facts), indented=True))
    else:
        print(list_text(listed, facts, namespace, everything=arguments.all, width=_width()))
    sys.stdout.flush()
    return exit_code(listed, facts)


def _width() -> int:
    """Return the columns of the terminal; 0, for as many as are needed, if there is none."""
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS"):
        return 0
    return shutil.get_terminal_size().columns

"""The command line of KAI's queues.

Exit codes: 0 KAI can use every queue, 1 there is one that it can't, 2 not everything could be read.
"""

import argparse
import sys
import time

import uvloop

from app.base import logs
from app.cluster.connect import reading_client
from app.commands.options import (
    Command,
    add_reading_options,
    columns,
    show_answer,
    unreadable,
)
from app.commands.records import facts_in
from app.explain.answers.queues import queue_rows
from app.explain.known.index import Index
from app.explain.known.read import read_list
from app.explain.known.snapshot import RESOURCES, Snapshot
from app.explain.shown.queues_text import queues_document, queues_exit_code, queues_text
from app.kube.api import ClusterError


def add_options(parser: argparse.ArgumentParser) -> None:
    add_reading_options(parser)
    parser.add_argument(
        "--offline",
        nargs="+",
        metavar="FILES",
        help="judge YAML or JSON files, or a record of explain, in place of a cluster",
    )


def run(arguments: argparse.Namespace) -> int:
    logs.set_up("warning")
    try:
        facts = facts_in(arguments.offline) if arguments.offline else uvloop.run(_read(arguments))
    except (ClusterError, OSError) as problem:
        return unreadable("can't read the queues", problem, arguments)
    index = Index(facts)
    rows = queue_rows(index)
    show_answer(
        arguments.output,
        lambda: queues_document(rows, facts),
        lambda: queues_text(rows, facts, columns(sys.stdout)),
    )
    return queues_exit_code(rows, index)


async def _read(arguments: argparse.Namespace) -> Snapshot:
    async with reading_client(RESOURCES, arguments.kubeconfig, arguments.context) as client:
        return await read_list(client, "", room=True, now=time.time())


COMMAND = Command(
    "Shows the queues of KAI: the quota and limit of each, what its pods use, its fair share of"
    " what there is now, how many gangs wait in it, and what becomes of the first of them. Nothing"
    " is written. Exit code: 0 KAI can use every queue, 1 there is one that it can't, 2 not"
    " everything could be read.",
    add_options,
    run,
)

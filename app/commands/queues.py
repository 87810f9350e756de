"""The command `queues`: show KAI's queues, their usage and their pending gangs."""

import argparse
import sys
import time

import uvloop

from app.base import logs
from app.cluster.command_clients import reading_client
from app.commands.options import (
    Command,
    add_offline,
    add_reading_options,
    columns,
    show_answer,
    unreadable,
)
from app.commands.records import facts_in
from app.explain.answers.queues import queue_rows
from app.explain.output.queues_text import queues_document, queues_exit_code, queues_text
from app.explain.state.index import Index
from app.explain.state.read import read_list
from app.explain.state.snapshot import RESOURCES, Snapshot
from app.kube.api import ClusterError


def add_options(parser: argparse.ArgumentParser) -> None:
    add_reading_options(parser)
    add_offline(parser)


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
    description=(
        "Show KAI's queues: quota, limit, usage, current fair share, pending gangs, and what KAI"
        " should do next with the first of them. Nothing is written. Exit code: 0 no problems,"
        " 1 KAI can't use a queue, a queue lacks a quota or limit, or a PodGroup"
        " names a missing queue, 2 not everything was readable."
    ),
    add_options=add_options,
    run=run,
    examples=(
        "grove-admission queues",
        "grove-admission queues -o json   # for scripts",
    ),
)

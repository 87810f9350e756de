"""The command `console`: serve a local, read-only web page."""

import argparse
import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from app.base import logs
from app.commands.options import (
    REFUSED,
    Command,
    add_cluster_options,
    complain,
    configured,
    needs_extra,
    port_number,
)
from app.console.settings import ConsoleSettings
from app.kube.api import ClusterError
from app.kube.contexts import current_context, namespace_of
from app.kube.credentials import is_in_cluster
from app.server.process import signalled

if TYPE_CHECKING:
    from app.console.app import Opened


def add_options(parser: argparse.ArgumentParser) -> None:
    add_cluster_options(parser, "$KUBECONFIG or ~/.kube/config")
    parser.add_argument(
        "--namespace",
        default="",
        metavar="A,B",
        help="namespaces to show if you may not list all (default: the kubeconfig context's)",
    )

    parser.add_argument(
        "--port", type=port_number, default=0, help="port on loopback (default: a free one)"
    )
    parser.add_argument("--ipv6", action="store_true", help="listen on ::1 instead of 127.0.0.1")
    parser.add_argument("--no-browser", action="store_true", help="don't open a browser")


def run(arguments: argparse.Namespace) -> int:
    if is_in_cluster():
        complain(
            "The console doesn't run in a cluster. Run it where your kubeconfig and browser are."
        )
        return REFUSED

    logs.set_up("warning")
    try:
        uvloop.run(_run(arguments))
    except (ClusterError, OSError) as problem:
        complain(f"can't open the console: {problem}")
        return REFUSED

    return 0


async def _run(arguments: argparse.Namespace) -> None:
    settings = ConsoleSettings(
        configured(arguments),
        arguments.kubeconfig,
        arguments.context,
        arguments.context or current_context(arguments.kubeconfig),
        tuple(filter(None, arguments.namespace.split(","))),
        namespace_of(arguments.kubeconfig, arguments.context),
        arguments.port,
        arguments.ipv6,
    )
    async with announced(settings) as console:
        if sys.stdout.isatty() and not arguments.no_browser:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(console.open_browser)
        await signalled()


@contextlib.asynccontextmanager
async def announced(settings: ConsoleSettings) -> AsyncIterator["Opened"]:
    """Serve a console while the block runs, and print its address.

    Raise UnusableInput if the extra `console` is not installed.
    """
    with needs_extra("console"):
        from app.console.app import opened

    async with opened(settings) as console:
        print(announcement(console.url, console.file, terminal=sys.stdout.isatty()), flush=True)
        yield console


def announcement(url: str, file: Path, *, terminal: bool) -> str:
    """Return the line to print: `url` on a terminal, otherwise the `file` that redirects to it.

    The URL has a token, and output that does not go to a terminal may be stored and read by others.
    """
    return f"console ready: {url}" if terminal else f"console ready: open {file}"


COMMAND = Command(
    description=(
        "Show workloads, topology, queues, findings and a playground in a local web page until"
        " Ctrl-C or SIGTERM. The console listens on loopback only, reads with the permissions of"
        " your kubeconfig, and writes nothing to the cluster. Exit code: 0 after it was stopped, 1"
        " if it can't run, 2 unusable input."
    ),
    add_options=add_options,
    run=run,
    examples=(
        "grove-admission console                       # opens your browser",
        "grove-admission console --namespace a,b       # if you may read only these",
    ),
)

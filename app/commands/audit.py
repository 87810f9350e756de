"""The command `audit`: list live objects that would be rejected today."""

import argparse
import contextlib
import sys
from datetime import UTC, datetime

import uvloop

from app.audit.auditor import Auditor
from app.audit.progress import Progress
from app.base import logs
from app.base.safe_text import visible_json
from app.cluster.command_clients import looking_client
from app.commands.options import (
    LIKE_KUBECTL,
    Command,
    add_cluster_options,
    add_output,
    configured,
    show,
    unreadable,
)
from app.config.schema import Configuration
from app.facts.kinds import ALL
from app.kube.api import Client, ClusterError, ObjectRef, Rejected
from app.objects.resource import NAMESPACE


def add_options(parser: argparse.ArgumentParser) -> None:
    add_cluster_options(parser, LIKE_KUBECTL)
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        help="audit this namespace and cluster-scoped objects (default: all namespaces)",
    )
    add_output(
        parser, "output format (default: text); json: one line per finding, then the summary"
    )


def run(arguments: argparse.Namespace) -> int:
    logs.set_up("warning")
    configuration = configured(arguments)
    try:
        return uvloop.run(_run(arguments, configuration))
    except BrokenPipeError:
        raise  # the reader of our output, such as `head`, has exited
    except (ClusterError, OSError) as problem:
        return unreadable("can't audit", problem, arguments)


async def _run(arguments: argparse.Namespace, configuration: Configuration) -> int:
    async with looking_client(ALL, arguments.kubeconfig, arguments.context) as client:
        await client.discovery.refresh()
        if arguments.namespace:
            await need_namespace(client, arguments.namespace)
        return await audit(client, configuration, arguments.namespace, arguments.output)


async def need_namespace(client: Client, name: str) -> None:
    """Raise NotFound if the namespace does not exist, because an audit of it would find nothing.

    Without permission to read namespaces, any name is accepted.
    """
    with contextlib.suppress(Rejected):
        await client.get(ObjectRef(NAMESPACE, name))


async def audit(
    client: Client, configuration: Configuration, namespace: str | None, output: str
) -> int:
    """Print all findings, as text or as JSON lines, and the summary. Return the exit code."""
    progress = Progress(sys.stderr)
    auditor = Auditor(client, configuration, progress.show, datetime.now(UTC))
    async for finding in auditor.findings(namespace):
        progress.clear()
        if output == "json":
            print(visible_json(finding.json()))
        else:
            show(finding.text())
    progress.clear()
    tally = auditor.tally
    if output == "json":
        print(visible_json({"summary": tally.json()}))
    else:
        show(tally.summary())
    return tally.exit_code


COMMAND = Command(
    description=(
        "List live objects that would be rejected if they were created today, MNNVL resources with"
        " a wrong owner or none, and other problems. Nothing is written. Exit code: 0 no findings,"
        " 1 an object would be rejected, 2 something could not be read or judged, 3 only warnings."
    ),
    add_options=add_options,
    run=run,
    examples=(
        "grove-admission audit                     # all namespaces",
        "grove-admission audit -n team-a -o json   # one namespace, for scripts",
    ),
)

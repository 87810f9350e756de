"""The command line of the doctor.

Exit codes: 0 fine, 1 problems, 2 not everything could be looked at.
"""

import argparse
import functools
from datetime import UTC, datetime

import uvloop

from app.base import logs
from app.cluster.connect import is_of_pod, looking_client
from app.commands.options import (
    LIKE_KUBECTL,
    Command,
    add_cluster_options,
    add_output,
    configured,
    show_answer,
    unreadable,
)
from app.config.schema import Configuration
from app.doctor.certificate import handshake
from app.doctor.examination import Patient, examine
from app.doctor.report import Examined, document, exit_code, lines, warning
from app.facts.kinds import ALL
from app.kube.api import ClusterError

_HANDSHAKE_SECONDS = 3.0
_UNCONFIGURED = warning(
    "not given: an installation with the defaults is looked for",
    "Give the server's own as --config.",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    add_cluster_options(parser, LIKE_KUBECTL)
    parser.add_argument(
        "--all-webhooks",
        action="store_true",
        help="also rehearse an outage of each webhook of the cluster, whoever it belongs to",
    )
    parser.add_argument("--all", action="store_true", help="also the checks that are ok")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    logs.set_up("warning")
    configuration = configured(arguments)
    try:
        examined = uvloop.run(_examine(arguments, configuration))
    except (ClusterError, OSError) as problem:
        return unreadable("can't examine the cluster", problem, arguments)

    show_answer(
        arguments.output,
        lambda: document(examined),
        lambda: "\n".join(lines(examined, everything=arguments.all)),
    )
    return exit_code(examined)


async def _examine(arguments: argparse.Namespace, configuration: Configuration) -> Examined:
    async with looking_client(ALL, arguments.kubeconfig, arguments.context) as client:
        await client.discovery.refresh()
        shake = functools.partial(handshake, seconds=_HANDSHAKE_SECONDS)
        examined = await examine(
            Patient(
                client,
                client.read,
                shake,
                configuration,
                is_of_pod(arguments.kubeconfig, arguments.context),
                datetime.now(UTC),
                arguments.all_webhooks,
            )
        )
        return examined if arguments.config else {"configuration": [_UNCONFIGURED], **examined}


COMMAND = Command(
    "Looks at the webhook configurations, their caBundles, the Service, what is installed, the"
    " server's permissions and the topology objects, and says what would be refused while the"
    " server is down. Nothing is written. Exit code: 0 fine, 1 problems, 2 not everything could be"
    " looked at.",
    add_options,
    run,
)

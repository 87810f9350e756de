"""The command line of the doctor.

Exit codes: 0 fine, 1 problems, 2 not everything could be looked at.
"""

import argparse
import functools
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from app.base import logs
from app.base.record import record_of
from app.cluster.connect import is_of_pod, looking_client
from app.commands.options import (
    LIKE_KUBECTL,
    Command,
    add_cluster_options,
    add_output,
    complain,
    configured,
    show_answer,
    unreadable,
)
from app.commands.records import HAS_NAMES, add_record_options, read_record
from app.config.read import with_topology
from app.config.schema import Configuration
from app.doctor.certificate import Shake, handshake
from app.doctor.examination import Patient, examine
from app.doctor.record import KIND, Heard, unanswered, unreachable
from app.doctor.report import Examined, document, exit_code, lines, warning
from app.facts.kinds import ALL
from app.kube.api import ClusterError

_HANDSHAKE_SECONDS = 3.0
_UNCONFIGURED = warning(
    "not given: an installation with the defaults is looked for",
    "Give the server's own as --config.",
)
_NOT_GIVEN = {"cluster_topology": {"enabled"}}
"""What the defaults have, and no configuration may have without levels."""


def add_options(parser: argparse.ArgumentParser) -> None:
    add_cluster_options(parser, LIKE_KUBECTL)
    parser.add_argument(
        "--all-webhooks",
        action="store_true",
        help="also rehearse an outage of each webhook of the cluster, whoever it belongs to",
    )
    parser.add_argument("--all", action="store_true", help="also the checks that are ok")
    add_output(parser)
    add_record_options(parser)
    parser.add_argument(
        "--offline", type=Path, metavar="FILE", help="examine a record in place of a cluster"
    )


def run(arguments: argparse.Namespace) -> int:
    logs.set_up("warning")
    if arguments.offline:
        heard = read_record(KIND, Heard, arguments.offline)
    else:
        heard = Heard(
            datetime.now(UTC),
            is_of_pod(arguments.kubeconfig, arguments.context),
            arguments.all_webhooks,
            arguments.config is not None,
            configured(arguments).model_dump_json(
                by_alias=True, exclude=None if arguments.config else _NOT_GIVEN
            ),
        )
    try:
        examined = uvloop.run(_examine(arguments, heard))
        if arguments.record:
            arguments.record.write_bytes(record_of(KIND, heard))
            complain(HAS_NAMES)
    except (ClusterError, OSError) as problem:
        return unreadable("can't examine the cluster", problem, arguments)

    show_answer(
        arguments.output,
        lambda: document(examined),
        lambda: "\n".join(lines(examined, everything=arguments.all)),
    )
    return exit_code(examined)


async def _examine(arguments: argparse.Namespace, heard: Heard) -> Examined:
    shake: Shake = functools.partial(handshake, seconds=_HANDSHAKE_SECONDS)
    recorded = None
    if arguments.offline or heard.answers:
        shake = unreachable
        recorded = unanswered
    async with looking_client(ALL, arguments.kubeconfig, arguments.context, recorded) as client:
        if recorded or arguments.record:
            client.call = heard.keeping(client.call)
        await client.discovery.refresh()
        configuration = Configuration.model_validate_json(heard.configuration)
        if not heard.is_configured:
            configuration = with_topology(configuration)
        patient = Patient(
            client,
            client.read,
            heard.shaking(shake),
            configuration,
            heard.is_server,
            heard.now,
            heard.all_webhooks,
        )
        examined = await examine(patient)
        return examined if heard.is_configured else {"configuration": [_UNCONFIGURED], **examined}


COMMAND = Command(
    "Looks at the webhook configurations, their caBundles, the Service, what is installed, the"
    " server's permissions and the topology objects, and says what would be refused while the"
    " server is down. Nothing is written. Exit code: 0 fine, 1 problems, 2 not everything could be"
    " looked at.",
    add_options,
    run,
)

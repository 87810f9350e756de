"""The command `doctor`: examine an installation, and say what to repair."""

import argparse
import functools
from datetime import UTC, datetime
from pathlib import Path

import uvloop
from msgspec.structs import replace

from app.base import logs
from app.base.record import record_of
from app.cluster.command_clients import is_of_pod, looking_client
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
from app.commands.records import add_record_options, read_record
from app.config.read import with_topology
from app.config.schema import Configuration
from app.doctor.certificate import Shake, handshake
from app.doctor.configuration import find_configuration
from app.doctor.examination import Patient, examine
from app.doctor.record import KIND, Heard, unanswered, unreachable
from app.doctor.report import (
    Checks,
    Examined,
    document,
    exit_code,
    lines,
    ok,
    problem,
    warning,
)
from app.facts.kinds import ALL
from app.kube.api import ClusterError
from app.kube.client import HttpClient

_HANDSHAKE_SECONDS = 3.0
_UNCONFIGURED = warning(
    "no --config was given, and doctor found no configuration in the cluster, so it assumes the"
    " default configuration of the server",
    "Pass the configuration of the server: grove-admission doctor --config FILE",
)
_INVALID = (
    "Correct the configuration in your overlay or in the values of the chart, and apply it again."
    " The message has all mistakes. Until then, replicas that start with it exit."
)
_CONTENT = (
    "The record contains names of objects, namespaces, nodes and accounts, labels, addresses of"
    " endpoints, the rules of all webhooks and policies, and messages of other components. Read it"
    " before you share it."
)
_NOT_GIVEN = {"cluster_topology": {"enabled"}}
"""The field to leave out of a recorded default configuration.

Its value, true, is invalid without levels.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    add_cluster_options(parser, LIKE_KUBECTL)
    parser.add_argument(
        "--all-webhooks",
        action="store_true",
        help="rehearse an outage of every webhook in the cluster",
    )
    parser.add_argument("--all", action="store_true", help="also show the checks that passed")
    add_output(parser)
    add_record_options(parser)
    parser.add_argument(
        "--offline", type=Path, metavar="FILE", help="examine a record instead of a cluster"
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
        examined, heard = uvloop.run(_examine(arguments, heard))
        if arguments.record:
            arguments.record.write_bytes(record_of(KIND, heard))
            complain(_CONTENT)
    except (ClusterError, OSError) as error:
        return unreadable("can't examine the cluster", error, arguments)

    show_answer(
        arguments.output,
        lambda: document(examined),
        lambda: "\n".join(lines(examined, everything=arguments.all)),
    )
    return exit_code(examined)


async def _examine(arguments: argparse.Namespace, heard: Heard) -> tuple[Examined, Heard]:
    """Return the checks of a cluster, or of the record in `heard` with --offline, and the record.

    Without --config, the record has the configuration that was found in the cluster. With --record,
    it also has the cluster's answers.
    """
    shake: Shake = functools.partial(handshake, seconds=_HANDSHAKE_SECONDS)
    recorded = None
    if arguments.offline or heard.answers:
        shake = unreachable
        recorded = unanswered
    async with looking_client(ALL, arguments.kubeconfig, arguments.context, recorded) as client:
        if recorded is None and not heard.is_configured:
            await client.discovery.refresh()
            heard = await _with_found(client, heard)
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
            client.try_create,
        )
        return {"configuration": _about(heard), **await examine(patient)}, heard


async def _with_found(client: HttpClient, heard: Heard) -> Heard:
    """Return `heard` with the configuration of the installed server, if it can be found."""
    assumed = Configuration.model_validate_json(heard.configuration)
    found = await find_configuration(client, assumed.certificates.namespace)
    if found is None:
        return heard
    if found.configuration is None:
        return replace(heard, source=found.source, invalid=found.problem)
    text = found.configuration.model_dump_json(by_alias=True)
    return replace(heard, source=found.source, configuration=text, is_configured=True)


def _about(heard: Heard) -> Checks:
    """Return the checks of the configuration that the other checks assume."""
    if heard.invalid:
        return [problem(f"the configuration is invalid: {heard.invalid}", _INVALID)]
    if not heard.is_configured:
        return [_UNCONFIGURED]
    return [ok(f"the configuration is that of {heard.source}")] if heard.source else []


COMMAND = Command(
    description=(
        "Check the installed APIs, the webhook configurations, their CA bundles, the policies, the"
        " Service and its replicas, whether an API server can call the webhooks, the server's"
        " permissions, the leader, the topology objects, MNNVL claims, KAI's queues, Grove's"
        " settings and the webhooks of other products. With --all, also say which requests are"
        " rejected while the server is down. Nothing is written."
        " Exit code: 0 no problems, 1 problems, 2 not everything was readable."
    ),
    add_options=add_options,
    run=run,
    examples=(
        "grove-admission doctor",
        "grove-admission doctor --all-webhooks   # rehearse an outage of every webhook",
    ),
)

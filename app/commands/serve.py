"""The command `serve`: run the admission webhooks and the reconcilers until SIGTERM."""

import argparse
import logging
import sys
from collections.abc import Iterable
from pathlib import Path

import uvloop

from app.base import logs
from app.base.unusable import UnusableInput
from app.commands.options import (
    REFUSED,
    Command,
    add_cluster_options,
    add_log_level,
    complain,
    configured,
    port_number,
)
from app.config.error import ConfigurationError
from app.config.schema import Configuration
from app.facts.kinds import ALL
from app.kube.api import ClusterError
from app.objects.resource import Resource
from app.reconcilers.cluster_topology import CreationFailed
from app.rules.topology.levels import levels_below_host
from app.server.serve import Duties, Extras, connected, no_duties, serve

logger = logging.getLogger(__name__)


def add_options(parser: argparse.ArgumentParser) -> None:
    add_cluster_options(parser)
    parser.add_argument(
        "--host", help="address to listen on (default: server.host in the configuration)"
    )
    parser.add_argument(
        "--port",
        type=port_number,
        help="port for API servers and probes, 0 for a free one (default: server.port)",
    )
    parser.add_argument(
        "--tools-port",
        type=port_number,
        help="port for dry runs, metrics and docs, 0 for a free one (default: server.toolsPort)",
    )

    parser.add_argument(
        "--certs",
        type=Path,
        default=Path("certs"),
        metavar="DIR",
        help=(
            "directory with tls.crt and tls.key; if it has neither, a development certificate is"
            " created (default: certs)"
        ),
    )
    parser.add_argument(
        "--objects",
        type=Path,
        metavar="DIR",
        help="read objects from the YAML and JSON files in DIR instead of a cluster",
    )
    add_log_level(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.config is None and arguments.objects is None:
        raise UnusableInput("serve needs --config FILE for a cluster, or --objects DIR without one")

    logs.set_up(arguments.log_level, arguments.log_format)
    try:
        configuration = configured(
            arguments, host=arguments.host, port=arguments.port, tools_port=arguments.tools_port
        )
    except ConfigurationError as problem:
        complain(problem, kept="\n")
        return REFUSED

    below_host = levels_below_host(configuration.levels)
    if below_host:
        logger.warning("clusterTopology.levels: %s", below_host)

    objects = None
    if arguments.objects is not None:
        from app.commands.files import objects_in

        objects = objects_in(arguments.objects)

    readable = logs.is_readable(arguments.log_format, sys.stdout)
    resources, duties = further_duties(configuration)
    cluster = connected(configuration, objects, arguments.kubeconfig, arguments.context, resources)
    extras = Extras(readable, duties)
    try:
        uvloop.run(serve(configuration, arguments.certs, cluster, extras))
    except (OSError, ClusterError, CreationFailed) as problem:
        complain(f"can't serve: {problem}")
        return REFUSED

    return 0


def further_duties(configuration: Configuration) -> tuple[Iterable[Resource], Duties]:
    """Return the resources that the server reads, and the leader's duties besides reconciling."""
    if not configuration.waiting.enabled:
        return ALL, no_duties

    # this loads explain, which a server without it doesn't need
    from app.waiting.watcher import RESOURCES, WaitingDuty

    resources = dict.fromkeys((*ALL, *RESOURCES))
    return resources, lambda client, events: [WaitingDuty(client, events, configuration)]


COMMAND = Command(
    description=(
        "Serve the admission webhooks until SIGTERM, and reconcile while this replica is the"
        " leader. Give --config to serve a cluster, --objects to serve without one."
        " GROVE_ADMISSION_HOST, GROVE_ADMISSION_PORT, GROVE_ADMISSION_TOOLS_PORT and"
        " GROVE_ADMISSION_CERTIFICATES_MODE override the configuration. --host, --port and"
        " --tools-port override their variables. Exit code: 0 after SIGTERM, 1 if it can't serve or"
        " the configuration is invalid, 2 if the input is unusable."
    ),
    add_options=add_options,
    run=run,
    examples=(
        "grove-admission serve --config config.yaml         # for a cluster",
        "grove-admission serve --objects manifests/examples # without a cluster",
    ),
)

"""The command line of the doctor.

Exit codes: 0 fine, 1 problems, 2 not everything could be looked at.
"""

import argparse
import json
import os
import sys
from datetime import UTC, datetime
from typing import Any

import uvloop

from app import logs
from app.config import Configuration, configuration_or_defaults, with_overrides
from app.doctor.examination import Patient, examine
from app.doctor.permissions import Account
from app.doctor.report import Check, document, exit_code, lines
from app.kube.api import ClusterError
from app.kube.credentials import is_in_cluster
from app.options import LIKE_KUBECTL, add_cluster_options
from app.runtime import looking_client
from app.tls.probe import Handshake, handshake

COULD_NOT_LOOK = 2
ACCOUNT = "grove-admission"
"""The service account of the manifests, in the namespace of the Service."""
_HANDSHAKE_SECONDS = 3.0
_UNCONFIGURED = Check(
    "configuration",
    "warning",
    "not given: an installation with the defaults is looked for",
    "Give the server's own as --config.",
)


def add_doctor(commands: Any) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="whether an installation in a live cluster can do its work",
        description="Looks at the webhook configurations, their caBundles, the Service, what is installed, the "
        "server's permissions and the topology objects, and says what would be refused while the server is down. "
        "Nothing is written. Exit code: 0 fine, 1 problems, 2 not everything could be looked at.",
    )
    add_cluster_options(doctor, LIKE_KUBECTL)
    doctor.add_argument("--output", default="text", choices=("text", "json"), help="default: text")
    doctor.set_defaults(run=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    configuration = with_overrides(configuration_or_defaults(arguments.config), os.environ, {})
    logs.set_up("warning")
    try:
        checks = uvloop.run(_examine(arguments, configuration))
    except (ClusterError, OSError) as problem:
        print(f"can't examine the cluster: {problem}", file=sys.stderr)
        return COULD_NOT_LOOK
    print(json.dumps(document(checks), indent=2) if arguments.output == "json" else "\n".join(lines(checks)))
    return exit_code(checks)


async def _examine(arguments: argparse.Namespace, configuration: Configuration) -> list[Check]:
    in_pod = is_in_cluster() and arguments.kubeconfig is None and arguments.context is None
    async with looking_client(configuration, arguments.kubeconfig, arguments.context) as client:
        account = None if in_pod else Account(configuration.certificates.namespace, ACCOUNT)
        checks = await examine(Patient(client, client.read, _shake, configuration, account, datetime.now(UTC)))
        return checks if arguments.config else [_UNCONFIGURED, *checks]


async def _shake(host: str, port: int, name: str, ca_bundle: bytes) -> Handshake:
    return await handshake(host, port, name, ca_bundle, _HANDSHAKE_SECONDS)

"""The command `webhooks`: print the two webhook configurations."""

import argparse
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from app.base.unusable import UnusableInput
from app.certificates.certificate import split_bundle
from app.commands.files import read_text
from app.commands.options import Command
from app.objects.names import is_label
from app.webhooks.configurations import ServiceTarget, Target, UrlTarget, webhook_configurations


def add_options(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    text = "Service that API servers call (default: grove-system/grove-admission)"
    where.add_argument(
        "--service", metavar="NAMESPACE/NAME", default="grove-system/grove-admission", help=text
    )
    where.add_argument("--url", help="https://host:port of a server outside the cluster")
    parser.add_argument(
        "--ca-file",
        type=Path,
        metavar="FILE",
        help="with --url: the CA of the server's certificate",
    )


def run(arguments: argparse.Namespace) -> int:
    target: Target
    if arguments.url:
        target = UrlTarget(arguments.url, _ca_bundle(arguments.url, arguments.ca_file))
        own_namespace = "grove-system"
    else:
        if arguments.ca_file is not None:
            raise UnusableInput(
                "--ca-file needs --url: for a Service, the server or cert-manager writes the"
                " caBundle"
            )
        own_namespace, _, name = arguments.service.partition("/")
        if not (is_label(own_namespace) and is_label(name)):
            raise UnusableInput(f"--service takes NAMESPACE/NAME, not {arguments.service!r}")
        target = ServiceTarget(own_namespace, name)

    configurations = webhook_configurations(target, own_namespace)
    print(yaml.safe_dump_all(configurations, sort_keys=False, explicit_start=True), end="")

    return 0


def _ca_bundle(url: str, ca_file: Path | None) -> bytes:
    """Return the CA bundle in `ca_file`. Raise UnusableInput if the file or the URL is invalid."""
    parts = urlsplit(url)
    if (
        ca_file is None
        or parts.scheme != "https"
        or not parts.hostname
        or parts.path.strip("/")
        or parts.query
    ):
        raise UnusableInput("--url takes https://host:port and needs --ca-file")

    try:
        bundle = read_text(str(ca_file)).encode()
        split_bundle(bundle)
    except UnusableInput as problem:
        raise UnusableInput(f"{ca_file}: {problem}") from None
    except ValueError:
        raise UnusableInput(f"{ca_file}: not a PEM bundle of certificates") from None

    return bundle


COMMAND = Command(
    description=(
        "Print this version's MutatingWebhookConfiguration and ValidatingWebhookConfiguration for"
        " kubectl apply. Without --url, they have no caBundle: the server (self-managed"
        " certificates) or cert-manager writes it."
    ),
    add_options=add_options,
    run=run,
    examples=(
        "grove-admission webhooks | kubectl apply -f -",
        "grove-admission webhooks --url https://host.example:8443 --ca-file ca.crt",
    ),
)

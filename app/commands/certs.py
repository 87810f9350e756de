"""`grove-admission certs make | show | check`: certificates in a directory or in a cluster.

Exit codes: 0 no problem, 1 a problem of the certificates, 2 unusable input.
"""

import argparse
import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from app.certificates.inspect import address_of
from app.certificates.report import Material, describe, read_live, validate_material
from app.certificates.rotate import Terms, new_holdings
from app.cluster.connect import api_client
from app.commands.options import Command, add_config, configured, show
from app.dry_run.budget import UnusableInput
from app.kube.api import ClusterError, NotFound
from app.objects.names import is_subdomain

WRONG = 1
MODES = {"ca.crt": 0o644, "ca.key": 0o600, "tls.crt": 0o644, "tls.key": 0o600}
DEFAULT_NAME = "grove-admission.grove-system.svc"


def add_options(parser: argparse.ArgumentParser) -> None:
    within = parser.add_subparsers(required=True, metavar="COMMAND")
    make = within.add_parser(
        "make", help="a new CA and a certificate, into a directory; nothing is written over"
    )
    make.add_argument("directory", type=Path, metavar="DIR")
    text = f"DNS name or IP address; again for more (default: {DEFAULT_NAME})"
    make.add_argument("--name", type=_name, action="append", metavar="NAME", help=text)
    make.add_argument(
        "--days", type=_life, default=timedelta(days=90), metavar="N", help="the certificate's (90)"
    )
    make.add_argument(
        "--ca-days", type=_life, default=timedelta(days=365), metavar="N", help="the CA's (365)"
    )
    make.set_defaults(action=_make)
    show = within.add_parser("show", help="what there is, and until when")
    _add_place(show)
    show.set_defaults(action=_show)
    check = within.add_parser(
        "check", help="exit code 1 where something is wrong, with the reasons"
    )
    _add_place(check)
    text = (
        "must be covered; again for more (default with --kubeconfig: the name that API servers"
        " call)"
    )
    check.add_argument("--name", action="append", metavar="NAME", help=text)
    check.add_argument(
        "--within",
        type=_days,
        default=timedelta(0),
        metavar="DAYS",
        help="must stay valid for so long",
    )
    check.set_defaults(action=_check)


def _add_place(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "directory", type=Path, nargs="?", metavar="DIR", help="with tls.crt, tls.key and ca.crt"
    )
    where.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="the cluster whose Secret to look at"
    )
    parser.add_argument("--context", help="a context of the kubeconfig (default: its current one)")
    add_config(parser, "an OperatorConfiguration that names the Secret")


def _days(text: str) -> timedelta:
    try:
        days = timedelta(days=float(text))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days") from None
    if days < timedelta(0):
        raise argparse.ArgumentTypeError("must not be negative")
    return days


def _life(text: str) -> timedelta:
    days = _days(text)
    if not days:
        raise argparse.ArgumentTypeError("must be more than 0")
    return days


def _name(text: str) -> str:
    """Return a DNS name, which may begin with `*.`, or an IP address."""
    if address_of(text) is None and not is_subdomain(text.removeprefix("*.").lower()):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a DNS name nor an IP address")
    return text


def _make(arguments: argparse.Namespace) -> int:
    directory: Path = arguments.directory
    existing = [name for name in MODES if (directory / name).exists()]
    if existing:
        raise UnusableInput(
            f"{directory} has {', '.join(existing)} already; nothing is written over"
        )

    if arguments.days > arguments.ca_days:
        raise UnusableInput(
            "--days must not be more than --ca-days: a certificate ends with its CA"
        )

    terms = Terms(arguments.ca_days, arguments.days)
    try:
        holdings = new_holdings(arguments.name or [DEFAULT_NAME], datetime.now(UTC), terms)
        directory.mkdir(parents=True, exist_ok=True)
        content = (
            holdings.ca.cert_pem,
            holdings.ca.key_pem,
            holdings.leaf.cert_pem,
            holdings.leaf.key_pem,
        )
        for (name, mode), pem in zip(MODES.items(), content, strict=True):
            _write(directory / name, pem, mode)
    except (ValueError, OverflowError, OSError) as problem:
        raise UnusableInput(f"can't make certificates: {problem}") from None

    print(f"made in {directory}: {', '.join(MODES)}")

    return 0


def _write(path: Path, pem: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)


def _show(arguments: argparse.Namespace) -> int:
    material = (
        asyncio.run(_live(arguments))[0] if arguments.kubeconfig else _stored(arguments.directory)
    )
    if material == Material(None, None, None):
        raise UnusableInput(f"there is no {', '.join(MODES)} in {arguments.directory}")
    show("\n".join(describe(material, datetime.now(UTC))))
    return 0


def _check(arguments: argparse.Namespace) -> int:
    names = arguments.name or []
    distrust = list[str]()
    if arguments.kubeconfig:
        settings = configured(arguments).certificates
        names = names or [f"{settings.service_name}.{settings.namespace}.svc"]
        material, distrust = asyncio.run(_live(arguments))
    else:
        material = _stored(arguments.directory)
    findings = [*validate_material(material, names, datetime.now(UTC), arguments.within), *distrust]
    show("\n".join(findings) or "ok")
    return WRONG if findings else 0


def _stored(directory: Path) -> Material:
    def content(name: str) -> bytes | None:
        try:
            return (directory / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise UnusableInput(f"can't be read: {problem}") from None

    return Material(content("tls.crt"), content("tls.key"), content("ca.crt"))


async def _live(arguments: argparse.Namespace) -> tuple[Material, list[str]]:
    """Return the content of the Secret of a cluster, and who does not trust it.

    The latter are names of webhook configurations.
    """
    configuration = configured(arguments)
    settings = configuration.certificates
    try:
        async with api_client(configuration, arguments.kubeconfig, arguments.context) as client:
            return await read_live(client, settings)
    except NotFound:
        raise UnusableInput(
            f"there is no Secret {settings.namespace}/{settings.secret_name}"
        ) from None
    except ValueError as problem:
        raise UnusableInput(str(problem)) from None
    except (ClusterError, OSError) as problem:
        raise UnusableInput(f"can't ask the cluster: {problem}") from None


def run(arguments: argparse.Namespace) -> int:
    return int(arguments.action(arguments))


COMMAND = Command("Makes, shows or checks certificates.", add_options, run)

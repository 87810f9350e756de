"""The command `certs`: create certificates in a directory, or check existing ones.

Exit codes: 0 no problem, 1 a problem with the certificates, 2 unusable input.
"""

import argparse
from datetime import UTC, datetime, timedelta
from pathlib import Path

from app.base.unusable import UnusableInput
from app.certificates.certificate import Pair, address_of, check_pair
from app.certificates.rotation import Terms, new_holdings
from app.certificates.source import write_pair
from app.commands.options import Command, show
from app.objects.names import is_subdomain

WRONG = 1
FILES = ("ca.crt", "ca.key", "tls.crt", "tls.key")
DEFAULT_NAME = "grove-admission.grove-system.svc"


def add_options(parser: argparse.ArgumentParser) -> None:
    within = parser.add_subparsers(required=True, metavar="COMMAND")
    make = within.add_parser(
        "make", help="create a CA and a certificate in a directory that has neither"
    )
    text = f"directory to which {', '.join(FILES)} are written"
    make.add_argument("directory", type=Path, metavar="DIR", help=text)
    text = f"DNS name or IP address; repeat the option for more (default: {DEFAULT_NAME})"
    make.add_argument("--name", type=_name, action="append", metavar="NAME", help=text)
    text = "validity of the certificate in days (default: 90); the CA's is four times as long"
    make.add_argument("--days", type=_life, default=timedelta(days=90), metavar="N", help=text)
    make.set_defaults(action=_make)
    check = within.add_parser(
        "check", help="check the certificates in a directory; exit code 1 if one is wrong"
    )
    text = "name that the certificate must cover; repeat the option for more"
    check.add_argument("--name", action="append", default=[], metavar="NAME", help=text)
    check.set_defaults(action=_check)
    text = "directory with tls.crt, tls.key and ca.crt"
    check.add_argument("directory", type=Path, metavar="DIR", help=text)


def _life(text: str) -> timedelta:
    """Return a number of days as a duration. Raise ArgumentTypeError if it is not above 0."""
    try:
        days = timedelta(days=float(text))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days") from None
    if days <= timedelta(0):
        raise argparse.ArgumentTypeError("must be more than 0")
    return days


def _name(text: str) -> str:
    """Return `text` if it is a DNS name, which may begin with `*.`, or an IP address.

    Raise ArgumentTypeError otherwise.
    """
    if address_of(text) is None and not is_subdomain(text.removeprefix("*.").lower()):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a DNS name nor an IP address")
    return text


def _make(arguments: argparse.Namespace) -> int:
    """Create a CA and a certificate in a directory. Return the exit code.

    Raise UnusableInput if one of FILES exists there, or if they can't be made or written.
    """
    directory: Path = arguments.directory
    existing = [name for name in FILES if (directory / name).exists()]
    if existing:
        raise UnusableInput(
            f"{directory} already has {', '.join(existing)}; nothing was overwritten"
        )

    try:
        terms = Terms(4 * arguments.days, arguments.days)
        holdings = new_holdings(arguments.name or [DEFAULT_NAME], datetime.now(UTC), terms)
        directory.mkdir(parents=True, exist_ok=True)
        write_pair(holdings.ca, directory, "ca")
        write_pair(holdings.leaf, directory, "tls")
    except (ValueError, OverflowError, OSError) as problem:
        raise UnusableInput(f"can't make certificates: {problem}") from None

    print(f"created in {directory}: {', '.join(FILES)}")

    return 0


def _check(arguments: argparse.Namespace) -> int:
    """Print the problems of the certificates in a directory, or "ok". Return the exit code."""
    directory: Path = arguments.directory
    certificate = _content(directory / "tls.crt")
    key = _content(directory / "tls.key")
    if certificate and key:
        pair = Pair(certificate, key)
        bundle = _content(directory / "ca.crt")
        findings = check_pair(pair, bundle, arguments.name, datetime.now(UTC))
    else:
        files = {"tls.crt": certificate, "tls.key": key}
        findings = [f"{name} is missing" for name, pem in files.items() if not pem]
    show("\n".join(findings) or "ok")
    return WRONG if findings else 0


def _content(path: Path) -> bytes | None:
    """Return the content of a file, or None if it doesn't exist.

    Raise UnusableInput if it can't be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise UnusableInput(f"{path} can't be read: {problem.strerror}") from None


def run(arguments: argparse.Namespace) -> int:
    return int(arguments.action(arguments))


COMMAND = Command(
    description=(
        "Create a CA and a server certificate in a directory, or check existing ones. Exit code: 0"
        " no problem, 1 a problem with the certificates, 2 unusable input."
    ),
    add_options=add_options,
    run=run,
    examples=(
        "grove-admission certs make certs --name grove-admission.grove-system.svc",
        "grove-admission certs check certs",
    ),
)

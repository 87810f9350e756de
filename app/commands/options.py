"""Options, exit codes and problems that several commands have."""

import argparse
import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from app.base.fitted import fitted
from app.base.value import Value
from app.base.visible import visible, visible_json
from app.dry_run.budget import UnusableInput

# pydantic takes a tenth of a second, which commands that read no configuration need not spend
if TYPE_CHECKING:
    from app.config.schema import Configuration

LIKE_KUBECTL = "that of this Pod; outside of one, kubectl's"

REFUSED = 1
"""Exit code: something was rejected or failed."""
UNUSABLE = 2
"""Exit code: unusable input."""


class Command(Value):
    """A command.

    It has its description in the help text, its options, and `run`, which returns the exit code.
    """

    description: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def add_cluster_options(parser: argparse.ArgumentParser, default: str = "that of this Pod") -> None:
    """Add the options for the configuration and its cluster.

    `default` describes the cluster without a kubeconfig.
    """
    add_config(parser)
    add_cluster(parser, default)


def add_config(
    parser: argparse.ArgumentParser, description: str = "an OperatorConfiguration: the server's"
) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help=description)


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for a cluster and for the form of the output.

    The cluster is read with the rights of the user.
    """
    add_cluster(parser, LIKE_KUBECTL)
    add_output(parser)


def add_cluster(parser: argparse.ArgumentParser, default: str) -> None:
    """Add the options that name a cluster. `default` describes the cluster without them."""
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help=f"of the cluster (default: {default})"
    )
    parser.add_argument(
        "--context", metavar="NAME", help="of the kubeconfig (default: its current one)"
    )


def add_output(parser: argparse.ArgumentParser, description: str = "default: text") -> None:
    """Add the option for the form of the output, called as kubectl calls it."""
    parser.add_argument(
        "-o", "--output", default="text", choices=("text", "json"), help=description
    )


def add_log_level(parser: argparse.ArgumentParser) -> None:
    levels = ("debug", "info", "warning", "error")
    parser.add_argument(
        "--log-level", default="info", choices=levels, help="of all but verdicts (default: info)"
    )
    parser.add_argument(
        "--log-format",
        default="",
        choices=("text", "json"),
        help="default: text on a terminal, json elsewhere",
    )


def port_number(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port number")
    return int(text)


def configured(arguments: argparse.Namespace, **flags: Any) -> "Configuration":
    """Return the configuration in --config, or the defaults.

    The environment and `flags` override it. Raise ConfigurationError.
    """
    from app.config.read import configuration_or_defaults, with_overrides

    return with_overrides(configuration_or_defaults(arguments.config), os.environ, flags)


@contextlib.contextmanager
def needs_extra(name: str) -> Iterator[None]:
    """Name the extra of our package that a command needs if the block can't import from it.

    The image leaves it out. Raise UnusableInput.
    """
    try:
        yield
    except ImportError as problem:
        raise UnusableInput(
            f"this needs more packages ({problem}): install grove-admission[{name}], which the"
            " image leaves out"
        ) from None


def columns(stream: TextIO) -> int:
    """Return the columns of a terminal; 0, for as many as are needed, if there is none."""
    if not stream.isatty() and not os.environ.get("COLUMNS"):
        return 0
    return shutil.get_terminal_size().columns


def show(text: str) -> None:
    """Print a text for people, as wide as the terminal; commands in it stay whole."""
    print(fitted(text, columns(sys.stdout)))


def show_answer(
    output: str, document: Callable[[], dict[str, Any]], text: Callable[[], str]
) -> None:
    """Print an answer in the form that --output names."""
    if output == "json":
        print(visible_json(document(), indented=True))
    else:
        show(text())

    sys.stdout.flush()


def complain(problem: object, kept: str = "") -> None:
    """Print a problem on standard error, as wide as the terminal; commands in it stay whole.

    `kept` are characters that would otherwise be replaced, such as line breaks.
    """
    print(fitted(visible(str(problem), kept), columns(sys.stderr)), file=sys.stderr)


def unreadable(failure: str, problem: Exception, arguments: argparse.Namespace) -> int:
    """Print why a cluster cannot be read, and return the exit code.

    The text says how to renew rejected credentials of the user.
    """
    # loads aiohttp, which commands without a cluster don't need
    from app.cluster.connect import how_to_renew

    complain(f"{failure}: {problem}")
    command = how_to_renew(problem, arguments.kubeconfig, arguments.context)
    if command:
        # whole, to be copied: it may be anybody's command
        print(f"renew your credentials: {command}", file=sys.stderr)
    return UNUSABLE

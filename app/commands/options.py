"""Define the options, exit codes and error messages that several commands share."""

import argparse
import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from app.base.safe_text import visible, visible_json
from app.base.unusable import UnusableInput
from app.base.value import Value
from app.base.wrapping import fitted
from app.objects.shape import integer_in

# importing pydantic takes a tenth of a second; commands without a configuration skip it
if TYPE_CHECKING:
    from app.config.schema import Configuration

LIKE_KUBECTL = "in-cluster config inside a Pod, otherwise your kubeconfig"
"""The default cluster of most commands, as --help describes it."""

REFUSED = 1
"""Exit code: something was rejected or failed."""
UNUSABLE = 2
"""Exit code: unusable input, or not everything could be read."""


COMPLETING = "_ARGCOMPLETE"
"""The environment variable that a shell sets to ask for completions of the line in COMP_LINE."""


class Command(Value):
    """One command of the program."""

    description: str
    """The description of the command and its exit codes, for the help text."""
    add_options: Callable[[argparse.ArgumentParser], None]
    """A function that adds the command's options to its parser."""
    run: Callable[[argparse.Namespace], int]
    """A function that runs the command, and returns the exit code."""
    examples: tuple[str, ...] = ()
    """Command lines, some with comments, with which the help text begins."""


class Parser(argparse.ArgumentParser):
    """A parser whose help text begins with examples."""

    examples: tuple[str, ...] = ()
    """The command lines that the help text begins with."""

    def format_help(self) -> str:
        """Return the help text of argparse, with the examples before it."""
        lines = "".join(f"  {example}\n" for example in self.examples)
        return f"examples:\n{lines}\n{super().format_help()}" if lines else super().format_help()


def add_cluster_options(
    parser: argparse.ArgumentParser, default: str = "in-cluster config"
) -> None:
    """Add the options for the configuration and the cluster.

    `default` says which cluster is used without these options.
    """
    add_config(parser)
    add_cluster(parser, default)


def add_config(
    parser: argparse.ArgumentParser,
    description: str = "file with the server's OperatorConfiguration",
) -> None:
    """Add the option --config. `description` is its help text."""
    parser.add_argument("--config", type=Path, metavar="FILE", help=description)


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a cluster to read, and the option for the output format."""
    add_cluster(parser, LIKE_KUBECTL)
    add_output(parser)


def add_offline(
    parser: argparse.ArgumentParser,
    description: str = "read YAML or JSON files, or a record of explain, instead of a cluster",
) -> None:
    """Add the option --offline, which names files to read. `description` is its help text."""
    parser.add_argument("--offline", nargs="+", metavar="FILES", help=description)


def add_cluster(parser: argparse.ArgumentParser, default: str) -> None:
    """Add the options that name a cluster.

    `default` says which cluster is used without these options.
    """
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help=f"kubeconfig file (default: {default})"
    )
    parser.add_argument(
        "--context", metavar="NAME", help="kubeconfig context (default: current-context)"
    )


def add_output(
    parser: argparse.ArgumentParser, description: str = "output format (default: text)"
) -> None:
    """Add the option for the output format, which has the same name as in kubectl."""
    parser.add_argument(
        "-o", "--output", default="text", choices=("text", "json"), help=description
    )


def add_log_level(parser: argparse.ArgumentParser) -> None:
    """Add the options for the level and the format of log lines."""
    levels = ("debug", "info", "warning", "error")
    parser.add_argument(
        "--log-level",
        default="info",
        choices=levels,
        help="level of all log lines except verdicts (default: info)",
    )
    parser.add_argument(
        "--log-format",
        default="",
        choices=("text", "json"),
        help="log format (default: text on a terminal, otherwise json)",
    )


def port_number(text: str) -> int:
    """Return the port in an argument. Raise ArgumentTypeError if it is not between 0 and 65535."""
    number = integer_in(text)
    if number is None or not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port number")
    return number


def configured(arguments: argparse.Namespace, **flags: Any) -> "Configuration":
    """Return the configuration in --config, or the defaults.

    Environment variables and `flags` override its values. Raise ConfigurationError if it is
    invalid.
    """
    from app.config.read import configuration_or_defaults, with_overrides

    return with_overrides(configuration_or_defaults(arguments.config), os.environ, flags)


@contextlib.contextmanager
def needs_extra(name: str) -> Iterator[None]:
    """Raise UnusableInput if the block can't import a package.

    The error names the extra to install. The container image has no extras.
    """
    try:
        yield
    except ImportError as problem:
        raise UnusableInput(
            f"The {name} extra is not installed ({problem}). Run: pip install"
            f" 'grove-admission[{name}]' (the container image does not have it)"
        ) from None


def columns(stream: TextIO) -> int:
    """Return the width of a terminal in columns, or the value of COLUMNS if that is set.

    Return 0 (no limit) if `stream` is not a terminal and COLUMNS is not set.
    """
    if not stream.isatty() and not os.environ.get("COLUMNS"):
        return 0
    return shutil.get_terminal_size().columns


def show(text: str) -> None:
    """Print `text` wrapped to the width of the terminal. Commands in the text are not wrapped."""
    print(fitted(text, columns(sys.stdout)))


def show_answer(
    output: str, document: Callable[[], dict[str, Any]], text: Callable[[], str]
) -> None:
    """Print an answer in the format `output`: `document()` as JSON, or otherwise `text()`."""
    if output == "json":
        print(visible_json(document(), indented=True))
    else:
        show(text())

    sys.stdout.flush()


def complain(problem: object, kept: str = "") -> None:
    """Print a problem on standard error, wrapped to the width of the terminal.

    Commands in the text are not wrapped. Invisible characters are replaced, except those in `kept`,
    such as line breaks.
    """
    print(fitted(visible(str(problem), kept), columns(sys.stderr)), file=sys.stderr)


def unreadable(failure: str, problem: Exception, arguments: argparse.Namespace) -> int:
    """Print the reason why a cluster cannot be read, and return the exit code.

    If the credentials are missing or were rejected, also print how to renew them, if that is known.
    """
    # loads aiohttp, which commands without a cluster don't need
    from app.cluster.command_clients import how_to_renew

    complain(f"{failure}: {problem}")
    command = how_to_renew(problem, arguments.kubeconfig, arguments.context)
    if command:
        # not wrapped: it is copied, and the kubeconfig may name any program
        print(f"renew your credentials: {command}", file=sys.stderr)
    return UNUSABLE

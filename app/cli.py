"""Parse the command line, and run the command in COMMANDS that it names.

Exit codes: 0 for success, 1 for a rejection or a failure, 2 for unusable input. Some commands have
more exit codes.
"""

import argparse
import atexit
import gc
import importlib
import io
import os
import sys
from collections.abc import Sequence

from app import __version__
from app.base.unusable import UnusableInput
from app.commands import COMMANDS
from app.commands.options import COMPLETING, UNUSABLE, Command, Parser, complain
from app.config.error import ConfigurationError

# the garbage collection at exit would examine all modules, which takes longer than many commands
atexit.register(gc.freeze)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` (default: the program's arguments) names. Return its exit code.

    Raise SystemExit after --help, --version or shell completions were printed, and for unusable
    options.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # a terminal without UTF-8 gets an escape sequence for a character that it can't show
        sys.stdout.reconfigure(errors="backslashreplace")
    argv = sys.argv[1:] if argv is None else argv
    parser, commands = _parsers()
    if COMPLETING in os.environ:
        # the shell asks for completions: the command line is in COMP_LINE, not in argv
        name = next(iter(os.environ.get("COMP_LINE", "").split()[1:]), "")
    else:
        name = argv[0] if argv else ""

    if name in COMMANDS:
        command: Command = _load(name)
        commands[name].description = command.description
        commands[name].examples = command.examples
        command.add_options(commands[name])

    if COMPLETING in os.environ:
        from app.commands.completion import complete

        complete(parser)

    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        # the top-level parser would not print the usage of this command
        commands.get(name, parser).error(f"unrecognized arguments: {' '.join(unknown)}")

    return run_command(command, arguments)


def run_command(command: Command, arguments: argparse.Namespace) -> int:
    """Run a command. Return its exit code, or the exit code for the error that ended it."""
    try:
        code = command.run(arguments)
        sys.stdout.flush()
        return code
    except (ConfigurationError, UnusableInput) as problem:
        complain(problem, kept="\n")
        return UNUSABLE
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # the reader of our output, such as `head`, has exited
        _discard_output()
        return 141
    except OSError as problem:
        # for example, a folder can't be read; an error without a file name is about the output
        if problem.filename is None:
            _discard_output()
        complain(f"{problem.filename or 'the output'}: {problem.strerror or problem}")
        return UNUSABLE


def _discard_output() -> None:
    """Redirect standard output to the null device, so that the flush at exit does not fail too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _load(name: str) -> Command:
    """Import the module of a command, and return the command.

    The imported modules are never garbage. So the garbage collector is paused during the import,
    and ignores their objects afterwards.
    """
    path = f"app.commands.{name}"
    if path not in sys.modules:
        gc.disable()
        try:
            importlib.import_module(path)
        finally:
            gc.freeze()
            gc.enable()
    command: Command = sys.modules[path].COMMAND
    return command


def _parsers() -> tuple[Parser, dict[str, Parser]]:
    """Return the top-level parser, and the subparser of each command, still without its options."""
    parser = Parser(
        prog="grove-admission",
        description="Admission webhooks for Grove, the KAI Scheduler and NVIDIA ComputeDomains.",
    )
    parser.add_argument("--version", action="version", version=f"grove-admission {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    return parser, {name: commands.add_parser(name, help=text) for name, text in COMMANDS.items()}

"""The command line: runs the command in COMMANDS that the arguments name.

Exit codes: 0 done, 1 a rejection or a failure, 2 unusable input.
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

# the last collection would examine all modules, which takes longer than many a command
atexit.register(gc.freeze)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # a terminal without UTF-8 shows the code of a character that it doesn't have
        sys.stdout.reconfigure(errors="backslashreplace")
    argv = sys.argv[1:] if argv is None else argv
    parser, commands = _parsers()
    if COMPLETING in os.environ:
        # the shell asks what may follow: the line is not in argv
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
        # the parser of all commands would print the usage of none of them
        commands.get(name, parser).error(f"unrecognized arguments: {' '.join(unknown)}")

    return run_command(command, arguments)


def run_command(command: Command, arguments: argparse.Namespace) -> int:
    """Run a command. Return its exit code, or the one for the error or signal that ended it."""
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
        # the reader of our output, such as `head`, has ended
        _print_no_more()
        return 141
    except OSError as problem:
        # a folder that may not be looked into, or, without a name, a full disk
        if problem.filename is None:
            _print_no_more()
        complain(f"{problem.filename or 'the output'}: {problem.strerror or problem}")
        return UNUSABLE


def _print_no_more() -> None:
    """Prevent the flush at the end, which would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _load(name: str) -> Command:
    """Return a command.

    The definitions in its modules are never garbage, so the garbage collector is paused during the
    import and ignores them afterwards.
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
    """Return the top-level parser, and the parsers of all commands without their options."""
    parser = Parser(
        prog="grove-admission",
        description="Admission webhooks for Grove, the KAI Scheduler and NVIDIA ComputeDomains.",
    )
    parser.add_argument("--version", action="version", version=f"grove-admission {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    return parser, {name: commands.add_parser(name, help=text) for name, text in COMMANDS.items()}

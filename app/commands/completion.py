"""`grove-admission completion`: what makes a shell complete commands and options."""

import argparse

from app.commands.options import Command, needs_extra

COMPLETING = "_ARGCOMPLETE"
"""The variable that a shell sets if it asks what may follow. Its line is in COMP_LINE."""

_PROGRAMS = ("grove-admission", "kubectl-grove_admission")
_SHELLS = ("bash", "zsh", "fish")


def complete(parser: argparse.ArgumentParser) -> None:
    """Print what may follow the line of a shell, and end. Nothing without the package for it."""
    try:
        import argcomplete
    except ImportError:
        raise SystemExit(1) from None
    argcomplete.autocomplete(parser)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=_SHELLS, help="for which shell")


def run(arguments: argparse.Namespace) -> int:
    with needs_extra("console"):
        from argcomplete.shell_integration import shellcode

    print(shellcode(list(_PROGRAMS), shell=arguments.shell))
    return 0


COMMAND = Command(
    "Prints what makes a shell complete commands and options. For bash, put"
    ' eval "$(grove-admission completion bash)" into ~/.bashrc.',
    add_options,
    run,
)

"""The command `completion`: print a script that makes a shell complete commands and options."""

import argparse

from app.commands.options import Command, needs_extra

_PROGRAMS = ("grove-admission", "kubectl-grove_admission")
_SHELLS = ("bash", "zsh", "fish")


def complete(parser: argparse.ArgumentParser) -> None:
    """Print completions of the shell's command line, and exit.

    If argcomplete is not installed, print nothing and raise SystemExit.
    """
    try:
        import argcomplete
    except ImportError:
        raise SystemExit(1) from None
    argcomplete.autocomplete(parser)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=_SHELLS, help="your shell")


def run(arguments: argparse.Namespace) -> int:
    with needs_extra("console"):
        from argcomplete.shell_integration import shellcode

    print(shellcode(list(_PROGRAMS), shell=arguments.shell))
    return 0


COMMAND = Command(
    description=(
        "Print a script that makes your shell complete commands, options and object names."
    ),
    add_options=add_options,
    run=run,
    examples=(
        'eval "$(grove-admission completion bash)"        # in ~/.bashrc',
        "grove-admission completion fish | source         # in config.fish",
    ),
)

"""Options and exit codes that several commands have."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LIKE_KUBECTL = "that of this Pod; outside of one, kubectl's"

REFUSED = 1
"""Exit code: something was rejected or failed."""
UNUSABLE = 2
"""Exit code: unusable input."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its description in the help text, its options, and `run`, which returns the exit code."""

    description: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def add_cluster_options(parser: argparse.ArgumentParser, default: str = "that of this Pod") -> None:
    """Adds the options for the configuration and its cluster. `default` describes the cluster without a kubeconfig."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="an OperatorConfiguration: the server's")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help=f"of the cluster (default: {default})")
    parser.add_argument("--context", metavar="NAME", help="of the kubeconfig (default: its current one)")


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options for a cluster that is read with the rights of the user, and for the form of the output."""
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help=f"of the cluster (default: {LIKE_KUBECTL})")
    parser.add_argument("--context", metavar="NAME", help="of the kubeconfig (default: its current one)")
    parser.add_argument("--output", default="text", choices=("text", "json"), help="default: text")


def add_log_level(parser: argparse.ArgumentParser) -> None:
    levels = ("debug", "info", "warning", "error")
    parser.add_argument("--log-level", default="info", choices=levels, help="of all but verdicts (default: info)")
    parser.add_argument(
        "--log-format", default="", choices=("text", "json"), help="default: text on a terminal, json elsewhere"
    )


def port_number(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port number")
    return int(text)

"""What commands share that read a cluster with the rights of the person who runs them."""

import argparse
import sys

from app.cluster.connect import how_to_renew
from app.commands.options import UNUSABLE


def unreadable(failure: str, problem: Exception, arguments: argparse.Namespace) -> int:
    """Prints why the cluster cannot be read, and how to renew rejected credentials. Returns the exit code."""
    print(f"{failure}: {problem}", file=sys.stderr)
    command = how_to_renew(problem, arguments.kubeconfig, arguments.context)
    if command:
        print(f"renew your credentials: {command}", file=sys.stderr)
    return UNUSABLE

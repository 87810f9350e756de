"""Options that several commands have."""

import argparse
from pathlib import Path


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """The configuration, and the cluster that it is about."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="an OperatorConfiguration: the server's")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="of the cluster (default: that of this Pod)")
    parser.add_argument("--context", metavar="NAME", help="of the kubeconfig (default: its current one)")

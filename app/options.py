"""Options that several commands have."""

import argparse
from pathlib import Path

LIKE_KUBECTL = "that of this Pod; outside of one, kubectl's"


def add_cluster_options(parser: argparse.ArgumentParser, default: str = "that of this Pod") -> None:
    """The configuration, and the cluster that it is about; `default` is the cluster without a kubeconfig."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="an OperatorConfiguration: the server's")
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help=f"of the cluster (default: {default})")
    parser.add_argument("--context", metavar="NAME", help="of the kubeconfig (default: its current one)")

"""`explain` without a name: what waits in a namespace, or in all."""

import argparse
import os
import shutil
import sys

from app.explain.answers.waiting import rows, workloads
from app.explain.known.index import Index
from app.explain.shown.waiting_text import exit_code, list_document, list_text
from app.visible import visible_json


def print_list(index: Index, namespace: str, arguments: argparse.Namespace) -> int:
    """Print what waits in a namespace, or in all for "". Return the exit code."""
    facts = index.facts
    listed = rows(index, workloads(index, namespace and [namespace]))
    if arguments.output == "json":
        print(visible_json(list_document(listed, facts), indented=True))
    else:
        print(list_text(listed, facts, namespace, everything=arguments.all, width=_width()))
    sys.stdout.flush()
    return exit_code(listed, facts)


def _width() -> int:
    """Return the columns of the terminal; 0, for as many as are needed, if there is none."""
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS"):
        return 0
    return shutil.get_terminal_size().columns

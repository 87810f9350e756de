"""`explain` without a name: what waits in a namespace, or in all."""

import argparse
import sys

from app.commands.options import columns, show
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
        show(list_text(listed, facts, namespace, everything=arguments.all, width=columns()))
    sys.stdout.flush()
    return exit_code(listed, facts)

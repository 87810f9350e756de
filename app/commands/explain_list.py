"""`explain` without a name: what waits in a namespace, or in all."""

import argparse
import sys

from app.commands.options import columns, show_answer
from app.explain.answers.waiting import rows, workloads
from app.explain.known.index import Index
from app.explain.shown.waiting_text import exit_code, list_document, list_text


def print_list(index: Index, namespace: str, arguments: argparse.Namespace) -> int:
    """Print what waits in a namespace, or in all for "". Return the exit code."""
    facts = index.facts
    listed = rows(index, workloads(index, namespace and [namespace]))
    width = columns(sys.stdout)
    show_answer(
        arguments.output,
        lambda: list_document(listed, facts),
        lambda: list_text(listed, facts, namespace, everything=arguments.all, width=width),
    )
    return exit_code(listed, facts)

"""`topology --if`: what edits would do, before anybody makes them."""

import argparse

from app.commands.files import objects_in
from app.commands.options import UNUSABLE, complain
from app.dry_run.budget import UnusableInput
from app.explain.answers.whatif.edits import Applying, Supposition, UnusableEdit, is_file, parse
from app.explain.answers.whatif.effects import Effects, effects
from app.explain.known.index import Index
from app.explain.known.snapshot import Snapshot
from app.explain.shown.rights import how_to_get
from app.explain.shown.text import not_seen


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--if",
        dest="edits",
        action="append",
        default=[],
        metavar="EDIT",
        help="what would be if: 'drain rack=r7', 'add 4 like n12', 'label n1 rack=r2', or a file"
        " that is applied; may be given several times, in order",
    )


def edit_of(text: str) -> Supposition:
    """Return an edit of the command line. Raise UnusableInput."""
    if is_file(text):
        return Applying(text, tuple(objects_in(text)))
    try:
        return parse(text)
    except UnusableEdit as problem:
        raise UnusableInput(f"--if {problem}") from None


def effects_of(
    facts: Snapshot,
    edits: list[Supposition],
    arguments: argparse.Namespace,
) -> tuple[Effects, Index]:
    """Return what edits would do, and the facts after them. Raise UnusableInput."""
    try:
        return effects(facts, edits, arguments.name)
    except UnusableEdit as problem:
        raise UnusableInput(f"--if {problem}") from None


def print_unknown(facts: Snapshot) -> int:
    """Print that not everything could be read. Return the exit code."""
    for line in (*not_seen(facts.unseen, ()), *how_to_get(facts.unseen)):
        complain(line)
    return UNUSABLE

"""Write and read records: files with the facts behind an answer, for bug reports."""

import argparse
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from app.base.record import UnusableRecord, is_record, record_of, recorded_facts
from app.base.unusable import UnusableInput
from app.commands.files import stream_of
from app.commands.options import complain
from app.explain.state.read import facts_of
from app.explain.state.snapshot import Snapshot
from app.facts.grove.topology import ClusterTopology
from app.facts.identity import Ref
from app.facts.kinds import CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING
from app.kube.api import Object

T = TypeVar("T")

KIND = "ExplainRecord"
"""The kind of a record of explain.

A record has the facts that are read from objects, not the objects themselves. It has no environment
variables, arguments, images, Secrets, or annotations that no rule reads.
"""

HAS_NAMES = (
    "The record contains the names of objects, namespaces and nodes, their labels, and messages of"
    " other components. Read it before you share it."
)

_PREFIX = 64
"""The number of bytes of a file that are read to tell whether it is a record."""


def add_record_options(parser: argparse.ArgumentParser) -> None:
    """Add the option --record."""
    parser.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="write the facts behind the answer to FILE, for --offline and for bug reports",
    )


def write_record(facts: Snapshot, arguments: argparse.Namespace, asked: Ref) -> None:
    """With --record, write the facts to the file, and print the command that reads the file.

    `asked` is the object of the answer. Its name is "" for a list, and its namespace is "" for all
    namespaces. Raise OSError if the file cannot be written.
    """
    if not arguments.record:
        return

    arguments.record.write_bytes(record_of(KIND, facts))
    words = (
        f"{asked.kind.lower()}/{asked.name}" if asked.name else "",
        f"-n {asked.namespace}" if asked.namespace else "",
        f"--offline {shlex.quote(str(arguments.record))}",
    )
    complain(f"repeat this answer: grove-admission explain {' '.join(filter(None, words))}")
    complain(HAS_NAMES)


def facts_in(names: Sequence[str]) -> Snapshot:
    """Return the facts in a record, or in the documents of files, directories and standard input.

    Raise UnusableInput or OSError if they are not usable, and UnusableInput if a record is given
    with other files.
    """
    records = [name for name in names if _is_record(name)]
    if not records:
        return facts_of(stream_of(names), time.time())
    if len(names) > 1:
        raise UnusableInput(f"{records[0]} is a record, so it must be the only file")

    return read_record(KIND, Snapshot, Path(records[0]))


def documents_in(names: Sequence[str]) -> list[Object]:
    """Return the documents in files, directories and standard input.

    A record has facts instead of documents: return only its topologies, as documents. Raise
    UnusableInput or OSError if a file is not usable, and UnusableInput if a record is given with
    other files.
    """
    if not any(map(_is_record, names)):
        return list(stream_of(names))
    return [_as_document(topology) for topology in facts_in(names).topologies]


def _as_document(topology: ClusterTopology) -> Object:
    """Return a topology as a ClusterTopology or ClusterTopologyBinding."""
    resource = (
        CLUSTER_TOPOLOGY if topology.kind == CLUSTER_TOPOLOGY.kind else CLUSTER_TOPOLOGY_BINDING
    )
    levels = [{"domain": level.domain, "key": level.key} for level in topology.levels]
    return {
        "apiVersion": resource.api_version(),
        "kind": resource.kind,
        "metadata": {"name": topology.name},
        "spec": {"levels": levels},
    }


def read_record(kind: str, of: type[T], path: Path) -> T:
    """Return the facts in the record `path`, as a value of type `of`.

    `kind` names the kind of record in errors. Raise UnusableInput if the file is not a valid
    record, and OSError if it can't be read.
    """
    try:
        return recorded_facts(of, path.read_bytes())
    except UnusableRecord as problem:
        raise UnusableInput(f"{path}: this {kind} can't be read: {problem}") from None


def _is_record(name: str) -> bool:
    path = Path(name)
    if name == "-" or not path.is_file():
        return False
    with path.open("rb") as file:
        return is_record(KIND, file.read(_PREFIX))

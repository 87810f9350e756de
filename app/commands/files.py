"""Read documents from files, directories and standard input."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TextIO

from app.base.unusable import NoDocument, UnusableInput
from app.dry_run.budget import OF_FILE, Budget, ReadingLimits
from app.dry_run.documents import read_documents, stream_documents
from app.kube.api import Object

_SUFFIXES = (".yaml", ".yml", ".json")


def documents_of(names: Sequence[str], limits: ReadingLimits = OF_FILE) -> list[tuple[str, Object]]:
    """Return the documents in files, directories or standard input (-), each with its file's name.

    `limits` apply to each file. Raise UnusableInput if a file is invalid, empty or unreadable, or
    if there is no document at all.
    """
    documents: list[tuple[str, Object]] = []
    without: list[str] = []
    for path in chain.from_iterable(map(_files, names)):
        with _named(path, without):
            read = read_documents(read_text(path), Budget(limits))
            documents += [(path, document) for document in read]
    if without and not documents:
        raise UnusableInput(without[0])
    return documents


def objects_in(name: str | Path, limits: ReadingLimits = OF_FILE) -> list[Object]:
    """Return the documents in a file, a directory or standard input (-).

    Raise UnusableInput if it is invalid or unreadable, or has no document.
    """
    return [document for _, document in documents_of([str(name)], limits)]


def stream_of(names: Sequence[str]) -> Iterator[Object]:
    """Yield the documents in files, directories or standard input (-) one by one.

    The files may have any size. Raise UnusableInput if a file is invalid, empty or unreadable, or
    if there is no document at all.
    """
    is_empty = True
    without: list[str] = []
    for path in chain.from_iterable(map(_files, names)):
        with _named(path, without), _opened(path) as source:
            for document in stream_documents(source):
                is_empty = False
                yield document
    if without and is_empty:
        raise UnusableInput(without[0])


@contextlib.contextmanager
def _named(path: str, without: list[str]) -> Iterator[None]:
    """Put the name of the file before the message of an UnusableInput that the block raises.

    If the file has text but no document, such as an empty List, raise nothing, and add the message
    to `without` instead.
    """
    try:
        yield
    except UnusableInput as problem:
        text = f"{path}: {problem}"
        if not isinstance(problem, NoDocument) or not problem.has_text:
            raise UnusableInput(text) from None
        without.append(text)


@contextlib.contextmanager
def _opened(name: str) -> Iterator[TextIO]:
    """Open a file, or standard input if `name` is "-".

    Raise UnusableInput, without the name of the file, if it cannot be read.
    """
    try:
        if name == "-":
            yield sys.stdin
        else:
            with Path(name).open(encoding="utf-8-sig") as source:
                yield source
    except (OSError, UnicodeDecodeError) as problem:
        cause = getattr(problem, "strerror", None) or problem
        raise UnusableInput(f"can't be read: {cause}") from None


def _files(name: str) -> list[str]:
    """Return the YAML and JSON files in a directory tree, sorted by path, or else only `name`.

    Raise UnusableInput if the directory has no such file.
    """
    path = Path(name)
    if name == "-" or not path.is_dir():
        return [name]
    every = sorted(str(file) for file in path.rglob("*") if file.is_file())
    files = [file for file in every if file.endswith(_SUFFIXES)]
    if not files:
        raise UnusableInput(f"{name}: no .yaml, .yml or .json file in this directory")
    return files


def lines_of(name: str) -> Iterator[str]:
    """Yield the lines of a file, or of standard input if `name` is "-".

    Raise UnusableInput, with the name of the file, if it can't be read.
    """
    with _named(name, []), _opened(name) as source:
        yield from source


def read_text(name: str) -> str:
    """Return the text of a file, or of standard input if `name` is "-".

    Raise UnusableInput, without the name of the file, if it can't be read.
    """
    with _opened(name) as source:
        return source.read()

"""Read YAML and JSON documents, with limits.

A dump of any size is read one document at a time, so that only one is in memory. A dump is the
output of `kubectl get ... -o json` or `-o yaml`: a List, several documents, or a sequence of JSON
values. Limits apply to each YAML document, not to the file. JSON documents of a dump have none.
"""

import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, TextIO

import yaml
from msgspec import Struct

from app.base.json import NotJson, from_json, to_json
from app.base.unusable import NoDocument, UnusableInput
from app.dry_run.budget import OF_FILE, OF_REQUEST, Budget, spend_json, spend_yaml
from app.kube.api import Object

_UNFIT = (LookupError, AttributeError, TypeError, ArithmeticError)
"""The errors of PyYAML for a value that does not fit its tag, such as a KeyError for `!!bool 7`."""


def read_documents(text: str, budget: Budget | None = None) -> list[Object]:
    """Return the documents in a YAML or JSON text.

    The items of a List count as documents. `budget` limits the cost of the text, by default to
    OF_REQUEST. Raise UnusableInput if the text is invalid or exceeds a limit, and NoDocument if it
    has no document.
    """
    documents: list[Object] = []
    try:
        with budget or Budget(OF_REQUEST) as spent:
            for position, document in enumerate(_load(text, spent)):
                if document is None:
                    continue
                if not isinstance(document, dict):
                    raise UnusableInput(
                        f"document {position + 1} is not a map with apiVersion and kind"
                    )
                items = _expand(document)
                spent.spend_documents(len(items) - 1)
                documents += items
    except UnusableInput:
        raise
    except _UNFIT:
        raise UnusableInput("not valid YAML or JSON: a value does not fit its tag") from None
    except (yaml.YAMLError, ValueError) as problem:
        if "nesting depth" in str(problem):  # a limit of libyaml since 0.2.6
            raise UnusableInput("the text is nested too deeply") from None
        if "{{" in text:
            raise UnusableInput(
                "not YAML, but a template, as in Helm charts: render it first, for example with"
                " helm template"
            ) from None
        raise UnusableInput(f"not valid YAML or JSON: {' '.join(str(problem).split())}") from None

    if not documents:
        raise NoDocument(has_text=bool(text.strip()))

    return documents


def _load(text: str, budget: Budget) -> Iterator[Any]:
    """Yield the values in a JSON or YAML text, and spend their cost.

    If JSON text is a list, yield its items. The cost of YAML is spent before any value is created,
    because aliases can multiply values. Raise UnusableInput if a limit is exceeded, or if a key is
    not a string.
    """
    if text.lstrip()[:1] in ("{", "["):
        try:
            loaded = from_json(text)
        except NotJson:
            pass  # flow-style YAML begins like JSON
        else:
            spend_json(loaded, budget)
            documents = loaded if isinstance(loaded, list) else [loaded]
            budget.spend_documents(len(documents))
            yield from documents
            return

    spend_yaml(yaml.parse(text, Loader=_Loader), budget)
    for document in yaml.load_all(text, Loader=_Loader):
        budget.check_time()
        _check_keys(document)
        yield from_json(to_json(document))


def _check_keys(document: Any) -> None:
    """Raise UnusableInput if a key in a document is not a string."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise UnusableInput(f"the key {key!r} is not a string: put it in quotes")
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _expand(document: Object) -> list[Object]:
    """Return the items of a List that are maps, or [document] for other kinds."""
    items = document.get("items")
    if str(document.get("kind", "")).endswith("List") and isinstance(items, list):
        return [item for item in items if isinstance(item, dict)]
    return [document]


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A YAML loader that creates only plain values, and reads scalars as Kubernetes does.

    Timestamps are strings, and so are the sexagesimal numbers of YAML 1.1 (12:30), which would take
    quadratic time. An integer of more than 64 bits is a float, as in JSON.
    """

    def number_of(self, node: yaml.ScalarNode) -> Any:
        """Return the number in a scalar, but the text of sexagesimal and of too large numbers."""
        text = str(self.construct_scalar(node))
        if ":" in text:
            return text
        if node.tag == _FLOAT:
            return self.construct_yaml_float(node)
        number = self.construct_yaml_int(node)
        try:
            return number if -(2**63) <= number < 2**64 else float(number)
        except OverflowError:
            return text


_INT = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}
for _tag in (_INT, _FLOAT):
    _Loader.add_constructor(_tag, _Loader.number_of)


# Dumps of any size.


CHUNK = 2**20
"""The number of characters that are read at once."""

_DECODER = json.JSONDecoder()
_ITEMS = "items"


def stream_documents(source: TextIO) -> Iterator[Object]:
    """Yield the documents of a text of any size. The items of a List are yielded one by one.

    A text that begins with { or [ is read as JSON, so it can't be YAML in flow style. Raise
    UnusableInput if the text is invalid or a YAML document exceeds a limit, and NoDocument if it
    has no document.
    """
    text = _Text(source)
    first = text.peek()
    documents = _of_json(text)
    if first not in ("{", "["):
        documents = chain.from_iterable(map(_parsed, _pieces(text.lines())))
    empty = True
    for document in documents:
        empty = False
        yield document
    if empty:
        raise NoDocument(has_text=bool(first))


class _Text(Struct):
    """A JSON or YAML text that is read in chunks, so that only a part of it is in memory."""

    source: TextIO
    _buffer: str = ""
    _position: int = 0
    """The position in `_buffer` of the next character to consume."""

    def more(self) -> bool:
        """Read the next chunk. Return False at the end of the text."""
        chunk = self.source.read(CHUNK)
        self._buffer = self._buffer[self._position :] + chunk
        self._position = 0
        return bool(chunk)

    def peek(self) -> str:
        """Return the next character after white space without consuming it, or "" at the end."""
        while True:
            rest = len(self._buffer)
            while self._position < rest and self._buffer[self._position] in " \t\r\n\ufeff":
                self._position += 1
            if self._position < rest:
                return self._buffer[self._position]
            if not self.more():
                return ""

    def take(self, expected: str) -> bool:
        """Consume the next character if it is `expected`, and return whether it was."""
        if self.peek() != expected:
            return False
        self._position += 1
        return True

    def value(self) -> Any:
        """Consume and return the next JSON value. Raise UnusableInput if it is not valid."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._buffer, self._position)
            except (ValueError, RecursionError) as problem:
                if isinstance(problem, RecursionError) or not self.more():
                    raise UnusableInput(f"not valid JSON: {problem}") from None
                continue
            if end == len(self._buffer) and self.more():
                continue  # a number at the end of the buffer may have more digits
            self._position = min(end, len(self._buffer))
            return value

    def lines(self) -> Iterator[str]:
        """Yield the remaining lines of the text, without their line breaks."""
        kept = self._buffer[self._position :]
        self._buffer = ""
        self._position = 0
        while chunk := self.source.read(CHUNK):
            *whole, kept = (kept + chunk).split("\n")
            yield from whole
        yield from kept.split("\n")


# JSON.


def _of_json(text: _Text) -> Iterator[Object]:
    """Yield the documents in a sequence of JSON values.

    Raise UnusableInput if a value is neither a map nor a list of maps.
    """
    while text.peek():
        if text.take("["):
            yield from _elements(text)
        elif text.take("{"):
            yield from _members(text)
        else:
            raise UnusableInput("a map or a list of maps is expected")


def _elements(text: _Text) -> Iterator[Object]:
    """Yield the elements of a list whose opening bracket was consumed.

    Raise UnusableInput if the list is not valid JSON, or an element is not a map.
    """
    if text.take("]"):
        return
    while True:
        yield _map(text.value())
        if not text.take(","):
            _expect(text, "]")
            return


def _members(text: _Text) -> Iterator[Object]:
    """Yield the map whose opening brace was consumed, or the items of its list `items`.

    Raise UnusableInput if the map is not valid JSON, or an item is not a map.
    """
    document: Object = {}
    is_list = False
    while not text.take("}"):
        name = text.value()
        _expect(text, ":")
        if name == _ITEMS and text.take("["):
            is_list = True
            yield from _elements(text)
        else:
            document[str(name)] = text.value()
        if not text.take(",") and text.peek() != "}":
            raise UnusableInput("not valid JSON: ',' or '}' is expected")

    if not is_list:
        yield document


def _expect(text: _Text, char: str) -> None:
    """Consume the character `char`. Raise UnusableInput if another one is next."""
    if not text.take(char):
        raise UnusableInput(f"not valid JSON: {char!r} is expected")


def _map(value: Any) -> Object:
    """Return `value` if it is a map. Raise UnusableInput otherwise."""
    if not isinstance(value, dict):
        raise UnusableInput("not a map with apiVersion and kind")
    return value


# YAML.

_BEGIN = re.compile(r"---(\s|$)")
_ITEM = re.compile(r"( *)-(?= |$)")


def _pieces(lines: Iterator[str]) -> Iterator[list[str]]:
    """Yield the lines of each YAML document, or of each item if a document is a List."""
    piece: list[str] = []
    items: _Items | None = None
    for line in lines:
        if _BEGIN.match(line):
            yield piece
            piece = [line[3:]]
            items = None
        elif not items and line.rstrip() == f"{_ITEMS}:":
            # the fields of a List before and after its items are not documents
            piece = []
            items = _Items()
        elif not items:
            piece.append(line)
        elif items.has(line):
            if items.begins(line):
                yield piece
                piece = []
            piece.append(items.without_dash(line, first=not piece))

    yield piece


class _Items(Struct):
    """The items of a YAML List, whose lines are read one after the other."""

    _indent: int | None = None
    """The column in which the dashes of all items stand, or None before the first item."""
    _ended: bool = False
    """Whether a line after the items was read."""

    def has(self, line: str) -> bool:
        """Return whether the next line belongs to an item.

        Return False for all lines after the items.
        """
        if self._indent is None:
            match = _ITEM.match(line)
            self._indent = len(match[1]) if match else None
            return match is not None

        is_deeper = line.startswith(" " * (self._indent + 1))
        self._ended |= bool(line.strip()) and not is_deeper and not self.begins(line)
        return not self._ended

    def begins(self, line: str) -> bool:
        """Return whether a line is the first line of an item."""
        match = _ITEM.match(line)
        return match is not None and len(match[1]) == self._indent

    def without_dash(self, line: str, *, first: bool) -> str:
        """Return a line of an item. If it is the first line, replace its dash by a space."""
        if not first or self._indent is None:
            return line
        return f"{line[: self._indent]} {line[self._indent + 1 :]}"


def _parsed(lines: list[str]) -> list[Object]:
    """Return the documents in the lines of a YAML text, or [] if there are none."""
    if not any(line.strip() and line.lstrip()[:1] not in "#%" for line in lines):
        return []
    try:
        return read_documents("\n".join([*lines, ""]), Budget(OF_FILE))
    except NoDocument:
        return []

"""A record: all facts behind an answer, in a file, so that somebody else gets the same answer."""

from typing import Any, Generic, TypeVar

from msgspec import convert, json

from app import __version__
from app.base.json import decode_with, from_json
from app.base.value import Value

T = TypeVar("T")


class UnusableRecord(ValueError):
    """A record that this version cannot read. The message says why."""


class Record(Value, Generic[T]):
    """The facts that were read, and the version that has read them."""

    kind: str
    version: str
    facts: T


def record_of(kind: str, facts: Any) -> bytes:
    """Return facts as a record, which is one line of JSON."""
    return json.encode(Record(kind, __version__, facts)) + b"\n"


def is_record(kind: str, begin: bytes) -> bool:
    """Return whether a file that begins with these bytes is a record of this kind."""
    return begin.startswith(f'{{"kind":"{kind}"'.encode())


def recorded_facts(of: type[T], content: bytes) -> T:
    """Return the facts of a record. Raise UnusableRecord if they cannot be read."""
    try:
        return decode_with(json.Decoder(Record[of]).decode, content).facts  # type: ignore[valid-type]
    except ValueError as problem:
        raise UnusableRecord(f"{problem}{_of_version(content)}") from None


def _of_version(content: bytes) -> str:
    """Return a hint if a record is that of another version."""
    try:
        version = convert(from_json(content), dict).get("version")
    except ValueError:
        return ""
    if version == __version__:
        return ""
    return f"; it was written by version {version}, and this is {__version__}"

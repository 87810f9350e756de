"""A record: all facts behind an answer, in a file, so that somebody else gets the same answer.

A record has what is kept of objects (`facts/`), not the objects. Environment variables, arguments,
images, Secrets and annotations that decide nothing are not kept, so they cannot be in it.
"""

from msgspec import convert, json

from app import __version__
from app.base.json import decode_with, from_json
from app.base.value import Value
from app.explain.known.snapshot import Snapshot

KIND = "ExplainRecord"
_BEGIN = f'{{"kind":"{KIND}"'.encode()


class UnusableRecord(ValueError):
    """A record that this version cannot read. The message says why."""


class Record(Value):
    """The facts that were read, and the version that has read them."""

    kind: str
    version: str
    facts: Snapshot


_DECODER = json.Decoder(Record)


def record_of(facts: Snapshot) -> bytes:
    """Return facts as a record, which is one line of JSON."""
    return json.encode(Record(KIND, __version__, facts)) + b"\n"


def is_record(begin: bytes) -> bool:
    """Return whether a file that begins with these bytes is a record."""
    return begin.startswith(_BEGIN)


def recorded_facts(content: bytes) -> Snapshot:
    """Return the facts of a record. Raise UnusableRecord if they cannot be read."""
    try:
        return decode_with(_DECODER.decode, content).facts
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

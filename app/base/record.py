"""Write and read records: files with all facts from which an answer was computed."""

from typing import Any, Generic, TypeVar

from msgspec import convert, json

from app import __version__
from app.base.json import decode_with, from_json
from app.base.value import Value

T = TypeVar("T")


class UnusableRecord(ValueError):
    """A record can't be read by this version, for the reason in the message."""


class Record(Value, Generic[T]):
    """The content of a record file."""

    kind: str
    """The kind of the record, such as ExplainRecord."""
    version: str
    """The version of grove-admission that wrote the record."""
    facts: T
    """The facts, of a type that the command chooses."""


def record_of(kind: str, facts: Any) -> bytes:
    """Return `facts` as a record, which is one line of JSON."""
    return json.encode(Record(kind, __version__, facts)) + b"\n"


def is_record(kind: str, begin: bytes) -> bool:
    """Return whether a file that begins with the bytes `begin` is a record of `kind`."""
    return begin.startswith(f'{{"kind":"{kind}"'.encode())


def recorded_facts(of: type[T], content: bytes) -> T:
    """Return the facts in a record, of the type `of`.

    Raise UnusableRecord if `content` is not a record, or has facts of another type.
    """
    try:
        return decode_with(json.Decoder(Record[of]).decode, content).facts  # type: ignore[valid-type]
    except ValueError as problem:
        raise UnusableRecord(f"{problem}{_of_version(content)}") from None


def _of_version(content: bytes) -> str:
    """Return the end of an error message if another version wrote the record, otherwise ""."""
    try:
        version = convert(from_json(content), dict).get("version")
    except ValueError:
        return ""
    if version in (None, __version__):
        return ""
    return f"; grove-admission {version} wrote the record, and this is {__version__}"

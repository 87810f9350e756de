"""Decode and encode JSON."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class NotJson(ValueError):
    """The content is not JSON, not of the expected type, or nested too deeply."""


def from_json(content: bytes | str) -> Any:
    """Return the value in a JSON document. Raise NotJson if it can't be decoded."""
    return decode_with(msgspec.json.decode, content)


def decode_with(decode: Callable[[bytes | str], T], content: bytes | str) -> T:
    """Return `content` decoded by `decode`, a decoder of msgspec. Raise NotJson if that fails."""
    try:
        return decode(content)
    except RecursionError:
        raise NotJson("JSON is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeError) as problem:
        raise NotJson(str(problem)) from None


def to_json(value: Any) -> bytes:
    """Return `value` as JSON in one line.

    Lone surrogates, which are not valid Unicode, are escaped. Values without a JSON type are
    written as `str` returns them.
    """
    try:
        return msgspec.json.encode(value)
    except (UnicodeError, TypeError):
        return json.dumps(value, separators=(",", ":"), default=str).encode("ascii")


def pretty_json(value: Any) -> bytes:
    """Return `value` as JSON like `to_json`, but indented."""
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=2)
    except (UnicodeError, TypeError):
        return json.dumps(value, indent=2, default=str).encode("ascii")

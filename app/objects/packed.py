"""Objects as bytes, which need far less memory than maps."""

from typing import Any

import orjson

from app.objects.shape import JsonMap


def packed(obj: JsonMap) -> bytes:
    """Return `obj` as JSON. It is copied, because orjson returns a buffer of several KiB."""
    return bytes(memoryview(orjson.dumps(obj)))


def unpacked(content: bytes) -> dict[str, Any]:
    obj: dict[str, Any] = orjson.loads(content)
    return obj

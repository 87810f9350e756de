"""Objects as bytes, which need far less memory than maps."""

import orjson

from app.objects.shape import JsonMap, Object


def packed(obj: JsonMap) -> bytes:
    """Return `obj` as JSON. It is copied, because orjson returns a buffer of several KiB."""
    return bytes(memoryview(orjson.dumps(obj)))


def unpacked(content: bytes) -> Object:
    obj: Object = orjson.loads(content)
    return obj

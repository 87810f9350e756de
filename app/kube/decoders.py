"""Decode lists and watch events.

A list is decoded object by object, so that its objects are never in memory together. Only the
fields of each object that a form names are decoded: most bytes of a Node or a Pod are fields that
this program doesn't read, such as images or environment variables. Skipping these fields takes a
tenth of the time of decoding them.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Generic, TypedDict, TypeVar, overload

import msgspec
import orjson

from app.kube.api import Unavailable
from app.objects.shape import Object

Form = Any
"""A TypedDict with the fields that are decoded, or None for all fields."""

Fields = TypeVar("Fields")

MOST_DEPTH = 500
"""The number of levels that are read of a JSON document that is nested too deeply.

orjson accepts 1,024 levels, and msgspec about 1,000 before Python 3.14. API servers store more in
fields without a schema, such as the parameters of a ResourceClaim, which this program doesn't read.
"""

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
"""Matches a string, or a bracket outside of strings.

The closing quote is optional, so that a document that is cut off within a string takes linear time.
"""


class _List(TypedDict, total=False):
    apiVersion: Any
    kind: Any
    metadata: Any
    items: list[msgspec.Raw] | None


class _Event(TypedDict, Generic[Fields], total=False):
    type: str
    object: Fields


_UNFIT = (msgspec.DecodeError, UnicodeError, RecursionError)
"""msgspec's errors for content that does not match the type, is not UTF-8, or is too deep."""

_list_of = msgspec.json.Decoder(_List).decode


@cache
def _decoder(form: Form) -> Callable[[Any], Object]:
    """Return a decoder of `form`. For other content, the decoder raises an error in _UNFIT."""
    return msgspec.json.Decoder(form).decode


@cache
def _event_of(form: Form) -> Any:
    return _Event[form]


def decoded(content: bytes | msgspec.Raw, form: Form = None) -> Object:
    """Return the JSON object in `content`, with only the fields of `form`.

    An object whose fields have other types than in `form` is decoded in full. If an object is
    nested too deeply, its values below MOST_DEPTH levels are null. Raise Unavailable if `content`
    is not a JSON object.
    """
    if form is not None:
        try:
            return _decoder(form)(content)
        except _UNFIT:
            pass
    # orjson stores equal keys of up to 64 characters only once, msgspec only those of up to 32.
    # Many label keys of nodes are longer.
    try:
        answer = _any_depth(content)
    except orjson.JSONDecodeError as error:
        raise Unavailable(
            f"the API server's answer is not JSON: {error}", reason="Decode"
        ) from error
    if not isinstance(answer, dict):
        raise Unavailable("the API server's answer is not a JSON object", reason="Decode")
    return answer


def _any_depth(content: bytes | msgspec.Raw) -> Any:
    """Return the value in `content`. If it is nested too deeply, the deepest values are null."""
    try:
        return orjson.loads(memoryview(content))
    except orjson.JSONDecodeError:
        whole = bytes(content)
        shallow = _shallow(whole)
        if shallow == whole:
            raise
    return orjson.loads(shallow)


def _shallow(content: bytes) -> bytes:
    """Return a JSON document with null instead of each list or map below MOST_DEPTH levels."""
    kept: list[bytes] = []
    begin = depth = 0
    for token in _TOKEN.finditer(content):
        match token[0]:
            case b"[" | b"{":
                depth += 1
                if depth == MOST_DEPTH + 1:
                    kept += content[begin : token.start()], b"null"
            case b"]" | b"}":
                if depth == MOST_DEPTH + 1:
                    begin = token.end()
                depth -= 1
    return b"".join((*kept, content[begin:]))


def decoded_list(body: bytes) -> Object:
    """Return the Kubernetes list in `body`: apiVersion, kind, metadata and items.

    The items are `msgspec.Raw`. If msgspec cannot read `body`, for example because it is nested too
    deeply, the items are decoded. Raise Unavailable if `body` is not a JSON object.
    """
    try:
        answer: Object = _list_of(body)  # type: ignore[assignment]
    except _UNFIT:
        return decoded(body)
    return answer


def decoded_event(line: bytes, form: Form = None) -> Object:
    """Return the watch event in `line`.

    The objects of ADDED, MODIFIED and DELETED events are decoded as by `decoded`. The objects of
    bookmarks and errors are decoded in full. Raise Unavailable if `line` is not a JSON object.
    """
    if form is not None:
        event = decoded(line, _event_of(form))
        if event.get("type") in ("ADDED", "MODIFIED", "DELETED"):
            return event
    return decoded(line)


class Items(Sequence[Object]):
    """The objects of a list, each decoded whenever it is read.

    The API server omits apiVersion and kind in lists, so each object gets `api_version` and `kind`.
    """

    def __init__(self, items: Sequence[Any], api_version: str, kind: str, form: Form) -> None:
        self._items = items
        self._api_version = api_version
        self._kind = kind
        self._form = form

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Object]:
        return map(self._complete, self._items)

    @overload
    def __getitem__(self, position: int) -> Object: ...

    @overload
    def __getitem__(self, position: slice) -> Sequence[Object]: ...

    def __getitem__(self, position: int | slice) -> Object | Sequence[Object]:
        if isinstance(position, slice):
            return Items(self._items[position], self._api_version, self._kind, self._form)
        return self._complete(self._items[position])

    def _complete(self, item: Any) -> Object:
        obj = decoded(item, self._form) if isinstance(item, msgspec.Raw) else item
        obj.setdefault("apiVersion", self._api_version)
        obj.setdefault("kind", self._kind)
        return obj

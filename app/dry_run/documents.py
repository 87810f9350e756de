"""Reads documents of YAML and JSON, within limits."""

from collections.abc import Iterator
from typing import Any

import orjson
import yaml

MAX_DOCUMENTS = 1000

_MAX_NODES = 1_000_000

_MAX_EVENTS = 500_000

_MAX_DEPTH = 200


class UnusableInput(ValueError):
    """The text contains no valid documents, or too many.

    The message states the reason and the place.
    """


def read_documents(text: str) -> list[dict[str, Any]]:
    """Returns the documents in YAML or JSON text.

    The items of a List count as documents. UnusableInput if there are none or too many.
    """
    documents: list[dict[str, Any]] = []
    try:
        for position, document in enumerate(_load(text)):
            if document is None:
                continue
            if not isinstance(document, dict):
                raise UnusableInput(
                    f"document {position + 1} is not a map with apiVersion and kind"
                )
            documents += _expand(document)
    except UnusableInput:
        raise
    except (yaml.YAMLError, ValueError) as problem:
        raise UnusableInput(
            f"not YAML or JSON that can be read: {' '.join(str(problem).split())}"
        ) from None
    if not documents:
        raise UnusableInput("there is no document in it")
    if len(documents) > MAX_DOCUMENTS:
        raise UnusableInput(
            f"there are {len(documents)} documents in it; at most {MAX_DOCUMENTS} are judged at"
            " once"
        )
    return documents


def _load(text: str) -> Iterator[Any]:
    if text.lstrip()[:1] in ("{", "["):
        try:
            loaded = orjson.loads(text)
        except orjson.JSONDecodeError:
            pass  # flow-style YAML begins like JSON
        else:
            for document in loaded if isinstance(loaded, list) else [loaded]:
                _count(document, [_MAX_NODES])
                yield document
            return
    _check_depth(text)
    for document in yaml.load_all(text, Loader=_Loader):
        _count(document, [_MAX_NODES])
        yield document


def _check_depth(text: str) -> None:
    """Raises UnusableInput for deep nesting, because the loader is recursive, and for too many
    values.
    """
    depth = 0
    for number, event in enumerate(yaml.parse(text, Loader=_Loader)):
        if number > _MAX_EVENTS:
            raise UnusableInput(f"it has more than {_MAX_EVENTS} values")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MAX_DEPTH:
                raise UnusableInput(f"it is nested too deeply: more than {_MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _count(value: Any, budget: list[int], depth: int = 0) -> None:
    """Raises UnusableInput for deep nesting, because later steps are recursive, and for documents
    whose aliases expand to too many values or refer to themselves. `budget` is the number of
    values that may still come.
    """
    budget[0] -= 1
    if depth > _MAX_DEPTH:
        raise UnusableInput(f"it is nested too deeply: more than {_MAX_DEPTH} levels")
    if budget[0] < 0:
        raise UnusableInput(f"a document has more than {_MAX_NODES} values, counting its aliases")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise UnusableInput(f"the key {key!r} is not a string; put it in quotes")
            _count(item, budget, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _count(item, budget, depth + 1)


def _expand(document: dict[str, Any]) -> list[dict[str, Any]]:
    items = document.get("items")
    if str(document.get("kind", "")).endswith("List") and isinstance(items, list):
        return [item for item in items if isinstance(item, dict)]
    return [document]


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Loads safe YAML like Kubernetes: a timestamp is a string."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _Loader.yaml_implicit_resolvers.items()
}

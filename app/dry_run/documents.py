"""Reads documents of YAML and JSON, within limits."""

from collections.abc import Iterator
from typing import Any

import yaml

from app.base.json import NotJson, from_json, to_json
from app.dry_run.budget import OF_REQUEST, Budget, NoDocument, UnusableInput, spend_json, spend_yaml
from app.kube.api import Object

_UNFIT = (LookupError, AttributeError, TypeError, ArithmeticError)
"""What PyYAML raises for a value that does not fit its tag, such as a KeyError for `!!bool 7`."""


def read_documents(text: str, budget: Budget | None = None) -> list[Object]:
    """Return the documents in YAML or JSON text.

    The items of a List count as documents. `budget` is what they may cost, by default as much as
    those of a request. Raise UnusableInput if there are too many, and NoDocument if there are none.
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
        raise UnusableInput(
            "not YAML or JSON that can be read: a value does not fit its tag"
        ) from None
    except (yaml.YAMLError, ValueError) as problem:
        if "nesting depth" in str(problem):  # a limit of libyaml since 0.2.6
            raise UnusableInput("it is nested too deeply") from None
        raise UnusableInput(
            f"not YAML or JSON that can be read: {' '.join(str(problem).split())}"
        ) from None

    if not documents:
        raise NoDocument(has_text=bool(text.strip()))

    return documents


def _load(text: str, budget: Budget) -> Iterator[Any]:
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
    """Raise UnusableInput for a key that is no string. Aliases are visited at each place."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise UnusableInput(f"the key {key!r} is not a string; put it in quotes")
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _expand(document: Object) -> list[Object]:
    items = document.get("items")
    if str(document.get("kind", "")).endswith("List") and isinstance(items, list):
        return [item for item in items if isinstance(item, dict)]
    return [document]


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """A loader of safe YAML like Kubernetes': a timestamp is a string, and so is 12:30.

    YAML 1.1 has numbers to the base of 60, which cost the square of their length. An integer of
    more than 64 bits is a float, as in JSON.
    """

    def number_of(self, node: yaml.ScalarNode) -> Any:
        """Return the number in a scalar; its text if it is none here."""
        text = str(self.construct_scalar(node))
        if ":" in text:
            return text
        if node.tag == _FLOAT:
            return self.construct_yaml_float(node)
        number = self.construct_yaml_int(node)
        return number if -(2**63) <= number < 2**64 else _float(number, text)


def _float(number: int, text: str) -> float | str:
    try:
        return float(number)
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

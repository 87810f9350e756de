"""Label and field selectors, in the words of the Kubernetes API: text to a predicate."""

import re
from collections.abc import Callable, Mapping

from app.kube.api import Forbidden, Object

Predicate = Callable[[Mapping[str, str]], bool]

_KEY = r"(?P<key>[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?(/[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?)"
_EQUALITY = re.compile(rf"{_KEY}\s*(?P<operator>==|=|!=)\s*(?P<value>[A-Za-z0-9_.-]*)")
_SET = re.compile(rf"{_KEY}\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EXISTS = re.compile(rf"(?P<operator>!?)\s*{_KEY}")
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^(]*\))")


def label_selector(text: str) -> Predicate:
    """A predicate over labels from `a=b,c!=d,e in (f,g),h notin (i),j,!k`; the empty selector takes everything.

    Raises Forbidden (400) for text that the API server would refuse.
    """
    if not text.strip():
        return lambda _labels: True
    requirements = [_requirement(part.strip()) for part in _COMMA_OUTSIDE_PARENTHESES.split(text)]
    return lambda labels: all(holds(labels) for holds in requirements)


def _requirement(text: str) -> Predicate:
    if found := _SET.fullmatch(text):
        values = frozenset(value.strip() for value in found["values"].split(","))
        return _membership(found["key"], values, wanted=found["operator"] == "in")
    if found := _EQUALITY.fullmatch(text):
        return _membership(found["key"], frozenset([found["value"]]), wanted=found["operator"] != "!=")
    if found := _EXISTS.fullmatch(text):
        key, wanted = found["key"], not found["operator"]
        return lambda labels: (key in labels) is wanted
    raise Forbidden(f"unable to parse requirement: {text!r}", code=400, reason="BadRequest")


def _membership(key: str, values: frozenset[str], *, wanted: bool) -> Predicate:
    """`!=` and `notin` hold for objects that don't carry the key at all."""
    if wanted:
        return lambda labels: key in labels and labels[key] in values
    return lambda labels: key not in labels or labels[key] not in values


def field_selector(text: str) -> Callable[[Object], bool]:
    """A predicate over objects from `path=value` and `path!=value` terms, joined by commas.

    Paths are followed through maps (`metadata.name`, `spec.nodeName`); which of them an API server supports differs by
    kind, so stay with metadata.name and metadata.namespace for custom resources.
    """
    terms = [_field_term(part.strip()) for part in text.split(",") if part.strip()]
    return lambda obj: all(holds(obj) for holds in terms)


def _field_term(text: str) -> Callable[[Object], bool]:
    found = re.fullmatch(r"(?P<path>[A-Za-z0-9.]+)(?P<operator>==|=|!=)(?P<value>.*)", text)
    if found is None:
        raise Forbidden(f"invalid field selector: {text!r}", code=400, reason="BadRequest")
    path, value, wanted = found["path"].split("."), found["value"], found["operator"] != "!="
    return lambda obj: (_text_at(obj, path) == value) is wanted


def _text_at(obj: object, path: list[str]) -> str:
    for step in path:
        obj = obj.get(step) if isinstance(obj, dict) else None
    return "" if obj is None else str(obj)

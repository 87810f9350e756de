"""Label selectors (equality, sets and numbers, as text and as objects) and field selectors."""

import re
from collections.abc import Callable
from typing import Any

from app.sandbox.objects import errors
from app.sandbox.objects.objectmeta import label_problems
from app.sandbox.objects.objects import Object, at, labels

Matches = Callable[[Object], bool]
Requirement = Callable[[dict[str, str]], bool]

_SET = re.compile(r"\s*(?P<key>[^\s!=<>,()]+)\s+(?P<op>in|notin)\s*\((?P<values>[^)]*)\)\s*")
_EQUALITY = re.compile(r"\s*(?P<key>[^\s!=<>,()]+)\s*(?P<op>==|=|!=|<|>)\s*(?P<values>[^\s,()]*)\s*")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_PRESENCE = re.compile(r"\s*(?P<op>!?)\s*(?P<key>[^\s!=<>,()]+)\s*")

_FIELDS = {
    ("", "pods"): (
        "spec.nodeName",
        "spec.schedulerName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    ("", "events"): (
        "involvedObject.kind",
        "involvedObject.name",
        "involvedObject.namespace",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "type",
        "source",
        "reportingComponent",
    ),
    ("", "nodes"): ("spec.unschedulable",),
    ("", "namespaces"): ("status.phase",),
    ("", "secrets"): ("type",),
}
_DEFAULTS = {
    "spec.schedulerName": "default-scheduler",
    "spec.restartPolicy": "Always",
    "spec.hostNetwork": "false",
    "spec.unschedulable": "false",
}
_OPERATORS = {"!=": "NotIn", "notin": "NotIn", "<": "Lt", ">": "Gt"}


def label_selector(text: str) -> Matches | None:
    """Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`; None if the text is empty. 400 if it can't be read."""
    requirements: list[Requirement] = []
    rest = text.strip()
    while rest or (requirements and text.strip().endswith(",")):
        for pattern in (_SET, _EQUALITY, _PRESENCE):
            if (match := pattern.match(rest)) and (match.end() == len(rest) or rest[match.end()] == ","):
                break
        else:
            raise errors.bad_request(f"unable to parse requirement: {text!r}")
        requirements.append(_parsed(match))
        rest = rest[match.end() + 1 :]
    return _all(requirements) if requirements else None


def _parsed(match: re.Match[str]) -> Requirement:
    parts = match.groupdict()
    key, operator = parts["key"], parts["op"]
    for value in (parts.get("values") or "").split(","):
        for _, said, _ in label_problems({key: value.strip()}):
            raise errors.bad_request(f"unable to parse requirement: {said}")
    if "values" not in parts:
        return _requirement(key, "DoesNotExist" if operator else "Exists", ())
    values = tuple(value.strip() for value in parts["values"].split(","))
    return _requirement(key, _OPERATORS.get(operator, "In"), values)


def object_selector(selector: Object | None) -> Matches:
    """A LabelSelector as webhook configurations hold it; an empty one matches everything."""
    selector = selector or {}
    requirements = [_requirement(key, "In", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    requirements += [
        _requirement(item["key"], item["operator"], tuple(item.get("values") or ()))
        for item in selector.get("matchExpressions") or ()
    ]
    return _all(requirements)


def _requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    match operator:
        case "In":
            return lambda held: held.get(key) in values
        case "NotIn":
            return lambda held: held.get(key) not in values
        case "Exists":
            return lambda held: key in held
        case "DoesNotExist":
            return lambda held: key not in held
        case "Lt" | "Gt":
            return _compared(key, operator, values[0])
    raise errors.bad_request(f"{operator!r} is not a valid label selector operator")


def _compared(key: str, operator: str, bound: str) -> Requirement:
    if not _INTEGER.fullmatch(bound):
        said = f"Invalid value: \"{bound}\": for 'Gt', 'Lt' operators, the value must be an integer"
        raise errors.bad_request(f"unable to parse requirement: values[0]: {said}")

    def holds(held: dict[str, str]) -> bool:
        value = held.get(key, "")
        if not _INTEGER.fullmatch(value):
            return False
        return int(value) > int(bound) if operator == "Gt" else int(value) < int(bound)

    return holds


def _all(requirements: list[Requirement]) -> Matches:
    def matches(obj: Object) -> bool:
        held = labels(obj)
        return all(requirement(held) for requirement in requirements)

    return matches


def field_selector(text: str, table: tuple[str, str]) -> Matches | None:
    """Parses `metadata.name=x,spec.nodeName!=y` against the fields that the real server supports for this resource;
    the paths are those of the stored version. None if the text is empty."""
    terms: list[tuple[str, bool, str]] = []
    for term in filter(None, re.split(r"(?<!\\),", text)):
        match = re.fullmatch(r"([^=!]+)(==|=|!=)(.*)", term)
        if not match:
            raise errors.bad_request(f"invalid selector: {term!r}; can't understand {text!r}")
        path = re.sub(r"^regarding\.", "involvedObject.", match[1].strip())
        if path not in ("metadata.name", "metadata.namespace", *_FIELDS.get(table, ())):
            raise errors.bad_request(f"field label not supported: {match[1]}")
        terms.append((path, match[2] == "!=", re.sub(r"\\(.)", r"\1", match[3])))
    if not terms:
        return None
    return lambda obj: all((_field(obj, path) == wanted) != negated for path, negated, wanted in terms)


def _field(obj: Object, path: str) -> str:
    """What stands there as text, or the server's default: the sandbox doesn't write defaults of built-in kinds."""
    return _text(at(obj, *path.split("."))) or _DEFAULTS.get(path, "")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return str(value.get("component", ""))
    return "" if value is None else str(value)


def combined(*matchers: Matches | None) -> Matches | None:
    """All of the given matchers at once; None if there is none."""
    present = [matcher for matcher in matchers if matcher is not None]
    if not present:
        return None
    return lambda obj: all(matcher(obj) for matcher in present)

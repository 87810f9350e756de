"""Parse label selectors (as text and as LabelSelector objects) and field selectors."""

import re
from collections.abc import Callable

from scripts.apiserver.objects import errors
from scripts.apiserver.objects.objectmeta import label_causes
from scripts.apiserver.objects.objects import Object, at, labels

Matches = Callable[[Object], bool]
Requirement = Callable[[dict[str, str]], bool]

_SET = re.compile(r"\s*(?P<key>[^\s!=<>,()]+)\s+(?P<op>in|notin)\s*\((?P<values>[^)]*)\)\s*")
_EQUALITY = re.compile(r"\s*(?P<key>[^\s!=<>,()]+)\s*(?P<op>==|=|!=)\s*(?P<values>[^\s,()]*)\s*")
_PRESENCE = re.compile(r"\s*(?P<op>!?)\s*(?P<key>[^\s!=<>,()]+)\s*")

_FIELDS = {
    ("", "pods"): ("spec.nodeName", "spec.schedulerName", "status.phase"),
    ("", "events"): (
        "reason",
        *(f"involvedObject.{name}" for name in ("kind", "name", "namespace", "uid")),
    ),
    ("events.k8s.io", "events"): ("reason",),
    ("resource.k8s.io", "resourceslices"): ("spec.driver", "spec.nodeName"),
}
"""The fields that field selectors support, by resource, without the name and the namespace."""
_DEFAULTS = {"spec.schedulerName": "default-scheduler"}
"""The values of absent fields. The sandbox stores no defaults of built-in kinds."""
_OPERATORS = {"!=": "NotIn", "notin": "NotIn"}


def label_selector(text: str) -> Matches | None:
    """Parse `a=b,c!=d,e in (f,g),h notin (i),j,!k`.

    Return None if the text is empty. Raise 400 if it is malformed.
    """
    terms = re.split(r",(?![^(]*\))", text) if text.strip() else []
    return _all([_parsed(term) for term in terms]) if terms else None


def _parsed(term: str) -> Requirement:
    match = _SET.fullmatch(term) or _EQUALITY.fullmatch(term) or _PRESENCE.fullmatch(term)
    if match is None:
        raise errors.bad_request(f"unable to parse requirement: {term!r}")

    parts = match.groupdict()
    key = parts["key"]
    operator = parts["op"]
    for value in (parts.get("values") or "").split(","):
        for cause in label_causes({key: value.strip()}):
            raise errors.bad_request(f"unable to parse requirement: {cause['message']}")

    if "values" not in parts:
        return _requirement(key, "DoesNotExist" if operator else "Exists", ())

    values = tuple(value.strip() for value in parts["values"].split(","))

    return _requirement(key, _OPERATORS.get(operator, "In"), values)


def object_selector(selector: Object | None) -> Matches:
    """Parse a LabelSelector, such as those of webhook configurations.

    None and an empty one match everything.
    """
    selector = selector or {}
    requirements = [
        _requirement(key, "In", (value,))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    requirements += [
        _requirement(item["key"], item["operator"], tuple(item.get("values") or ()))
        for item in selector.get("matchExpressions") or ()
    ]
    return _all(requirements)


def _requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    match operator:
        case "In":
            return lambda present: present.get(key) in values
        case "NotIn":
            return lambda present: present.get(key) not in values
        case "Exists":
            return lambda present: key in present
        case "DoesNotExist":
            return lambda present: key not in present
    raise errors.bad_request(f"{operator!r} is not a valid label selector operator")


def _all(requirements: list[Requirement]) -> Matches:
    return lambda obj: all(requirement(labels(obj)) for requirement in requirements)


def field_selector(text: str, table: tuple[str, str]) -> Matches | None:
    """Parse `metadata.name=x,spec.nodeName!=y`.

    Return None if the text is empty. Raise 400 if it is malformed or if the resource does not
    support a field. Paths are those of the stored version.
    """
    terms: list[tuple[str, bool, str]] = []
    for term in filter(None, re.split(r"(?<!\\),", text)):
        match = re.fullmatch(r"([^=!]+)(==|=|!=)(.*)", term)
        if not match:
            raise errors.bad_request(f"invalid selector: {term!r}; can't understand {text!r}")
        path = match[1].strip()
        if path not in ("metadata.name", "metadata.namespace", *_FIELDS.get(table, ())):
            raise errors.bad_request(f"field label not supported: {match[1]}")
        terms.append((path, match[2] == "!=", re.sub(r"\\(.)", r"\1", match[3])))

    if not terms:
        return None

    return lambda obj: all(
        ((at(obj, *path.split(".")) or _DEFAULTS.get(path, "")) == value) != negated
        for path, negated, value in terms
    )


def combined(*matchers: Matches | None) -> Matches | None:
    """Return a matcher that requires all given ones. Return None if all of them are None."""
    present = [matcher for matcher in matchers if matcher is not None]
    if not present:
        return None
    return lambda obj: all(matcher(obj) for matcher in present)

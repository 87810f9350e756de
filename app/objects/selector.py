"""Evaluate label selectors of Kubernetes.

Source:
https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#resources-that-support-set-based-requirements
"""

from collections.abc import Mapping
from typing import Any

from app.objects.shape import JsonMap, list_of, map_at, map_of, maps_at

Labels = Mapping[str, str]


def selects(selector: Any, labels: Labels) -> bool:
    """Return whether a LabelSelector matches `labels`.

    An empty selector matches all labels, and so does a value that is not a map. A requirement with
    an unknown operator matches none.
    """
    content = map_of(selector)
    if any(labels.get(key) != value for key, value in map_at(content, "matchLabels").items()):
        return False
    return all(_holds(term, labels) for term in maps_at(content, "matchExpressions"))


def _holds(term: JsonMap, labels: Labels) -> bool:
    key = str(term.get("key"))
    value = labels.get(key)
    match term.get("operator"):
        case "In":
            return value in list_of(term.get("values"))
        case "NotIn":
            return value not in list_of(term.get("values"))
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels

    return False

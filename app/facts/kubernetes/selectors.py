"""Read node selectors, node affinity, taints and tolerations."""

from collections.abc import Mapping
from typing import Any

from app.base.value import Value
from app.objects.shape import JsonMap, map_at, map_of, maps_at, maps_of, text_at, texts_at


class Requirement(Value):
    """One requirement on a label of a node, or on its name."""

    key: str
    operator: str
    """The operator: In, NotIn, Exists, DoesNotExist, Gt or Lt."""
    values: tuple[str, ...] = ()
    """The values with which the operator compares, or () for Exists and DoesNotExist."""


Term = tuple[Requirement, ...]
"""Requirements that must all be met. If there are several terms, one of them must be met."""


class Taint(Value):
    """A taint of a node."""

    key: str
    value: str
    effect: str
    """NoSchedule or NoExecute. Taints with other effects are not read."""


class Toleration(Value):
    """A toleration of a pod."""

    key: str
    """The key of the taint, or "" for every key."""
    operator: str
    """The operator, such as Equal or Exists."""
    value: str
    effect: str
    """The effect of the taint, or "" for every effect."""


MOST_OF_SELECTOR = 500
"""The maximum number of terms, keys and values of a NodeSelector that are read.

Each is compared with each node, and a Pod of 100 KB may have thousands of them.
"""


def node_selector_terms(selector: Any) -> tuple[Term, ...]:
    """Return the terms of a NodeSelector, up to the limit MOST_OF_SELECTOR.

    matchExpressions and matchFields are treated alike, because the only field is metadata.name.
    """
    terms = []
    left = MOST_OF_SELECTOR
    for item in maps_of(map_of(selector).get("nodeSelectorTerms")):
        term = _term(item)
        left -= 1 + sum(1 + len(requirement.values) for requirement in term)
        if left < 0:
            break
        terms.append(term)
    return tuple(terms)


def label_selector(selector: Any) -> Term:
    """Return the requirements of a LabelSelector, up to the limit MOST_OF_SELECTOR."""
    content = map_of(selector)
    exact = (
        Requirement(str(key), "In", (str(value),))
        for key, value in map_at(content, "matchLabels").items()
    )
    return (*exact, *_term(content))[:MOST_OF_SELECTOR]


def has_labels(term: Term, labels: Mapping[str, str]) -> bool:
    """Return whether labels meet all requirements of a LabelSelector."""
    for requirement in term:
        value = labels.get(requirement.key)
        match requirement.operator:
            case "In":
                is_met = value in requirement.values
            case "NotIn":
                is_met = value not in requirement.values
            case "Exists":
                is_met = value is not None
            case operator:
                is_met = operator == "DoesNotExist" and value is None
        if not is_met:
            return False
    return True


def required_affinity(spec: JsonMap) -> tuple[Term, ...]:
    """Return the terms of a pod spec's required node affinity, one of which must be met."""
    return node_selector_terms(
        map_at(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    )


def node_selector(spec: JsonMap) -> Term:
    """Return the nodeSelector of a pod spec."""
    wished = map_at(spec, "nodeSelector")
    return tuple(Requirement(key, "In", (str(value),)) for key, value in sorted(wished.items()))


def read_taints(taints: Any) -> tuple[Taint, ...]:
    """Return the taints that keep pods away, with the effect NoSchedule or NoExecute."""
    return tuple(
        Taint(text_at(taint, "key"), text_at(taint, "value"), text_at(taint, "effect"))
        for taint in maps_of(taints)
        if taint.get("effect") in ("NoSchedule", "NoExecute")
    )


def tolerations(spec: JsonMap) -> tuple[Toleration, ...]:
    """Return the tolerations of a pod spec. The default operator is Equal."""
    return tuple(
        Toleration(
            text_at(item, "key"),
            text_at(item, "operator") or "Equal",
            text_at(item, "value"),
            text_at(item, "effect"),
        )
        for item in maps_at(spec, "tolerations")
    )


def _term(term: JsonMap) -> Term:
    expressions = [*maps_at(term, "matchExpressions"), *maps_at(term, "matchFields")]
    return tuple(
        Requirement(
            text_at(item, "key"), text_at(item, "operator"), tuple(texts_at(item, "values"))
        )
        for item in expressions
    )
